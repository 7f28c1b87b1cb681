#include "regex/host_names.h"

#include <algorithm>
#include <array>
#include <bit>

#include "util/hashing.h"
#include "util/work.h"

namespace structgen {
namespace {

constexpr uint32_t ALL_SCRIPTS = UINT32_MAX;
constexpr int MOST_INTERNATIONAL_LABEL = 26;
constexpr size_t BLOCK = 64;

}  // namespace

size_t HostNameMachine::PlaceHash::operator()(const Place &place) const {
  const auto words = std::bit_cast<std::array<uint64_t, 2>>(place);
  return mix(mix(0, words[0]), words[1]);
}

// Of a label, by the ranges that have all its characters.
int HostNameMachine::most_characters(uint32_t scripts) {
  int most = 0;
  for (size_t i = 0; i < HOST_LENGTHS.size(); ++i)
    if (scripts >> i & 1) most = std::max<int>(most, HOST_LENGTHS[i]);
  return most;
}

HostNameMachine::HostNameMachine(bool composed) : composed_(composed), places_(1) {
  make_blocks();
  find_closers();
  Place place{};
  place.modes = AsciiName | FreeName | DirectedName;
  state(fresh_label(place));
}

uint16_t HostNameMachine::block(std::vector<uint16_t> next, bool is_last) {
  if (std::all_of(next.begin(), next.end(), [](uint16_t n) { return n == 0; })) return 0;
  Block made{std::move(next), is_last, {}};
  const auto known = std::find(blocks_.begin() + 1, blocks_.end(), made);
  if (known != blocks_.end()) return static_cast<uint16_t>(known - blocks_.begin());
  for (const uint16_t n : made.next) {
    if (n == 0) continue;
    if (is_last) made.kinds.push_back(n);
    else made.kinds.insert(made.kinds.end(), blocks_[n].kinds.begin(), blocks_[n].kinds.end());
  }
  std::sort(made.kinds.begin(), made.kinds.end());
  made.kinds.erase(std::unique(made.kinds.begin(), made.kinds.end()), made.kinds.end());
  made.last = NeedsL | NeedsGreek | NeedsJoined;
  for (const uint16_t n : made.kinds) {
    const HostKind &kind = HOST_KINDS[n];
    made.composes |= kind.order > 0 || kind.second > 0;
    if (kind.role == HostKind::MiddleDot) made.last |= LastL;
    if (kind.role == HostKind::Geresh) made.last |= LastHebrew;
    if (kind.role == HostKind::Joiner || kind.role == HostKind::NonJoiner) made.last |= LastVirama;
    if (kind.role == HostKind::NonJoiner || (kind.traits & HostKind::Transparent)) made.last |= LastJoins;
    // A label may end here, after which it must not have a hyphen.
    if (kind.role == HostKind::OtherStop) made.last |= LastHyphen;
  }
  blocks_.push_back(std::move(made));
  return static_cast<uint16_t>(blocks_.size() - 1);
}

// Builds the tree of the UTF-8 bytes of all characters.
void HostNameMachine::make_blocks() {
  blocks_.resize(1);
  first_.assign(256, 0);
  size_t at = 0;
  auto last = [&](uint32_t from) {  // called with ascending characters
    std::vector<uint16_t> next(BLOCK);
    while (at < HOST_RANGES.size() && HOST_RANGES[at].hi < from) ++at;
    for (size_t i = at; i < HOST_RANGES.size() && HOST_RANGES[i].lo < from + BLOCK; ++i)
      for (uint32_t c = std::max(from, HOST_RANGES[i].lo); c <= HOST_RANGES[i].hi && c < from + BLOCK; ++c)
        next[c - from] = HOST_RANGES[i].kind;
    return block(std::move(next), true);
  };
  auto several = [&](uint32_t from, uint32_t size, uint32_t least, const auto &make) {
    std::vector<uint16_t> next(BLOCK);
    for (uint32_t i = 0; i < BLOCK; ++i)
      if (const uint32_t c = from + i * size; c >= least && c <= HOST_RANGES.back().hi) next[i] = make(c);
    return block(std::move(next), false);
  };
  for (const HostRange &range : HOST_RANGES)
    for (uint32_t c = range.lo; c <= range.hi && c < 0x80; ++c) first_[c] = range.kind;
  for (uint32_t b = 0xc2; b < 0xe0; ++b) first_[b] = last((b & 0x1f) << 6);
  auto third = [&](uint32_t from) { return several(from, BLOCK, 0x800, last); };
  for (uint32_t b = 0xe0; b < 0xf0; ++b) first_[b] = third((b & 0x0f) << 12);
  for (uint32_t b = 0xf0; b < 0xf5; ++b) first_[b] = several((b & 0x07) << 18, BLOCK * BLOCK, 0x10000, third);
  for (int b = 0; b < 256; ++b)
    if (first_[b] != 0 || (b >= 0x80 && b < 0xc0)) alphabet_ += static_cast<char>(b);
}

HostNameMachine::Place HostNameMachine::fresh_label(Place place) const {
  return {.scripts = ALL_SCRIPTS,
          .node = 0,
          .modes = place.modes,
          .total = place.total,
          .labels = place.labels,
          .length = 0,
          .form = place.modes == AsciiName ? AsciiLabel : AnyLabel,
          .base = 0,
          .order = 0,
          .last = 0,
          .seen = 0,
          .directed = 0};
}

// The modes of a name whose label ends here.
uint8_t HostNameMachine::ended(const Place &p) {
  if (p.length == 0 || (p.last & (LastHyphen | NeedsL | NeedsGreek | NeedsJoined))) return 0;
  if (p.form != InternationalLabel) return p.modes;
  if (p.seen & SeenDot) return 0;
  const bool directed = p.directed & (p.directed & StartsR ? EndsR : EndsL);
  return p.modes & (directed ? FreeName | DirectedName : FreeName);
}

// Drops modes that the length of the name excludes, and what no longer matters.
bool HostNameMachine::fit(Place &p) {
  if (p.labels >= FEW_LABELS && p.total > FEW_CHARACTERS) p.modes &= AsciiName;
  if (p.total > MOST_ASCII_NAME) p.modes &= static_cast<uint8_t>(~AsciiName);
  if (!(p.modes & AsciiName)) p.total = std::min<uint8_t>(p.total, FEW_CHARACTERS + 1);
  if (!(p.modes & DirectedName)) p.directed = 0;
  return p.modes != 0;
}

bool HostNameMachine::end_label(Place &p, bool full_stop) const {
  p.modes = ended(p);
  if (!full_stop) p.modes &= static_cast<uint8_t>(~AsciiName);
  if (p.modes == 0) return false;
  p.labels = std::min<uint8_t>(p.labels + 1, FEW_LABELS);
  ++p.total;
  if (!fit(p)) return false;
  p = fresh_label(p);
  return true;
}

// The rules about neighbours: RFC 5892, appendix A.
bool HostNameMachine::read_neighbour(Place &p, const HostKind &k) const {
  const uint8_t last = p.last;
  uint8_t next = 0;
  if ((last & NeedsL) && k.role != HostKind::LowerL) return false;
  if ((last & NeedsGreek) && !(k.traits & HostKind::Greek)) return false;
  if ((last & NeedsJoined) && !(k.traits & HostKind::JoinsAfter)) {
    if (!(k.traits & HostKind::Transparent)) return false;
    next |= NeedsJoined;
  }
  switch (k.role) {
    case HostKind::LowerL: next |= LastL; break;
    case HostKind::Hyphen: next |= LastHyphen; break;
    case HostKind::MiddleDot:
      if (!(last & LastL)) return false;
      next |= NeedsL;
      break;
    case HostKind::Keraia: next |= NeedsGreek; break;
    case HostKind::Geresh:
      if (!(last & LastHebrew)) return false;
      break;
    case HostKind::KatakanaDot: p.seen |= SeenDot; break;
    case HostKind::Joiner:
      if (!(last & LastVirama)) return false;
      break;
    case HostKind::NonJoiner:
      if (last & LastVirama) break;
      if (!(last & LastJoins)) return false;
      next |= NeedsJoined;
      break;
    default: break;
  }
  if (k.traits & HostKind::Hebrew) next |= LastHebrew;
  if (k.traits & HostKind::Virama) next |= LastVirama;
  if (k.traits & HostKind::JoinsBefore) next |= LastJoins;
  else if (k.traits & HostKind::Transparent) next |= last & LastJoins;
  if (k.traits & HostKind::Japanese) p.seen |= SeenJapanese;
  if (k.traits & HostKind::ArabicDigit) p.seen |= SeenArabic;
  if (k.traits & HostKind::ExtendedDigit) p.seen |= SeenExtended;
  if (p.seen & SeenJapanese) p.seen &= static_cast<uint8_t>(~SeenDot);
  p.last = next;
  return (p.seen & (SeenArabic | SeenExtended)) != (SeenArabic | SeenExtended);
}

// Composed form: marks in order, and no pair for which a composed character exists, with only lower marks in between.
bool HostNameMachine::read_composed(Place &p, const HostKind &k) const {
  if (!composed_) return true;
  if (k.order > 0 && p.order > k.order) return false;
  if (k.second > 0 && (HOST_BASES[p.base] >> k.second & 1) && (p.order == 0 || p.order < k.order)) return false;
  if (k.order == 0) p.base = k.base;
  p.order = k.order;
  return true;
}

// The rule of directions: RFC 5893, section 2. A name without characters that are written from right to left is free.
bool HostNameMachine::read_direction(Place &p, const HostKind &k) const {
  const uint8_t direction = k.role == HostKind::Capital ? static_cast<uint8_t>(HostKind::L) : k.direction;
  if (p.length == 1) {
    p.directed = direction == HostKind::L ? StartsL : direction == HostKind::R ? StartsR : 0;
    if (p.directed == 0) p.modes &= static_cast<uint8_t>(~DirectedName);
  }
  if (direction == HostKind::R || direction == HostKind::AN) p.modes &= DirectedName;
  if (!(p.modes & DirectedName)) return p.modes != 0;
  if (direction != HostKind::NSM) p.directed &= static_cast<uint8_t>(~(EndsL | EndsR));
  if (p.directed & StartsL) {
    if (direction == HostKind::L || direction == HostKind::EN) p.directed |= EndsL;
    return direction != HostKind::R && direction != HostKind::AN;
  }
  if (direction == HostKind::L) return false;
  if (direction == HostKind::EN) p.directed |= HasEN;
  if (direction == HostKind::AN) p.directed |= HasAN;
  if (direction == HostKind::R || direction == HostKind::EN || direction == HostKind::AN) p.directed |= EndsR;
  // subtle: all Japanese characters are written from left to right.
  return (p.directed & (HasEN | HasAN)) != (HasEN | HasAN) && !(p.seen & SeenDot);
}

bool HostNameMachine::read_label(Place &p, const HostKind &k) const {
  if (k.role == HostKind::Hyphen && (p.length == 0 || (p.length == 3 && (p.last & LastHyphen)))) return false;
  if (!(k.traits & HostKind::Ascii)) {
    if (p.form == AsciiLabel || (p.length == 0 && (k.traits & HostKind::Mark))) return false;
    p.form = InternationalLabel;
    p.modes &= FreeName | DirectedName;
  } else if (k.role == HostKind::Capital) {
    if (p.form == InternationalLabel) return false;
    p.form = AsciiLabel;
  }
  ++p.length;
  ++p.total;
  if (p.length > MOST_ASCII_LABEL) return false;
  if (!read_neighbour(p, k) || !read_composed(p, k) || !read_direction(p, k)) return false;
  p.scripts &= k.scripts;
  if (p.form == InternationalLabel && p.length > most_characters(p.scripts)) return false;
  if (!fit(p)) return false;
  if (p.form == AnyLabel && (p.length >= MOST_INTERNATIONAL_LABEL || p.modes == AsciiName)) p.form = AsciiLabel;
  if (p.form == AsciiLabel) {
    p.scripts = ALL_SCRIPTS;
    p.base = p.order = p.seen = 0;
    p.last &= LastHyphen;
    p.directed &= StartsL;
  }
  return true;
}

bool HostNameMachine::read(Place &p, const HostKind &k) const {
  const bool full_stop = k.role == HostKind::FullStop;
  return full_stop || k.role == HostKind::OtherStop ? end_label(p, full_stop) : read_label(p, k);
}

// Marks and characters that compose with others complete no name that other characters do not complete.
void HostNameMachine::find_closers() {
  for (HostKind kind : HOST_KINDS.subspan(1)) {
    if (kind.order > 0 || kind.second > 0 || (kind.traits & HostKind::Mark)) continue;
    if (kind.role == HostKind::Hyphen || kind.role == HostKind::FullStop || kind.role == HostKind::OtherStop) continue;
    kind.base = 0;
    if (std::find(closers_.begin(), closers_.end(), kind) == closers_.end()) closers_.push_back(kind);
  }
}

// Returns the fewest characters that complete a name, or -1. One character completes an open label. Only a label with a
// Katakana dot may need two: the one that the last character requires, then a Japanese one.
int HostNameMachine::completion(const Place &p) const {
  if (ended(p) != 0) return 0;
  charge(closers_.size() / 4);
  for (const HostKind &kind : closers_)
    if (Place next = p; read(next, kind) && ended(next) != 0) return 1;
  if (!(p.seen & SeenDot)) return -1;
  for (const HostKind &first : closers_) {
    Place one = p;
    if (!read(one, first)) continue;
    charge(closers_.size() / 4);
    for (const HostKind &kind : closers_)
      if (Place next = one; read(next, kind) && ended(next) != 0) return 2;
  }
  return -1;
}

bool HostNameMachine::is_alive(const Place &p) const {
  if (p.node == 0) return completion(p) >= 0;
  const std::vector<uint16_t> &kinds = blocks_[p.node].kinds;
  return std::any_of(kinds.begin(), kinds.end(), [&](uint16_t kind) {
    Place next = p;
    next.node = 0;
    return read(next, HOST_KINDS[kind]) && completion(next) >= 0;
  });
}

// The same, memoised where it is not obvious.
bool HostNameMachine::is_alive_known(const Place &p) const { return (p.node == 0 && ended(p) != 0) || state(p) != 0; }

uint64_t HostNameMachine::state(const Place &p) const {
  if (const auto it = states_.find(p); it != states_.end()) return it->second;
  const bool alive = is_alive(p);
  if (alive) places_.push_back(p);
  return states_[p] = alive ? places_.size() - 1 : 0;
}

// The position inside a character, without anything on which no character of the block depends.
HostNameMachine::Place HostNameMachine::within(const Place &place, uint16_t node) const {
  Place p = place;
  p.node = node;
  const Block &block = blocks_[node];
  // subtle: two hyphens as third and fourth characters are ASCII, so they never occur inside a character.
  p.last &= block.last;
  if (!block.composes) p.base = p.order = 0;
  return p;
}

uint64_t HostNameMachine::start() const { return 1; }

HostNameMachine::Next HostNameMachine::next(uint16_t node, uint8_t byte) const {
  if (node == 0) return {first_[byte], byte < 0x80};
  if (byte < 0x80 || byte >= 0xc0) return {0, false};
  return {blocks_[node].next[byte & 0x3f], blocks_[node].is_last};
}

uint64_t HostNameMachine::step(uint64_t from, uint8_t byte) const {
  if (from == 0) return 0;
  Place p = places_[from];
  const Next to = next(p.node, byte);
  if (to.number == 0) return 0;
  p.node = 0;
  if (!to.is_kind) return state(within(p, to.number));
  return read(p, HOST_KINDS[to.number]) ? state(p) : 0;
}

bool HostNameMachine::accepts(uint64_t state) const {
  return state != 0 && places_[state].node == 0 && ended(places_[state]) != 0;
}

void HostNameMachine::edges(uint64_t state, std::vector<std::pair<uint8_t, uint64_t>> &out) const {
  if (state == 0) return;
  const bool inside = places_[state].node != 0;
  for (int b = inside ? 0x80 : 0; b < (inside ? 0xc0 : 256); ++b)
    if (const uint64_t to = step(state, static_cast<uint8_t>(b)); to != 0)
      out.emplace_back(static_cast<uint8_t>(b), to);
}

Re host_names(RegexSpace &space, bool composed) {
  const auto is_it = [&](const Machine &m) {
    const auto *names = dynamic_cast<const HostNameMachine *>(&m);
    return names != nullptr && names->composed() == composed;
  };
  if (std::shared_ptr<const Machine> known = space.find_machine(is_it)) return space.machine(std::move(known));
  return space.machine(std::make_shared<HostNameMachine>(composed));
}

}  // namespace structgen
