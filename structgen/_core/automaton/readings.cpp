// Parallel readings of one text, as few of them as possible.
//
// A sequence, a union or a grammar may read a text in several ways at once. Readings that go on alike are merged, so that
// their number does not grow with the text: two states are the same, or they differ in the readings of one grammar and
// become one state with the readings of both.
#include <algorithm>

#include "automaton/automaton.h"

namespace structgen {
namespace {

// But for what is below them, and for their entries.
bool are_alike(const Node *a, const Node *b) {
  if (a->kind != b->kind || a->depth != b->depth || a->kind == Node::Alternatives) return false;
  if (a->kind == Node::Grammar) return a->control.grammar == b->control.grammar;
  if (a->kind == Node::Symbol) return a->control.grammar == b->control.grammar && a->length == b->length;
  return a->control.value == b->control.value && a->text == b->text && a->escape == b->escape && a->phase == b->phase &&
         a->space == b->space && a->length == b->length && a->count == b->count && a->hash == b->hash &&
         a->child.key == b->child.key && !a->roots && !b->roots;
}

// Frames of one part that began in different tokens, and that ends where it is complete: the later one goes on wherever the
// other does, and may end wherever the other must.
bool differ_in_tokens(const Node *a, const Node *b) {
  if (a->kind != Node::Sequence || b->kind != Node::Sequence || a->control.plan != b->control.plan) return false;
  const Plan &plan = *a->control.plan;
  // What is enough at the limit may end the earlier one alone.
  const bool alike = plan.max_tokens > 0 && !plan.cuts && !(plan.parts[0]->kind == Plan::Union && plan.parts[0]->parts.back()->at_limit);
  return alike && a->depth == b->depth && a->count != b->count;
}

// Places that differ in their sets alone, so that one terminal leads from all of them to one.
bool is_one_place(const GrammarEntry &a, const GrammarEntry &b) {
  return a.lex == Lexer::FRESH && b.lex == Lexer::FRESH && a.brackets == b.brackets && a.within == b.within &&
         (a.indent == b.indent || (a.indent && b.indent && a.indent->identity == b.indent->identity));
}

}  // namespace

bool Automaton::have_same_entries(Reader &r, const Node *a, const Node *b) {
  const auto one = a->all_entries(), other = b->all_entries();
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [&](const GrammarEntry &x, const GrammarEntry &y) {
    return same_entry(r, *a->control.grammar, x, y);
  });
}

bool Automaton::same(Reader &r, const Node *a, const Node *b) {
  for (; a != b; a = a->parent, b = b->parent) {
    charge();
    if (!a || !b || !are_alike(a, b) || !have_same_entries(r, a, b)) return false;
  }
  return true;
}

const Node *Automaton::joined(Reader &r, const Node *a, const Node *b) {
  const Node *one = nullptr, *other = nullptr;  // which differ
  const Node *longer = nullptr;                 // of the two that differ in the tokens of parts alone, the one with more of them
  for (const Node *n = a, *m = b; n != m; n = n->parent, m = m->parent) {
    charge();
    if (!n || !m) return nullptr;
    if (differ_in_tokens(n, m)) {
      const Node *more = n->count > m->count ? a : b;
      if (longer && longer != more) return nullptr;
      longer = more;
      continue;
    }
    if (!are_alike(n, m)) return nullptr;
    if (have_same_entries(r, n, m)) continue;
    if (one || (n->kind == Node::Symbol && !is_one_place(n->entries[0], m->entries[0]))) return nullptr;
    one = n, other = m;
  }
  if (longer) return one ? nullptr : longer;
  if (!one) return b;
  GrammarEntries entries;
  for (const Node *n : {one, other})
    for (const GrammarEntry &entry : n->all_entries()) entries.push_back(entry);
  drop_equal(r, *one->control.grammar, entries);
  std::vector<const Node *> above;
  for (const Node *n = a; n != one; n = n->parent) above.push_back(n);
  const Node *made = one->kind == Node::Grammar ? grammar_node(r, *one->control.grammar, entries, one->parent)
                                                : symbol_node(r, *one->control.grammar, entries, one->length, one->parent);
  for (; !above.empty(); above.pop_back()) {
    Node *copy = r.arena.make<Node>(*above.back());
    copy->parent = made;
    made = copy;
  }
  return made;
}

// The readings of `all` but for one.
const Node *Automaton::without(Reader &r, const Node *all, const Node *one) {
  std::vector<const Node *> before;
  for (; all != one && all->control.left != one; all = all->parent) {
    charge();
    before.push_back(all->control.left);
  }
  const Node *left = all == one ? nullptr : all->parent;
  for (; !before.empty(); before.pop_back()) left = left ? either(r, before.back(), left) : before.back();
  return left;
}

const Node *Automaton::either(Reader &r, const Node *a, const Node *b) {
  Node *n = r.arena.make<Node>();
  n->kind = Node::Alternatives;
  n->control.left = a;
  n->parent = b;
  n->depth = std::max(a->depth, b->depth);
  return n;
}

const Node *Automaton::alternatives(Reader &r, const Node *a, const Node *b) {
  if (!a) return b;
  if (!b) return a;
  if (a->kind == Node::Alternatives) {
    b = alternatives(r, a->control.left, b);
    return alternatives(r, a->parent, b);
  }
  size_t count = 1;
  for (const Node *n = b; n; n = n->parent) {
    const bool more = n->kind == Node::Alternatives;
    const Node *one = more ? n->control.left : n;
    if (const Node *both = joined(r, a, one)) return both == one ? b : alternatives(r, both, without(r, b, one));
    if (++count > text_.limits().max_alternatives)
      throw LimitError("it is open where the parts of the text end, of a sequence, a union or a grammar with other constraints "
                       "in it: there are more than " + std::to_string(text_.limits().max_alternatives) +
                       " parallel readings (limit max_alternatives)");
    if (!more) break;
  }
  return either(r, a, b);
}

}  // namespace structgen
