#include "masks/literals.h"

#include <algorithm>

#include "masks/mask_builder.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr size_t TEXTS_PER_UNIT = 4;

struct LiteralRest {
  LiteralRest(uint8_t byte, Re rest, uint32_t number) : byte(byte), rest(rest), number(number) {}
  uint8_t byte;     // the next one
  Re rest;          // after it
  uint32_t number;  // of the lexeme
};

// Calls `on_ids` with the tokens that end at a trie node below `at` to which some of the texts lead, and `on_end` with
// the node where a text ends and the number of the text, if tokens continue there. Reorders the texts.
template <class OnIds, class OnEnd>
void walk_literals(MaskBuilder &m, Vocabulary::Node at, std::span<LiteralRest> texts, const OnIds &on_ids,
                   const OnEnd &on_end) {
  check_stack("a token is too long");
  charge(1 + texts.size() / TEXTS_PER_UNIT);
  m.count(1 + texts.size() / TEXTS_PER_UNIT);
  const RegexSpace &regex = m.text.regex();
  std::sort(texts.begin(), texts.end(), [](const LiteralRest &a, const LiteralRest &b) { return a.byte < b.byte; });
  size_t next = 0;
  for (const Vocabulary::Child *c = m.vocabulary.children(at); !c->is_end && next < texts.size(); ++c) {
    while (next < texts.size() && texts[next].byte < c->byte) ++next;
    const size_t first = next;
    size_t open = first;  // texts of the group that have further bytes are moved before it
    for (; next < texts.size() && texts[next].byte == c->byte; ++next) {
      if (c->children == 0) continue;
      const auto [byte, rest, number] = texts[next];
      if (const auto step = regex.text_step(rest)) texts[open++] = {step->first, step->second, number};
      else on_end(c->node, number);
    }
    if (next == first) continue;
    on_ids(m.vocabulary.ids(c->node));
    if (open > first) walk_literals(m, c->node, texts.subspan(first, open - first), on_ids, on_end);
  }
}

}  // namespace

bool is_literal(GrammarControl &g, LexemeState s, OuterState outer) {
  return g.grammar().lexing == Lexing::Scannerless && outer == ANYTHING && g.liveness().always() &&
         g.lexemes().text_step(s);
}

void add_running_literals(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n,
                          std::vector<RunningLexeme> &running) {
  if (running.size() <= FEW_LEXEMES) return;
  GrammarControl &g = *n->grammar;
  const auto others = std::stable_partition(
      running.begin(), running.end(), [&](const RunningLexeme &l) { return !is_literal(g, l.state, l.entry.outer); });
  std::vector<LiteralRest> texts;
  for (auto l = others; l != running.end(); ++l) {
    const auto step = g.lexemes().text_step(l->state);
    texts.emplace_back(step->first, step->second, static_cast<uint32_t>(l - running.begin()));
  }
  walk_literals(
      m, at, texts, [&](std::span<const uint32_t> ids) { m.set_all(ids); },
      [&](Vocabulary::Node end, uint32_t number) { m.grammar.arrive({Arrival::AfterByte, end, n, running[number]}); });
  running.erase(others, running.end());
}

void find_literal_tokens(MaskBuilder &m, Vocabulary::Node at, const std::vector<Lexer::Running> &literals,
                         ContextFragment &made, std::vector<uint32_t> &ids) {
  std::vector<LiteralRest> texts;
  for (const Lexer::Running &begin : literals) {
    const auto step = m.text.lexemes().text_step(begin.lexeme);
    texts.emplace_back(step->first, step->second, static_cast<uint32_t>(texts.size()));
  }
  walk_literals(
      m, at, texts, [&](std::span<const uint32_t> some) { ids.insert(ids.end(), some.begin(), some.end()); },
      [&](Vocabulary::Node end, uint32_t number) { made.ending.push_back({literals[number], end}); });
}

}  // namespace structgen
