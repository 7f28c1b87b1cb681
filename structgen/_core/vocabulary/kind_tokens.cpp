#include "vocabulary/kind_tokens.h"

#include "util/work.h"

namespace structgen {

KindTokens::KindTokens(const Vocabulary &v, Kinds kinds) {
  for (Vocabulary::Node n = 1; n < v.node_count();) {
    charge();
    const uint16_t depth = v.depth(n);
    const uint8_t byte = v.byte(n);
    const bool is_inside = byte < 128 && (kind_of(byte) & kinds) != 0;
    if (!is_inside || depth > LONGEST) {
      if (is_inside) longer.push_back(n);
      else edges.push_back({n, static_cast<uint8_t>(depth - 1), byte});
      n = v.end(n);
      continue;
    }
    std::vector<uint32_t> &bits = by_length[depth];
    if (!v.ids(n).empty() && bits.empty()) bits.resize(v.words());
    for (const uint32_t id : v.ids(n)) bits[id >> 5] |= 1u << (id & 31);
    ++n;
  }
  edges.shrink_to_fit();
  longer.shrink_to_fit();
}

size_t KindTokens::memory() const {
  size_t total = sizeof *this + edges.size() * sizeof(Edge) + longer.size() * sizeof(Vocabulary::Node);
  for (const std::vector<uint32_t> &bits : by_length) total += bits.size() * sizeof(uint32_t);
  return total;
}

}  // namespace structgen
