// Array frames while a text is read: which items may follow, and when the array may close.
#pragma once

#include <unordered_map>
#include <vector>

#include "json/control/child_resolver.h"

namespace structgen {

class ArrayFrames {
 public:
  ArrayFrames(SchemaTables &tables, JsonOracle &oracle, ValueControls &values, ChildResolver &children)
      : tables_(tables),
        formulas_(tables.formulas()),
        controls_(tables.arrays),
        oracle_(oracle),
        values_(values),
        children_(children) {}

  // `count`: items of the frame so far.
  bool live(ArrayControl *frame, uint64_t count);
  bool item_allowed(ArrayControl *frame, uint64_t count);
  // Is there no bound on the number of items?
  bool is_unbounded(ArrayControl *frame, uint64_t count);
  // The item that comes next, or null.
  ItemControl *next_item(ArrayControl *frame, uint64_t count);
  // A value for the next item that counts for a `contains` that needs more items, or null.
  ValueControl *counted_item(ArrayControl *frame, uint64_t count);

  // Is the frame live after its last item? `reading`: that item is still being read. If only a repeated item helps,
  // whether it is one is known at its end; until then the frame counts as live without proof.
  bool live_after_item(ArrayControl *after, uint64_t count, bool reading);
  ArrayControl *after_item(ItemControl *item, const Holds &holds) { return controls_.after(item, holds); }
  ArrayControl *after_repeated_item(ArrayControl *frame) { return controls_.after_repeated_item(frame); }
  ArrayControl *with_used(ArrayControl *frame, const ItemValue &scalar) { return controls_.with_used(frame, scalar); }

  bool can_close(ArrayControl *frame, uint64_t count) { return controls_.can_close(*frame, count); }
  std::vector<bool> verdicts(ArrayControl *frame, uint64_t count) { return controls_.verdicts(*frame, count); }

 private:
  void prepare(ArrayControl *frame);
  ItemControl *item(ArrayControl *frame, uint64_t index);

  SchemaTables &tables_;
  FormulaSpace &formulas_;
  ArrayControls &controls_;
  JsonOracle &oracle_;
  ValueControls &values_;
  ChildResolver &children_;
  std::unordered_map<Hash128, ItemControl *, HashOf128> resolved_;  // by the item and the number of items before it
};

}  // namespace structgen
