// The inside of RegexSpace: hash-consed nodes and their tables. Only regex_*.cpp see it.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "hashing.h"
#include "regex.h"

namespace structgen {

enum class ReKind : uint8_t {
  Empty,
  Epsilon,
  Class,       // ranges; `pending` continuation bytes still to come (0: a whole character)
  Concat,      // parts: head, tail (tail is no Concat's head: right-associated)
  Alternate,   // parts, sorted
  Intersect,   // parts, sorted
  Difference,  // parts: a derivative of ANY_TEXT, what is taken away
  Repeat,      // parts: body; lo, hi (hi < 0: unbounded)
  Literals,    // a node of a trie of literals; parts: byte, child, byte, child, ...
  Machine,     // machine index, state
  LookAhead,   // parts: what the rest must begin with; lo: negated
  LookBehind,  // parts: state of the automaton that reads the text so far; lo: negated
};

struct ReNode {
  ReKind kind;
  bool nullable = false;
  bool plain = true;  // no intersection, difference or look-around inside: alive unless Empty
  bool looks = false;  // a look-around inside; then `nullable` speaks of the end of the text
  uint8_t pending = 0;
  uint32_t index = 0;  // Class: ranges; Machine: machine
  int64_t lo = 0, hi = 0;
  uint64_t state = 0;
  uint32_t begin = 0, end = 0;  // parts
};

struct TrieNode {
  bool end = false;
  std::vector<std::pair<uint8_t, Re>> children;
};

struct RegexSpace::Impl {
  std::bitset<256> spellable;
  RegexLimits limits;
  bool continuations_complete = true;
  std::deque<ReNode> nodes;
  std::deque<Re> parts;
  std::deque<std::vector<CodeRange>> ranges;
  std::unordered_multimap<uint64_t, uint32_t> range_index;
  std::vector<std::shared_ptr<const structgen::Machine>> machines;
  std::unordered_multimap<uint64_t, Re> index;
  std::deque<std::unique_ptr<Row>> rows;  // pruned
  std::unordered_map<Re, std::unique_ptr<Row>> raw_rows;
  std::unordered_map<Re, bool> alive;
  std::unordered_map<Re, int64_t> min_lengths;
  std::unordered_map<Hash128, bool, HashOf128> lengths;
  size_t unproven = 0;
  size_t bytes = 0;
  Re any_character = 0;

  Re intern(ReNode node, std::span<const Re> its_parts);
  uint32_t intern_ranges(std::vector<CodeRange> r);
  Re part(Re r, uint32_t i) const { return parts[nodes[r].begin + i]; }
  uint32_t part_count(Re r) const { return nodes[r].end - nodes[r].begin; }

  Re make_class(std::vector<CodeRange> r, uint8_t pending);
  Re concat(Re a, Re b);
  Re alternate(std::vector<Re> xs);
  Re intersect(std::vector<Re> xs);
  Re difference(Re all, Re r);
  Re repeat(Re a, int64_t lo, int64_t hi);
  Re look_behind_state(Re state, bool negative);
  Re trie(const std::vector<std::string_view> &sorted, size_t from, size_t to, size_t depth);

  // One derivative, not pruned. `depth` guards the stack.
  Re raw(Re r, uint8_t byte, int depth);
  // With look-arounds: `r` takes the byte and `rest` follows it to the end of the text.
  Re consume(Re r, uint8_t byte, Re rest, int depth);
  // The rests of the text before which `r` matches nothing at all.
  Re passing(Re r, int depth);
  // `r` after the byte was read in front of it: its look-behinds have seen the byte.
  Re advanced(Re r, uint8_t byte, int depth);
  // Starts of byte classes of `r`: bytes between two starts have the same derivative.
  void boundaries(Re r, std::bitset<257> &starts, int depth) const;
  const Row &raw_row(Re r);
  const Row &row(Re r);
  bool is_alive(Re r);
};

}  // namespace structgen
