#include "json/oracle/value_controls.h"

#include <algorithm>

namespace structgen {

ValueControl *ValueControls::control(ObligationId obligation) {
  charge();
  if (controls_.size() <= obligation) controls_.resize(tables_.obligations.size());
  if (!controls_[obligation]) {
    std::unique_ptr<ValueControl> made = make_control(obligation);
    if (controls_.size() <= obligation) controls_.resize(tables_.obligations.size());
    controls_[obligation] = std::move(made);
  }
  return controls_[obligation].get();
}

std::unique_ptr<ValueControl> ValueControls::make_control(ObligationId id) {
  Obligations &obligations = tables_.obligations;
  ScalarLanguages &scalars = tables_.scalars;
  auto made = std::make_unique<ValueControl>();
  ValueControl &v = *made;
  v.obligation = id;
  const bool verdicts = obligations.needs_verdicts(obligations[id]);
  const Formula requirement = obligations[id].requirement;
  if (requirement == FormulaSpace::FALSE) return made;
  for (Type t : {Type::Null, Type::Boolean, Type::Object, Type::Array, Type::Number, Type::String})
    if (oracle_.holds_type(requirement, t)) v.types |= type_bit(t);
  if (v.types & (type_bit(Type::Null) | type_bit(Type::Boolean))) {
    v.literal.re = scalars.literal_language(requirement);
    if (verdicts)
      for (Formula r : obligations[id].roots) v.literal.roots.push_back(scalars.literal_language(r));
  }
  if (v.types & type_bit(Type::Number)) {
    const Obligation &expanded = obligations[expand(id, Type::Number)];
    v.number.re = scalars.number_language(expanded.requirement);
    if (tables_.table.options().integer_digits && scalars.must_be_integer(expanded.requirement))
      v.number.re = scalars.digits_only(v.number.re);
    if (verdicts)
      for (Formula r : expanded.roots) v.number.roots.push_back(scalars.number_language(r));
  }
  if (v.types & type_bit(Type::String)) v.string = scalars.strings(obligations[expand(id, Type::String)]);
  if (v.types & type_bit(Type::Object)) v.first.set('{');
  if (v.types & type_bit(Type::Array)) v.first.set('[');
  if (v.types & type_bit(Type::String)) v.first.set('"');
  for (Re re : {v.number.re, v.literal.re})
    if (re != RegexSpace::EMPTY) {
      const Row &row = tables_.regex().row(re);
      for (int b = 0; b < 256; ++b)
        if (row[b] != RegexSpace::EMPTY) v.first.set(b);
    }
  return made;
}

ObligationId ValueControls::expand(ObligationId id, Type type) {
  FormulaSpace &formulas = tables_.formulas();
  std::vector<Formula> roots = tables_.obligations[id].roots;
  for (Formula &r : roots) r = tables_.expansion.expand(r, type);
  Formula condition = tables_.obligations[id].condition;
  if (roots.size() == 1 && condition == formulas.leaf(0)) {
    roots[0] = tables_.limits.restrict(roots[0], type);
  } else if (const Formula all = tables_.limits.restrict(FormulaSpace::TRUE, type); all != FormulaSpace::TRUE) {
    condition = formulas.both(condition, formulas.leaf(static_cast<uint32_t>(roots.size())));
    roots.push_back(all);
  }
  if (type == Type::Object || type == Type::Array) {
    // A group that cannot hold on its own is false now, so that no branch depends on it.
    const bool conjunctive =
        std::all_of(roots.begin(), roots.end(), [&](Formula r) { return formulas.is_conjunction(r); });
    if (!conjunctive || roots.size() > 1)
      formulas.substitute(&roots, [&](uint32_t group) {
        return oracle_.group_can_hold(group, type) ? formulas.leaf(group) : FormulaSpace::FALSE;
      });
  }
  return tables_.obligations.intern(std::move(roots), condition);
}

ObjectControl *ValueControls::open_object(ValueControl *v) {
  if (!v->object) {
    const ObligationId expanded = expand(v->obligation, Type::Object);
    v->object = tables_.objects.control(expanded, tables_.objects.universe(tables_.obligations.groups(expanded)));
  }
  return v->object;
}

ArrayControl *ValueControls::open_array(ValueControl *v) {
  if (!v->array) v->array = tables_.arrays.control(expand(v->obligation, Type::Array));
  return v->array;
}

}  // namespace structgen
