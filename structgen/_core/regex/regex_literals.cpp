// Single literals and large sets of literals, as tries.
//
// A trie of few texts is made at once, and equal subtries are one node. Many texts, as of a long enum, are sorted, and
// only the part that is read gets nodes: until then a node is a run of sorted texts with a common beginning.
//
// Cost of many texts: hashing, copying and sorting them. An expansion is one search for each byte that may come next.
#include <array>
#include <cstring>

#include "regex/regex_nodes.h"
#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t MANY_TEXTS = 256;  // sets of this size get nodes where they are read
constexpr size_t FEW_TEXTS = 4;     // runs of this size get all of their nodes at once
constexpr size_t TEXTS_PER_UNIT = 8;
constexpr size_t WORD = sizeof(uint64_t);

uint64_t word_at(const char *at) {
  uint64_t word;
  std::memcpy(&word, at, WORD);
  return word;
}

// Neighbouring texts are hashed in separate chains, which a processor computes in parallel.
template <class Text>
Hash128 hash_texts(std::span<const Text> texts) {
  std::array<Hash128, 4> chains{};
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string_view text = texts[i];
    Hash128 h = extend(chains[i % chains.size()], text.size());
    size_t at = 0;
    for (; at + WORD <= text.size(); at += WORD) h = extend(h, word_at(text.data() + at));
    if (at < text.size()) {
      uint64_t word = 0;
      if (at > 0) word = word_at(text.data() + text.size() - WORD);
      else std::memcpy(&word, text.data(), text.size());
      h = extend(h, word);
    }
    chains[i % chains.size()] = h;
  }
  Hash128 all = hash_words(13, texts.size());
  for (const Hash128 &h : chains) all = extend(all, h);
  return all;
}

// Is every byte printable ASCII? May be false for texts that are.
bool is_printable(std::string_view text) {
  constexpr uint64_t EACH = ~uint64_t{0} / 0xff;
  const auto other = [](uint64_t word) { return (word | (word - 0x20 * EACH) | (word + EACH)) & 0x80 * EACH; };
  size_t at = 0;
  for (; at + WORD <= text.size(); at += WORD)
    if (other(word_at(text.data() + at))) return false;
  if (at > 0) return at == text.size() || !other(word_at(text.data() + text.size() - WORD));
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

Re RegexSpace::literal(std::string_view utf8) {
  Re r = EPSILON;
  for (size_t i = utf8.size(); i-- > 0;) {
    const auto byte = static_cast<uint8_t>(utf8[i]);
    if (!impl_->spellable.test(byte)) return EMPTY;
    const Re child[] = {byte, r};
    r = impl_->intern({.kind = ReKind::Literals}, child);
  }
  return r;
}

std::optional<std::pair<uint8_t, Re>> RegexSpace::text_step(Re r) const {
  if (!impl_->nodes[r].one_text) return std::nullopt;
  return std::pair(static_cast<uint8_t>(impl_->part(r, 0)), impl_->part(r, 1));
}

Re RegexSpace::literals(std::span<const std::string> texts) {
  const auto is_spelled = [&](const std::string &text) {
    if (impl_->ascii_complete && is_printable(text)) return true;
    return std::all_of(text.begin(), text.end(),
                       [&](char c) { return impl_->spellable.test(static_cast<uint8_t>(c)); });
  };
  size_t first_mute = texts.size();
  for (size_t i = 0; i < texts.size() && first_mute == texts.size(); ++i) {
    charge(1 + texts[i].size() / 16);
    if (!is_spelled(texts[i])) first_mute = i;
  }
  if (first_mute == texts.size() && texts.size() >= MANY_TEXTS) return impl_->many_literals(texts);
  std::vector<std::string_view> spelled(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(first_mute));
  for (size_t i = first_mute; i < texts.size(); ++i) {
    charge(1 + texts[i].size() / 16);
    if (is_spelled(texts[i])) spelled.push_back(texts[i]);
  }
  if (spelled.size() < MANY_TEXTS) return impl_->trie(std::move(spelled));
  return impl_->many_literals(std::span<const std::string_view>(spelled));
}

Re RegexSpace::Impl::trie(std::vector<std::string_view> texts) {
  sort_texts(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.empty()) return EMPTY;
  // The path from the root to the latest text; everything to the left of it has been made.
  struct Open {
    std::vector<Re> children;
    bool ends = false;
  };
  std::vector<Open> path(1);
  std::string_view previous;
  const auto made = [&](const Open &one) {
    if (one.children.empty()) return EPSILON;
    return intern({.kind = ReKind::Literals, .nullable = one.ends, .lo = one.ends}, one.children);
  };
  const auto shut = [&](size_t depth) {
    while (path.size() > depth + 1) {
      charge();
      const Open done = std::move(path.back());
      path.pop_back();
      path.back().children.push_back(static_cast<uint8_t>(previous[path.size() - 1]));
      path.back().children.push_back(made(done));
    }
  };
  for (const std::string_view text : texts) {
    charge(1 + text.size());
    size_t common = 0;
    while (common < text.size() && common < previous.size() && text[common] == previous[common]) ++common;
    shut(common);
    path.resize(text.size() + 1);
    path.back().ends = true;
    previous = text;
  }
  shut(0);
  return made(path[0]);
}

// Merges many single texts among alternatives into one set: a byte then leads to one node, not to a long union.
void RegexSpace::Impl::merge_texts(std::vector<Re> &xs) {
  constexpr std::ptrdiff_t MANY_SINGLE_TEXTS = 16;
  const auto is_text = [&](Re x) { return nodes[x].one_text; };
  if (std::ranges::count_if(xs, is_text) < MANY_SINGLE_TEXTS) return;
  std::vector<std::string> texts;
  for (const Re x : xs) {
    if (!is_text(x)) continue;
    std::string &text = texts.emplace_back();
    for (Re r = x; r != EPSILON; r = part(r, 1)) text.push_back(static_cast<char>(part(r, 0)));
    charge(1 + text.size());
  }
  std::erase_if(xs, is_text);
  if (texts.size() >= MANY_TEXTS) xs.push_back(many_literals(std::span<const std::string>(texts)));
  else xs.push_back(trie({texts.begin(), texts.end()}));
}

template <class Text>
Re RegexSpace::Impl::many_literals(std::span<const Text> texts) {
  const Hash128 key = hash_texts(texts);
  if (const auto it = known_literals.find(key); it != known_literals.end()) return it->second;
  size_t length = 0;
  for (const Text &text : texts) length += text.size();
  LiteralSet set(texts.size(), length);
  for (const Text &text : texts) set.add(text);
  set.sort();
  LiteralSet &kept = literal_sets.emplace_back(std::move(set));
  try {
    const Re made = literals_run({&kept, 0, kept.size(), 0});
    bytes += kept.memory();
    return known_literals[key] = made;
  } catch (...) {  // a limit
    literal_sets.pop_back();
    throw;
  }
}

Re RegexSpace::Impl::literals_run(Run run) {
  const auto [set, first, last, depth] = run;
  charge();
  set->sort_range(first, last);
  const bool ends = set->length(first) == depth;  // shorter texts come first
  if (set->length(last - 1) == depth) return EPSILON;
  if (last - first <= FEW_TEXTS) {
    std::vector<std::string_view> rests;
    for (uint32_t i = first; i < last; ++i) rests.push_back(set->text(i).substr(depth));
    return trie(std::move(rests));
  }
  runs.push_back(run);
  bytes += sizeof(Run);
  // It has no parts yet and need not be interned, since each run is made only once.
  return add_node(
      {.kind = ReKind::Literals, .nullable = ends, .index = static_cast<uint32_t>(runs.size()), .lo = ends});
}

// Makes the children of a run of literals, unless it has them.
void RegexSpace::Impl::expand(Re r) {
  if (!is_run(r)) return;
  const auto [set, first, last, depth] = runs[nodes[r].index - 1];
  std::vector<Re> children;
  for (uint32_t i = set->first_longer(first, last, depth); i < last;) {
    charge(search_work(last - i));
    const uint8_t byte = set->byte(i, depth);
    const uint32_t next = set->first_with(i, last, depth, byte + 1u);
    children.push_back(byte);
    children.push_back(literals_run({set, i, next, depth + 1}));
    i = next;
  }
  ReNode &n = nodes[r];
  n.begin = static_cast<uint32_t>(parts.size());
  n.count = static_cast<uint32_t>(children.size());
  n.index = 0;
  parts.insert(parts.end(), children.begin(), children.end());
  bytes += children.size() * sizeof(Re);
}

// The rests of the texts of a run without children.
std::vector<std::string_view> RegexSpace::Impl::rests_of_run(Re r) const {
  const auto [set, first, last, depth] = runs[nodes[r].index - 1];
  charge(1 + (last - first) / TEXTS_PER_UNIT);
  std::vector<std::string_view> rests;
  for (uint32_t i = first; i < last; ++i) rests.push_back(set->text(i).substr(depth));
  return rests;
}

RegexSpace::LiteralPlace::LiteralPlace(const Impl *space, Re r) : space_(space), ends_(space->nodes[r].nullable) {
  if (!space->is_run(r)) {
    node_ = r;
    return;
  }
  const Impl::Run &run = space->runs[space->nodes[r].index - 1];
  set_ = run.set;
  last_ = run.last;
  depth_ = run.depth;
  first_ = set_->first_longer(run.first, last_, depth_);
}

std::optional<RegexSpace::LiteralPlace> RegexSpace::literals_of(Re r) const {
  if (impl_->nodes[r].kind != ReKind::Literals) return std::nullopt;
  return LiteralPlace(impl_.get(), r);
}

bool RegexSpace::LiteralPlace::ends() const { return ends_; }

bool RegexSpace::LiteralPlace::seek(unsigned least) {
  if (node_ == EMPTY) {
    first_ = set_->first_with(first_, last_, depth_, least);
    return first_ < last_;
  }
  const uint32_t count = space_->nodes[node_].count;
  while (part_ < count && space_->part(node_, part_) < least) part_ += 2;
  return part_ < count;
}

uint8_t RegexSpace::LiteralPlace::byte() const {
  return node_ == EMPTY ? set_->byte(first_, depth_) : static_cast<uint8_t>(space_->part(node_, part_));
}

RegexSpace::LiteralPlace RegexSpace::LiteralPlace::next() const {
  if (node_ != EMPTY) return {space_, space_->part(node_, part_ + 1)};
  LiteralPlace next = *this;
  next.last_ = set_->first_with(first_, last_, depth_, byte() + 1u);
  ++next.depth_;
  set_->sort_range(first_, next.last_);
  next.ends_ = set_->length(first_) == next.depth_;
  next.first_ = set_->first_longer(first_, next.last_, next.depth_);
  return next;
}

}  // namespace structgen
