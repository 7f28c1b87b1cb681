// Single literals and large sets of literals, as tries.
//
// A trie of few texts is made at once, and equal sub-tries are one node. Of many texts, as in a long enum, only the part
// that is read gets nodes: until then a node is a run of the texts, which begin alike. Its texts are not even sorted
// before it is expanded, and then by one byte only.
//
// Cost of many texts: copying and hashing them; each expansion reads one byte of each text of its run.
#include <array>
#include <cstring>

#include "regex_nodes.h"
#include "sorting.h"

namespace structgen {
namespace {

constexpr size_t MANY_TEXTS = 256;  // from so many on, nodes are made where they are read
constexpr size_t FEW_TEXTS = 4;     // so few of those get their nodes at once
constexpr size_t TEXTS_PER_UNIT = 8;

Hash128 hash_texts(std::span<const std::string_view> texts) {
  Hash128 h = hash_words(13, texts.size());
  for (const std::string_view text : texts) {
    h = extend(h, text.size());
    for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
      h = extend(h, word);
    }
  }
  return h;
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
  std::vector<std::string_view> spelled;
  spelled.reserve(texts.size());
  for (const std::string &t : texts) {
    charge(1 + t.size() / 16);
    if (std::all_of(t.begin(), t.end(), [&](char c) { return impl_->spellable.test(static_cast<uint8_t>(c)); }))
      spelled.push_back(t);
  }
  return spelled.size() < MANY_TEXTS ? impl_->trie(std::move(spelled)) : impl_->many_literals(spelled);
}

Re RegexSpace::Impl::trie(std::vector<std::string_view> texts) {
  sort_texts(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.empty()) return EMPTY;
  // The path from the root to the text read last; what lies left of it is made already.
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

Re RegexSpace::Impl::many_literals(std::span<const std::string_view> texts) {
  const Hash128 key = hash_texts(texts);
  if (const auto it = known_literals.find(key); it != known_literals.end()) return it->second;
  size_t length = 0;
  for (const std::string_view text : texts) length += text.size();
  auto &[characters, all] = literal_texts.emplace_back();
  characters = std::make_unique<char[]>(length);
  all.reserve(texts.size());
  char *to = characters.get();
  for (const std::string_view text : texts) {
    std::copy(text.begin(), text.end(), to);
    all.emplace_back(to, text.size());
    to += text.size();
  }
  bytes += length + all.size() * sizeof(std::string_view);
  return known_literals[key] = literals_run({all.data(), all.size()}, 0);
}

Re RegexSpace::Impl::literals_run(std::span<std::string_view> texts, size_t depth) {
  charge(1 + texts.size() / TEXTS_PER_UNIT);
  const auto has_ended = [&](std::string_view text) { return text.size() == depth; };
  if (std::all_of(texts.begin(), texts.end(), has_ended)) return EPSILON;  // they are equal
  const bool ends = std::any_of(texts.begin(), texts.end(), has_ended);
  if (texts.size() <= FEW_TEXTS) {
    std::vector<std::string_view> rests;
    for (const std::string_view text : texts) rests.push_back(text.substr(depth));
    return trie(std::move(rests));
  }
  runs.push_back({texts, depth});
  bytes += sizeof(Run);
  // It has no parts yet, and need not be interned: each run is made only once.
  return add_node({.kind = ReKind::Literals, .nullable = ends, .index = static_cast<uint32_t>(runs.size()), .lo = ends});
}

// Gives a run of literals its children, if it has none yet.
void RegexSpace::Impl::expand(Re r) {
  if (!is_run(r)) return;
  const auto [texts, depth] = runs[nodes[r].index - 1];
  charge(1 + texts.size() / TEXTS_PER_UNIT);
  std::array<size_t, 257> ends{};  // of the texts by their next byte, after those that have ended
  const auto place = [&](std::string_view text) {
    return text.size() == depth ? 0 : 1 + static_cast<size_t>(static_cast<unsigned char>(text[depth]));
  };
  for (const std::string_view text : texts) ++ends[place(text)];
  for (size_t b = 1; b < ends.size(); ++b) ends[b] += ends[b - 1];
  std::vector<std::string_view> sorted(texts.size());
  std::array<size_t, 257> next{};
  std::copy(ends.begin(), ends.end() - 1, next.begin() + 1);
  for (const std::string_view text : texts) sorted[next[place(text)]++] = text;
  std::copy(sorted.begin(), sorted.end(), texts.begin());
  std::vector<Re> children;
  for (size_t b = 1; b < ends.size(); ++b) {
    if (ends[b] == ends[b - 1]) continue;
    children.push_back(static_cast<Re>(b - 1));
    children.push_back(literals_run(texts.subspan(ends[b - 1], ends[b] - ends[b - 1]), depth + 1));
  }
  ReNode &n = nodes[r];
  n.begin = static_cast<uint32_t>(parts.size());
  n.count = static_cast<uint32_t>(children.size());
  n.index = 0;
  parts.insert(parts.end(), children.begin(), children.end());
  bytes += children.size() * sizeof(Re);
}

// Of a run that has no children: its texts without what has been read.
std::vector<std::string_view> RegexSpace::Impl::rests_of_run(Re r) const {
  const auto &[texts, depth] = runs[nodes[r].index - 1];
  charge(1 + texts.size() / TEXTS_PER_UNIT);
  std::vector<std::string_view> rests;
  for (const std::string_view text : texts) rests.push_back(text.substr(depth));
  return rests;
}

}  // namespace structgen
