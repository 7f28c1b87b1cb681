// Object frames: the keys that they declare, the classes of other keys, and the groups that hold for them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/child_control.h"
#include "json/key_rules.h"

namespace structgen {

using Bits = std::vector<uint64_t>;
inline bool bit(const uint64_t *words, uint32_t i) { return words[i >> 6] >> (i & 63) & 1; }
inline void set_bit(uint64_t *words, uint32_t i) { words[i >> 6] |= uint64_t{1} << (i & 63); }

// The keys that the groups of one object name, sorted; shared by all obligations of the frame.
struct KeyUniverse {
  std::vector<std::string> keys;
  std::vector<uint32_t> rank;     // declared position of each key
  std::vector<uint32_t> by_rank;  // inverse
  std::vector<Hash128> hashes;
  uint32_t words() const { return static_cast<uint32_t>((keys.size() + 63) / 64); }
  int64_t find(std::string_view key) const;  // -1: it is not declared
};

// A set of patterns, one bit each: undeclared keys that match the same ones are of one class.
using KeyClass = uint32_t;
constexpr KeyClass UNKNOWN_CLASS = UINT32_MAX;  // there are too many classes to tell them apart

struct ObjectControl {
  ObligationId obligation = 0;
  const KeyUniverse *universe = nullptr;
  bool simple = false;        // the obligation is conjunctive: decided here, without the oracle
  Groups groups, open;        // sorted; open: those that may restrict keys that they do not name
  bool alternatives = false;  // one root, a disjunction of groups
  Groups unclosed;            // alternatives: groups that allow keys that they do not name
  std::unordered_map<uint32_t, std::unique_ptr<KeyControl>> keys;  // by index in the universe, made on demand
  // Simple frames.
  Bits required, usable;    // usable: keys for which a value exists
  bool impossible = false;  // a required key has no value
  uint64_t min = 0, max = UNBOUNDED;
  bool prepared = false;
  // Undeclared keys: their patterns, their classes with languages, and one control for each class.
  std::vector<Re> patterns;
  std::vector<std::pair<KeyClass, Re>> classes;
  Re extra = RegexSpace::EMPTY;  // those for which a value exists
  std::map<KeyClass, std::unique_ptr<KeyControl>> extras;
  uint32_t id = 0;
};

// What an object frame has read.
struct ObjectView {
  const uint64_t *seen;  // words of the universe
  uint64_t count;        // keys, undeclared ones included
  int64_t last_rank;     // ordered objects: the rank of the latest key, or the number of keys after an undeclared one
};

// What an incomplete object still needs in one of its completions.
struct ObjectCompletion {
  std::vector<std::pair<std::string, Formula>> keys;  // with what their values must satisfy
  std::vector<std::pair<Re, Formula>> extras;         // the same for keys of which only the language is given
};

class ObjectControls {
 public:
  ObjectControls(SchemaTable &table, Obligations &obligations, KeyRules &rules)
      : table_(table), formulas_(table.formulas()), obligations_(obligations), rules_(rules) {}

  ObjectControl *control(ObligationId expanded, const KeyUniverse *universe);
  // The control of an object that satisfies all of `groups` (sorted).
  ObjectControl *control_of_groups(const Groups &groups);
  const KeyUniverse *universe(const Groups &groups);
  // The frame without the closed alternatives that do not name the key.
  ObjectControl *with_key_named(ObjectControl *frame, std::string_view key);

  const std::vector<std::pair<KeyClass, Re>> &classes(ObjectControl *frame);
  KeyClass class_of(const ObjectControl &frame, std::string_view undeclared_key);
  // What a group requires of the value of an undeclared key.
  Formula requirement(SchemaId group, const ObjectControl &frame, KeyClass of);
  Formula requirement(const Groups &groups, const ObjectControl &frame, KeyClass of);
  // The number of keys in a language; UINT64_MAX: there is no bound.
  uint64_t count_keys(Re language) { return table_.regex().count_texts(language); }

  std::vector<bool> verdicts(const ObjectControl &frame, const ObjectView &view);
  bool can_close(const ObjectControl &frame, const ObjectView &view);
  size_t size() const { return controls_.size(); }

 private:
  std::unique_ptr<ObjectControl> make_control(ObligationId expanded, const KeyUniverse *universe);

  SchemaTable &table_;
  FormulaSpace &formulas_;
  Obligations &obligations_;
  KeyRules &rules_;
  std::map<std::pair<ObligationId, const KeyUniverse *>, std::unique_ptr<ObjectControl>> controls_;
  std::map<Groups, std::unique_ptr<KeyUniverse>> universes_;
};

}  // namespace structgen
