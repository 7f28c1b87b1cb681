#include "vocabulary.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace structgen {

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::vector<uint32_t> eos_ids, uint32_t size,
                       std::unordered_map<std::string, uint32_t> specials)
    : tokens_(std::move(tokens)), eos_ids_(std::move(eos_ids)), specials_(std::move(specials)), size_(size) {
  if (size_ < tokens_.size()) throw std::invalid_argument("vocabulary size is smaller than the number of tokens");
  for (uint32_t id : eos_ids_)
    if (id >= size_) throw std::invalid_argument("EOS id " + std::to_string(id) + " is outside the vocabulary");

  for (auto &[text, id] : specials_)
    if (id >= size_ || !token(id).empty())
      throw std::invalid_argument("the special token " + text + " is text, or outside the vocabulary");

  std::vector<uint32_t> order;
  for (uint32_t id = 0; id < tokens_.size(); ++id) {
    const std::string &t = tokens_[id];
    if (t.empty() || is_eos(id)) continue;
    if (t.size() > MAX_TOKEN_BYTES)
      throw std::invalid_argument("token " + std::to_string(id) + " is longer than " + std::to_string(MAX_TOKEN_BYTES) + " bytes");
    order.push_back(id);
    longest_ = std::max(longest_, static_cast<uint32_t>(t.size()));
    for (unsigned char c : t) spellable_.set(c);
    if (t.size() == 1) single_bytes_.set(static_cast<unsigned char>(t[0]));
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    int c = tokens_[a].compare(tokens_[b]);
    return c != 0 ? c < 0 : a < b;
  });

  // Sorted order is depth-first order: open the nodes a token adds to its predecessor's path.
  std::vector<Node> path{ROOT};
  nodes_.emplace_back();
  root_child_.fill(NONE);
  std::string_view previous;
  for (uint32_t id : order) {
    std::string_view t = tokens_[id];
    size_t common = 0;
    while (common < t.size() && common < previous.size() && t[common] == previous[common]) ++common;
    for (size_t d = previous.size(); d > common; --d) nodes_[path[d]].end = static_cast<Node>(nodes_.size());
    path.resize(common + 1);
    for (size_t d = common; d < t.size(); ++d) {
      const auto n = static_cast<Node>(nodes_.size());
      const auto byte = static_cast<uint8_t>(t[d]);
      nodes_.push_back({.first_id = static_cast<uint32_t>(ids_.size()), .depth = static_cast<uint16_t>(d + 1), .byte = byte});
      if (d == 0) root_child_[byte] = n;
      path.push_back(n);
    }
    ids_.push_back(id);
    previous = t;
  }
  for (Node n : path) nodes_[n].end = static_cast<Node>(nodes_.size());
  nodes_.push_back({.first_id = static_cast<uint32_t>(ids_.size())});
  nodes_.shrink_to_fit();
  sum_up();
  find_words();
}

// What is below each node. Characters are told by their bytes from the token's first on; a continuation byte
// that continues nothing, and a token that ends inside a character, are broken.
void Vocabulary::sum_up() {
  struct Open {
    Node node;
    uint8_t missing;  // continuation bytes
    Kinds kinds;      // of the node's own byte
    bool begins;      // a character
    Kinds below = 0;
    uint16_t characters = 0;
  };
  constexpr size_t MOST_SETS = UINT16_MAX;
  std::unordered_map<Kinds, uint16_t> known;
  std::vector<Open> path{{ROOT, 0, 0, false}};
  auto settle = [&](const Open &done) {
    auto [it, fresh] = known.try_emplace(done.below, static_cast<uint16_t>(std::min(known.size(), MOST_SETS)));
    if (fresh && kind_sets_.size() < MOST_SETS) kind_sets_.push_back(done.below);
    nodes_[done.node].kinds_below = it->second;
    nodes_[done.node].characters_below = done.characters;
  };
  auto close = [&] {
    const Open done = path.back();
    path.pop_back();
    settle(done);
    Open &parent = path.back();
    parent.below |= done.kinds | done.below;
    parent.characters = std::max(parent.characters, static_cast<uint16_t>(done.characters + done.begins));
  };
  for (Node n = 1; n < node_count(); ++n) {
    while (path.size() > nodes_[n].depth) close();
    const uint8_t b = nodes_[n].byte, missing = path.back().missing;
    const bool continues = (b & 0xc0) == 0x80;
    Open open{n, 0, continues ? 0 : kind_of(b), !continues};
    if (continues) {
      if (missing == 0) open.kinds |= kinds::BROKEN;
      else open.missing = missing - 1;
    } else {
      if (missing > 0) open.kinds |= kinds::BROKEN;
      open.missing = b < 0xc0 ? 0 : b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
    }
    if (open.missing > 0 && !ids(n).empty()) open.kinds |= kinds::BROKEN;
    path.push_back(open);
  }
  while (path.size() > 1) close();
  settle(path.back());
  kind_sets_.push_back(~Kinds{0});
}

void Vocabulary::find_words() {
  constexpr uint32_t MUCH = 64;  // nodes; fewer are walked as fast
  const Node space = root_child_[' '];
  std::vector<Node> path{ROOT};   // by depth
  std::vector<bool> inside{true};  // may a word begin or go on below?
  for (Node n = 1; n < node_count();) {
    const Entry &e = nodes_[n];
    path.resize(e.depth);
    inside.resize(e.depth);
    const bool word = is_word(e.byte), reached = inside.back();
    const Node parent = path.back();
    const bool begins = parent == ROOT || parent == space;
    if (!reached || (!word && n != space)) {
      if (reached && !begins) words_.push_back({n, parent, 0, 0, WordEvent::LEAVES, e.byte});
      n = e.end;
      continue;
    }
    if (word) {
      const bool whole = (kinds_below(n) & ~WORDS) == 0;
      const Node end = whole ? e.end : n + 1;
      words_.push_back({n, parent, e.first_id, nodes_[end].first_id, whole ? WordEvent::WHOLE : WordEvent::ON, e.byte});
      if (whole) {
        n = e.end;
        continue;
      }
      nodes_[n].has_words = e.end - n > MUCH;
    }
    path.push_back(n);
    inside.push_back(true);
    ++n;
  }
  words_.shrink_to_fit();
}

std::span<const Vocabulary::WordEvent> Vocabulary::words_below(Node node) const {
  auto before = [](const WordEvent &e, Node n) { return e.node < n; };
  const auto first = std::lower_bound(words_.begin(), words_.end(), node + 1, before);
  return {first, std::lower_bound(first, words_.end(), end(node), before)};
}

bool Vocabulary::is_eos(uint32_t id) const {
  return std::find(eos_ids_.begin(), eos_ids_.end(), id) != eos_ids_.end();
}

Vocabulary::Node Vocabulary::child(Node node, uint8_t byte) const {
  if (node == ROOT) return root_child_[byte];
  for (Node n = node + 1; n < nodes_[node].end; n = nodes_[n].end)
    if (nodes_[n].byte >= byte) return nodes_[n].byte == byte ? n : NONE;
  return NONE;
}

std::string Vocabulary::path(Node node) const {
  // Every subtree ends in a token, and the first id below spells the path.
  Node n = node;
  while (ids(n).empty()) ++n;
  return tokens_[ids(n)[0]].substr(0, nodes_[node].depth);
}

std::optional<std::vector<uint32_t>> Vocabulary::fewest_tokens(std::string_view text) const {
  constexpr uint32_t FAR = UINT32_MAX;
  std::vector<uint32_t> cost(text.size() + 1, FAR), token(text.size() + 1, 0);
  cost[0] = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (cost[i] == FAR) continue;
    Node n = ROOT;
    for (size_t j = i; j < text.size(); ++j) {
      n = child(n, static_cast<uint8_t>(text[j]));
      if (n == NONE) break;
      if (!ids(n).empty() && cost[i] + 1 < cost[j + 1]) {
        cost[j + 1] = cost[i] + 1;
        token[j + 1] = ids(n)[0];
      }
    }
  }
  if (cost[text.size()] == FAR) return std::nullopt;
  std::vector<uint32_t> out;
  for (size_t i = text.size(); i > 0; i -= tokens_[token[i]].size()) out.push_back(token[i]);
  std::reverse(out.begin(), out.end());
  return out;
}

size_t Vocabulary::memory() const {
  size_t total = nodes_.size() * sizeof(Entry) + ids_.size() * 4 + words_.size() * sizeof(WordEvent);
  for (const std::string &t : tokens_) total += sizeof(t) + (t.size() > 15 ? t.size() : 0);
  return total;
}

}  // namespace structgen
