// The ways to satisfy a formula over keyword groups: which groups hold, and which must fail.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/oracle/query.h"

namespace structgen {

class JsonOracle;

// Numbers that are assigned true or false, each once.
class Assignment {
 public:
  struct Mark {
    size_t positive, negative;
  };
  std::optional<bool> find(uint32_t one) const;
  // False: the contrary is assigned.
  bool assign(uint32_t one, bool holds);
  Mark mark() const { return {positive_.size(), negative_.size()}; }
  void back_to(Mark mark);
  size_t size() const { return positive_.size() + negative_.size(); }
  const std::vector<uint32_t> &positive() const { return positive_; }
  const std::vector<uint32_t> &negative() const { return negative_; }

 private:
  std::vector<uint32_t> positive_, negative_;
  std::unordered_map<uint32_t, bool> index_;  // of both, when they are many
};

// Tests one way to satisfy a formula.
using Check = std::function<bool(const Groups &satisfied, const Groups &violated)>;

class FormulaSearch {
 public:
  explicit FormulaSearch(JsonOracle &oracle);

  // What is assigned on the path through a formula. A composite formula that is assigned is not visited again, since
  // its operands are or will be: shared operands are visited once on each path.
  struct Path {
    Assignment groups, composites;
    std::optional<Type> type{};  // of the values, where only the existence of a way matters, not which it is
    bool failed = false;         // a way has been tested in vain
  };

  // Calls `check` for the ways to satisfy `f` until it succeeds once. `type`: as in `Path`.
  bool any(Formula f, const Check &check, std::optional<Type> type = {});
  bool any(Formula f, Path *path, const Check &check);
  // Lists the ways, at most `most`; returns false when there may be more. Later queries may cost as much as before.
  bool list(Formula f, size_t most, std::vector<std::pair<Groups, Groups>> *out);
  // Moves alternatives with preferred groups to the front.
  void prefer(std::vector<Formula> *alternatives) const;

 private:
  class Descent;
  bool operand_can_hold(Formula operand, Type type);

  JsonOracle &oracle_;
  FormulaSpace &formulas_;
  Budget &budget_;
  QueryState &state_;
  std::unordered_map<Formula, bool> operands_[TYPE_COUNT];  // what `operand_can_hold` found
};

}  // namespace structgen
