// Arrays for the oracle: can an array frame be completed?
#pragma once

#include "json/oracle/formula_search.h"

namespace structgen {

class ArraySearch {
 public:
  explicit ArraySearch(JsonOracle &oracle);

  // `one_more`: with at least one more item. `reading`: the last item is still being read, so that the frame does not
  // know its value yet.
  bool live(ArrayControl *frame, uint64_t count, bool one_more, bool reading = false);
  // Is there an array that satisfies some groups and violates others? `frame` is null if nothing has been read.
  bool possible(const Groups &satisfied, const Groups &violated, ArrayControl *frame, uint64_t count, bool one_more);

 private:
  JsonOracle &oracle_;
  SchemaTables &tables_;
};

}  // namespace structgen
