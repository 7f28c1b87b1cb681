// Which verdicts over the parts of a value leave its frame alive.
//
// A child of a branching frame has several roots, formulas whose verdicts the frame wants. What it needs of them
// is a formula over the roots, found by asking the oracle about the frame: a table over all combinations where
// the roots are few; rows where they hold for a few values only; else a decision tree that leaves out what no
// value does, so that equal or exclusive requirements, as branches mostly have, cost nothing.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "json/control.h"
#include "json/oracle/oracle.h"

namespace structgen {

namespace {

// The formula over the given leaves whose truth table is `table` (the first leaf is the lowest bit).
Formula from_table(FormulaSpace &fs, const std::vector<bool> &table, std::span<const uint32_t> leaves) {
  if (table.size() == 1) return table[0] ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  std::vector<bool> without, with;
  bool grows = true;  // nothing that holds without the leaf is lost with it
  for (size_t v = 0; v < table.size(); v += 2) {
    without.push_back(table[v]);
    with.push_back(table[v + 1]);
    grows &= !table[v] || table[v + 1];
  }
  Formula no = from_table(fs, without, leaves.subspan(1)), yes = from_table(fs, with, leaves.subspan(1));
  const Formula x = fs.leaf(leaves[0]);
  if (no == yes) return no;
  if (grows) return fs.disjunction({fs.both(x, yes), no});
  return fs.disjunction({fs.both(x, yes), fs.both(fs.negation(x), no)});
}

constexpr size_t MAX_ROOTS_TOLD_APART = 6;
constexpr size_t MIN_ROOTS_OF_FEW_VALUES = 3;
constexpr size_t MAX_ROWS = 5'000;
constexpr size_t MAX_ROOTS_IN_CASES = 64;
constexpr size_t MAX_CASES = 256;           // ways that the roots can turn out, looked at
constexpr size_t MAX_CASES_ASKED = 1'024;  // whether there is a value for the roots so far
constexpr Formula NO_VALUE = UINT32_MAX;

}  // namespace

// The roots whose failure is never worse for the frame; of all others no success is. Nothing where some root is neither:
// mostly what stands behind `then` is the one, what stands behind `if` and `not` the other.
std::optional<std::vector<bool>> JsonControl::better_failed(Formula frame, const Verdicts &on, size_t roots) const {
  std::vector<bool> failed(roots, false);
  if (formulas_.is_monotone(frame)) return failed;
  std::set<std::pair<Formula, bool>> met;
  std::set<std::pair<SchemaId, bool>> groups;  // and whether the frame wants them to hold
  std::vector<std::pair<Formula, bool>> todo{{frame, true}};
  while (!todo.empty()) {
    charge();
    const auto [f, wanted] = todo.back();
    todo.pop_back();
    if (!met.insert({f, wanted}).second) continue;
    const FormulaSpace::Kind kind = formulas_.kind(f);
    if (kind == FormulaSpace::Kind::Leaf) {
      groups.emplace(formulas_.leaf_id(f), wanted);
      continue;
    }
    for (Formula p : formulas_.parts(f)) {
      if (kind != FormulaSpace::Kind::Not) todo.emplace_back(p, wanted);
      if (kind == FormulaSpace::Kind::Not || kind == FormulaSpace::Kind::One) todo.emplace_back(p, !wanted);
    }
  }
  std::vector<bool> held(roots, false);
  for (auto &[g, i] : on) {
    charge();
    if (groups.contains({g, true})) held[i] = true;
    if (groups.contains({g, false})) failed[i] = true;
    if (held[i] && failed[i]) return std::nullopt;
  }
  return failed;
}

// Which verdicts over the roots leave the frame alive, as a formula; nothing when they are too many to try.
// `monotone`: where the frame is alive, it is alive with more roots that hold.
std::optional<Formula> JsonControl::verdicts_wanted(const std::vector<Formula> &roots, bool monotone,
                                                    const std::function<bool(const Holds &)> &alive) {
  FormulaSpace &fs = formulas_;
  ValueRows few;
  if (roots.size() >= MIN_ROOTS_OF_FEW_VALUES) few = value_rows(roots);
  if (few.roots.size() < MIN_ROOTS_OF_FEW_VALUES || few.rows.size() > MAX_ROWS) few = {};
  std::vector<uint32_t> others;
  for (uint32_t i = 0; i < roots.size(); ++i)
    if (!std::binary_search(few.roots.begin(), few.roots.end(), i)) others.push_back(i);
  // Is the frame alive where just those of `row` hold among the first, and just those of `told` among the others?
  auto alive_with = [&](const std::vector<uint32_t> &row, const std::vector<uint32_t> &told) {
    return alive([&](uint32_t i) {
      return std::binary_search(row.begin(), row.end(), i) || std::binary_search(told.begin(), told.end(), i);
    });
  };
  // All combinations of some of the others, none of the rest.
  auto tried = [&](const std::vector<uint32_t> &row, const std::vector<uint32_t> &some) {
    std::vector<bool> table(size_t{1} << some.size());
    for (size_t v = 0; v < table.size(); ++v) {
      std::vector<uint32_t> told;
      bool known = false;  // alive with less already
      for (size_t b = 0; b < some.size(); ++b)
        if (v >> b & 1) {
          told.push_back(some[b]);
          known = known || (monotone && table[v ^ size_t{1} << b]);
        }
      table[v] = known || alive_with(row, told);
    }
    return from_table(fs, table, some);
  };
  // What the others must be like beside a row.
  auto wanted = [&](const std::vector<uint32_t> &row) -> std::optional<Formula> {
    if (others.size() <= MAX_ROOTS_TOLD_APART) return tried(row, others);
    if (!monotone) return std::nullopt;
    if (alive_with(row, {})) return FormulaSpace::TRUE;
    // Any root that is enough alone will do; beyond those only the rest among themselves matter.
    std::vector<Formula> enough;
    std::vector<uint32_t> rest;
    for (uint32_t i : others) {
      if (alive_with(row, {i})) enough.push_back(fs.leaf(i));
      else rest.push_back(i);
    }
    if (!rest.empty() && alive_with(row, rest)) {
      if (rest.size() > MAX_ROOTS_TOLD_APART) return std::nullopt;
      enough.push_back(tried(row, rest));
    }
    return fs.disjunction(std::move(enough));
  };
  const std::optional<Formula> none = wanted({});
  if (!none || few.rows.empty()) return none;
  std::vector<uint32_t> rows_of(roots.size());
  for (auto &row : few.rows)
    for (uint32_t i : row) ++rows_of[i];
  auto told_by = [&](const std::vector<uint32_t> &row) {
    for (uint32_t i : row)
      if (rows_of[i] == 1) return fs.leaf(i);
    std::vector<Formula> all;
    for (uint32_t i : few.roots)
      all.push_back(std::binary_search(row.begin(), row.end(), i) ? fs.leaf(i) : fs.negation(fs.leaf(i)));
    return fs.conjunction(std::move(all));
  };
  // Values that do no worse than one that is none of the few need not be told from it.
  std::map<Formula, std::vector<Formula>> by_need;
  for (auto &row : few.rows) {
    const std::optional<Formula> need = wanted(row);
    if (!need) return std::nullopt;
    if (*need != *none) by_need[*need].push_back(told_by(row));
  }
  std::vector<Formula> ways, differing;
  for (auto &[need, told] : by_need) {
    const Formula any = fs.disjunction(told);
    differing.push_back(any);
    ways.push_back(fs.both(any, need));
  }
  ways.push_back(fs.both(fs.negation(fs.disjunction(std::move(differing))), *none));
  return fs.disjunction(std::move(ways));
}

// Root by root: does it hold or not? Branches without a value are cut, so only combinations that occur are asked
// about. Nothing where even those are too many.
std::optional<Formula> JsonControl::verdicts_by_cases(const std::vector<Formula> &roots, bool monotone,
                                                      const std::function<bool(const Holds &)> &alive) {
  if (roots.size() > MAX_ROOTS_IN_CASES) return std::nullopt;
  FormulaSpace &fs = formulas_;
  size_t cases = 0, asked = 0;
  std::vector<bool> told(roots.size(), false);
  const uint64_t unproven_before = unproven();
  auto alive_with_rest = [&](size_t from, bool rest) {
    ++cases;
    return alive([&](uint32_t i) { return i < from ? told[i] : rest; });
  };
  auto given_up = [&] { return cases > MAX_CASES || asked > MAX_CASES_ASKED || unproven() != unproven_before; };
  auto decide = [&](auto &self, size_t next, Formula so_far) -> Formula {
    if (given_up()) return NO_VALUE;
    ++asked;
    if (!can_hold(so_far)) return NO_VALUE;
    if (next == roots.size()) return alive_with_rest(next, false) ? FormulaSpace::TRUE : FormulaSpace::FALSE;
    if (monotone && alive_with_rest(next, false)) return FormulaSpace::TRUE;
    if (monotone && !alive_with_rest(next, true)) return FormulaSpace::FALSE;
    told[next] = true;
    const Formula yes = self(self, next + 1, fs.both(so_far, roots[next]));
    told[next] = false;
    const Formula no = self(self, next + 1, fs.both(so_far, fs.negation(roots[next])));
    if (yes == NO_VALUE || yes == no) return no;
    if (no == NO_VALUE) return yes;
    const Formula x = fs.leaf(static_cast<uint32_t>(next));
    if (yes == FormulaSpace::TRUE) return fs.disjunction({x, no});
    if (no == FormulaSpace::TRUE) return fs.disjunction({fs.negation(x), yes});
    return fs.disjunction({fs.both(x, yes), fs.both(fs.negation(x), no)});
  };
  const Formula need = decide(decide, 0, FormulaSpace::TRUE);
  if (given_up()) return std::nullopt;
  return need == NO_VALUE ? FormulaSpace::FALSE : need;
}

}  // namespace structgen
