#include "json/shortest/scalar_texts.h"

#include <algorithm>

#include "text/json_text.h"

namespace structgen {

void ScalarTexts::start(Formula requirement, Texts *all) {
  RegexSpace &space = tables_.regex();
  const ValueControl &v = *values_.control_of(requirement);
  for (const Re re : {v.literal.re, v.number.re})
    if (re != RegexSpace::EMPTY) all->types.push_back({ShortestTexts(space, re), false});
  if (v.types & type_bit(Type::String)) {
    const Re strings = tables_.table.text().writable(with_length(space, v.string));
    all->types.push_back({ShortestTexts(space, strings), true});
  }
}

const std::string *ScalarTexts::get(Formula requirement, size_t i) {
  const auto [it, fresh] = by_requirement_.try_emplace(requirement);
  Texts &all = it->second;
  if (fresh) start(requirement, &all);
  while (all.found.size() <= i) {
    charge();
    const auto type = std::find_if(all.types.begin(), all.types.end(), [](auto &one) { return !one.ended; });
    if (type == all.types.end()) return nullptr;
    const std::string *text = type->texts.get(type->taken++);
    if (text) all.found.push_back(type->is_string ? '"' + escape_json(*text) + '"' : *text);
    else type->ended = true;
  }
  return &all.found[i];
}

}  // namespace structgen
