// Fragments of lexemes that are another one's but below some first bytes: free text after the beginning of a marker goes on
// like any other free text unless the marker does.
#include <algorithm>
#include <bitset>
#include <iterator>
#include <vector>

#include "lexemes.h"
#include "text_space.h"
#include "work.h"

namespace structgen {
namespace {

constexpr Vocabulary::Node FEW_DIFFERING = 2;  // one in so many trie nodes at most lies below first bytes that differ

}  // namespace

// A known fragment at the root that is the one of `s` but below these first bytes: of free text, where `s` is free text after
// the beginning of a marker. Null: there is none.
const Lexemes::Fragment *Lexemes::beside(Vocabulary::Node node, LexemeState s, std::bitset<256> *differing) {
  if (node != Vocabulary::ROOT || step(s, 'a') == DEAD) return nullptr;
  const auto known = at_root_.find(step(s, 'a'));
  if (known == at_root_.end()) return nullptr;
  const LexemeState other = known->second;
  const auto it = fragments_.find(static_cast<uint64_t>(node) << 32 | other);
  if (it == fragments_.end()) return nullptr;
  const Fragment &base = *it->second;
  // What is merged cannot be taken apart again.
  if (!base.leaves.merged.empty() || !base.beyond.merged.empty()) return nullptr;
  Vocabulary::Node nodes = 0;
  for (const Vocabulary::Child *c = v_.children(node); !c->is_end; ++c) {
    const LexemeState to = step(s, c->byte);
    if (to == step(other, c->byte)) continue;
    differing->set(c->byte);
    if (to != DEAD) nodes += v_.end(c->node) - c->node;
  }
  return nodes <= v_.node_count() / FEW_DIFFERING ? &base : nullptr;
}

// Copies what `base` has that does not begin with one of these bytes.
void Lexemes::take_beside(const Fragment &base, const std::bitset<256> &differing, Fragment &made, std::vector<Leave> &found) {
  made.bits = base.bits;
  made.overlaps |= base.overlaps;  // or some of these
  std::vector<Vocabulary::Node> tops;
  for (const Vocabulary::Child *c = v_.children(Vocabulary::ROOT); !c->is_end; ++c) {
    if (!differing.test(c->byte)) continue;
    tops.push_back(c->node);
    for (const uint32_t id : v_.ids_within(c->node)) made.bits[id >> 5] &= ~(1u << (id & 31));
  }
  const auto is_kept = [&](const auto &place) {
    const auto next = std::upper_bound(tops.begin(), tops.end(), place.node);
    return next == tops.begin() || place.node >= v_.end(next[-1]);
  };
  charge(v_.words() / 16 + base.turns.size());
  std::copy_if(base.turns.begin(), base.turns.end(), std::back_inserter(made.turns), is_kept);
  for (const Leaves *some : {&base.leaves, &base.beyond})
    for (const auto *listed : {&some->open, &some->few}) {
      charge(listed->size() / 4);
      std::copy_if(listed->begin(), listed->end(), std::back_inserter(found), is_kept);
    }
}

}  // namespace structgen
