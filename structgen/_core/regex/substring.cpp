#include "regex/substring.h"

#include <algorithm>
#include <bitset>

#include "util/suffix_array.h"
#include "util/work.h"

namespace structgen {
namespace {

constexpr size_t ENDS_PER_UNIT = 8;

}  // namespace

SubstringMachine::SubstringMachine(std::string text, const std::vector<uint32_t> &ends, bool characters)
    : text_(std::move(text)), is_end_(text_.size() + 1), characters_(characters) {
  charge(1 + text_.size() / 4);
  std::bitset<256> met;
  for (char c : text_) met.set(static_cast<unsigned char>(c));
  for (size_t b = 0; b < 256; ++b)
    if (met.test(b)) alphabet_ += static_cast<char>(b);
  is_end_[0] = true;
  for (uint32_t end : ends) is_end_[end] = true;
  for (int32_t at : suffix_array(text_))
    if (is_end_[static_cast<size_t>(at)]) suffixes_.push_back(static_cast<uint32_t>(at));
  suffixes_.shrink_to_fit();
}

SubstringMachine::Range SubstringMachine::range(uint64_t state) const {
  return state < FIRST ? Range{0, static_cast<uint32_t>(suffixes_.size()), 0, state == START}
                       : ranges_[state - FIRST - text_.size() - 1];
}

// subtle: equal languages are equal states where that costs nothing. After a single suffix only the rest of the text
// matters. If all characters are pieces, the positions where a text ends are among those where a suffix of it ends. So
// two texts with equally many positions and a common one end at the same positions, and share the first in order.
uint64_t SubstringMachine::state(uint32_t from, uint32_t to, uint32_t depth) const {
  const uint32_t position = suffixes_[from] + depth;
  if (to - from == 1) return FIRST + position;
  const Hash128 key = characters_ ? hash_words(2, position, to - from) : hash_words(3, from, depth);
  const auto [it, is_new] = known_.try_emplace(key, static_cast<uint32_t>(ranges_.size()));
  if (is_new) ranges_.push_back({from, to, depth, ends_some(from, to, depth)});
  return FIRST + text_.size() + 1 + it->second;
}

bool SubstringMachine::ends_some(uint32_t from, uint32_t to, uint32_t depth) const {
  if (characters_) return is_end_[suffixes_[from] + depth];
  uint32_t i = from;
  while (i < to && !is_end_[suffixes_[i] + depth]) ++i;
  charge(1 + (i - from) / ENDS_PER_UNIT);
  return i < to;
}

uint32_t SubstringMachine::after(uint32_t from, uint32_t to, uint32_t depth, uint8_t byte) const {
  auto is_larger = [&](uint32_t at) { return static_cast<unsigned char>(text_[suffixes_[at] + depth]) > byte; };
  // Galloping search: a short run ends near its beginning.
  uint32_t low = from, step = 1;
  while (step < to - low && !is_larger(low + step)) {
    low += step;
    step *= 2;
    charge();
  }
  uint32_t high = std::min(to, low + step);
  while (low < high) {
    charge();
    const uint32_t middle = low + (high - low) / 2;
    if (is_larger(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

void SubstringMachine::edges(uint64_t state, std::vector<std::pair<uint8_t, uint64_t>> &out) const {
  if (state >= FIRST && state - FIRST <= text_.size()) {
    if (const uint64_t at = state - FIRST; at < text_.size())
      out.emplace_back(static_cast<uint8_t>(text_[at]), state + 1);
    return;
  }
  auto [from, to, depth, accepts] = range(state);
  if (from < to && suffixes_[from] + depth == text_.size()) ++from;  // the shortest suffix ends here
  while (from < to) {
    const auto byte = static_cast<uint8_t>(text_[suffixes_[from] + depth]);
    const uint32_t end = after(from, to, depth, byte);
    out.emplace_back(byte, this->state(from, end, depth + 1));
    from = end;
  }
}

uint64_t SubstringMachine::step(uint64_t state, uint8_t byte) const {
  std::vector<std::pair<uint8_t, uint64_t>> all;
  edges(state, all);
  for (auto [on, to] : all)
    if (on == byte) return to;
  return DEAD;
}

bool SubstringMachine::accepts(uint64_t state) const {
  if (state >= FIRST && state - FIRST <= text_.size()) return is_end_[state - FIRST];
  return range(state).accepts;
}

bool SubstringMachine::is_of(std::string_view text, const std::vector<uint32_t> &ends) const {
  charge(1 + text.size() / 64);
  if (text != text_) return false;
  std::vector<bool> is_end(text.size() + 1);
  is_end[0] = true;
  for (uint32_t end : ends) is_end[end] = true;
  return is_end == is_end_;
}

Re substring_language(RegexSpace &space, std::string text, const std::vector<uint32_t> &ends, bool characters,
                      bool empty) {
  auto wanted = [&](const Machine &machine) {
    auto *known = dynamic_cast<const SubstringMachine *>(&machine);
    return known != nullptr && known->is_of(text, ends);
  };
  auto machine = std::static_pointer_cast<const SubstringMachine>(space.find_machine(wanted));
  if (!machine) machine = std::make_shared<const SubstringMachine>(std::move(text), ends, characters);
  const uint64_t start = empty ? machine->start() : machine->start_of_some();
  return space.machine(std::move(machine), start);
}

}  // namespace structgen
