// White space between the tokens of a JSON value, byte by byte (text/json_space.h has the states).
//
// Where a writer's layout is followed, a byte may settle what comes after it: a line feed after a value that the
// container ends, a space before a comma that it goes on. Such a byte is alive only if that token is.
#include "automaton/automaton.h"
#include "text/json_space.h"

namespace structgen {

const Node *Automaton::step_space(Reader &r, const Node *n, uint8_t b) {
  const JsonOptions &options = n->json->schema().options;
  // A line inside a container is one deeper than the container and its closing bracket.
  const bool inside = n->kind != Node::Value && n->phase != Phase::AfterValue;
  int next = space_step(options, n->space, b, static_cast<uint64_t>(n->depth - options.root_depth + inside));
  if (next < 0 || (next == SPACE_RETURN && options.whitespace == Whitespace::Flexible && !text_.vocabulary().spellable().test('\n')))
    return nullptr;
  if (options.whitespace != Whitespace::Flexible && !leads_on(r, n, static_cast<uint16_t>(next))) return nullptr;
  Node *m = r.arena.make<Node>(*n);
  m->space = static_cast<uint16_t>(next);
  return m;
}

bool Automaton::leads_on(Reader &r, const Node *n, uint16_t space) {
  const JsonOptions &options = n->json->schema().options;
  if (options.whitespace == Whitespace::Table) {
    const SpaceRow &now = options.rows[n->space], &next = options.rows[space];
    if (!next.can_go_on && !next.can_close) return false;
    // Both after a value alone: elsewhere the same may follow whatever the gap holds.
    if (n->kind == Node::Value || n->phase != Phase::AfterValue) return true;
    if (next.can_go_on == now.can_go_on && next.can_close == now.can_close) return true;
    const TextLink *trace = r.trace;
    Node after = *n;
    const auto leads = [&](uint16_t state, uint8_t token) {
      after = *n;
      after.trace = trace;
      after.space = state;
      const bool found = step(r, &after, token) != nullptr;
      r.trace = trace;
      return found;
    };
    return (next.can_go_on && leads(SPACE_GOES_ON, ',')) ||
           (next.can_close && leads(SPACE_CLOSES, n->kind == Node::Array ? ']' : '}'));
  }
  if (n->space != SPACE_EMPTY && n->space != SPACE_AFTER) return true;
  if (n->kind == Node::Array && n->space == SPACE_EMPTY) {
    if (!n->json->item_allowed(n->control.array, n->count)) return false;
    const ItemControl *item = n->json->next_item(n->control.array, n->count);
    return item && item->child->first.any();
  }
  const TextLink *trace = r.trace;
  Node after = *n;
  after.trace = trace;
  after.space = space < SPACE_TO_GO_ON ? SPACE_TO_CLOSE : SPACE_TO_GO_ON;
  const uint8_t token = n->space == SPACE_EMPTY ? '"' : space >= SPACE_TO_GO_ON ? ',' : n->kind == Node::Array ? ']' : '}';
  const bool leads = step(r, &after, token) != nullptr;
  r.trace = trace;
  return leads;
}

bool Automaton::too_deep(const Node *value) const {
  if (static_cast<uint32_t>(value->depth) >= text_.limits().max_depth) return true;
  const JsonOptions &options = value->json->schema().options;
  return lines(options) && space_line(options, 0, static_cast<uint64_t>(value->depth - options.root_depth + 1)) < 0;
}

}  // namespace structgen
