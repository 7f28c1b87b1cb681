// What the oracle looks for when it looks for an object, and what it finds.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "util/hashing.h"
#include "json/oracle/oracle.h"

namespace structgen {

struct JsonOracle::ObjectQuery {
  const Groups *yes, *no;
  std::vector<SchemaId> sorted, open;  // `yes`, and those of them that may ask something of any key
  ObjectControl *frame;  // null: an object not yet begun
  ObjectView view;
  std::map<std::string, std::vector<Formula>, std::less<>> included;  // with further demands on the value
  std::set<std::string, std::less<>> omitted;
  std::vector<std::pair<uint32_t, std::vector<Formula>>> extras;  // extra keys included: class, further demands
  uint64_t min = 0, max = UNBOUNDED;
  ObjectControl *classes = nullptr;  // tells extra keys apart for all groups of the query
  Formula key(JsonControl &c, std::string_view name) const { return c.key_requirement_of_all(name, sorted, open); }
  std::vector<std::pair<std::string_view, SchemaId>> absences;  // groups violated by a key left out
};

// An object that satisfies a frame, as far as it matters to whether it may have one more key.
struct JsonOracle::ObjectModel {
  bool found = false;
  std::vector<SchemaId> satisfied, open;  // sorted; open: they may ask something of any key
  std::set<std::string, std::less<>> included;  // keys that are to come
  uint64_t count = 0, min = 0, max = UNBOUNDED;  // of keys, those that are there with those to come
  bool plain = false;  // what is violated is so by keys left out, and no undeclared key is to come
  RestOfObject *rest = nullptr;  // filled in, too, if not null
  std::unordered_map<std::string_view, std::vector<SchemaId>, KeyedTextHash> absences;  // by key: groups violated as it is left out
};

}  // namespace structgen
