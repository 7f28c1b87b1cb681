#include "text/host_tokens.h"

#include <algorithm>
#include <map>

#include "util/work.h"

namespace structgen {
namespace {

bool is_joiner(const HostKind &kind) { return kind.role == HostKind::Joiner || kind.role == HostKind::NonJoiner; }
bool is_transparent(const HostKind &kind) { return (kind.traits & HostKind::Transparent) != 0; }

// The kinds of the characters of a token, without the traits on which no other character of the token depends.
class Reduction {
 public:
  // `is_cut`: the token ends inside a character, which may be of any kind.
  Reduction(const std::vector<HostKind> &kinds, bool is_cut) : kinds_(kinds), is_cut_(is_cut) {}

  HostKind operator()(size_t i) const {
    HostKind kind = kinds_[i];
    const uint8_t before = i > 0 ? kinds_[i - 1].role : static_cast<uint8_t>(HostKind::None);
    const auto drop = [&](bool is_seen, int trait) {
      if (!is_seen) kind.traits &= static_cast<uint16_t>(~trait);
    };
    if (kind.role == HostKind::LowerL && i > 0 && before != HostKind::MiddleDot &&
        !is_seen_by_next(i, [](const HostKind &next) { return next.role == HostKind::MiddleDot; }))
      kind.role = HostKind::None;
    drop(is_seen_by_next(i, is_joiner), HostKind::Virama);
    drop(is_seen_by_next(i, [](const HostKind &next) { return next.role == HostKind::Geresh; }), HostKind::Hebrew);
    drop(i == 0 || before == HostKind::Keraia, HostKind::Greek);
    drop(joins_later(i), HostKind::JoinsBefore);
    drop(joins_earlier(i), HostKind::JoinsAfter);
    if (!composes_later(i)) kind.base = 0;
    return kind;
  }

 private:
  template <class Looks>
  bool is_seen_by_next(size_t i, const Looks &looks) const {
    return i + 1 < kinds_.size() ? looks(kinds_[i + 1]) : is_cut_;
  }
  bool joins_later(size_t i) const {
    size_t j = i + 1;
    while (j < kinds_.size() && is_transparent(kinds_[j])) ++j;
    return j < kinds_.size() ? kinds_[j].role == HostKind::NonJoiner : is_cut_;
  }
  bool joins_earlier(size_t i) const {
    while (i > 0 && is_transparent(kinds_[i - 1])) --i;
    return i == 0 || kinds_[i - 1].role == HostKind::NonJoiner;
  }
  bool composes_later(size_t i) const {
    for (size_t j = i + 1; j < kinds_.size(); ++j) {
      if (kinds_[j].second > 0) return true;
      if (kinds_[j].order == 0) return false;
    }
    return is_cut_;
  }

  const std::vector<HostKind> &kinds_;
  const bool is_cut_;
};

}  // namespace

class HostTokens::Builder {
 public:
  Builder(HostTokens &made, const HostNameMachine &machine, const Vocabulary &v)
      : made_(made), machine_(machine), v_(v) {
    tree_.emplace_back();
  }

  // Visits the tokens of the vocabulary as far as their characters occur in names.
  void read() {
    // After each byte of a path: the block of the unfinished character, or OUTSIDE if it started before the token.
    std::vector<uint16_t> open(v_.longest_token() + 1);
    for (Vocabulary::Node n = 1; n < v_.node_count();) {
      charge(2);
      const size_t depth = v_.depth(n);
      const uint8_t byte = v_.byte(n);
      const uint16_t before = depth == 1 ? OUTSIDE : open[depth - 1];
      if (byte == '"' && (before == 0 || before == OUTSIDE)) {
        tree_[place(v_.path(n).substr(0, depth - 1))].quotes.push_back(n);
        n = v_.end(n);
        continue;
      }
      const bool is_later = byte >= 0x80 && byte < 0xc0;
      if (before == OUTSIDE && is_later && depth < 4) {
        open[depth] = OUTSIDE;
      } else {
        const HostNameMachine::Next to = machine_.next(before == OUTSIDE ? 0 : before, byte);
        if (to.number == 0) {
          n = v_.end(n);
          continue;
        }
        open[depth] = to.is_kind ? 0 : to.number;
      }
      if (const std::span<const uint32_t> ids = v_.ids(n); !ids.empty()) {
        std::vector<uint32_t> &known = tree_[place(v_.token(ids[0]))].ids;
        known.insert(known.end(), ids.begin(), ids.end());
      }
      ++n;
    }
  }

  void lay_out() {
    std::vector<std::pair<uint32_t, uint16_t>> stack{{0, 0}};  // nodes of the tree with their symbols
    std::vector<uint16_t> depths{0}, characters{0};
    while (!stack.empty()) {
      charge(2);
      const auto [at, symbol] = stack.back();
      const uint16_t depth = depths.back(), count = characters.back();
      stack.pop_back(), depths.pop_back(), characters.pop_back();
      add(tree_[at], symbol, depth, count);
      for (auto child = tree_[at].children.rbegin(); child != tree_[at].children.rend(); ++child) {
        stack.push_back({child->second, child->first});
        depths.push_back(static_cast<uint16_t>(depth + 1));
        const bool is_later = child->first < BYTES && child->first < 0xc0;
        characters.push_back(static_cast<uint16_t>(count + !is_later));
      }
    }
    add({}, 0, 0, 0);
    std::vector<uint32_t> open;
    for (uint32_t n = 0; n < made_.nodes_.size(); ++n) {
      while (!open.empty() && made_.nodes_[open.back()].depth >= made_.nodes_[n].depth) {
        made_.nodes_[open.back()].end = n;
        open.pop_back();
      }
      open.push_back(n);
    }
  }

 private:
  static constexpr uint16_t OUTSIDE = UINT16_MAX;
  struct TreeNode {
    std::map<uint16_t, uint32_t> children;  // by symbol
    std::vector<uint32_t> ids;
    std::vector<Vocabulary::Node> quotes;
  };

  void add(const TreeNode &from, uint16_t symbol, uint16_t depth, uint16_t characters) {
    const auto first_id = static_cast<uint32_t>(made_.ids_.size()),
               first_quote = static_cast<uint32_t>(made_.quotes_.size());
    made_.nodes_.push_back({0, first_id, first_quote, symbol, depth, characters});
    made_.ids_.insert(made_.ids_.end(), from.ids.begin(), from.ids.end());
    made_.quotes_.insert(made_.quotes_.end(), from.quotes.begin(), from.quotes.end());
    made_.longest_ = std::max<size_t>(made_.longest_, depth);
  }

  // Returns the node of a text of whole characters and of a part of one at either end.
  uint32_t place(std::string_view text) {
    uint32_t at = 0;
    size_t i = 0;
    for (; i < text.size() && (text[i] & 0xc0) == 0x80; ++i) at = child(at, static_cast<uint8_t>(text[i]));
    kinds_.clear();
    size_t rest = i;  // the start of a character that the token cuts
    uint16_t block = 0;
    for (; i < text.size(); ++i) {
      const HostNameMachine::Next to = machine_.next(block, static_cast<uint8_t>(text[i]));
      block = to.is_kind ? 0 : to.number;
      if (!to.is_kind) continue;
      kinds_.push_back(HOST_KINDS[to.number]);
      rest = i + 1;
    }
    const Reduction reduced(kinds_, rest < text.size());
    for (size_t k = 0; k < kinds_.size(); ++k) at = child(at, symbol(reduced(k)));
    for (; rest < text.size(); ++rest) at = child(at, static_cast<uint8_t>(text[rest]));
    return at;
  }

  uint16_t symbol(const HostKind &kind) {
    auto it = std::find(made_.kinds_.begin(), made_.kinds_.end(), kind);
    if (it == made_.kinds_.end()) it = made_.kinds_.insert(it, kind);
    return static_cast<uint16_t>(BYTES + (it - made_.kinds_.begin()));
  }

  uint32_t child(uint32_t at, uint16_t symbol) {
    const auto [it, fresh] = tree_[at].children.try_emplace(symbol, static_cast<uint32_t>(tree_.size()));
    const uint32_t to = it->second;
    if (fresh) tree_.emplace_back();
    return to;
  }

  HostTokens &made_;
  const HostNameMachine &machine_;
  const Vocabulary &v_;
  std::vector<TreeNode> tree_;
  std::vector<HostKind> kinds_;  // of the current text
};

HostTokens::HostTokens(const HostNameMachine &machine, const Vocabulary &vocabulary) {
  Builder builder(*this, machine, vocabulary);
  builder.read();
  builder.lay_out();
}

size_t HostTokens::memory() const {
  return sizeof *this + kinds_.size() * sizeof(HostKind) + nodes_.size() * sizeof(Node) +
         (ids_.size() + quotes_.size()) * 4;
}

bool HostTokens::step(const HostNameMachine &machine, Place &place, uint16_t symbol) const {
  if (symbol >= BYTES) return place.node == 0 && machine.read(place, kinds_[symbol - BYTES]);
  const HostNameMachine::Next to = machine.next(place.node, static_cast<uint8_t>(symbol));
  if (to.number == 0) return false;
  place.node = 0;
  if (to.is_kind) return machine.read(place, HOST_KINDS[to.number]);
  place = machine.within(place, to.number);
  return true;
}

HostTokens::Found HostTokens::after(const HostNameMachine &machine, uint64_t state, bool by_length) const {
  Found out;
  std::vector<Place> path(longest_ + 1);
  path[0] = machine.places_[state];
  const auto quotes = [&](uint32_t n, const Place &place) {
    const uint32_t from = nodes_[n].first_quote, to = nodes_[n + 1].first_quote;
    if (from == to || place.node != 0 || HostNameMachine::ended(place) == 0) return;
    for (uint32_t i = from; i < to; ++i) out.quotes.push_back({quotes_[i], nodes_[n].characters});
  };
  quotes(0, path[0]);
  for (uint32_t n = 1; n + 1 < nodes_.size();) {
    charge();
    const Node &node = nodes_[n];
    Place &here = path[node.depth];
    here = path[node.depth - 1];
    const uint32_t ids = nodes_[n + 1].first_id - node.first_id;
    if (!step(machine, here, node.symbol) || (ids > 0 && !machine.is_alive_known(here))) {
      n = node.end;
      continue;
    }
    if (ids > 0) {
      const uint64_t end = by_length ? machine.state(HostNameMachine::like_in_length(here)) : 0;
      out.groups.push_back({{ids_.data() + node.first_id, ids}, node.characters, end});
    }
    quotes(n, here);
    ++n;
  }
  std::sort(out.quotes.begin(), out.quotes.end(), [](const Quote &a, const Quote &b) { return a.node < b.node; });
  return out;
}

}  // namespace structgen
