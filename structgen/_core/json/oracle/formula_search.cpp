#include "json/oracle/formula_search.h"

#include <algorithm>

#include "json/oracle/oracle.h"
#include "util/undo.h"

namespace structgen {
namespace {
constexpr size_t MAX_UNINDEXED = 64;      // assigned numbers that are looked through one by one
constexpr size_t MAX_OPERANDS = 100'000;  // formulas whose answer is known
constexpr size_t LIST_BUDGETS = 16;       // to list all ways to satisfy one formula
}  // namespace

std::optional<bool> Assignment::find(uint32_t one) const {
  if (!index_.empty()) {
    const auto it = index_.find(one);
    return it == index_.end() ? std::nullopt : std::optional(it->second);
  }
  if (std::find(positive_.begin(), positive_.end(), one) != positive_.end()) return true;
  return std::find(negative_.begin(), negative_.end(), one) != negative_.end() ? std::optional(false) : std::nullopt;
}

bool Assignment::assign(uint32_t one, bool holds) {
  if (const std::optional<bool> before = find(one)) return *before == holds;
  (holds ? positive_ : negative_).push_back(one);
  if (!index_.empty()) {
    index_.emplace(one, holds);
  } else if (size() >= MAX_UNINDEXED) {
    for (const std::vector<uint32_t> *all : {&positive_, &negative_})
      for (uint32_t each : *all) index_.emplace(each, all == &positive_);
  }
  return true;
}

void Assignment::back_to(Mark mark) {
  for (auto [all, size] : {std::pair{&positive_, mark.positive}, {&negative_, mark.negative}})
    for (; all->size() > size; all->pop_back())
      if (!index_.empty()) index_.erase(all->back());
}

// ---------------------------------------------------------------- the search

// Assigns the formulas that are pending one by one, and branches where there is a choice.
class FormulaSearch::Descent {
 public:
  using Pending = std::vector<std::pair<Formula, bool>>;  // formulas and whether they must hold; the last one is next

  Descent(FormulaSearch &search, Path *path, const Check &check)
      : search_(search), formulas_(search.formulas_), path_(path), check_(check) {}

  bool run(Pending pending) {
    while (!pending.empty()) {
      charge();
      const auto [f, wanted] = pending.back();
      pending.pop_back();
      if (f <= FormulaSpace::TRUE) {
        if ((f == FormulaSpace::TRUE) != wanted) return false;
        continue;
      }
      if (const std::optional<bool> before = assigned(f)) {
        if (*before != wanted) return false;
        continue;
      }
      const FormulaSpace::Kind kind = formulas_.kind(f);
      if (kind > FormulaSpace::Kind::Leaf && kind != FormulaSpace::Kind::Not) path_->composites.assign(f, wanted);
      charge(formulas_.parts(f).size() / 2);
      if (kind == FormulaSpace::Kind::Leaf) {
        search_.budget_.add_work(1);
        path_->groups.assign(formulas_.leaf_id(f), wanted);
        continue;
      }
      std::vector<Formula> operands(formulas_.parts(f).begin(), formulas_.parts(f).end());
      if (kind == FormulaSpace::Kind::Not) {
        pending.emplace_back(operands[0], !wanted);
        continue;
      }
      if (kind == FormulaSpace::Kind::One)
        return wanted ? any_single(pending, &operands) : none_single(pending, operands);
      if ((kind == FormulaSpace::Kind::And) == wanted) {
        add_all(&pending, &operands, wanted);
        continue;
      }
      charge(operands.size() / 2);
      if (std::any_of(operands.begin(), operands.end(), [&](Formula p) { return assigned(p) == wanted; })) continue;
      return any_alternative(pending, &operands, wanted);
    }
    if (check_(path_->groups.positive(), path_->groups.negative())) return true;
    path_->failed = true;
    return false;
  }

 private:
  std::optional<bool> assigned(Formula p) const {
    if (p <= FormulaSpace::TRUE) return p == FormulaSpace::TRUE;
    const bool negated = formulas_.kind(p) == FormulaSpace::Kind::Not;
    const Formula f = negated ? formulas_.parts(p)[0] : p;
    const auto found = formulas_.kind(f) == FormulaSpace::Kind::Leaf ? path_->groups.find(formulas_.leaf_id(f))
                                                                     : path_->composites.find(f);
    return found ? std::optional(*found != negated) : std::nullopt;
  }

  // Where ways have failed, one operand may be the reason. One that cannot hold on its own is found once, not on each
  // path.
  bool may_be(Formula p, bool holds) {
    return !path_->failed || !path_->type || formulas_.is_literal(p) ||
           search_.operand_can_hold(holds ? p : formulas_.negation(p), *path_->type);
  }

  bool spend(const Pending &pending, size_t alternatives = 0) {
    return search_.budget_.spend(pending.size() + alternatives + path_->groups.size());
  }

  bool try_with(Pending next) {
    const Assignment::Mark groups = path_->groups.mark(), composites = path_->composites.mark();
    Undo undo([&] {
      path_->groups.back_to(groups);
      path_->composites.back_to(composites);
    });
    return undo.keep_if(run(std::move(next)));
  }

  // What leaves no choice comes first, the rest in the order of the schema.
  void add_all(Pending *pending, std::vector<Formula> *operands, bool wanted) {
    std::reverse(operands->begin(), operands->end());
    std::stable_partition(operands->begin(), operands->end(), [&](Formula p) { return !formulas_.is_literal(p); });
    for (Formula p : *operands) pending->emplace_back(p, wanted);
  }

  bool any_alternative(const Pending &pending, std::vector<Formula> *operands, bool wanted) {
    if (wanted) search_.prefer(operands);
    for (Formula p : *operands) {
      if (!may_be(p, wanted)) continue;
      if (!spend(pending)) return true;
      Pending next = pending;
      next.emplace_back(p, wanted);
      if (try_with(std::move(next))) return true;
    }
    return false;
  }

  // Exactly one operand holds.
  bool any_single(const Pending &pending, std::vector<Formula> *operands) {
    search_.prefer(operands);
    for (size_t i = 0; i < operands->size(); ++i) {
      if (!may_be((*operands)[i], true)) continue;
      if (!spend(pending, operands->size())) return true;
      Pending next = pending;
      for (size_t j = 0; j < operands->size(); ++j) next.emplace_back((*operands)[j], i == j);
      if (try_with(std::move(next))) return true;
    }
    return false;
  }

  // No operand holds, or at least two do.
  bool none_single(const Pending &pending, const std::vector<Formula> &operands) {
    if (!spend(pending, operands.size())) return true;
    Pending none = pending;
    for (Formula p : operands) none.emplace_back(p, false);
    if (try_with(std::move(none))) return true;
    for (size_t i = 0; i < operands.size(); ++i)
      for (size_t j = i + 1; j < operands.size(); ++j) {
        if (!spend(pending, operands.size())) return true;
        Pending next = pending;
        next.emplace_back(operands[i], true);
        next.emplace_back(operands[j], true);
        if (try_with(std::move(next))) return true;
      }
    return false;
  }

  FormulaSearch &search_;
  FormulaSpace &formulas_;
  Path *path_;
  const Check &check_;
};

FormulaSearch::FormulaSearch(JsonOracle &oracle)
    : oracle_(oracle), formulas_(oracle.tables().formulas()), budget_(oracle.budget()), state_(oracle.state()) {}

bool FormulaSearch::any(Formula f, const Check &check, std::optional<Type> type) {
  charge();
  if (formulas_.is_conjunction(f)) return check(formulas_.leaves(f), {});
  Path path;
  path.type = type;
  return any(f, &path, check);
}

bool FormulaSearch::any(Formula f, Path *path, const Check &check) {
  return Descent(*this, path, check).run({{f, true}});
}

bool FormulaSearch::list(Formula f, size_t most, std::vector<std::pair<Groups, Groups>> *out) {
  const Budget::Unaccounted unaccounted(budget_, budget_.exhausted());
  const Query query(budget_, state_);
  budget_.extend(LIST_BUDGETS);
  return !any(f, [&](const Groups &satisfied, const Groups &violated) {
    out->emplace_back(satisfied, violated);
    return out->size() >= most;
  });
}

void FormulaSearch::prefer(std::vector<Formula> *alternatives) const {
  const Groups *groups = state_.preferred;
  if (!groups || groups->empty()) return;
  charge(alternatives->size());
  auto is_preferred = [&](Formula f) {
    return formulas_.kind(f) == FormulaSpace::Kind::Leaf &&
           std::binary_search(groups->begin(), groups->end(), formulas_.leaf_id(f));
  };
  std::stable_partition(alternatives->begin(), alternatives->end(), [&](Formula f) {
    if (formulas_.kind(f) != FormulaSpace::Kind::And) return is_preferred(f);
    return std::any_of(formulas_.parts(f).begin(), formulas_.parts(f).end(), is_preferred);
  });
}

// May a value of this type satisfy an operand of an expanded formula, without regard to the rest of the formula?
bool FormulaSearch::operand_can_hold(Formula operand, Type type) {
  charge();
  if (formulas_.is_conjunction(operand)) return true;
  std::unordered_map<Formula, bool> &known = operands_[static_cast<int>(type)];
  if (known.size() > MAX_OPERANDS) known.clear();
  // subtle: "true" excludes nothing, so it is the answer while the operand is decided, and after a limit ended that.
  if (const auto [it, fresh] = known.emplace(operand, true); !fresh) return it->second;
  const uint32_t outer = std::exchange(state_.lowest, QueryState::NO_DEPENDENCY);
  Path path;
  path.type = type;
  path.failed = true;  // so that inner operands are decided first
  const bool holds = type == Type::Object ? oracle_.objects().any(operand, path, oracle_.check_object())
                                          : any(operand, &path, oracle_.check_array());
  const bool certain = !holds && state_.lowest == QueryState::NO_DEPENDENCY;
  if (certain) known[operand] = false;
  state_.lowest = holds ? outer : std::min(outer, state_.lowest);
  return !certain;
}

}  // namespace structgen
