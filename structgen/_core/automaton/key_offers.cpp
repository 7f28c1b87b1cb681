#include "automaton/key_offers.h"

namespace structgen {

std::optional<KeyOffers> key_offers(const Frame *state) {
  const auto *object = as_if<ObjectFrame>(state);
  if (!object || (object->phase != Phase::Open && object->phase != Phase::AfterComma)) return std::nullopt;
  const ObjectControl &control = *object->control;
  const KeyUniverse &universe = *control.universe;
  KeyOffers out;
  Bits allowed(universe.words());
  out.others = object->json->objects().allowed_keys(object->control, object->view(), allowed.data());
  for (uint32_t i : universe.by_rank) {
    if (!bit(allowed.data(), i)) continue;
    out.declared.push_back(universe.keys[i]);
    out.required.push_back(control.simple && bit(control.required.data(), i));
  }
  return out;
}

}  // namespace structgen
