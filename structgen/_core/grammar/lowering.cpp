#include "grammar/lowering.h"

#include <bit>

#include "util/limit_error.h"
#include "util/stack.h"
#include "util/work.h"

namespace structgen {
namespace {

constexpr int64_t FEW = 8;                  // counts up to this are written out
constexpr size_t MOST_SYMBOLS = 2'000'000;  // of all productions

void check_size(size_t symbols) {
  if (symbols > MOST_SYMBOLS)
    throw LimitError("the productions of a grammar have more than " + std::to_string(MOST_SYMBOLS) +
                     " symbols (limit production_symbols)");
}

}  // namespace

Lowering::Symbol Lowering::terminal(uint32_t leaf) {
  if (leaf >= leaf_symbols_.size()) leaf_symbols_.resize(leaf + 1, UNMET);
  if (leaf_symbols_[leaf] == UNMET) {
    terminals.push_back(leaf);
    leaf_symbols_[leaf] = -static_cast<Symbol>(terminals.size());
  }
  return leaf_symbols_[leaf];
}

Lowering::Symbol Lowering::fresh(uint32_t rule, std::string name) {
  rules.push_back({rule, std::move(name)});
  return static_cast<Symbol>(rules.size() - 1);
}

Lowering::Symbol Lowering::rule(uint32_t number) {
  if (number >= rule_symbols_.size()) rule_symbols_.resize(number + 1, UNMET);
  if (rule_symbols_[number] == UNMET) rule_symbols_[number] = fresh(number, {});
  return rule_symbols_[number];
}

Lowering::Symbol Lowering::run(uint32_t start) {
  const Symbol first = rule(start);
  for (size_t done = 0; done < rules.size(); ++done)
    if (rules[done].rule != NO_RULE) alternatives(static_cast<Symbol>(done), bodies_.definition(rules[done].rule));
  return first;
}

// A short name for messages.
std::string Lowering::name_of(Id body) const {
  const Bodies::Body &one = bodies_[body];
  if (one.kind == Bodies::Rule) return rule_names_[one.first];
  return one.kind == Bodies::Leaf ? leaf_names_[one.first] : "...";
}

void Lowering::produce(Symbol head, const Symbols &body) {
  check_size(symbols.size() + body.size());
  charge(2 + body.size() / 8);
  symbols.push_back(head);
  symbols.insert(symbols.end(), body.begin(), body.end());
  ends.push_back(symbols.size());
}

void Lowering::alternatives(Symbol head, Id body) {
  if (body == Bodies::NONE) return;
  if (bodies_[body].kind != Bodies::Choice) return produce(head, unit(body));
  for (uint32_t i = 0; i < bodies_[body].count; ++i) produce(head, unit(bodies_.parts(body)[i]));
}

Lowering::Symbols Lowering::unit(Id body) {
  Symbols out;
  append(out, body);
  return out;
}

// The sequence of symbols that represents `body`.
// subtle: bodies may be added in the meantime, so no reference to one is kept.
void Lowering::append(Symbols &out, Id body) {
  check_stack("a rule of the grammar is nested too deeply");
  check_size(out.size());
  charge();
  switch (bodies_[body].kind) {
    case Bodies::Leaf: return out.push_back(terminal(bodies_[body].first));
    case Bodies::Rule: return out.push_back(rule(bodies_[body].first));
    case Bodies::Sequence: return append_sequence(out, body);
    case Bodies::Repeat: {
      const Id simple = bodies_.simplified(body);
      if (bodies_[simple].kind != Bodies::Repeat) return append(out, simple);
      body = simple;
      break;
    }
    case Bodies::Choice: break;
  }
  const auto [it, is_new] = made_.try_emplace({Whole, body, 0});
  if (is_new) {
    const Symbol head = it->second = fresh(NO_RULE, name_of(body));
    if (bodies_[body].kind == Bodies::Choice) alternatives(head, body);
    else repeat(head, body);
  }
  out.push_back(it->second);
}

void Lowering::append_sequence(Symbols &out, Id body) {
  const std::vector<Id> parts(bodies_.parts(body).begin(), bodies_.parts(body).end());
  size_t from = 0;  // parts before it have been lowered
  for (size_t at = 1; at < parts.size(); ++at) {
    if (bodies_[parts[at]].kind != Bodies::Repeat) continue;
    const size_t first = list_at(parts, from, at);
    if (first == at) continue;
    for (; from < first; ++from) append(out, parts[from]);
    const std::span<const Id> once(parts.data() + first, at - first);
    out.push_back(
        list(once.size() == 1 ? once[0] : bodies_.group(Bodies::Sequence, once), bodies_.simplified(parts[at])));
    from = at + 1;
  }
  for (; from < parts.size(); ++from) append(out, parts[from]);
}

// The first of the parts before the repetition `at` that it repeats in each of its rounds; `at` itself if there is no
// such part.
size_t Lowering::list_at(const std::vector<Id> &parts, size_t from, size_t at) {
  const Id repetition = bodies_.simplified(parts[at]);
  if (bodies_[repetition].kind != Bodies::Repeat || bodies_.counts(repetition) != Bodies::Counts{0, Bodies::UNBOUNDED})
    return at;
  const Id inner = bodies_.parts(repetition)[0];
  if (bodies_[inner].kind != Bodies::Sequence) return at > from && inner == parts[at - 1] ? at - 1 : at;
  const auto round = bodies_.parts(inner);
  size_t first = at;
  while (first > from && at - first < round.size() && parts[first - 1] == round[round.size() - 1 - (at - first)])
    --first;
  return first;
}

// `first`, followed by any number of rounds.
Lowering::Symbol Lowering::list(Id first, Id repetition) {
  const auto [it, is_new] = made_.try_emplace({List, first, static_cast<int64_t>(repetition)});
  if (is_new) {
    const Symbol head = it->second = fresh(NO_RULE, name_of(repetition));
    const Symbols one = unit(first), round = unit(bodies_.parts(repetition)[0]);
    Symbols again{head};
    again.insert(again.end(), round.begin(), round.end());
    produce(head, one);
    produce(head, again);
  }
  return it->second;
}

void Lowering::repeat(Symbol head, Id repetition) {
  const Id body = bodies_.parts(repetition)[0];
  const auto [low, high] = bodies_.counts(repetition);
  if (high != Bodies::UNBOUNDED) {
    if (high < low) return;  // no text
    Symbols all;
    append_exactly(all, body, low);
    append_at_most(all, body, high - low);
    return produce(head, all);
  }
  if (low > 1) {
    Symbols all;
    append_exactly(all, body, low);
    append(all, bodies_.repeat(body, {0, Bodies::UNBOUNDED}));
    return produce(head, all);
  }
  const Symbols one = unit(body);
  Symbols again{head};
  again.insert(again.end(), one.begin(), one.end());
  produce(head, low == 0 ? Symbols{} : one);
  produce(head, again);
}

// `count` repetitions: small counts are written out, others are composed of powers of two.
void Lowering::append_exactly(Symbols &out, Id body, int64_t count) {
  if (count <= FEW) {
    if (count == 0) return;
    const Symbols one = unit(body);
    for (int64_t i = 0; i < count; ++i) out.insert(out.end(), one.begin(), one.end());
    return;
  }
  for (int64_t k = 0; count >> k; ++k)
    if (count >> k & 1) out.push_back(power(body, k));
}

// 2 ** k repetitions.
Lowering::Symbol Lowering::power(Id body, int64_t k) {
  const auto [it, is_new] = made_.try_emplace({Power, body, k});
  if (is_new) {
    const Symbol head = it->second = fresh(NO_RULE, name_of(body) + "{" + std::to_string(int64_t{1} << k) + "}");
    if (k == 0) {
      produce(head, unit(body));
    } else {
      const Symbol half = power(body, k - 1);
      produce(head, {half, half});
    }
  }
  return it->second;
}

// 0 to `count` repetitions, with one derivation for each number.
//
// With 2 ** k the greatest power that is at most count + 1: fewer than 2 ** k repetitions, or 2 ** k and at most the
// rest.
void Lowering::append_at_most(Symbols &out, Id body, int64_t count) {
  if (count == 0) return;
  const auto [it, is_new] = made_.try_emplace({AtMost, body, count});
  if (is_new) {
    const Symbol head = it->second = fresh(NO_RULE, name_of(body) + "{," + std::to_string(count) + "}");
    if (count <= FEW) {
      Symbols more = unit(body);
      append_at_most(more, body, count - 1);
      produce(head, {});
      produce(head, more);
    } else {
      int64_t k = std::bit_width(static_cast<uint64_t>(count) + 1) - 1;
      if ((int64_t{1} << k) - 1 == count) --k;
      Symbols fewer, more{power(body, k)};
      append_at_most(fewer, body, (int64_t{1} << k) - 1);
      append_at_most(more, body, count - (int64_t{1} << k));
      produce(head, fewer);
      produce(head, more);
    }
  }
  out.push_back(it->second);
}

}  // namespace structgen
