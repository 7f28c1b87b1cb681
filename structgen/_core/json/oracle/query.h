// What one query to the oracle may cost, and what it knows while it runs.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "json/tables.h"

namespace structgen {

// Counts the steps of queries. A schema whose queries use up their budget gets less and less for each, so that all of
// them together cost no more than a few budgets.
class Budget {
 public:
  explicit Budget(const TextSpace &text) : text_(text) {}

  void start_query();
  // False: the budget is used up. The query then assumes that its answer is "live", and counts it as unproven.
  bool spend(size_t work = 1);
  void add_work(size_t work) { work_ += work; }
  bool exhausted() const { return exhausted_; }

  void count_unproven() { ++unproven_; }
  uint64_t unproven() const { return unproven_; }

  // A search whose result may be incomplete: it restores, at its end, what later queries may cost and `unproven`.
  class Unaccounted {
   public:
    Unaccounted(Budget &budget, bool exhausted_after)
        : budget_(budget), exhausted_after_(exhausted_after), unproven_(budget.unproven_) {}
    ~Unaccounted() {
      budget_.exhausted_ = exhausted_after_;
      budget_.unproven_ = unproven_;
      budget_.allowance_ = 1;
    }
    Unaccounted(const Unaccounted &) = delete;
    Unaccounted &operator=(const Unaccounted &) = delete;

   private:
    Budget &budget_;
    bool exhausted_after_;
    uint64_t unproven_;
  };
  // Within `Unaccounted`: starts again with several budgets.
  void extend(size_t budgets) {
    exhausted_ = false;
    allowance_ = budgets;
  }

 private:
  const TextSpace &text_;
  uint64_t steps_ = 0, work_ = 0;
  size_t hardness_ = 1, allowance_ = 1;
  bool exhausted_ = false;
  uint64_t unproven_ = 0;
};

// Whether there are many different values: `sure` if "no" is certain, too.
struct DistinctAnswer {
  bool has, sure;
};

// What holds while one query from outside runs; the queries that it leads to share it.
struct QueryState {
  static constexpr uint32_t NO_DEPENDENCY = UINT32_MAX;

  bool running = false;
  std::unordered_map<Formula, uint32_t> in_progress;  // requirements being decided, with their depth
  uint32_t lowest = NO_DEPENDENCY;                    // least depth of a requirement that a "no" relies on
  std::unordered_map<Hash128, DistinctAnswer, HashOf128> distinct;
  const ArrayControl *reading = nullptr;  // the frame whose last item is being read
  const Groups *preferred = nullptr;      // groups that alternatives are tried for first
};

// A query from outside, unless one is running.
class Query {
 public:
  Query(Budget &budget, QueryState &state) : state_(state), outermost_(!state.running) {
    if (outermost_) budget.start_query();
    state.running = true;
  }
  ~Query() {
    if (!outermost_) return;
    state_.running = false;
    // subtle: a limit may have ended the query at any point.
    state_.in_progress.clear();
    state_.distinct.clear();
    state_.lowest = QueryState::NO_DEPENDENCY;
    state_.preferred = nullptr;
    state_.reading = nullptr;
  }
  Query(const Query &) = delete;
  Query &operator=(const Query &) = delete;

 private:
  QueryState &state_;
  bool outermost_;
};

}  // namespace structgen
