// Representatives of what must not follow a lexeme: expressions that forbid the same are one.
#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "text/lexemes.h"

namespace structgen {
namespace {

constexpr uint64_t AFTER = 91;
constexpr size_t MAX_COARSE_READ = 48, MAX_COARSE_STATES = 16;  // that decide what must not follow: read, minimised
constexpr uint32_t FORBIDDEN = UINT32_MAX - 1, NOWHERE = UINT32_MAX;

}  // namespace

Re Lexemes::coarsen(Re after) {
  if (after == RegexSpace::EMPTY) return after;
  if (const auto it = coarse_.find(after); it != coarse_.end()) return it->second;
  // The automaton up to the first forbidden text: its states in the order of a breadth-first search, and its
  // transitions.
  std::vector<Re> states{after};
  std::unordered_map<Re, uint32_t> number{{after, 0}};
  std::vector<std::array<uint32_t, 256>> moves;
  for (size_t at = 0; at < states.size() && states.size() <= MAX_COARSE_READ; ++at) {
    const structgen::Row &row = regex_.row(states[at]);
    std::array<uint32_t, 256> &to = moves.emplace_back();
    for (size_t b = 0; b < 256; ++b) {
      if (row[b] == RegexSpace::EMPTY) to[b] = NOWHERE;
      else if (regex_.nullable(row[b])) to[b] = FORBIDDEN;
      else {
        const auto [it, is_new] = number.try_emplace(row[b], static_cast<uint32_t>(states.size()));
        if (is_new) states.push_back(row[b]);
        to[b] = it->second;
      }
    }
  }
  auto cut_short = [&] {
    const Re coarse = cut(after, COARSE_CHARACTERS);
    cut_.insert(coarse);
    return coarse_[after] = coarse;
  };
  if (states.size() > MAX_COARSE_READ) return cut_short();
  // Minimises the automaton (Moore), and numbers its states in the order of a breadth-first search.
  std::vector<uint32_t> part(states.size(), 0);
  for (size_t parts = 0;;) {
    std::map<std::vector<uint32_t>, uint32_t> known;
    std::vector<uint32_t> next;
    for (size_t s = 0; s < states.size(); ++s) {
      std::vector<uint32_t> seen;
      for (uint32_t to : moves[s]) seen.push_back(to >= FORBIDDEN ? to : part[to]);
      next.push_back(known.try_emplace(std::move(seen), static_cast<uint32_t>(known.size())).first->second);
    }
    part = std::move(next);
    if (known.size() == parts) break;
    parts = known.size();
  }
  if (*std::max_element(part.begin(), part.end()) >= MAX_COARSE_STATES) return cut_short();
  std::vector<uint32_t> order{0}, place(states.size(), NOWHERE);
  place[part[0]] = 0;
  Hash128 identity = hash_words(AFTER);
  for (size_t at = 0; at < order.size(); ++at)
    for (uint32_t to : moves[order[at]]) {
      if (to < FORBIDDEN && place[part[to]] == NOWHERE) {
        place[part[to]] = static_cast<uint32_t>(order.size());
        order.push_back(to);
      }
      identity = extend(identity, to < FORBIDDEN ? place[part[to]] : to);
    }
  return coarse_[after] = representatives_.try_emplace(identity, after).first->second;
}

// What begins like a text of `after` in its first characters. Anything may follow a character
// that is not ASCII.
Re Lexemes::cut(Re after, uint32_t characters) {
  const uint64_t key = static_cast<uint64_t>(after) << 32 | characters;
  if (const auto it = cut_after_.find(key); it != cut_after_.end()) return it->second;
  const structgen::Row &row = regex_.row(after);
  std::map<Re, std::vector<CodeRange>> groups;
  for (uint32_t b = 0; b < 0x80; ++b) {
    if (row[b] == RegexSpace::EMPTY) continue;
    const bool decided = characters == 1 || regex_.nullable(row[b]);
    std::vector<CodeRange> &ranges = groups[decided ? RegexSpace::EPSILON : cut(row[b], characters - 1)];
    if (!ranges.empty() && ranges.back().hi + 1 == b) ranges.back().hi = b;
    else ranges.push_back({b, b});
  }
  if (std::any_of(row.begin() + 0x80, row.end(), [](Re to) { return to != RegexSpace::EMPTY; }))
    groups[RegexSpace::EPSILON].push_back({0x80, 0x10FFFF});
  std::vector<Re> parts;
  for (const auto &[rest, ranges] : groups) parts.push_back(regex_.concat(regex_.text_class(ranges), rest));
  return cut_after_[key] = regex_.alternate(parts);
}

}  // namespace structgen
