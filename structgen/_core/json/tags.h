// Tags: properties that tell branches apart.
//
// `oneOf` over records that each require a different constant in the same property is the most common way to write a
// tagged union. Branches with different tags exclude each other. Knowing this turns "exactly one" into "or", and
// thousands of combinations of verdicts into one for each tag. All answers err on one side: where no tag is found,
// branches count as possibly overlapping.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json/schema_table.h"

namespace structgen {

class Tags {
 public:
  explicit Tags(SchemaTable &table) : table_(table), formulas_(table.formulas()) {}

  // Is it certain that no object satisfies two of the branches?
  bool are_disjoint(const std::vector<SchemaId> &branches);

  // A value of a property that is still to come, with the keyword groups that it decides.
  struct Case {
    std::vector<SchemaId> satisfied, violated;
  };
  // Cases of one property, `tag`, such that every object is one of them. Empty where no property outside `known`
  // decides many groups of `f`.
  std::vector<Case> cases(Formula f, const std::set<std::string_view> &known, std::string_view *tag);
  // Does `f` have enough groups that a tag decides? If not, `cases` finds none.
  bool has_tag_groups(Formula f);

  // Roots that hold for a few listed values only, and which of them hold together. Over all values there are no other
  // combinations, and none of the roots holds for a value that is not listed.
  struct ValueRows {
    std::vector<uint32_t> roots;
    std::vector<std::vector<uint32_t>> rows;  // roots, ascending
  };
  ValueRows value_rows(const std::vector<Formula> &roots);

 private:
  // What the conjuncts of a branch say about properties.
  struct BranchProperties {
    std::set<std::string> required;
    std::multimap<std::string, SchemaId> properties;
  };
  BranchProperties collect_properties(SchemaId branch) const;
  bool has_distinct_values(const std::vector<BranchProperties> &branches, const std::string &name);
  bool has_disjoint_texts(const std::vector<BranchProperties> &branches, const std::string &name);
  const std::vector<std::string> *candidate_values(SchemaId id);
  const std::vector<std::string> *exact_values(SchemaId id);
  Re string_language(SchemaId id);
  bool is_tag_group(SchemaId group);

  SchemaTable &table_;
  FormulaSpace &formulas_;
  std::unordered_map<SchemaId, std::vector<std::string>> candidate_values_;
  std::unordered_map<Formula, bool> has_tag_groups_;
};

}  // namespace structgen
