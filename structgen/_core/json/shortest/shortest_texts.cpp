#include "json/shortest/shortest_texts.h"

#include <algorithm>

#include "text/json_text.h"
#include "util/work.h"

namespace structgen {
namespace {

constexpr size_t MAX_VISITED = 200'000;

// Bytes of a character inside a JSON string.
uint64_t written(uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '\b':
    case '\f':
    case '\n':
    case '\r':
    case '\t': return 2;
    default: return byte < 0x20 ? 6 : 1;
  }
}

}  // namespace

uint64_t written_length(std::string_view text) {
  charge(text.size() / 16);
  uint64_t total = 0;
  for (char c : text) total += written(static_cast<uint8_t>(c));
  return total;
}

ShortestTexts::ShortestTexts(RegexSpace &space, Re language) : space_(space) {
  visited_.push_back({0, 0});
  if (space_.alive(language)) push(language, 0, 0, 0);
}

void ShortestTexts::push(Re re, uint32_t from, uint8_t byte, uint64_t length) {
  const int64_t least = space_.min_length(re);
  if (least < 0) return;
  const auto remaining = static_cast<uint32_t>(std::min<int64_t>(least, UINT32_MAX));
  queue_.push_back({length + remaining, remaining, static_cast<uint8_t>(byte - 'a'), order_++, re, from, byte, length});
  std::push_heap(queue_.begin(), queue_.end());
}

const std::string *ShortestTexts::get(size_t i) {
  while (texts_.size() <= i)
    if (!find_next()) return nullptr;
  return &texts_[i];
}

bool ShortestTexts::find_next() {
  while (!queue_.empty()) {
    charge();
    if (visited_.size() > MAX_VISITED) {
      gave_up_ = true;
      return false;
    }
    std::pop_heap(queue_.begin(), queue_.end());
    const Entry e = queue_.back();
    queue_.pop_back();
    const auto here = static_cast<uint32_t>(visited_.size());
    visited_.push_back({e.from, e.byte});
    const Row row = space_.row(e.re);
    for (int b = 0; b < 256; ++b)
      if (row[b] != RegexSpace::EMPTY && space_.alive(row[b]))
        push(row[b], here, static_cast<uint8_t>(b), e.written + written(static_cast<uint8_t>(b)));
    if (!space_.nullable(e.re)) continue;
    texts_.push_back(text_to(here));
    return true;
  }
  return false;
}

std::string ShortestTexts::text_to(uint32_t visited) const {
  std::string text;
  for (uint32_t at = visited; visited_[at].from != 0; at = visited_[at].from)
    text += static_cast<char>(visited_[at].byte);
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace structgen
