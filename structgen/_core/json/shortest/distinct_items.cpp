#include "json/shortest/distinct_items.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "json/shortest/shortest_array.h"
#include "json/value.h"

namespace structgen {
namespace {

constexpr uint64_t MAX_ITEMS = 256;         // for which the shortest texts are searched
constexpr uint64_t MAX_COMPARED = 1 << 16;  // bytes of one of them
constexpr size_t MAX_CONFLICTS = 2'000;

}  // namespace

// Each item takes the first scalar that no other item has.
void DistinctItems::take_first_scalars(const std::vector<Member> &items) {
  std::unordered_map<Formula, size_t> taken;
  std::unordered_set<Hash128, HashOf128> used;
  std::string text = "[";
  values_.mark_inexact(SearchFailure::Nothing);  // other arrays may be shorter
  for (const Member &item : items)
    for (uint64_t n = item.times; n > 0; --n) {
      const std::string *one;
      do {
        charge(2);
        one = values_.scalar(item.value, taken[item.value]++);
      } while (one && !used.insert(read_value(*one).hash).second);
      if (!one) return values_.mark_inexact(SearchFailure::Different);
      text += (text.size() > 1 ? "," : "") + *one;
      if (text.size() > MAX_SHORTEST_TEXT) return values_.mark_inexact(SearchFailure::Length);
    }
  text += ']';
  if (text.size() < best_->length) *best_ = {Candidate::Literal, text.size(), text, {}};
}

Formula DistinctItems::requirement(const Branch &branch, size_t item) {
  const std::vector<std::string> &excluded = branch.excluded[item];
  if (excluded.empty()) return items_[item];
  auto [it, fresh] = excluding_.try_emplace({items_[item], excluded}, FormulaSpace::FALSE);
  if (fresh) it->second = values_.exclude(items_[item], excluded);
  return it->second;
}

std::vector<Member> DistinctItems::members(const Branch &branch) {
  std::vector<Member> out;
  for (size_t i = 0; i < items_.size(); ++i) out.push_back({{}, requirement(branch, i), 1});
  return out;
}

// Every item takes its shortest value. Where two agree, one or the other must not have the value, and the cheaper
// branch is followed first. Of items with the same requirement the first keeps it, since they can be swapped.
void DistinctItems::run(const std::vector<Member> &items) {
  for (const Member &item : items) {
    if (items_.size() + item.times > MAX_ITEMS) return take_first_scalars(items);
    if (values_.length(item.value) > MAX_COMPARED) return values_.mark_inexact(SearchFailure::Different);
    items_.insert(items_.end(), item.times, item.value);
  }
  std::priority_queue<Branch> open;
  auto offer = [&](Branch branch) {
    branch.length = array_length(values_, members(branch));
    if (branch.length < best_->length) open.push(std::move(branch));
  };
  offer({0, std::vector<std::vector<std::string>>(items_.size())});
  for (size_t taken = 0; !open.empty(); ++taken) {
    const Branch branch = open.top();
    open.pop();
    if (taken > MAX_CONFLICTS || !values_.spend(1 + items_.size() / 8))
      return values_.mark_inexact(SearchFailure::Different);
    Conflict conflict;
    if (!find_conflict(branch, &conflict)) return;
    if (conflict.second == 0) {
      *best_ = {Candidate::Array, branch.length, {}, members(branch)};
      return;
    }
    const Formula left = requirement(branch, conflict.first), right = requirement(branch, conflict.second);
    auto exclude_from = [&](Formula which, size_t but) {
      Branch next = branch;
      for (size_t at = 0; at < items_.size(); ++at)
        if (at != but && requirement(branch, at) == which) {
          std::vector<std::string> &excluded = next.excluded[at];
          excluded.insert(std::lower_bound(excluded.begin(), excluded.end(), conflict.value), conflict.value);
        }
      offer(std::move(next));
    };
    if (left == right) {
      exclude_from(left, conflict.first);
    } else {
      exclude_from(left, items_.size());
      exclude_from(right, items_.size());
    }
  }
}

// False: some item is too long to be written.
bool DistinctItems::find_conflict(const Branch &branch, Conflict *conflict) {
  std::map<Formula, std::pair<std::string, Hash128>> texts;
  for (size_t second = 0; second < items_.size(); ++second) {
    auto [it, fresh] = texts.try_emplace(requirement(branch, second));
    auto &[text, hash] = it->second;
    if (fresh) {
      if (!values_.write(it->first, &text)) return false;
      hash = read_value(text).hash;
    }
    for (size_t first = 0; first < second; ++first)
      if (const auto &other = texts.at(requirement(branch, first)); other.second == hash) {
        *conflict = {first, second, other.first};
        return true;
      }
  }
  *conflict = {0, 0, {}};
  return true;
}

}  // namespace structgen
