// Array frames: their items, the counts of `contains`, and the scalars used so far if items must differ.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/child_control.h"
#include "json/key_rules.h"
#include "json/value.h"

namespace structgen {

using Counts = std::vector<std::pair<SchemaId, uint64_t>>;

struct ArrayControl {
  ObligationId obligation = 0;
  bool simple = false;  // conjunctive, no `contains` or `uniqueItems`: decided here, without the oracle
  Groups groups;
  uint64_t prefix = 0;                              // from this index on all items are alike
  std::vector<std::unique_ptr<ItemControl>> items;  // by min(index, prefix)
  Counts counts;                                    // items that matched `contains`, by group; up to what still matters
  bool counting = false;                            // some group has `contains`
  bool unique = false;                              // some group requires distinct items
  bool may_violate_unique = false;                  // unique, but the array may be valid although two items are equal
  SchemaId used = NO_SCHEMA;                        // unique: an enum of the scalars that the array has
  bool prepared = false;
  uint64_t min = 0, max = UNBOUNDED;  // simple frames; max is lowered by items without values
  uint32_t id = 0;
};

class ArrayControls {
 public:
  ArrayControls(SchemaTable &table, Obligations &obligations)
      : table_(table), formulas_(table.formulas()), obligations_(obligations) {}

  ArrayControl *control(ObligationId expanded, const Counts &counts = {}, SchemaId used = NO_SCHEMA);
  // What a group requires of the item at `index`, if the array already has the scalars in `used`.
  Formula requirement(SchemaId group, uint64_t index, SchemaId used = NO_SCHEMA);
  // How many items have matched the `contains` of a group.
  static uint64_t count_of(const ArrayControl &frame, SchemaId group);

  // The frame after an item; `holds` decides whether the item satisfies a root formula.
  ArrayControl *after(ArrayControl *frame, const GroupRoots &group_roots, const GroupRoots &contains_roots,
                      const Holds &holds);
  ArrayControl *after(ItemControl *item, const Holds &holds);
  // The frame after an item that equals an earlier one.
  ArrayControl *after_repeated_item(ArrayControl *frame);
  // The same frame with `scalar` among the used scalars.
  ArrayControl *with_used(ArrayControl *frame, const ItemValue &scalar);

  std::vector<bool> verdicts(const ArrayControl &frame, uint64_t count);
  bool can_close(const ArrayControl &frame, uint64_t count);
  size_t size() const { return controls_.size(); }

 private:
  SchemaId enum_of(const std::vector<std::string> &scalars, const std::string &pointer);

  SchemaTable &table_;
  FormulaSpace &formulas_;
  Obligations &obligations_;
  std::map<std::tuple<ObligationId, Counts, SchemaId>, std::unique_ptr<ArrayControl>> controls_;
  // Enums of used scalars, each with its type in front, sorted.
  std::map<std::vector<std::string>, SchemaId> enums_;
  std::unordered_map<SchemaId, const std::vector<std::string> *> scalars_of_;
};

}  // namespace structgen
