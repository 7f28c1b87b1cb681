// Objects for the oracle: can an object frame be completed, and how?
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/oracle/formula_search.h"

namespace structgen {

// A key that must come next: a declared one by its name, or an undeclared one of a class.
struct NextKey {
  bool undeclared;
  KeyClass of;
  std::string_view name;
};

// The formula of a frame that has read some keys, without the groups whose verdicts are certain.
struct ResidualFormula {
  Formula formula;
  Groups satisfied_keys;  // groups whose required keys have all been read, sorted
};

// What one more key decides.
struct KeyVerdicts {
  std::unordered_map<SchemaId, Formula> verdicts;
  Groups satisfied_keys;
};

// An object that satisfies a frame, as far as it matters to whether it may have one more key.
struct ObjectModel {
  bool found = false;
  Groups satisfied, open;                        // sorted; open: those that may restrict any key
  std::set<std::string, std::less<>> included;   // keys that are to come
  uint64_t count = 0, min = 0, max = UNBOUNDED;  // of keys, those that were read included
  bool by_absence = false;  // groups fail only by keys that are left out, and no undeclared key is to come
  ObjectCompletion *completion = nullptr;  // also filled in, unless null
  // By key: groups that fail because it is left out.
  std::unordered_map<std::string_view, Groups, KeyedTextHash> absences;
};

class ObjectSearch {
 public:
  explicit ObjectSearch(JsonOracle &oracle);

  bool live(ObjectControl *frame, const ObjectView &view, const NextKey *next = nullptr);
  // May an undeclared key of this class come next?
  bool class_allowed(ObjectControl *frame, const ObjectView &view, KeyClass of);
  // May one come first?
  bool class_possible(ObjectControl *frame, KeyClass of);
  std::optional<ObjectCompletion> complete(ObjectControl *frame, const ObjectView &view, const NextKey *next);
  // Is there an object, and which one? `model` is filled in only within the budget.
  bool find_model(const ResidualFormula &residual, ObjectControl *frame, const ObjectView &view, const NextKey *next,
                  ObjectModel *model);

  ResidualFormula residual(const ObjectControl &frame, const ObjectView &view);
  ResidualFormula residual(const ResidualFormula &before, const KeyVerdicts &key);
  KeyVerdicts verdicts_of_key(const ObjectControl &frame, const ObjectView &view, std::string_view key);
  KeyVerdicts verdicts_of_class(const ObjectControl &frame, const ObjectView &view, KeyClass of);

  // Calls `check` for the ways to satisfy `f` until it succeeds once. One tag may decide many groups together.
  bool any(Formula f, const Check &check);
  bool any(Formula f, const FormulaSearch::Path &path, const Check &check);
  bool any(const ResidualFormula &residual, const ObjectControl &frame, const ObjectView &view, const Check &check);

  // Is there an object that satisfies some groups and violates others? `frame` is null if nothing has been read.
  bool possible(const Groups &satisfied, const Groups &violated, ObjectControl *frame, const ObjectView &view,
                const NextKey *next, ObjectModel *model = nullptr);

  static Hash128 hash_of(const ObjectControl &frame, const ObjectView &view, const NextKey *next);

 private:
  bool any_case(Formula f, const std::set<std::string_view> &known, const FormulaSearch::Path &path,
                const Check &check);
  bool required_keys_seen(SchemaId group, const ObjectControl &frame, const ObjectView &view, std::string_view next);
  bool is_satisfied(SchemaId group, const ObjectControl &frame, const ObjectView &view, uint64_t count);
  Formula with_verdicts(Formula f, const std::unordered_map<SchemaId, Formula> &known);

  JsonOracle &oracle_;
  SchemaTables &tables_;
  FormulaSpace &formulas_;
};

}  // namespace structgen
