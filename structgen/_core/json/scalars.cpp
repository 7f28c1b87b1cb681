// The languages of strings, numbers and literals under a goal.
#include "json/control.h"

#include <algorithm>
#include <iterator>

#include "regex/decimal.h"

namespace structgen {
namespace {

bool is_whole(const std::string &number) {
  const Decimal magnitude = parse_decimal(number).magnitude;
  return magnitude.zero() || magnitude.exponent + 1 >= std::ssize(magnitude.digits);
}

Re one_of(RegexSpace &space, std::span<const Re> xs, Re everything, Re *none) {
  if (xs.size() == 1) {
    *none = space.intersect(everything, space.complement(xs[0]));
    return xs[0];
  }
  size_t half = xs.size() / 2;
  Re none_left, none_right;
  Re left = one_of(space, xs.first(half), everything, &none_left);
  Re right = one_of(space, xs.subspan(half), everything, &none_right);
  *none = space.intersect(none_left, none_right);
  return space.alternate(space.intersect(left, none_right), space.intersect(none_left, right));
}

// Bounds that the language keeps anyway: without bounds, the length of what has been read does not matter.
void drop_implied_bounds(RegexSpace &space, StringLanguage &s) {
  if (s.min == 0 && s.max == UNBOUNDED) return;
  const auto lengths = space.length_bounds(s.re);
  if (!lengths) return;
  if (static_cast<uint64_t>(lengths->lo) >= s.min) s.min = 0;
  if (lengths->hi >= 0 && static_cast<uint64_t>(lengths->hi) <= s.max) s.max = UNBOUNDED;
}

}  // namespace

// `known`: the languages of formulas with parts.
template <class LeafFn>
Re JsonControl::boolean_language(Formula f, Re everything, std::unordered_map<Formula, Re> &known, LeafFn leaf) {
  RegexSpace &space = text_.regex();
  return formulas_.fold(f, known, leaf, [&](Formula g, std::span<const Re> parts) -> Re {
    switch (formulas_.kind(g)) {
      case FormulaSpace::Kind::False: return RegexSpace::EMPTY;
      case FormulaSpace::Kind::And: return space.intersect(parts);
      case FormulaSpace::Kind::Or: return space.alternate(parts);
      case FormulaSpace::Kind::Not: return space.intersect(everything, space.complement(parts[0]));
      case FormulaSpace::Kind::One: {
        Re none;
        return one_of(space, parts, everything, &none);
      }
      default: return everything;
    }
  });
}

// With `lengths_apart`, counts in patterns become bounds on the length: a pattern then has few states, and all
// positions of the text share their fragments.
StringLanguage JsonControl::string_leaf(SchemaId id, bool lengths_apart) {
  RegexSpace &space = text_.regex();
  const SchemaNode &n = schema_.nodes[id];
  charge(3 + n.languages.size());
  StringLanguage s;
  if (const auto it = value_languages_.find(id); it != value_languages_.end()) {
    s.re = it->second;
    return s;
  }
  s.min = n.min_length;
  s.max = n.max_length;
  std::vector<Re> all = n.languages;
  if (lengths_apart && !n.has_values)
    for (Re &re : all)
      if (auto bounded = space.bounded_by_length(re)) {
        re = bounded->first;
        s.max = std::min(s.max, static_cast<uint64_t>(bounded->second));
      }
  if (n.has_values) {
    all.push_back(space.literals(n.strings));
    if (s.min > 0 || s.max != UNBOUNDED) {
      if (s.max >= s.min)
        all.push_back(space.repeat(space.any_char(), static_cast<int64_t>(s.min),
                                   s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max)));
      else
        all.push_back(RegexSpace::EMPTY);
      s.min = 0;
      s.max = UNBOUNDED;
    }
  }
  s.re = text_.writable(all.empty() ? RegexSpace::ANY_TEXT : space.intersect(all));
  if (n.has_values) value_languages_.emplace(id, s.re);
  return s;
}

Re JsonControl::string_re(Formula f) {
  RegexSpace &space = text_.regex();
  return boolean_language(f, text_.writable(RegexSpace::ANY_TEXT), string_languages_, [&](SchemaId id) {
    StringLanguage s = string_leaf(id, false);
    if (s.min == 0 && s.max == UNBOUNDED) return s.re;
    if (s.max < s.min) return RegexSpace::EMPTY;
    return space.intersect(s.re, space.repeat(space.any_char(), static_cast<int64_t>(s.min),
                                              s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max)));
  });
}

StringLanguage JsonControl::string_language(const Goal &g) {
  StringLanguage s;
  if (g.simple) {
    std::vector<Re> all;
    for (SchemaId id : formulas_.leaves(g.combined)) {
      StringLanguage one = string_leaf(id, true);
      if (one.re != RegexSpace::ANY_TEXT) all.push_back(one.re);
      s.min = std::max(s.min, one.min);
      s.max = std::min(s.max, one.max);
    }
    if (all.empty()) s.re = text_.writable(s.re);
    else s.re = all.size() == 1 ? all[0] : text_.regex().intersect(all);
    bool fits = s.re == RegexSpace::ANY_TEXT || (s.min == 0 && s.max == UNBOUNDED)
                    ? s.min <= s.max && text_.regex().alive(s.re)
                    : s.min <= s.max &&
                          text_.regex().has_length(s.re, static_cast<int64_t>(s.min),
                                                   s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max));
    if (!fits) s.re = RegexSpace::EMPTY;
    else if (s.re != RegexSpace::ANY_TEXT) drop_implied_bounds(text_.regex(), s);
    return s;
  }
  s.re = string_re(g.combined);
  if (!text_.regex().alive(s.re)) s.re = RegexSpace::EMPTY;
  if (g.roots.size() > 1 || g.need != formulas_.leaf(0))
    for (Formula r : g.roots) s.roots.push_back(string_re(r));
  return s;
}

Re JsonControl::number_leaf(SchemaId id) {
  if (auto it = number_leaves_.find(id); it != number_leaves_.end()) return it->second;
  RegexSpace &space = text_.regex();
  const SchemaNode &n = schema_.nodes[id];
  Re re = n.has_number || !n.has_values ? number_language(space, n.number) : RegexSpace::ANY_TEXT;
  if (n.digits) re = digits_only(re);
  if (n.has_values) {
    std::vector<Re> any;
    charge(n.numbers.size());
    for (const std::string &d : n.numbers) any.push_back(number_equal(space, d));
    re = space.intersect(re, space.alternate(any));
  }
  number_leaves_.emplace(id, re);
  return re;
}

Re JsonControl::number_re(Formula f) {
  Re everything = number_language(text_.regex(), {});
  return boolean_language(f, everything, number_languages_, [&](SchemaId id) { return number_leaf(id); });
}

bool JsonControl::must_be_integer(Formula expanded) const {
  std::unordered_map<Formula, char> known;
  auto leaf = [&](SchemaId id) -> char {
    const SchemaNode &n = schema_.nodes[id];
    return n.number.integer || (n.has_values && std::ranges::all_of(n.numbers, is_whole));
  };
  return formulas_.fold(expanded, known, leaf, [&](Formula f, std::span<const char> parts) -> char {
    auto whole = [](char part) { return part != 0; };
    switch (formulas_.kind(f)) {
      case FormulaSpace::Kind::And: return std::ranges::any_of(parts, whole);
      case FormulaSpace::Kind::Or:
      case FormulaSpace::Kind::One: return std::ranges::all_of(parts, whole);
      default: return false;
    }
  }) != 0;
}

Re JsonControl::digits_only(Re numbers) {
  RegexSpace &space = text_.regex();
  const CodeRange any[] = {{'0', '9'}}, leading[] = {{'1', '9'}};
  const Re positive = space.concat(space.text_class(leading), space.repeat(space.text_class(any), 0, -1));
  const Re digits = space.concat(space.repeat(space.literal("-"), 0, 1), space.alternate(space.literal("0"), positive));
  const Re narrowed = space.intersect(numbers, digits);
  return space.alive(narrowed) ? narrowed : RegexSpace::EMPTY;
}

Re JsonControl::literal_re(Formula f) {
  std::vector<Re> any;
  for (int i = 0; i < 3; ++i) {
    Formula e = expand(f, i == 0 ? Type::Null : Type::Boolean);
    bool holds = formulas_.evaluate(e, [&](uint32_t id) { return (schema_.nodes[id].literals >> i & 1) != 0; });
    if (holds) any.push_back(text_.regex().literal(LITERALS[i]));
  }
  return any.empty() ? RegexSpace::EMPTY : text_.regex().alternate(any);
}

}  // namespace structgen
