// Bodies of a grammar's rules, as front ends build them: each stored once, with repetitions of repetitions joined.
//
// Why: `(x*)*` has the language of `x*`. Lowered as written, each of its texts has exponentially many derivations, and
// a parser follows all of them.
// Invariant: equal bodies have one id. The parts of a body have smaller ids than the body. Simplification keeps the
// language.
// Cost: linear in the bodies and in the rules that are expanded, which are few for one repetition. Which rules have the
// empty text is found when it is first needed.
//
// Source: the star normal form of Brüggemann-Klein, "Regular expressions into finite automata" (1993), with rules seen
// through where they have the empty text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "util/hashing.h"

namespace structgen {

class Bodies {
 public:
  using Id = uint32_t;
  static constexpr Id NONE = UINT32_MAX;
  static constexpr int64_t UNBOUNDED = -1;
  static constexpr int64_t MOST_COUNTED = int64_t{1} << 62;  // products of counts stay below

  enum Kind : uint8_t { Rule, Leaf, Sequence, Choice, Repeat };
  struct Body {
    Kind kind;
    uint32_t first, count;  // parts; of Rule and Leaf, `first` is which one
    int64_t low, high;      // Repeat
  };
  struct Counts {
    int64_t low, high;
    bool operator==(const Counts &) const = default;
    bool none() const { return high != UNBOUNDED && high < low; }
  };

  // `has_empty_text` returns whether a leaf has the empty text.
  explicit Bodies(std::function<bool(uint32_t)> has_empty_text) : leaf_is_empty_(std::move(has_empty_text)) {}
  void expect(size_t bodies) {
    bodies_.reserve(bodies);
    heights_.reserve(bodies);
    children_.reserve(bodies);
    index_.reserve(bodies);
  }

  Id rule(uint32_t number) { return add(Rule, number, 0, {}); }
  Id leaf(uint32_t number) { return add(Leaf, number, 0, {}); }
  Id group(Kind kind, std::span<const Id> parts);
  Id repeat(Id inner, Counts counts);
  // The body of a rule; rules without one have no text.
  void define(uint32_t rule, Id body);
  // A rule that stays one, wherever it is used.
  void keep(uint32_t rule) { kept_.insert(rule); }
  Id definition(uint32_t rule) const { return rule < definitions_.size() ? definitions_[rule] : NONE; }

  const Body &operator[](Id id) const { return bodies_[id]; }
  std::span<const Id> parts(Id id) const { return {children_.data() + bodies_[id].first, bodies_[id].count}; }
  Counts counts(Id id) const { return {bodies_[id].low, bodies_[id].high}; }
  uint32_t height(Id id) const { return heights_[id]; }  // of bodies in bodies
  Id nothing() { return group(Sequence, {}); }
  Id no_text() { return group(Choice, {}); }

  // A repetition as a body that does not repeat what is a repetition itself, as far as that goes.
  Id simplified(Id repetition);

 private:
  enum Rules : uint8_t { NoRule, KnownRules, EveryRule };  // that count as having the empty text
  enum Fact : uint8_t { Unknown, Open, NotEmpty, Empty };

  Id simplify_repetition(Id repetition);
  size_t alternatives(uint32_t rule) const;
  Id add(Kind kind, uint32_t first, uint32_t count, Counts counts);
  Id find(Hash128 key, Kind kind, std::span<const Id> parts, Counts counts);
  Id alone(Id id) const;
  bool is_empty(Id id, Rules rules) const;
  bool has_empty(Id id);
  void settle(Id body);
  void used_rules(Id body, std::vector<uint32_t> &out) const;
  Id without_bound(Id inner, int64_t low);
  std::vector<Id> repeated_parts(Id inner);

  std::vector<Body> bodies_;
  std::vector<uint32_t> heights_;
  std::vector<Id> children_;
  std::unordered_map<Id, Id> simplified_;
  std::unordered_map<Hash128, Id, HashOf128> index_;
  std::vector<Id> definitions_;
  std::unordered_set<uint32_t> kept_;
  std::vector<Fact> facts_;  // of rules
  std::function<bool(uint32_t)> leaf_is_empty_;
};

}  // namespace structgen
