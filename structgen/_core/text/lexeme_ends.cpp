#include "text/lexeme_ends.h"

#include <algorithm>
#include <bitset>

namespace structgen {
namespace {

uint64_t key_of(uint32_t a, uint32_t b) { return static_cast<uint64_t>(a) << 32 | b; }

}  // namespace

void LexemeEnds::clear() {
  index_.clear();
  nodes_.clear();
  sets_.clear();
  bytes_ = 0;
}

uint32_t LexemeEnds::node(LexemeState s, OuterState outer) {
  auto [it, is_new] = index_.try_emplace(key_of(s, outer), static_cast<uint32_t>(nodes_.size()));
  if (is_new) {
    nodes_.push_back({s, outer});
    bytes_ += sizeof(Node) + 48;
  }
  return it->second;
}

// Finds the pairs that one byte leads to.
void LexemeEnds::expand(uint32_t n) {
  const auto [lexeme, outer] = std::pair{nodes_[n].lexeme, nodes_[n].outer};
  std::bitset<256> bytes = lexemes_.first(lexeme);
  if (outer != ANYTHING) bytes &= lexemes_.first(outer);
  std::vector<uint32_t> to;
  std::pair<LexemeState, OuterState> last{Lexemes::DEAD, Lexemes::DEAD};
  for (size_t b = 0; b < 256; ++b) {
    if (!bytes.test(b)) continue;
    const auto byte = static_cast<uint8_t>(b);
    const std::pair next{lexemes_.step(lexeme, byte), lexemes_.step_outer(outer, byte)};
    if (next.first == Lexemes::DEAD || next.second == Lexemes::DEAD || next == last) continue;
    last = next;
    to.push_back(node(next.first, next.second));
  }
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
  nodes_[n].to = std::move(to);
}

LexemeEnds::Set LexemeEnds::of(LexemeState s, OuterState outer, size_t *most) {
  struct Frame {
    uint32_t node;
    size_t edge;
  };
  const uint32_t asked = node(s, outer);
  if (nodes_[asked].is_known) return nodes_[asked].ends;
  std::vector<Frame> path;
  std::vector<uint32_t> open;  // visited, but not known yet
  uint32_t met = 0;
  auto enter = [&](uint32_t n) {
    --*most;
    nodes_[n].low = ++met;
    open.push_back(n);
    expand(n);
    path.push_back({n, 0});
  };
  // A limit may end the search. Unknown nodes then start again the next time.
  struct Forgotten {
    LexemeEnds &of;
    std::vector<uint32_t> &open;
    ~Forgotten() {
      for (uint32_t n : open) {
        of.nodes_[n].low = 0;
        of.nodes_[n].to.clear();
      }
    }
  } forgotten{*this, open};
  if (*most > 0) enter(asked);
  std::unordered_map<uint32_t, uint32_t> number{{asked, 1}};
  while (!path.empty()) {
    charge();
    const uint32_t at = path.back().node;
    if (path.back().edge < nodes_[at].to.size()) {
      const uint32_t to = nodes_[at].to[path.back().edge++];
      if (nodes_[to].is_known) continue;
      if (nodes_[to].low) {
        nodes_[at].low = std::min(nodes_[at].low, number[to]);
        continue;
      }
      if (*most == 0) break;
      number[to] = met + 1;
      enter(to);
      continue;
    }
    path.pop_back();
    if (!path.empty()) nodes_[path.back().node].low = std::min(nodes_[path.back().node].low, nodes_[at].low);
    if (nodes_[at].low != number[at]) continue;
    const auto first = std::find(open.rbegin(), open.rend(), at).base() - 1;
    const std::vector<uint32_t> part(first, open.end());
    close(part);
    open.erase(first, open.end());  // subtle: only now, since a limit may end `close`
  }
  return nodes_[asked].ends;
}

LexemeEnds::Set LexemeEnds::kept(const std::vector<uint64_t> &keys) {
  Hash128 name = hash_words(keys.size());
  for (uint64_t key : keys) name = extend(name, key);
  Set &known = sets_[name];
  if (!known) {
    std::vector<End> found;
    found.reserve(keys.size());
    for (uint64_t key : keys) found.push_back({static_cast<Re>(key >> 32), static_cast<OuterState>(key)});
    bytes_ += found.size() * sizeof(End) + 96;
    known = std::make_shared<const std::vector<End>>(std::move(found));
  }
  return known;
}

// Pairs that lead to one another have the same ends: their own, and those of the pairs that they lead to.
void LexemeEnds::close(const std::vector<uint32_t> &part) {
  std::vector<uint64_t> own;
  std::vector<Set> others;
  for (uint32_t n : part) {
    if (lexemes_.complete(nodes_[n].lexeme))
      own.push_back(key_of(lexemes_.coarsen(lexemes_.after(nodes_[n].lexeme)), nodes_[n].outer));
    for (uint32_t to : nodes_[n].to)
      if (nodes_[to].ends && !nodes_[to].ends->empty()) others.push_back(nodes_[to].ends);
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  Set ends;
  if (own.empty() && others.size() == 1) {
    ends = others[0];
  } else {
    for (const Set &more : others)
      for (const End &end : *more) own.push_back(key_of(end.after, end.outer));
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    ends = kept(own);
  }
  for (uint32_t n : part) {
    nodes_[n].ends = ends;
    nodes_[n].is_known = true;
    std::vector<uint32_t>().swap(nodes_[n].to);
  }
}

}  // namespace structgen
