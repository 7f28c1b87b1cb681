#include "vocabulary/vocabulary.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace structgen {
namespace {

// The well-formed sequences that `byte` leads; null for ASCII and for bytes that lead none.
const kinds::Led *led_by(uint8_t byte) {
  for (const kinds::Led &led : kinds::BEYOND_ASCII)
    if (byte >= led.from && byte <= led.to) return &led;
  return nullptr;
}

// Is each character of the token a token of its own?
bool characters_are_tokens(const Vocabulary &vocabulary, const std::string &token) {
  for (size_t i = 0; i < token.size();) {
    size_t end = i + 1;
    while (end < token.size() && (static_cast<uint8_t>(token[end]) & 0xc0) == 0x80) ++end;
    Vocabulary::Node n = Vocabulary::ROOT;
    for (size_t j = i; j < end && n != Vocabulary::NONE; ++j) n = vocabulary.child(n, static_cast<uint8_t>(token[j]));
    if (n == Vocabulary::NONE || vocabulary.ids(n).empty()) return false;
    i = end;
  }
  return true;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): the trie is made in one pass over the sorted tokens
Vocabulary::Vocabulary(std::vector<std::string> tokens, std::vector<uint32_t> eos_ids, uint32_t size,
                       std::unordered_map<std::string, uint32_t> specials)
    : eos_ids_(std::move(eos_ids)), specials_(std::move(specials)), size_(size) {
  if (size_ < tokens.size()) throw std::invalid_argument("vocabulary size is smaller than the number of tokens");
  for (uint32_t id : eos_ids_)
    if (id >= size_) throw std::invalid_argument("EOS id " + std::to_string(id) + " is outside the vocabulary");

  for (auto &[text, id] : specials_)
    if (id >= size_ || (id < tokens.size() && !tokens[id].empty()))
      throw std::invalid_argument("the special token " + text + " is text, or outside the vocabulary");
  for (const auto &[text, id] : specials_) named_.push_back(id);
  std::sort(named_.begin(), named_.end());

  std::vector<uint32_t> order, others;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    const std::string &t = tokens[id];
    if (t.empty() || is_eos(id)) {
      others.push_back(id);
      continue;
    }
    if (t.size() > MAX_TOKEN_BYTES)
      throw std::invalid_argument("token " + std::to_string(id) + " is longer than " + std::to_string(MAX_TOKEN_BYTES) +
                                  " bytes");
    order.push_back(id);
    longest_ = std::max(longest_, static_cast<uint32_t>(t.size()));
    for (unsigned char c : t) spellable_.set(c);
    if (t.size() == 1) single_bytes_.set(static_cast<unsigned char>(t[0]));
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    int c = tokens[a].compare(tokens[b]);
    return c != 0 ? c < 0 : a < b;
  });

  // Sorted order is depth-first order: open the nodes a token adds to its predecessor's path.
  std::vector<Node> path{ROOT};
  nodes_.emplace_back();
  root_child_.fill(NONE);
  std::string_view previous;
  for (uint32_t id : order) {
    std::string_view t = tokens[id];
    size_t common = 0;
    while (common < t.size() && common < previous.size() && t[common] == previous[common]) ++common;
    for (size_t d = previous.size(); d > common; --d) nodes_[path[d]].end = static_cast<Node>(nodes_.size());
    path.resize(common + 1);
    for (size_t d = common; d < t.size(); ++d) {
      const auto n = static_cast<Node>(nodes_.size());
      const auto byte = static_cast<uint8_t>(t[d]);
      nodes_.push_back(
          {.first_id = static_cast<uint32_t>(ids_.size()), .depth = static_cast<uint16_t>(d + 1), .byte = byte});
      if (d == 0) root_child_[byte] = n;
      path.push_back(n);
    }
    ids_.push_back(id);
    previous = t;
  }
  for (Node n : path) nodes_[n].end = static_cast<Node>(nodes_.size());
  nodes_.push_back({.first_id = static_cast<uint32_t>(ids_.size())});
  nodes_.shrink_to_fit();
  lay_out(tokens, order, others);
  summarise_subtrees();
  find_words();
  lay_out_children();
  closed_ = closed_under_bytes() || std::all_of(order.begin(), order.end(),
                                                [&](uint32_t id) { return characters_are_tokens(*this, tokens[id]); });
}

// Walks visit tokens in the order of the trie.
void Vocabulary::lay_out(const std::vector<std::string> &tokens, const std::vector<uint32_t> &order,
                         const std::vector<uint32_t> &others) {
  place_.resize(tokens.size());
  for (const std::vector<uint32_t> *ids : {&order, &others})
    for (uint32_t id : *ids) {
      place_[id] = static_cast<uint32_t>(text_at_.size());
      text_at_.push_back(static_cast<uint32_t>(texts_.size()));
      texts_ += tokens[id];
    }
  if (texts_.size() >= UINT32_MAX) throw std::invalid_argument("the tokens are more than 4 GiB of text");
  text_at_.push_back(static_cast<uint32_t>(texts_.size()));
  texts_.shrink_to_fit();
}

// Summarises what is below each node. Characters are decoded from the token's first byte on. A continuation byte that
// continues no character or makes an ill-formed sequence, and a token that ends inside a character, are of kind BROKEN.
// So is everything below a node inside a character: kinds classify characters by their first bytes, so they do not show
// which continuations a class of characters contains.
void Vocabulary::summarise_subtrees() {
  struct Open {
    Node node;
    int missing;                      // continuation bytes
    Kinds kinds;                      // of the node's own byte
    bool begins;                      // a character
    const kinds::Led *led = nullptr;  // of the character that the node's own byte begins
    Kinds below = 0;
    uint16_t characters = 0;
  };
  constexpr size_t MOST_SETS = UINT16_MAX;
  std::unordered_map<Kinds, uint16_t> known;
  std::vector<Open> path{{ROOT, 0, 0, false}};
  auto settle = [&](const Open &done) {
    const Kinds below = done.below | (done.missing > 0 ? kinds::BROKEN : 0);
    auto [it, fresh] = known.try_emplace(below, static_cast<uint16_t>(std::min(known.size(), MOST_SETS)));
    if (fresh && kind_sets_.size() < MOST_SETS) kind_sets_.push_back(below);
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
    const uint8_t b = nodes_[n].byte;
    const Open &parent = path.back();
    const bool continues = (b & 0xc0) == 0x80;
    Open open{n, 0, continues ? 0 : kind_of(b), !continues};
    if (continues) {
      const bool ill_formed = parent.led && (b < parent.led->low || b > parent.led->high);
      if (parent.missing == 0 || ill_formed) open.kinds |= kinds::BROKEN;
      open.missing = std::max(parent.missing - 1, 0);
    } else {
      if (parent.missing > 0) open.kinds |= kinds::BROKEN;
      open.led = led_by(b);
      open.missing = open.led ? open.led->more + 1 : 0;
    }
    if (open.missing > 0 && !ids(n).empty()) open.kinds |= kinds::BROKEN;
    path.push_back(open);
  }
  while (path.size() > 1) close();
  settle(path.back());
  kind_sets_.push_back(~Kinds{0});
}

void Vocabulary::lay_out_children() {
  constexpr size_t MANY = 16;
  auto record = [&](Node n, uint8_t byte, bool is_end) {
    const Entry &e = nodes_[n];
    if (is_end) {
      children_.push_back({n, e.first_id, 0, 0, byte, true, false, 0});
      return;
    }
    const uint32_t own = std::min<uint32_t>(MANY_OWN, nodes_[n + 1].first_id - e.first_id);
    children_.push_back(
        {n, e.first_id, 0, e.kinds_below, byte, false, e.has_words, static_cast<uint8_t>(own & MANY_OWN)});
  };
  first_child_.resize(node_count());
  record(node_count(), 0, true);            // of nodes without children
  std::vector<uint32_t> own(node_count());  // records, by node
  for (Node n = 0; n < node_count(); ++n) {
    const Node end = nodes_[n].end;
    if (end == n + 1) continue;
    const auto first = static_cast<uint32_t>(children_.size());
    first_child_[n] = first;
    if (n != ROOT) children_[own[n]].children = first;
    std::bitset<256> bytes;
    for (Node c = n + 1; c < end; c = nodes_[c].end) {
      own[c] = static_cast<uint32_t>(children_.size());
      record(c, nodes_[c].byte, false);
      bytes.set(nodes_[c].byte);
    }
    const size_t count = children_.size() - first;
    record(end, 0, true);
    if (count < MANY) continue;
    nodes_[n].is_wide = true;
    wide_.push_back({n, bytes});
  }
  children_.shrink_to_fit();
  wide_.shrink_to_fit();
}

std::bitset<256> Vocabulary::next_bytes(Node node) const {
  if (nodes_[node].is_wide)
    return std::lower_bound(wide_.begin(), wide_.end(), node, [](const Wide &w, Node n) { return w.node < n; })->bytes;
  std::bitset<256> bytes;
  for (const Child *c = children(node); !c->is_end; ++c) bytes.set(c->byte);
  return bytes;
}

void Vocabulary::find_words() {
  constexpr uint32_t MUCH = 64;  // nodes; fewer are walked as fast
  const Node space = root_child_[' '];
  struct Open {
    Node node;
    bool inside;  // may a word begin or continue below?
  };
  std::vector<Open> path{{ROOT, true}};  // by depth
  auto stays = [&](Node n, Node end) {
    words_.push_back({n, static_cast<uint32_t>(word_ids_.size())});
    word_ids_.insert(word_ids_.end(), ids_.begin() + nodes_[n].first_id, ids_.begin() + nodes_[end].first_id);
  };
  auto leaves = [&](Node n) {
    uint32_t many = 0;
    for (Node c = n + 1; c < nodes_[n].end; c = nodes_[c].end) {
      if (nodes_[c].byte >= 0x80) word_beyond_.push_back(c);
      // subtle: this is at least what `Lexemes::turns` counts in any state, which relies on the turns that are found
      // here.
      if (!is_word(nodes_[c].byte)) many += nodes_[c].end - c;
    }
    if (many > WIDE) {
      word_turns_.push_back(n);
      return;
    }
    for (Node c = n + 1; c < nodes_[n].end; c = nodes_[c].end)
      if (nodes_[c].byte < 0x80 && !is_word(nodes_[c].byte)) word_leaves_.push_back(c);
  };
  for (Node n = 1; n < node_count();) {
    const Entry &e = nodes_[n];
    path.resize(e.depth, {ROOT, false});
    const bool word = is_word(e.byte);
    if (!path.back().inside || (!word && n != space)) {
      n = e.end;
      continue;
    }
    if (word) {
      if ((kinds_below(n) & ~WORDS) == 0) {
        stays(n, e.end);
        n = e.end;
        continue;
      }
      stays(n, n + 1);
      leaves(n);
      nodes_[n].has_words = e.end - n > MUCH;
    }
    path.push_back({n, true});
    ++n;
  }
  for (auto *nodes : {&word_leaves_, &word_beyond_}) std::sort(nodes->begin(), nodes->end());
  words_.push_back({node_count(), static_cast<uint32_t>(word_ids_.size())});
  for (auto *v : {&word_ids_, &word_turns_, &word_leaves_, &word_beyond_}) v->shrink_to_fit();
  words_.shrink_to_fit();
}

namespace {

// The index of the first element that is not before `node`. Searches from `from` on, or from the start if that element
// is after the node already.
template <class Of>
size_t first_not_before(const std::vector<Of> &list, size_t from, Vocabulary::Node node) {
  const auto at = [&](size_t i) {
    if constexpr (requires { list[i].node; }) return list[i].node;
    else return list[i];
  };
  if (from > 0 && at(from - 1) >= node) from = 0;
  size_t step = 1, low = from;
  while (low + step < list.size() && at(low + step) < node) low += step, step *= 2;
  const auto end = list.begin() + static_cast<ptrdiff_t>(std::min(low + step, list.size()));
  const auto before = [](const Of &one, Vocabulary::Node n) {
    if constexpr (requires { one.node; }) return one.node < n;
    else return one < n;
  };
  return static_cast<size_t>(std::lower_bound(list.begin() + static_cast<ptrdiff_t>(low), end, node, before) -
                             list.begin());
}

}  // namespace

Vocabulary::Words Vocabulary::words_between(Node first, Node end, WordsPlace &place) const {
  const size_t from = first_not_before(words_, place.word, first);
  place.word = first_not_before(words_, from, end);
  const auto between = [&](const std::vector<Node> &nodes, size_t &at) -> std::span<const Node> {
    const size_t begin = first_not_before(nodes, at, first);
    at = first_not_before(nodes, begin, end);
    return {nodes.data() + begin, at - begin};
  };
  return {{word_ids_.data() + words_[from].first_id, word_ids_.data() + words_[place.word].first_id},
          between(word_turns_, place.turn),
          between(word_leaves_, place.leave),
          between(word_beyond_, place.beyond)};
}

bool Vocabulary::is_eos(uint32_t id) const { return std::find(eos_ids_.begin(), eos_ids_.end(), id) != eos_ids_.end(); }

Vocabulary::Node Vocabulary::child(Node node, uint8_t byte) const {
  if (node == ROOT) return root_child_[byte];
  const Child *first = children(node);
  if (nodes_[node].is_wide) {
    const std::bitset<256> bytes = next_bytes(node);
    return bytes.test(byte) ? first[(bytes << (256 - byte)).count()].node : NONE;  // after those of smaller bytes
  }
  for (const Child *c = first; !c->is_end; ++c)
    if (c->byte >= byte) return c->byte == byte ? c->node : NONE;
  return NONE;
}

std::string Vocabulary::path(Node node) const {
  // Every subtree ends in a token, and the first id below spells the path.
  Node n = node;
  while (ids(n).empty()) ++n;
  return std::string(token(ids(n)[0]).substr(0, nodes_[node].depth));
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
  for (size_t i = text.size(); i > 0; i -= this->token(token[i]).size()) out.push_back(token[i]);
  std::reverse(out.begin(), out.end());
  return out;
}

size_t Vocabulary::memory() const {
  return nodes_.size() * sizeof(Entry) + words_.size() * sizeof(Word) + texts_.size() +
         (ids_.size() + text_at_.size() + place_.size() + word_ids_.size() + word_turns_.size() + word_leaves_.size() +
          word_beyond_.size() + first_child_.size()) *
             4 +
         children_.size() * sizeof(Child) + wide_.size() * sizeof(Wide);
}

}  // namespace structgen
