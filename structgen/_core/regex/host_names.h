// Internationalised host names (IDNA 2008), as a machine for regular languages.
//
// In an expression each rule would be an operand of an intersection, and each derivative would divide large classes of
// characters again. The machine reads the kind of a character (regex/host_name_data.h) and has a few small numbers for
// each rule. Language: host names in ASCII of at most 253 characters, and names with international labels as far as a
// regular language can describe them (RFC 5890 to 5893): allowed characters, rules about neighbours, composed form
// (NFC), and the rule of writing directions, which connects all labels. Labels in Punycode are excluded. The length of
// international labels is bounded by the worst case for their characters (HOST_LENGTHS).
// tests/oracles/international_names.py gives the same language as an expression. Invariant: a state is alive iff some
// text completes it; at most two more characters are needed. Cost: states are made when reached, each in a few dozen
// small steps at most. Masks go through the vocabulary by kinds and make no states (text/host_tokens.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "regex/host_name_data.h"
#include "regex/regex.h"

namespace structgen {

class HostNameMachine final : public Machine {
 public:
  // Must labels be in composed form?
  explicit HostNameMachine(bool composed);
  bool composed() const { return composed_; }

  uint64_t start() const override;
  uint64_t step(uint64_t state, uint8_t byte) const override;
  bool accepts(uint64_t state) const override;
  bool alive(uint64_t state) const override { return state != 0; }
  std::string_view alphabet() const override { return alphabet_; }
  bool lists_edges() const override { return true; }
  void edges(uint64_t state, std::vector<std::pair<uint8_t, uint64_t>> &out) const override;
  std::optional<int64_t> shortest(uint64_t state) const override;
  std::optional<bool> has_length(uint64_t state, int64_t lo, int64_t hi) const override;
  std::optional<int64_t> most_missing() const override { return 2; }

 private:
  friend class HostTokens;
  static constexpr int MOST_ASCII_LABEL = 63, MOST_ASCII_NAME = 253;
  // This number of labels, or of characters, has at most 253 octets in Punycode: 3 * 63 + 2, and 25 * 10.
  static constexpr int FEW_LABELS = 3, FEW_CHARACTERS = 25;
  enum Mode : uint8_t { AsciiName = 1, FreeName = 2, DirectedName = 4 };
  enum Form : uint8_t { AnyLabel, AsciiLabel, InternationalLabel };
  enum Last : uint8_t {
    LastL = 1,
    LastHebrew = 2,
    LastVirama = 4,
    LastHyphen = 8,
    LastJoins = 16,
    NeedsL = 32,
    NeedsGreek = 64,
    NeedsJoined = 128
  };
  enum Seen : uint8_t { SeenDot = 1, SeenJapanese = 2, SeenArabic = 4, SeenExtended = 8 };
  enum Directed : uint8_t { StartsL = 1, StartsR = 2, HasEN = 4, HasAN = 8, EndsL = 16, EndsR = 32 };

  // A position in a name. Without padding, since it is hashed as a whole.
  struct Place {
    uint32_t scripts;       // of the label: the ranges that have all its characters
    uint16_t node;          // within a character: in `blocks_`
    uint8_t modes;          // what the name may still be
    uint8_t total, labels;  // characters; labels that have ended, at most 3
    uint8_t length, form;   // of the label
    uint8_t base, order;    // of composed form: what the last base composes with, the class of the last mark
    uint8_t last, seen, directed;
    bool operator==(const Place &) const = default;
  };
  static_assert(sizeof(Place) == 16);
  struct PlaceHash {
    size_t operator()(const Place &place) const;
  };
  // The characters that begin with the same bytes.
  struct Block {
    std::vector<uint16_t> next;  // by the next byte: kinds where it is the last one, else blocks
    bool is_last;
    std::vector<uint16_t> kinds;
    uint8_t last = 0;       // the bits of `Place::last` on which they depend
    bool composes = false;  // do they depend on `base` and `order`?
    bool operator==(const Block &other) const { return is_last == other.is_last && next == other.next; }
  };

  // The kind or block that a byte leads to within a block (0: at the first byte of a character). Number 0: no
  // character.
  struct Next {
    uint16_t number;
    bool is_kind;
  };
  Next next(uint16_t node, uint8_t byte) const;
  static int most_characters(uint32_t scripts);
  void make_blocks();
  void find_closers();
  uint16_t block(std::vector<uint16_t> next, bool is_last);
  Place fresh_label(Place place) const;
  bool read(Place &place, const HostKind &kind) const;
  bool read_label(Place &place, const HostKind &kind) const;
  bool read_neighbour(Place &place, const HostKind &kind) const;
  bool read_composed(Place &place, const HostKind &kind) const;
  bool read_direction(Place &place, const HostKind &kind) const;
  bool end_label(Place &place, bool full_stop) const;
  static bool fit(Place &place);
  static uint8_t ended(const Place &place);
  int completion(const Place &place) const;
  bool is_alive(const Place &place) const;
  bool is_alive_known(const Place &place) const;
  bool place_has_length(const Place &place, int64_t lo, int64_t hi) const;
  static int64_t room_in_label(const Place &place);
  static Place like_in_length(Place place);
  uint64_t state(const Place &place) const;
  Place within(const Place &place, uint16_t block) const;

  const bool composed_;
  std::string alphabet_;
  std::vector<Block> blocks_;
  std::vector<uint16_t> first_;    // by first byte: kinds of ASCII, blocks of others
  std::vector<HostKind> closers_;  // if some characters complete a name, as few of these complete it
  mutable std::vector<Place> places_;
  mutable std::unordered_map<Place, uint64_t, PlaceHash> states_;  // 0: dead
};

// The host names as a leaf of the space; leaves with equal options share one machine.
Re host_names(RegexSpace &space, bool composed);

}  // namespace structgen
