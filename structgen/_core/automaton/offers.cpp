#include "automaton/offers.h"

namespace structgen {

std::optional<KeyOffers> key_offers(const Automaton &automaton, const Node *node) {
  if (!node || node->kind != Node::Object || (node->phase != Phase::Open && node->phase != Phase::AfterComma))
    return std::nullopt;
  ObjectControl *object = node->control.object;
  const KeyUniverse &u = *object->universe;
  KeyOffers out;
  Bits allowed(u.words());
  out.others = node->json->allowed_keys(object, automaton.view(node), allowed.data());
  for (uint32_t i : u.by_rank) {
    if (!bit(allowed.data(), i)) continue;
    out.declared.push_back(u.keys[i]);
    out.owed.push_back(object->simple && bit(object->required.data(), i));
  }
  return out;
}

}  // namespace structgen
