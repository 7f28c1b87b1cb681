// Unions of counted repetitions: terms that differ in one count become one term.
//
// If the texts of `r` can be split in several ways, as in `(a|aa){1000}`, n bytes leave a union over the number of
// repetitions so far: `h r{900} t | h r{901} t | ...` for the few rests `h` of `r`. Counts that touch become one range,
// `h r{900,901} t`, so a state has as many terms as there are rests, not as there are counts. Terms that cannot be
// merged (`(a|aaa){1000}` leaves every second count) are counted by `steps`.
//
// Cost: for each term, its sequence up to the repetition. Terms without a count are not visited.
#include "regex/regex_nodes.h"
#include "util/sorting.h"

namespace structgen {
namespace {

constexpr int64_t ENDLESS = std::numeric_limits<int64_t>::max() - 1;
constexpr size_t MAX_NESTED_COUNTS = 3;  // repetitions at the front of a sequence that are merged
constexpr size_t MAX_HEADS = 64;         // parts of a sequence that are searched for them

struct Entry {
  Re body, tail;
  uint64_t heads;  // a hash of what comes before the repetition
  size_t length;   // and its number of parts
  int64_t lo, hi;
  Re self;
};

}  // namespace

// Merges by the `which`-th repetition of each term. True: some were merged.
bool RegexSpace::Impl::merge_repeats(std::vector<Re> &xs, size_t which) {
  std::vector<Entry> entries;
  charge(xs.size() / 8);
  for (Re x : xs) {
    if (which > 0 && !nodes[x].counted) continue;
    uint64_t heads = 0;
    size_t repeats = 0, length = 0;
    for (Re r = x;; r = part(r, 1), ++length) {
      const bool sequence = nodes[r].kind == ReKind::Concat;
      const Re head = sequence ? part(r, 0) : r;
      const ReNode &n = nodes[head];
      if (n.kind == ReKind::Repeat && repeats++ == which) {
        entries.push_back(
            {parts[n.begin], sequence ? part(r, 1) : EPSILON, heads, length, n.lo, n.hi < 0 ? ENDLESS : n.hi, x});
        break;
      }
      if (!sequence || length == MAX_HEADS || !nodes[part(r, 1)].counted) break;
      charge();
      heads = mix(heads, head);
    }
  }
  if (entries.size() < 2) return false;
  auto key = [](const Entry &e) { return std::tie(e.body, e.tail, e.length, e.heads); };
  sort_numbers(entries.begin(), entries.end(),
               [&](const Entry &a, const Entry &b) { return key(a) != key(b) ? key(a) < key(b) : a.lo < b.lo; });
  auto same_heads = [&](Re a, Re b, size_t length) {
    for (; length > 0 && part(a, 0) == part(b, 0); --length) a = part(a, 1), b = part(b, 1);
    return length == 0;
  };
  std::vector<Re> merged, gone;
  for (size_t i = 0; i < entries.size();) {
    charge();
    Entry whole = entries[i];
    size_t j = i + 1;
    for (; j < entries.size() && key(entries[j]) == key(whole) && entries[j].lo <= whole.hi + 1 &&
           same_heads(entries[j].self, whole.self, whole.length);
         ++j)
      whole.hi = std::max(whole.hi, entries[j].hi);
    if (j - i > 1) {
      for (size_t k = i; k < j; ++k) gone.push_back(entries[k].self);
      Re out = concat(repeat(whole.body, whole.lo, whole.hi == ENDLESS ? -1 : whole.hi), whole.tail);
      std::vector<Re> before;
      for (Re r = whole.self; before.size() < whole.length; r = part(r, 1)) before.push_back(part(r, 0));
      while (!before.empty()) {
        charge();
        out = concat(before.back(), out);
        before.pop_back();
      }
      merged.push_back(out);
    }
    i = j;
  }
  if (gone.empty()) return false;
  sort_numbers(gone.begin(), gone.end());
  charge(xs.size() * search_work(gone.size()) / 4);
  std::erase_if(xs, [&](Re x) { return std::binary_search(gone.begin(), gone.end(), x); });
  xs.insert(xs.end(), merged.begin(), merged.end());
  return true;
}

void RegexSpace::Impl::merge_repeats(std::vector<Re> &xs) {
  if (xs.size() < 2) return;
  merge_repeats(xs, 0);
  const bool nested = std::count_if(xs.begin(), xs.end(), [&](Re x) { return nodes[x].counted; }) > 1;
  for (size_t which = 1; nested && which < MAX_NESTED_COUNTS; ++which) merge_repeats(xs, which);
}

}  // namespace structgen
