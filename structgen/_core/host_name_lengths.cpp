// How long the rests of internationalised host names are.
#include <algorithm>
#include <limits>

#include "host_names.h"
#include "work.h"

namespace structgen {
namespace {

constexpr int64_t MOST_LABEL = 63, MOST_NAME = 253;
constexpr int64_t FEW_LABELS = 3, FEW_CHARACTERS = 25;  // as in host_names.cpp

// Characters that draw a name out, the first that can stand at a place.
const std::vector<HostKind> &drawing() {
  static const std::vector<HostKind> kinds = [] {
    std::vector<HostKind> out;
    for (const uint32_t c : {uint32_t{'a'}, uint32_t{'1'}, uint32_t{0x5d0}, uint32_t{0x628}, uint32_t{'l'}, uint32_t{0x4e00}, uint32_t{'.'}})
      for (const HostRange &range : HOST_RANGES)
        if (range.lo <= c && c <= range.hi) out.push_back(HOST_KINDS[range.kind]);
    return out;
  }();
  return kinds;
}

}  // namespace

std::optional<int64_t> HostNameMachine::shortest(uint64_t state) const {
  if (state == 0) return std::nullopt;
  const Place &place = places_[state];
  if (place.node == 0) return completion(place);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const uint16_t kind : blocks_[place.node].kinds) {
    Place next = place;
    next.node = 0;
    if (!read(next, HOST_KINDS[kind])) continue;
    if (const int one = completion(next); one >= 0) least = std::min<int64_t>(least, one);
    if (least == 0) break;
  }
  return least;
}

// A place whose rests have the same lengths, the same one for many places. What composes, joins or stands before a mark
// of punctuation decides which characters may follow, and some other character can always stand instead.
HostNameMachine::Place HostNameMachine::like_in_length(Place p) const {
  if (p.node != 0) return p;
  p.base = p.order = 0;
  if (ended(p) != 0) p.last = 0;
  return p;
}

// Of a name that may be all ASCII, in a label that is. Letters and dots then make nearly every length.
std::optional<bool> HostNameMachine::ascii_has_length(const Place &p, int64_t lo, int64_t hi) {
  if (!(p.modes & AsciiName) || p.form == InternationalLabel || (p.last & NeedsL)) return std::nullopt;
  const bool is_open = p.length == 0 || (p.last & LastHyphen);
  const int64_t least = is_open ? 1 : 0;
  lo = std::max(lo, least);
  const int64_t most = MOST_NAME - p.total;
  hi = hi < 0 ? most : std::min(hi, most);
  if (p.length + least > MOST_LABEL) return false;
  // subtle: a label that is full goes on with a dot and a letter, so one more character alone does not do.
  if (p.length + least == MOST_LABEL && lo == least + 1) ++lo;
  return lo <= hi;
}

// An upper bound.
int64_t HostNameMachine::longest_rest(const Place &p) {
  if (p.modes & AsciiName) return MOST_NAME - p.total;
  const int64_t labels = std::max<int64_t>(FEW_LABELS - 1 - p.labels, 0);
  const int64_t of_label = p.labels < FEW_LABELS ? MOST_LABEL - p.length : 0;
  return std::max(FEW_CHARACTERS - int64_t{p.total}, of_label + labels * (MOST_LABEL + 1));
}

// Is a length met when the name is drawn out by the first character that can stand, again and again?
bool HostNameMachine::draws_out(Place p, int64_t lo, int64_t hi) const {
  for (int64_t n = 0; n <= MOST_NAME; ++n) {
    charge();
    if (n + 2 >= lo) {
      const int64_t least = completion(p);
      if (least < 0 || n + least > hi) return false;
      if (n + least >= lo) return true;
    }
    const std::vector<HostKind> &kinds = drawing();
    const auto reads = [&](const HostKind &kind) {
      Place to = p;
      if (!read(to, kind)) return false;
      p = to;
      return true;
    };
    if (std::none_of(kinds.begin(), kinds.end(), reads)) return false;
  }
  return false;
}

std::optional<bool> HostNameMachine::place_has_length(const Place &place, int64_t lo, int64_t hi) const {
  if (const std::optional<bool> known = ascii_has_length(place, lo, hi)) return known;
  const int64_t least = completion(place);
  if (least < 0 || (hi >= 0 && least > hi)) return false;
  if (least >= lo) return true;
  if (lo > longest_rest(place)) return false;
  if (draws_out(place, lo, hi < 0 ? MOST_NAME : hi)) return true;
  std::vector<Place> now{place}, next;
  for (int64_t n = 0; !now.empty() && (hi < 0 || n <= hi) && n <= MOST_NAME; ++n) {
    if (n >= lo && std::any_of(now.begin(), now.end(), [](const Place &p) { return ended(p) != 0; })) return true;
    next.clear();
    for (const Place &p : now)
      for (const HostKind &kind : drawing()) {
        charge();
        if (Place to = p; read(to, kind) && std::find(next.begin(), next.end(), to) == next.end()) next.push_back(to);
      }
    now.swap(next);
  }
  return std::nullopt;
}

// Names are drawn out with few kinds of characters; where that does not do, nothing is known.
std::optional<bool> HostNameMachine::has_length(uint64_t state, int64_t lo, int64_t hi) const {
  if (state == 0) return false;
  const Place place = places_[state];
  if (place.node == 0) return place_has_length(place, lo, hi);
  std::vector<Place> met;
  bool is_known = true;
  for (const uint16_t kind : blocks_[place.node].kinds) {
    Place next = place;
    next.node = 0;
    if (!read(next, HOST_KINDS[kind])) continue;
    next = like_in_length(next);
    if (std::find(met.begin(), met.end(), next) != met.end()) continue;
    met.push_back(next);
    const std::optional<bool> known = place_has_length(next, lo, hi);
    if (known == true) return true;
    is_known &= known.has_value();
  }
  return is_known ? std::optional(false) : std::nullopt;
}

}  // namespace structgen
