#include "json/oracle/query.h"

#include <algorithm>

#include "util/stack.h"

namespace structgen {
namespace {
constexpr size_t WORK_PER_STEP = 50;  // elementary operations that one step of the budget pays for
constexpr size_t MAX_HARDNESS = 256;
}  // namespace

void Budget::start_query() {
  if (exhausted_) hardness_ = std::min<size_t>(hardness_ * 2, MAX_HARDNESS);
  exhausted_ = false;
  steps_ = work_ = 0;
  allowance_ = 1;
}

bool Budget::spend(size_t work) {
  const size_t budget = text_.limits().oracle_budget * allowance_ / hardness_;
  work_ += work;
  charge(1 + work);
  if (++steps_ <= budget && work_ <= budget * WORK_PER_STEP && !stack_is_short()) return true;
  ++unproven_;
  exhausted_ = true;
  return false;
}

}  // namespace structgen
