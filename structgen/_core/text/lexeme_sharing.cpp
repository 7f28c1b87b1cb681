// Copies fragments of similar lexemes. Free text after the first characters of a marker differs from other free text
// only where the marker continues.
#include <algorithm>
#include <bitset>
#include <iterator>
#include <vector>

#include "text/lexemes.h"
#include "text/text_space.h"
#include "util/work.h"
#include "vocabulary/root_subtrees.h"

namespace structgen {

// Finds a known fragment at the root that equals the one of `s` except below the first bytes `differing`, or returns
// null.
const Lexemes::Fragment *Lexemes::similar_fragment(LexemeState s, std::bitset<256> *differing) {
  if (step(s, 'a') == DEAD) return nullptr;
  const auto known = dense_at_root_.find(step(s, 'a'));
  if (known == dense_at_root_.end()) return nullptr;
  const LexemeState other = known->second;
  const auto it = fragments_.find(static_cast<uint64_t>(Vocabulary::ROOT) << 32 | other);
  if (it == fragments_.end()) return nullptr;
  const Fragment &similar = *it->second;
  // Merged rests cannot be taken apart again.
  if (!similar.leaves.merged.empty() || !similar.beyond.merged.empty()) return nullptr;
  Vocabulary::Node nodes = 0;
  for (const Vocabulary::Child *c = v_.children(Vocabulary::ROOT); !c->is_end; ++c) {
    const LexemeState to = step(s, c->byte);
    if (to == step(other, c->byte)) continue;
    differing->set(c->byte);
    if (to != DEAD) nodes += v_.end(c->node) - c->node;
  }
  return RootSubtrees::are_few(v_, nodes) ? &similar : nullptr;
}

// Copies the part of `similar` that does not begin with a byte of `differing`.
void Lexemes::copy_outside(const Fragment &similar, const std::bitset<256> &differing, Fragment &made,
                           std::vector<Leave> &found) {
  made.bits = similar.bits;
  made.overlaps |= similar.overlaps;  // a superset
  const RootSubtrees subtrees(v_, differing);
  subtrees.remove_tokens(made.bits.data());
  const auto is_outside = [&](const auto &place) { return !subtrees.contains(place.node); };
  charge(v_.words() / 16 + similar.turns.size());
  std::copy_if(similar.turns.begin(), similar.turns.end(), std::back_inserter(made.turns), is_outside);
  for (const Leaves *some : {&similar.leaves, &similar.beyond})
    for (const auto *listed : {&some->open, &some->few}) {
      charge(listed->size() / 4);
      std::copy_if(listed->begin(), listed->end(), std::back_inserter(found), is_outside);
    }
}

}  // namespace structgen
