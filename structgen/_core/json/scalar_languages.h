// The texts of strings, numbers and literals that satisfy a requirement, as regular languages.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "json/expansion.h"
#include "json/obligations.h"

namespace structgen {

// Strings: a language, and bounds on the length in characters that are not part of the language.
struct StringLanguage {
  Re re = RegexSpace::ANY_TEXT;
  uint64_t min = 0, max = UNBOUNDED;
  std::vector<Re> roots;  // for each root of the obligation, where verdicts are needed
};

struct ScalarLanguage {
  Re re = RegexSpace::EMPTY;
  std::vector<Re> roots;
};

// Texts of at least `min` characters and at most `max`.
Re length_language(RegexSpace &space, uint64_t min, uint64_t max);
// The language with its bounds on the length.
Re with_length(RegexSpace &space, const StringLanguage &strings);

class ScalarLanguages {
 public:
  ScalarLanguages(SchemaTable &table, Expansion &expansion, Obligations &obligations)
      : table_(table),
        formulas_(table.formulas()),
        space_(table.regex()),
        expansion_(expansion),
        obligations_(obligations) {}

  // Strings under an expanded obligation, or an expanded requirement. EMPTY where none satisfies it.
  StringLanguage strings(const Obligation &expanded);
  StringLanguage strings(Formula expanded);
  // Strings under an expanded requirement, the lengths included. May be a language without texts.
  Re string_language(Formula expanded);
  Re number_language(Formula expanded);
  // `null`, `true` and `false` under a requirement that is not expanded.
  Re literal_language(Formula f);
  // Does the requirement, expanded for nulls or booleans, hold for the literal (an index of SchemaTable::LITERALS)?
  bool holds_for_literal(Formula expanded, int literal) const;
  // Are all numbers that satisfy an expanded requirement integers?
  bool must_be_integer(Formula expanded) const;
  // The numbers that are written as an optional minus and digits.
  Re digits_only(Re numbers);

 private:
  StringLanguage strings_of_group(SchemaId group, bool lengths_apart);
  StringLanguage strings_of_groups(const std::vector<SchemaId> &groups);
  Re numbers_of_group(SchemaId group);
  template <class OfGroup>
  Re combine(Formula f, Re everything, std::unordered_map<Formula, Re> &known, OfGroup of_group);

  SchemaTable &table_;
  FormulaSpace &formulas_;
  RegexSpace &space_;
  Expansion &expansion_;
  Obligations &obligations_;
  std::unordered_map<SchemaId, Re> listed_strings_;  // of groups with `enum` or `const`
  std::unordered_map<SchemaId, Re> group_numbers_;
  std::unordered_map<Formula, Re> strings_, numbers_;  // of expanded formulas that are not leaves
};

}  // namespace structgen
