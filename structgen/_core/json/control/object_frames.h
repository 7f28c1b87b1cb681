// Object frames while a text is read: which keys may follow, and when the object may close.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json/control/child_resolver.h"
#include "json/control/value_counts.h"

namespace structgen {

// A key that is being read: one of these of the universe, or an undeclared one.
struct OpenKey {
  uint32_t first, last;
};

// Keys that may come next in an object.
struct AllowedKeys {
  Bits declared;
  bool undeclared;
};

class ObjectFrames {
 public:
  ObjectFrames(SchemaTables &tables, JsonOracle &oracle, ChildResolver &children, ValueCounts &counts)
      : tables_(tables),
        formulas_(tables.formulas()),
        controls_(tables.objects),
        oracle_(oracle),
        children_(children),
        counts_(counts) {}

  // A declared key, by its index in the universe.
  KeyControl *key(ObjectControl *frame, uint32_t index);
  KeyControl *undeclared_key(ObjectControl *frame, std::string_view key);
  KeyControl *key_of_class(ObjectControl *frame, KeyClass of);
  KeyClass class_of(const ObjectControl *frame, std::string_view key) { return controls_.class_of(*frame, key); }
  // The control of all undeclared keys, if they are of one class.
  KeyControl *only_undeclared_key(ObjectControl *frame);
  // The key in a frame that has read `view`, this key included; null when no value of it leaves the frame live.
  KeyControl *resolve(KeyControl *key, const ObjectView &view);

  bool live(ObjectControl *frame, const ObjectView &view);
  // Sets the bits of `allowed` (words of the universe). Returns whether an undeclared key may come next.
  bool allowed_keys(ObjectControl *frame, const ObjectView &view, uint64_t *allowed);
  bool any_key_allowed(ObjectControl *frame, const ObjectView &view);
  // The undeclared keys that may come next, where `allowed_keys` says that there are some.
  Re allowed_undeclared_keys(ObjectControl *frame, const ObjectView &view);
  // One undeclared key of each class.
  std::vector<std::string> undeclared_key_examples(ObjectControl *frame);
  // A completion of the object, if the search finds one. `key`: with this declared key, unless negative.
  std::optional<ObjectCompletion> complete(ObjectControl *frame, const ObjectView &view, int64_t key);
  // Can the object surely have many different values? `open`: a key is being read. `whole_keys`: the difference must
  // come from a key that is read with its whole value, even where the key has started.
  bool has_many_values(ObjectControl *frame, const ObjectView &view, std::optional<OpenKey> open, uint64_t n,
                       bool whole_keys);

  // The frame after a child whose roots `holds` judges.
  ObjectControl *after(ObjectControl *frame, const GroupRoots &group_roots, const Holds &holds);
  bool can_close(ObjectControl *frame, const ObjectView &view) { return controls_.can_close(*frame, view); }
  std::vector<bool> verdicts(ObjectControl *frame, const ObjectView &view) { return controls_.verdicts(*frame, view); }
  // Finds out which keys of the frame have values. Calls the oracle, so the oracle does not call it.
  void prepare(ObjectControl *frame);

 private:
  void prepare_declared(ObjectControl *frame);
  void prepare_undeclared(ObjectControl *frame);
  bool allowed_in_simple(ObjectControl *frame, const ObjectView &view, uint64_t *allowed);
  bool drop_keys_out_of_order(const ObjectControl &frame, const ObjectView &view, uint64_t *allowed);
  void drop_keys_that_skip_too_many(ObjectControl *frame, const ObjectView &view, uint64_t *allowed);
  bool has_passed_required_key(const ObjectControl &frame, const ObjectView &view) const;
  uint64_t undeclared_left(const ObjectControl &frame, const ObjectView &view);
  bool is_ordered() const { return tables_.table.options().ordered; }

  SchemaTables &tables_;
  FormulaSpace &formulas_;
  ObjectControls &controls_;
  JsonOracle &oracle_;
  ChildResolver &children_;
  ValueCounts &counts_;
  std::unordered_map<Hash128, KeyControl *, HashOf128> resolved_;  // by the key and what its frame has read
  std::unordered_map<Hash128, AllowedKeys, HashOf128>
      allowed_;  // of frames that are not simple, by what they have read
};

}  // namespace structgen
