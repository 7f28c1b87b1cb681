// Lengths of the completions of internationalised host names, computed from the counters of a place, without a search.
#include <algorithm>
#include <limits>

#include "regex/host_names.h"

namespace structgen {

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

// The most characters from the position to the end of its label.
int64_t HostNameMachine::room_in_label(const Place &p) {
  int64_t room = (p.form == InternationalLabel ? most_characters(p.scripts) : MOST_ASCII_LABEL) - p.length;
  if (p.labels >= FEW_LABELS && !(p.modes & AsciiName)) room = std::min<int64_t>(room, FEW_CHARACTERS - p.total);
  return room;
}

// A label that may end can be prolonged by a letter or digit: one in ASCII or, in a label written from right to left,
// one of its script. Neither adds a requirement nor narrows its ranges of characters. Further labels of ASCII letters
// can follow; a dot and a letter are two characters.
bool HostNameMachine::place_has_length(const Place &p, int64_t lo, int64_t hi) const {
  const int64_t least = completion(p);
  if (least < 0) return false;
  const auto meets = [&](int64_t from, int64_t to) {
    from = std::max(from, lo);
    to = hi < 0 ? to : std::min(to, hi);
    return from <= to;
  };
  const int64_t room = room_in_label(p), with_dot = least + 2;
  int64_t most = FEW_CHARACTERS - p.total;
  // subtle: names in ASCII can be longer than all others with the same beginning.
  if (p.modes & AsciiName) most = MOST_ASCII_NAME - p.total;
  else if (p.labels + 1 < FEW_LABELS)
    most = std::max(most, room + (FEW_LABELS - 1 - p.labels) * (MOST_ASCII_LABEL + 1));
  return meets(least, (p.modes & AsciiName) ? std::min(room, most) : room) || meets(with_dot, most);
}

std::optional<bool> HostNameMachine::has_length(uint64_t state, int64_t lo, int64_t hi) const {
  if (state == 0) return false;
  const Place place = places_[state];
  if (place.node == 0) return place_has_length(place, lo, hi);
  const std::vector<uint16_t> &kinds = blocks_[place.node].kinds;
  return std::any_of(kinds.begin(), kinds.end(), [&](uint16_t kind) {
    Place next = place;
    next.node = 0;
    return read(next, HOST_KINDS[kind]) && place_has_length(next, lo, hi);
  });
}

// A representative position whose completions have the same lengths: only the counters of the name so far matter.
HostNameMachine::Place HostNameMachine::like_in_length(Place p) {
  if (p.node != 0) return p;
  p.base = p.order = 0;
  if (ended(p) != 0) p.last = 0;
  return p;
}

}  // namespace structgen
