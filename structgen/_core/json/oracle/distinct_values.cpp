#include "json/oracle/distinct_values.h"

#include <algorithm>
#include <map>

#include "json/oracle/oracle.h"

namespace structgen {
namespace {
constexpr size_t MAX_WAYS = 16;          // to satisfy what a container must, that are looked into for values
constexpr int MAX_DEPTH = 4;             // of containers that are looked into
constexpr int MAX_COUNTED_LENGTH = 200;  // of texts that are counted
}  // namespace

DistinctValues::DistinctValues(JsonOracle &oracle)
    : oracle_(oracle), tables_(oracle.tables()), formulas_(oracle.tables().formulas()) {}

bool DistinctValues::has_many(Formula f, uint64_t n) {
  const Query query(oracle_.budget(), oracle_.state());
  bool sure = true;
  return has(f, n, 0, &sure);
}

// Nested containers share their members, so each requirement is looked into once.
bool DistinctValues::has(Formula f, uint64_t n, int depth, bool *sure) {
  charge();
  QueryState &state = oracle_.state();
  const Hash128 key = hash_words(13, f, n, static_cast<uint64_t>(depth));
  if (const auto it = state.distinct.find(key); it != state.distinct.end()) {
    *sure = *sure && it->second.sure;
    return it->second.has;
  }
  if (!oracle_.budget().spend()) {
    *sure = false;
    return false;
  }
  const uint32_t outer = std::exchange(state.lowest, QueryState::NO_DEPENDENCY);
  DistinctAnswer found{false, true};
  found.has = count_values(f, n, depth, &found.sure);
  // subtle: a "no" that relies on a requirement in progress is valid for that requirement alone.
  if (state.running && (found.has || state.lowest == QueryState::NO_DEPENDENCY)) state.distinct.emplace(key, found);
  state.lowest = std::min(outer, state.lowest);
  *sure = *sure && found.sure;
  return found.has;
}

bool DistinctValues::count_values(Formula f, uint64_t n, int depth, bool *sure) {
  uint64_t total = count_literals(f);
  if (total >= n) return true;
  if (oracle_.holds_type(f, Type::String)) {
    total += count_strings(f, n - total);
    if (total >= n) return true;
  }
  if (oracle_.holds_type(f, Type::Number)) {
    total += count_numbers(f, n - total);
    if (total >= n) return true;
  }
  for (Type t : {Type::Array, Type::Object}) {
    if (!oracle_.holds_type(f, t)) continue;
    const Formula expanded = tables_.limits.restrict(tables_.expansion.expand(f, t), t);
    if (expanded == FormulaSpace::TRUE) return true;
    std::vector<std::pair<Groups, Groups>> ways;
    if (depth < MAX_DEPTH) oracle_.formulas().list(expanded, formulas_.is_conjunction(expanded) ? 1 : MAX_WAYS, &ways);
    for (auto &[satisfied, violated] : ways)
      if (violated.empty() &&
          (t == Type::Array ? count_arrays(satisfied, n, depth) : count_objects(satisfied, n, depth)))
        return true;
    *sure = false;
  }
  return false;
}

// ---------------------------------------------------------------- scalars

uint64_t DistinctValues::count_literals(Formula f) {
  uint64_t total = 0;
  for (int i = 0; i < 3; ++i)
    total += tables_.scalars.holds_for_literal(tables_.expansion.expand(f, i == 0 ? Type::Null : Type::Boolean), i);
  return total;
}

uint64_t DistinctValues::count_strings(Formula f, uint64_t most) {
  const StringLanguage s = tables_.scalars.strings(tables_.expansion.expand(f, Type::String));
  if (s.re == RegexSpace::ANY_TEXT && s.max > 1) return most;  // one character alone has a million values
  return count_texts(with_length(tables_.regex(), s), most);
}

// One spelling for each value: no exponent, no zeros at the end of a fraction.
uint64_t DistinctValues::count_numbers(Formula f, uint64_t most) {
  RegexSpace &space = tables_.regex();
  const CodeRange digit[] = {{'0', '9'}}, first[] = {{'1', '9'}};
  const Re digits = space.repeat(space.text_class(digit), 0, -1);
  const Re whole = space.alternate(space.literal("0"), space.concat(space.text_class(first), digits));
  const Re fraction = space.concat(space.literal("."), space.concat(digits, space.text_class(first)));
  Re plain = space.concat(space.repeat(space.literal("-"), 0, 1), space.concat(whole, space.repeat(fraction, 0, 1)));
  plain = space.intersect(plain, space.complement(space.literal("-0")));
  const Re numbers = tables_.scalars.number_language(tables_.expansion.expand(f, Type::Number));
  return count_texts(space.intersect(plain, numbers), most);
}

uint64_t DistinctValues::count_texts(Re language, uint64_t most) {
  RegexSpace &space = tables_.regex();
  std::map<Re, uint64_t> layer{{language, 1}};
  uint64_t total = 0;
  for (int length = 0; length < MAX_COUNTED_LENGTH && !layer.empty() && total < most; ++length) {
    std::map<Re, uint64_t> next;
    for (auto &[r, prefixes] : layer) {
      if (space.nullable(r)) total = std::min(most, total + prefixes);
      const Row row = space.row(r);
      for (Re to : row)
        if (to != RegexSpace::EMPTY && space.alive(to)) {
          uint64_t &n = next[to];
          n = std::min(most, n + prefixes);
        }
      if (!oracle_.budget().spend()) return most;
    }
    layer = std::move(next);
  }
  return layer.empty() ? total : most;  // longer texts are infinitely many, or very many
}

// ---------------------------------------------------------------- containers

// Are there `n` arrays that satisfy all of the groups? By their first item. Counts are not looked into.
bool DistinctValues::count_arrays(const Groups &groups, uint64_t n, int depth) {
  for (SchemaId g : groups)
    if (tables_.node(g).contains != NO_SCHEMA || tables_.node(g).unique_items) return false;
  if (!oracle_.arrays().possible(groups, {}, nullptr, 0, true)) return false;
  std::vector<Formula> item;
  for (SchemaId g : groups) item.push_back(tables_.arrays.requirement(g, 0));
  bool sure = true;
  return has(formulas_.conjunction(std::move(item)), n, depth + 1, &sure);
}

// Are there `n` objects that satisfy all of the groups? By an undeclared key, or by the values of one key.
bool DistinctValues::count_objects(const Groups &groups, uint64_t n, int depth) {
  if (!oracle_.objects().possible(groups, {}, nullptr, {nullptr, 0, -1}, nullptr)) return false;
  Groups sorted = groups;
  std::sort(sorted.begin(), sorted.end());
  ObjectControl *o = tables_.objects.control_of_groups(sorted);
  if (o->patterns.empty() && o->max > o->universe->keys.size() &&
      oracle_.can_hold(tables_.objects.requirement(groups, *o, 0)))
    return true;
  if (o->max < o->universe->keys.size()) return false;
  const Groups open = tables_.keys.open_groups(sorted);
  for (const std::string &key : o->universe->keys) {
    bool sure = true;
    if (has(tables_.keys.requirement(key, sorted, open), n, depth + 1, &sure)) return true;
  }
  return false;
}

}  // namespace structgen
