#include "vocabulary/rest_trie.h"

#include <algorithm>

namespace structgen {

RestTrie::RestTrie(std::vector<Rest> rests) {
  std::sort(rests.begin(), rests.end(), [](const Rest &a, const Rest &b) { return a.text < b.text; });
  bytes.push_back(0);
  ends.push_back(0);
  first_item.push_back(0);
  std::vector<uint32_t> path{0};  // nodes of the rest before
  std::string_view previous;
  for (const Rest &rest : rests) {
    size_t common = 0;
    while (common < rest.text.size() && common < previous.size() && rest.text[common] == previous[common]) ++common;
    for (size_t depth = common + 1; depth < path.size(); ++depth)
      ends[path[depth]] = static_cast<uint32_t>(bytes.size());
    path.resize(common + 1);
    for (size_t depth = common; depth < rest.text.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(bytes.size()));
      bytes.push_back(static_cast<uint8_t>(rest.text[depth]));
      ends.push_back(0);
      first_item.push_back(static_cast<uint32_t>(items.size()));
    }
    items.push_back(rest.item);
    previous = rest.text;
  }
  for (uint32_t node : path) ends[node] = static_cast<uint32_t>(bytes.size());
  first_item.push_back(static_cast<uint32_t>(items.size()));
}

}  // namespace structgen
