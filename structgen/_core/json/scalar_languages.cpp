#include "json/scalar_languages.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "regex/decimal.h"

namespace structgen {
namespace {

bool is_integer(const std::string &number) {
  const Decimal magnitude = parse_decimal(number).magnitude;
  return magnitude.zero() || magnitude.exponent + 1 >= std::ssize(magnitude.digits);
}

// The texts in exactly one of the languages; `none`: those in no language. By halves, so that the size stays linear.
Re exactly_one_of(RegexSpace &space, std::span<const Re> languages, Re everything, Re *none) {
  if (languages.size() == 1) {
    *none = space.intersect(everything, space.complement(languages[0]));
    return languages[0];
  }
  const size_t half = languages.size() / 2;
  Re none_left, none_right;
  const Re left = exactly_one_of(space, languages.first(half), everything, &none_left);
  const Re right = exactly_one_of(space, languages.subspan(half), everything, &none_right);
  *none = space.intersect(none_left, none_right);
  return space.alternate(space.intersect(left, none_right), space.intersect(none_left, right));
}

bool has_bounds(const StringLanguage &s) { return s.min > 0 || s.max != UNBOUNDED; }

// Drops bounds that the language implies: without bounds the state does not depend on the length so far.
void drop_implied_bounds(RegexSpace &space, StringLanguage &s) {
  if (!has_bounds(s)) return;
  const auto lengths = space.length_bounds(s.re);
  if (!lengths) return;
  if (static_cast<uint64_t>(lengths->lo) >= s.min) s.min = 0;
  if (lengths->hi >= 0 && static_cast<uint64_t>(lengths->hi) <= s.max) s.max = UNBOUNDED;
}

bool has_texts(RegexSpace &space, const StringLanguage &s) {
  if (s.min > s.max) return false;
  if (s.re == RegexSpace::ANY_TEXT || !has_bounds(s)) return space.alive(s.re);
  return space.has_length(s.re, static_cast<int64_t>(s.min), s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max));
}

}  // namespace

Re length_language(RegexSpace &space, uint64_t min, uint64_t max) {
  return space.repeat(space.any_char(), static_cast<int64_t>(min), max == UNBOUNDED ? -1 : static_cast<int64_t>(max));
}

Re with_length(RegexSpace &space, const StringLanguage &s) {
  return has_bounds(s) ? space.intersect(s.re, length_language(space, s.min, s.max)) : s.re;
}

template <class OfGroup>
Re ScalarLanguages::combine(Formula f, Re everything, std::unordered_map<Formula, Re> &known, OfGroup of_group) {
  return formulas_.fold(f, known, of_group, [&](Formula g, std::span<const Re> operands) -> Re {
    switch (formulas_.kind(g)) {
      case FormulaSpace::Kind::False: return RegexSpace::EMPTY;
      case FormulaSpace::Kind::And: return space_.intersect(operands);
      case FormulaSpace::Kind::Or: return space_.alternate(operands);
      case FormulaSpace::Kind::Not: return space_.intersect(everything, space_.complement(operands[0]));
      case FormulaSpace::Kind::One: {
        Re none;
        return exactly_one_of(space_, operands, everything, &none);
      }
      default: return everything;
    }
  });
}

// ---------------------------------------------------------------- strings

// With `lengths_apart`, counts in patterns become bounds on the length. A pattern then has few states, and all
// positions of the text share their fragments.
StringLanguage ScalarLanguages::strings_of_group(SchemaId group, bool lengths_apart) {
  const SchemaNode &n = table_.node(group);
  charge(3 + n.languages.size());
  StringLanguage s;
  if (const auto it = listed_strings_.find(group); it != listed_strings_.end()) {
    s.re = it->second;
    return s;
  }
  s.min = n.min_length;
  s.max = n.max_length;
  std::vector<Re> all = n.languages;
  if (lengths_apart && !n.has_values)
    for (Re &re : all)
      if (auto bounded = space_.bounded_by_length(re)) {
        re = bounded->first;
        s.max = std::min(s.max, static_cast<uint64_t>(bounded->second));
      }
  if (n.has_values) {
    all.push_back(space_.literals(n.strings));
    if (has_bounds(s)) {
      all.push_back(s.max >= s.min ? length_language(space_, s.min, s.max) : RegexSpace::EMPTY);
      s.min = 0;
      s.max = UNBOUNDED;
    }
  }
  s.re = table_.text().writable(all.empty() ? RegexSpace::ANY_TEXT : space_.intersect(all));
  if (n.has_values) listed_strings_.emplace(group, s.re);
  return s;
}

StringLanguage ScalarLanguages::strings_of_groups(const std::vector<SchemaId> &groups) {
  StringLanguage s;
  std::vector<Re> all;
  for (SchemaId group : groups) {
    const StringLanguage one = strings_of_group(group, true);
    if (one.re != RegexSpace::ANY_TEXT) all.push_back(one.re);
    s.min = std::max(s.min, one.min);
    s.max = std::min(s.max, one.max);
  }
  if (all.empty()) s.re = table_.text().writable(s.re);
  else s.re = all.size() == 1 ? all[0] : space_.intersect(all);
  if (!has_texts(space_, s)) s.re = RegexSpace::EMPTY;
  else if (s.re != RegexSpace::ANY_TEXT) drop_implied_bounds(space_, s);
  return s;
}

Re ScalarLanguages::string_language(Formula f) {
  return combine(f, table_.text().writable(RegexSpace::ANY_TEXT), strings_, [&](SchemaId group) {
    const StringLanguage s = strings_of_group(group, false);
    return s.max < s.min ? RegexSpace::EMPTY : with_length(space_, s);
  });
}

StringLanguage ScalarLanguages::strings(const Obligation &o) {
  if (o.conjunctive) return strings_of_groups(formulas_.leaves(o.requirement));
  StringLanguage s;
  s.re = string_language(o.requirement);
  if (!space_.alive(s.re)) s.re = RegexSpace::EMPTY;
  if (obligations_.needs_verdicts(o))
    for (Formula r : o.roots) s.roots.push_back(string_language(r));
  return s;
}

StringLanguage ScalarLanguages::strings(Formula f) {
  return strings(Obligation{{f}, formulas_.leaf(0), f, formulas_.is_conjunction(f)});
}

// ---------------------------------------------------------------- numbers

Re ScalarLanguages::numbers_of_group(SchemaId group) {
  if (auto it = group_numbers_.find(group); it != group_numbers_.end()) return it->second;
  const SchemaNode &n = table_.node(group);
  Re re = n.has_number || !n.has_values ? structgen::number_language(space_, n.number) : RegexSpace::ANY_TEXT;
  if (n.digits) re = digits_only(re);
  if (n.has_values) {
    std::vector<Re> any;
    charge(n.numbers.size());
    for (const std::string &d : n.numbers) any.push_back(number_equal(space_, d));
    re = space_.intersect(re, space_.alternate(any));
  }
  group_numbers_.emplace(group, re);
  return re;
}

Re ScalarLanguages::number_language(Formula f) {
  const Re everything = structgen::number_language(space_, {});
  return combine(f, everything, numbers_, [&](SchemaId group) { return numbers_of_group(group); });
}

bool ScalarLanguages::must_be_integer(Formula expanded) const {
  std::unordered_map<Formula, char> known;
  auto of_group = [&](SchemaId group) -> char {
    const SchemaNode &n = table_.node(group);
    return n.number.integer || (n.has_values && std::ranges::all_of(n.numbers, is_integer));
  };
  return formulas_.fold(expanded, known, of_group, [&](Formula f, std::span<const char> operands) -> char {
    auto integer = [](char operand) { return operand != 0; };
    switch (formulas_.kind(f)) {
      case FormulaSpace::Kind::And: return std::ranges::any_of(operands, integer);
      case FormulaSpace::Kind::Or:
      case FormulaSpace::Kind::One: return std::ranges::all_of(operands, integer);
      default: return false;
    }
  }) != 0;
}

Re ScalarLanguages::digits_only(Re numbers) {
  const CodeRange any[] = {{'0', '9'}}, leading[] = {{'1', '9'}};
  const Re positive = space_.concat(space_.text_class(leading), space_.repeat(space_.text_class(any), 0, -1));
  const Re magnitude = space_.alternate(space_.literal("0"), positive);
  const Re narrowed = space_.intersect(numbers, space_.concat(space_.repeat(space_.literal("-"), 0, 1), magnitude));
  return space_.alive(narrowed) ? narrowed : RegexSpace::EMPTY;
}

// ---------------------------------------------------------------- literals

bool ScalarLanguages::holds_for_literal(Formula expanded, int literal) const {
  return formulas_.evaluate(expanded, [&](uint32_t id) { return (table_.node(id).literals >> literal & 1) != 0; });
}

Re ScalarLanguages::literal_language(Formula f) {
  std::vector<Re> any;
  for (int i = 0; i < 3; ++i)
    if (holds_for_literal(expansion_.expand(f, i == 0 ? Type::Null : Type::Boolean), i))
      any.push_back(space_.literal(SchemaTable::LITERALS[i]));
  return any.empty() ? RegexSpace::EMPTY : space_.alternate(any);
}

}  // namespace structgen
