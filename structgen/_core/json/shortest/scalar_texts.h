// The texts of scalars that satisfy a requirement, for each type the shortest first.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "json/oracle/value_controls.h"
#include "json/shortest/shortest_texts.h"

namespace structgen {

class ScalarTexts {
 public:
  ScalarTexts(SchemaTables &tables, ValueControls &values) : tables_(tables), values_(values) {}

  // The i-th text; null: there are no more. Numbers that are spelled in several ways occur several times.
  const std::string *get(Formula requirement, size_t i);
  void clear() { by_requirement_.clear(); }

 private:
  struct TypeTexts {
    ShortestTexts texts;
    bool is_string, ended = false;
    size_t taken = 0;
  };
  struct Texts {
    std::vector<TypeTexts> types;
    std::vector<std::string> found;
  };
  void start(Formula requirement, Texts *all);

  SchemaTables &tables_;
  ValueControls &values_;
  std::unordered_map<Formula, Texts> by_requirement_;
};

}  // namespace structgen
