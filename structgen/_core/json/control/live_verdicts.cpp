#include "json/control/live_verdicts.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

namespace structgen {
namespace {

constexpr size_t MAX_TABLE_ROOTS = 6;
constexpr size_t MIN_LISTED_ROOTS = 3;  // roots that hold for a few values only
constexpr size_t MAX_ROWS = 5'000;
constexpr size_t MAX_CASE_ROOTS = 64;
constexpr size_t MAX_CASES = 256;     // tests of the frame
constexpr size_t MAX_VALUES = 1'024;  // tests of whether a value with some verdicts exists
constexpr Formula NO_VALUE = UINT32_MAX;

using Indexes = std::vector<uint32_t>;  // of roots, ascending

bool contains(const Indexes &indexes, uint32_t i) { return std::binary_search(indexes.begin(), indexes.end(), i); }

// The formula with this truth table over some leaves; the first leaf is the lowest bit of an index.
Formula from_truth_table(FormulaSpace &formulas, const std::vector<bool> &table, std::span<const uint32_t> leaves) {
  if (table.size() == 1) return table[0] ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  std::vector<bool> without, with;
  bool monotone = true;  // in the first leaf
  for (size_t v = 0; v < table.size(); v += 2) {
    without.push_back(table[v]);
    with.push_back(table[v + 1]);
    monotone &= !table[v] || table[v + 1];
  }
  const Formula no = from_truth_table(formulas, without, leaves.subspan(1));
  const Formula yes = from_truth_table(formulas, with, leaves.subspan(1));
  const Formula leaf = formulas.leaf(leaves[0]);
  if (no == yes) return no;
  if (monotone) return formulas.disjunction({formulas.both(leaf, yes), no});
  return formulas.disjunction({formulas.both(leaf, yes), formulas.both(formulas.negation(leaf), no)});
}

// Tests combinations of roots. Some roots hold for listed values only: of these, just the rows of values occur.
class TableSearch {
 public:
  TableSearch(FormulaSpace &formulas, const Tags::ValueRows &listed, size_t roots, bool monotone, const LiveAfter &live)
      : formulas_(formulas), listed_(listed), roots_(roots), monotone_(monotone), live_(live) {
    for (uint32_t i = 0; i < roots; ++i)
      if (!contains(listed_.roots, i)) expected_nonlexical_.push_back(i);
  }

  std::optional<Formula> run() {
    const std::optional<Formula> unlisted = condition_with({});
    if (!unlisted || listed_.rows.empty()) return unlisted;
    rows_of_root_.resize(roots_);
    for (auto &row : listed_.rows)
      for (uint32_t i : row) ++rows_of_root_[i];
    // Values with the condition of a value that is not listed need not be distinguished from it.
    std::map<Formula, std::vector<Formula>> rows_by_condition;
    for (auto &row : listed_.rows) {
      const std::optional<Formula> condition = condition_with(row);
      if (!condition) return std::nullopt;
      if (*condition != *unlisted) rows_by_condition[*condition].push_back(is_row(row));
    }
    std::vector<Formula> any, different;
    for (auto &[condition, rows] : rows_by_condition) {
      const Formula in_rows = formulas_.disjunction(rows);
      different.push_back(in_rows);
      any.push_back(formulas_.both(in_rows, condition));
    }
    any.push_back(formulas_.both(formulas_.negation(formulas_.disjunction(std::move(different))), *unlisted));
    return formulas_.disjunction(std::move(any));
  }

 private:
  // Is the frame live where just `row` holds among the listed roots, and just `some` among the others?
  bool live_with(const Indexes &row, const Indexes &some) {
    return live_([&](uint32_t i) { return contains(row, i) || contains(some, i); });
  }

  // The condition on `some` of the others, over all of their combinations, where the rest of the others fail.
  Formula tabulate(const Indexes &row, const Indexes &some) {
    std::vector<bool> table(size_t{1} << some.size());
    for (size_t v = 0; v < table.size(); ++v) {
      Indexes holding;
      bool known = false;  // live with fewer roots, therefore live
      for (size_t b = 0; b < some.size(); ++b)
        if (v >> b & 1) {
          holding.push_back(some[b]);
          known = known || (monotone_ && table[v ^ size_t{1} << b]);
        }
      table[v] = known || live_with(row, holding);
    }
    return from_truth_table(formulas_, table, some);
  }

  // The condition on the other roots together with a row.
  std::optional<Formula> condition_with(const Indexes &row) {
    if (expected_nonlexical_.size() <= MAX_TABLE_ROOTS) return tabulate(row, expected_nonlexical_);
    if (!monotone_) return std::nullopt;
    if (live_with(row, {})) return FormulaSpace::TRUE;
    // A root that suffices alone needs no others. The remaining roots matter only in combination with one another.
    std::vector<Formula> sufficient;
    Indexes rest;
    for (uint32_t i : expected_nonlexical_) {
      if (live_with(row, {i})) sufficient.push_back(formulas_.leaf(i));
      else rest.push_back(i);
    }
    if (!rest.empty() && live_with(row, rest)) {
      if (rest.size() > MAX_TABLE_ROOTS) return std::nullopt;
      sufficient.push_back(tabulate(row, rest));
    }
    return formulas_.disjunction(std::move(sufficient));
  }

  // Holds for the values of this row only: by a root of no other row if there is one.
  Formula is_row(const Indexes &row) {
    for (uint32_t i : row)
      if (rows_of_root_[i] == 1) return formulas_.leaf(i);
    std::vector<Formula> all;
    for (uint32_t i : listed_.roots)
      all.push_back(contains(row, i) ? formulas_.leaf(i) : formulas_.negation(formulas_.leaf(i)));
    return formulas_.conjunction(std::move(all));
  }

  FormulaSpace &formulas_;
  const Tags::ValueRows &listed_;
  size_t roots_;
  bool monotone_;
  const LiveAfter &live_;
  Indexes expected_nonlexical_;  // roots that are not listed
  std::vector<uint32_t> rows_of_root_;
};

}  // namespace

std::optional<Formula> LiveVerdicts::find(Formula frame, const GroupRoots &undecided, const std::vector<Formula> &roots,
                                          bool may_reverse, const LiveAfter &live) {
  // Roots that had better fail are reversed, so that the frame is monotone in all of them.
  std::optional<std::vector<bool>> reversed;
  if (may_reverse) reversed = roots_better_failed(frame, undecided, roots.size());
  const bool monotone = reversed.has_value();
  if (!reversed) reversed.emplace(roots.size(), false);
  std::vector<Formula> tested = roots;
  for (size_t i = 0; i < roots.size(); ++i)
    if ((*reversed)[i]) tested[i] = formulas_.negation(tested[i]);
  const LiveAfter live_where = [&](const Holds &holds) {
    return live([&](uint32_t i) { return holds(i) != (*reversed)[i]; });
  };
  std::optional<Formula> found = by_tables(tested, monotone, live_where);
  if (!found) found = by_cases(tested, monotone, live_where);
  if (!found) return found;
  return formulas_.substitute(
      *found, [&](uint32_t i) { return (*reversed)[i] ? formulas_.negation(formulas_.leaf(i)) : FormulaSpace::SAME; });
}

// The roots whose failure is never worse for the frame; success of all others never is. Nothing where some root is
// neither. Mostly `then` gives roots of the second sort, and `if` and `not` of the first.
std::optional<std::vector<bool>> LiveVerdicts::roots_better_failed(Formula frame, const GroupRoots &undecided,
                                                                   size_t roots) const {
  std::vector<bool> better_failed(roots, false);
  if (formulas_.is_monotone(frame)) return better_failed;
  std::set<std::pair<Formula, bool>> seen;
  std::set<std::pair<SchemaId, bool>> polarities;  // groups, and whether the frame gains by them
  std::vector<std::pair<Formula, bool>> todo{{frame, true}};
  while (!todo.empty()) {
    charge();
    const auto [f, positive] = todo.back();
    todo.pop_back();
    if (!seen.insert({f, positive}).second) continue;
    const FormulaSpace::Kind kind = formulas_.kind(f);
    if (kind == FormulaSpace::Kind::Leaf) {
      polarities.emplace(formulas_.leaf_id(f), positive);
      continue;
    }
    for (Formula p : formulas_.parts(f)) {
      if (kind != FormulaSpace::Kind::Not) todo.emplace_back(p, positive);
      if (kind == FormulaSpace::Kind::Not || kind == FormulaSpace::Kind::One) todo.emplace_back(p, !positive);
    }
  }
  std::vector<bool> better_held(roots, false);
  for (auto &[group, i] : undecided) {
    charge();
    if (polarities.contains({group, true})) better_held[i] = true;
    if (polarities.contains({group, false})) better_failed[i] = true;
    if (better_held[i] && better_failed[i]) return std::nullopt;
  }
  return better_failed;
}

std::optional<Formula> LiveVerdicts::by_tables(const std::vector<Formula> &roots, bool monotone,
                                               const LiveAfter &live) {
  Tags::ValueRows listed;
  if (roots.size() >= MIN_LISTED_ROOTS) listed = tables_.tags.value_rows(roots);
  if (listed.roots.size() < MIN_LISTED_ROOTS || listed.rows.size() > MAX_ROWS) listed = {};
  return TableSearch(formulas_, listed, roots.size(), monotone, live).run();
}

// A decision tree, root by root. Branches without a value are cut, so that only combinations that occur are tested.
std::optional<Formula> LiveVerdicts::by_cases(const std::vector<Formula> &roots, bool monotone, const LiveAfter &live) {
  if (roots.size() > MAX_CASE_ROOTS) return std::nullopt;
  size_t cases = 0, values = 0;
  std::vector<bool> verdicts(roots.size(), false);
  const auto unproven = [&] {
    return tables_.table.unproven() + oracle_.unproven() + tables_.table.regex().unproven();
  };
  const uint64_t unproven_before = unproven();
  auto live_with_rest = [&](size_t from, bool rest) {
    ++cases;
    return live([&](uint32_t i) { return i < from ? verdicts[i] : rest; });
  };
  auto gave_up = [&] { return cases > MAX_CASES || values > MAX_VALUES || unproven() != unproven_before; };
  auto decide = [&](auto &self, size_t next, Formula value) -> Formula {
    if (gave_up()) return NO_VALUE;
    ++values;
    if (!oracle_.can_hold(value)) return NO_VALUE;
    if (next == roots.size()) return live_with_rest(next, false) ? FormulaSpace::TRUE : FormulaSpace::FALSE;
    if (monotone && live_with_rest(next, false)) return FormulaSpace::TRUE;
    if (monotone && !live_with_rest(next, true)) return FormulaSpace::FALSE;
    verdicts[next] = true;
    const Formula yes = self(self, next + 1, formulas_.both(value, roots[next]));
    verdicts[next] = false;
    const Formula no = self(self, next + 1, formulas_.both(value, formulas_.negation(roots[next])));
    if (yes == NO_VALUE || yes == no) return no;
    if (no == NO_VALUE) return yes;
    const Formula leaf = formulas_.leaf(static_cast<uint32_t>(next));
    if (yes == FormulaSpace::TRUE) return formulas_.disjunction({leaf, no});
    if (no == FormulaSpace::TRUE) return formulas_.disjunction({formulas_.negation(leaf), yes});
    return formulas_.disjunction({formulas_.both(leaf, yes), formulas_.both(formulas_.negation(leaf), no)});
  };
  const Formula condition = decide(decide, 0, FormulaSpace::TRUE);
  if (gave_up()) return std::nullopt;
  return condition == NO_VALUE ? FormulaSpace::FALSE : condition;
}

}  // namespace structgen
