// From bodies of rules to productions over numbered symbols.
//
// Why: the parser knows rules, terminals and productions alone; repetition and choices inside sequences are settled
// here, once for all front ends.
// Invariant: the language stays the same. A repetition becomes a rule that repeats itself on the left, where an item
// keeps its origin, or (counted) a chain whose length is the logarithm of the count; each text of it has one
// derivation, so that nothing becomes ambiguous by being counted, nor by being repeated twice. `x ("," x)*` is one rule
// that repeats itself, so that after its first part the parser stands where it stands after any other: masks are
// shared.
// Cost: linear in the bodies; a count adds its logarithm.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/bodies.h"

namespace structgen {

// Symbols are numbered when first met: rules from 0 up, terminals from -1 down.
class Lowering {
 public:
  using Symbol = int32_t;
  struct Head {
    uint32_t rule;     // of the grammar; NO_RULE for what a repetition or a choice became
    std::string name;  // of those
  };
  static constexpr uint32_t NO_RULE = UINT32_MAX;

  // `rule_names` and `leaf_names`: for the names of repetitions.
  Lowering(Bodies &bodies, const std::vector<std::string> &rule_names, const std::vector<std::string> &leaf_names)
      : bodies_(bodies), rule_names_(rule_names), leaf_names_(leaf_names) {}

  Symbol terminal(uint32_t leaf);
  Symbol run(uint32_t start);  // returns the start's symbol

  std::vector<Head> rules;
  std::vector<uint32_t> terminals;  // leaves
  // Each a head and its symbols, one after the other; `ends` are where they end.
  std::vector<Symbol> symbols;
  std::vector<size_t> ends;

 private:
  using Id = Bodies::Id;
  using Symbols = std::vector<Symbol>;
  enum What : uint8_t { Whole, Power, AtMost, List };

  Symbol rule(uint32_t number);
  Symbol fresh(uint32_t rule, std::string name);
  std::string name_of(Id body) const;
  void produce(Symbol head, const Symbols &body);
  void alternatives(Symbol head, Id body);
  void append(Symbols &out, Id body);
  void append_sequence(Symbols &out, Id body);
  size_t list_at(const std::vector<Id> &parts, size_t from, size_t at);
  Symbol list(Id first, Id repetition);
  Symbols unit(Id body);
  void repeat(Symbol head, Id repetition);
  void append_exactly(Symbols &out, Id body, int64_t count);
  Symbol power(Id body, int64_t power);
  void append_at_most(Symbols &out, Id body, int64_t count);

  Bodies &bodies_;
  const std::vector<std::string> &rule_names_, &leaf_names_;
  std::vector<Symbol> rule_symbols_, leaf_symbols_;  // UNMET before they are met
  static constexpr Symbol UNMET = INT32_MIN;
  std::map<std::tuple<What, Id, int64_t>, Symbol> made_;
};

}  // namespace structgen
