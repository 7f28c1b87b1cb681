// What masks ask of a state: which bytes are worth a step, and what tells its mask apart from others.
#include "automaton/automaton.h"

namespace structgen {

std::bitset<256> Automaton::candidates(const Node *n) {
  charge();
  static const std::bitset<256> blanks = [] {
    std::bitset<256> s;
    for (char c : {' ', '\t', '\n', '\r'}) s.set(static_cast<unsigned char>(c));
    return s;
  }();
  std::bitset<256> s;
  switch (n->kind) {
    case Node::Value: return blanks | n->control.value->first;
    case Node::Object:
      s = blanks;
      switch (n->phase) {
        case Phase::Open: s.set('"'); s.set('}'); break;
        case Phase::AfterComma: s.set('"'); break;
        case Phase::AfterKey: s.set(':'); break;
        default: s.set(','); s.set('}');
      }
      return s;
    case Node::Grammar: return grammar_candidates(n);
    case Node::Array:
      if (n->phase == Phase::AfterValue) {
        s = blanks;
        s.set(',');
        return s.set(']');
      }
      [[fallthrough]];
    default: return s.set();
  }
}

std::bitset<256> Automaton::grammar_candidates(const Node *n) {
  GrammarControl &g = *n->control.grammar;
  std::bitset<256> s;
  for (uint32_t i = 0; i < n->length; ++i) {
    const GrammarEntry &e = n->entries[i];
    if (e.lex == Lexer::FRESH || !g.lexer().ends(e.lex).empty() || !g.lexer().ignored_ends(e.lex).empty()) return s.set();
    for (const Lexer::Running &r : g.lexer().running(e.lex)) s |= g.lexemes().first(r.lexeme);
  }
  return s;
}

Hash128 Automaton::entry_identity(const GrammarEntry &e) {
  Hash128 h = hash_words(8, e.lex, static_cast<uint64_t>(e.brackets) << 32 | e.column, e.within);
  h = extend(h, e.set->identity);
  return e.indent ? extend(h, e.indent->identity) : h;
}

Hash128 Automaton::signature(const Node *n) {
  charge();
  // A text is told apart by its state alone, unless verdicts hang on it.
  const bool text = n->kind == Node::String || n->kind == Node::Scalar;
  Hash128 h = hash_words(2, static_cast<uint64_t>(n->kind) << 32 | static_cast<uint64_t>(n->phase) << 16 | n->space,
                         text ? 0 : reinterpret_cast<uint64_t>(n->control.value));
  auto add = [&](uint64_t x) { h = extend(h, x); };
  // Within a token of the depth limit a mask knows how deep it is.
  const auto depth = static_cast<uint32_t>(n->depth);
  if (depth + text_.vocabulary().longest_token() >= text_.limits().max_depth) add(depth);
  // Where lines are indented, what may follow a bracket, a comma or a line feed depends on the depth.
  if (writes_lines_ && (n->kind == Node::Value || n->kind == Node::Object || n->kind == Node::Array)) add(depth);
  switch (n->kind) {
    case Node::String: {
      add(n->text);
      const StringLanguage &s = n->control.value->string;
      if (s.min > n->length) add(s.min - n->length + (uint64_t{1} << 40));
      if (s.max != UNBOUNDED) {
        int64_t reach = text_.reach(text_.re(n->text));
        uint64_t left = s.max - n->length;
        if (reach < 0 || left < text_.longest_characters() + static_cast<uint64_t>(reach)) add(left);
      }
      if (n->roots) {
        add(reinterpret_cast<uint64_t>(n->control.value));
        for (size_t i = 0; i < s.roots.size(); ++i) add(n->roots[i]);
      }
      break;
    }
    case Node::Scalar:
      add(n->text);
      if (n->roots) {
        add(reinterpret_cast<uint64_t>(n->control.value));
        size_t count = std::max(n->control.value->number.roots.size(), n->control.value->literal.roots.size());
        for (size_t i = 0; i < count; ++i) add(n->roots[i]);
      }
      break;
    case Node::Object:
      add(n->count);
      add(static_cast<uint64_t>(n->last_rank));
      add(n->hash.a);
      add(n->hash.b);
      if (n->phase == Phase::AfterKey || n->phase == Phase::InValue) add(reinterpret_cast<uint64_t>(n->child.key));
      break;
    case Node::Key:
      add(static_cast<uint64_t>(n->text) << 32 | n->escape);
      add(static_cast<uint64_t>(n->lo) << 32 | n->hi);
      add(n->lo < n->hi ? n->length : 0);
      // What the value of an extra key must be depends on the patterns that the key will match.
      if (n->text != TextSpace::DEAD && !n->parent->control.object->patterns.empty()) {
        const std::string read = key_text(n);
        for (Re pattern : n->parent->control.object->patterns) {
          for (unsigned char c : read)
            if (pattern != RegexSpace::EMPTY) pattern = text_.regex().row(pattern)[c];
          add(pattern);
        }
      }
      // Off the declared keys the text matters only where it may become a key already there, or come again in a token.
      if (n->seen || (n->text != TextSpace::DEAD && text_.ending_tokens(writes_lines_).second_key)) {
        add(n->hash.a);
        add(n->hash.b);
      }
      break;
    case Node::Array: {
      const ArrayControl &a = *n->control.array;
      uint64_t count = n->count;
      if (a.simple && a.max == UNBOUNDED) count = std::min(count, std::max(a.min, a.prefix) + 1);
      add(count);
      if (n->phase == Phase::InValue) add(reinterpret_cast<uint64_t>(n->child.item));
      break;
    }
    case Node::Sequence: add(n->length); break;
    case Node::Grammar:
    case Node::Symbol: {
      add(n->length);
      charge(n->all_entries().size() / 8);
      for (const GrammarEntry &entry : n->all_entries()) h = extend(h, entry_identity(entry));
      break;
    }
    default: break;
  }
  return h;
}

Hash128 Automaton::stack_signature(const Node *node, uint64_t tokens) {
  constexpr uint64_t STACK = 89;
  Hash128 h = hash_words(STACK);
  for (const Node *n = node; n; n = n->parent) {
    const Hash128 own = n->kind == Node::Alternatives ? stack_signature(n->control.left, tokens) : signature(n);
    h = extend(extend(h, own), static_cast<uint64_t>(n->depth));
    // Masks know neither how many tokens are left nor which items are there already.
    if (n->kind == Node::Sequence && n->control.plan->max_tokens > 0)
      h = extend(h, std::min(tokens + 1 - std::min(tokens, n->count), n->control.plan->max_tokens + 1));
    for (const SeenItem *s = n->items; s; s = s->previous) h = extend(h, s->hash);
    if (n->traced) h = extend(h, reinterpret_cast<uint64_t>(n));
  }
  return h;
}

}  // namespace structgen
