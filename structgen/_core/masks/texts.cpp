// Masks of many lexemes that are single texts, such as the names of tools.
//
// Why: a fragment for each text costs a walk through the token trie and a row of states, for hundreds of texts. Tokens hold only
// a few characters of them.
// How: one walk through the trie with all texts side by side, grouped by their next byte.
// Cost: the sum of the texts over the trie nodes that they reach; most texts part within a few bytes.
#include <algorithm>
#include <numeric>

#include "masks/walk.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr size_t TEXTS_PER_UNIT = 4;

}  // namespace

// Is a lexeme a single text that is allowed in every parser state, with any continuation?
bool Masks::is_text(GrammarControl &g, LexemeState s, Within within) {
  return g.grammar().lexing == Lexing::Scannerless && within == ANYTHING && g.life().always() && g.lexemes().text_step(s);
}

// Calls `on_ids` with the tokens that end at a trie node below `at` to which some of the texts lead, and `on_end` with the
// node where a text ends and the number of the text, if tokens go on there. Reorders the texts.
template <class OnIds, class OnEnd>
void Masks::walk_texts(Vocabulary::Node at, std::span<TextRest> texts, const OnIds &on_ids, const OnEnd &on_end) {
  check_stack("a token is too long");
  charge(1 + texts.size() / TEXTS_PER_UNIT);
  count(1 + texts.size() / TEXTS_PER_UNIT);
  const RegexSpace &regex = text_.regex();
  std::sort(texts.begin(), texts.end(), [](const TextRest &a, const TextRest &b) { return a.byte < b.byte; });
  size_t next = 0;
  for (const Vocabulary::Child *c = v_.children(at); !c->is_end && next < texts.size(); ++c) {
    while (next < texts.size() && texts[next].byte < c->byte) ++next;
    const size_t first = next;
    size_t open = first;  // before it are those of the group that go on
    for (; next < texts.size() && texts[next].byte == c->byte; ++next) {
      if (c->children == 0) continue;
      const auto [byte, rest, number] = texts[next];
      if (const auto step = regex.text_step(rest)) texts[open++] = {step->first, step->second, number};
      else on_end(c->node, number);
    }
    if (next == first) continue;
    on_ids(v_.ids(c->node));
    if (open > first) walk_texts(c->node, texts.subspan(first, open - first), on_ids, on_end);
  }
}

// Takes out of `running`, the lexemes of a state, those that are texts, where they are many, and allows their tokens.
void Masks::running_texts_below(Vocabulary::Node at, const GrammarFrame *n, std::vector<Lexeme> &running) {
  if (running.size() <= FEW_LEXEMES) return;
  GrammarControl &g = *n->grammar;
  const auto others = std::stable_partition(running.begin(), running.end(),
                                            [&](const Lexeme &l) { return !is_text(g, l.state, l.entry.within); });
  std::vector<TextRest> texts;
  for (auto l = others; l != running.end(); ++l) {
    const auto step = g.lexemes().text_step(l->state);
    texts.emplace_back(step->first, step->second, static_cast<uint32_t>(l - running.begin()));
  }
  walk_texts(
      at, texts, [&](std::span<const uint32_t> ids) { for (const uint32_t id : ids) set(id); },
      [&](Vocabulary::Node end, uint32_t number) { arrive({Arrival::PlaceAfter, end, n, running[number]}); });
  running.erase(others, running.end());
}

// The same of texts that begin in a context.
void Masks::context_texts(Vocabulary::Node at, const std::vector<Lexer::Running> &begins, ContextFragment &made,
                          std::vector<uint32_t> &ids) {
  std::vector<TextRest> texts;
  for (const Lexer::Running &begin : begins) {
    const auto step = text_.lexemes().text_step(begin.lexeme);
    texts.emplace_back(step->first, step->second, static_cast<uint32_t>(texts.size()));
  }
  walk_texts(
      at, texts, [&](std::span<const uint32_t> some) { ids.insert(ids.end(), some.begin(), some.end()); },
      [&](Vocabulary::Node end, uint32_t number) { made.ending.push_back({begins[number], end}); });
}

}  // namespace structgen
