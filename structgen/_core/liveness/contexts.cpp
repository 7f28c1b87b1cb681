// The search for a completion if only terminals that the grammar allows at a position compete.
//
// `GrammarLiveness::Search` follows items one by one, and a single item does not show which other terminals are
// allowed. Its results are right as long as a terminal that wins among all terminals wins among some of them. What it
// does not find is searched here, from one Earley set to the next, sets near the end of the text first. There are more
// sets than facts of the other search, without a bound if rules nest, so this search is the second one.
#include <queue>

#include "liveness/liveness.h"

namespace structgen {
namespace {

constexpr uint64_t AT = 88;
constexpr size_t MOST_STATES = 3'000;  // of a lexeme
constexpr size_t MOVES = 20;           // moves of the Earley parser, or steps of `fewest_after`, that count as one step

}  // namespace

// A text from `set` on, after a boundary. Nullopt: there is no text, or the search has `spent` its budget.
std::optional<std::string> GrammarLiveness::in_contexts(const EarleySet *set, Re boundary, bool *spent,
                                                        Arena &scratch) {
  struct Point {
    const EarleySet *set;
    Re boundary;
    size_t from;
    std::string text;
  };
  measure_items();
  *spent = false;
  const size_t moved = earley_.work() + lengths_steps_;
  const ArenaScope scope(scratch);
  std::vector<Point> points;
  std::priority_queue<std::pair<uint32_t, size_t>, std::vector<std::pair<uint32_t, size_t>>, std::greater<>> work;
  std::unordered_set<Hash128, HashOf128> met;
  auto reach = [&](const EarleySet *at, Re after, size_t from, const std::string &text) {
    if (!at || !met.insert(extend(hash_words(AT, after), at->identity)).second) return;
    points.push_back({at, after, from, text});
    work.push({fewest_after(at), points.size() - 1});
  };
  reach(set, boundary, 0, {});
  std::optional<std::string> found;
  auto search = [&] {
    while (!work.empty() && !found) {
      charge();
      if (points.size() + (earley_.work() + lengths_steps_ - moved) / MOVES > allowance()) {
        *spent = true;
        break;
      }
      const size_t now = work.top().second;
      work.pop();
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): `points` grows below
      const Point at = points[now];
      if (at.set->accepting) {
        found.emplace();
        for (size_t i = now; i; i = points[i].from) found->insert(0, points[i].text);
        break;
      }
      for (uint32_t t : items_.expected(at.set->outlook))
        if (g_.terminals[t].kind != GrammarTerminal::Text) *spent = true;  // this search does not read it
      for (const Lexer::Running &first : lexer_.beginnings(lexer_.context(items_.expected(at.set->outlook)))) {
        const bool overlaps = (lexemes_.first(first.lexeme) & lexemes_.first_of(at.boundary)).any();
        const LexemeState begin = overlaps ? lexemes_.restricted(first.lexeme, at.boundary) : first.lexeme;
        if (begin == Lexemes::DEAD) continue;
        const Ends &ends = this->ends(begin, ANYTHING, MOST_STATES);
        *spent |= !ends.all;
        const EarleySet *next = after(at.set, 0, first.terminal, nullptr, scratch);
        for (const End &end : ends.found) reach(next, end.boundary.after, now, end.text);
      }
    }
  };
  try {
    search();
  } catch (const LimitError &) {  // a set grew too large
    *spent = true;
  }
  if (found) *spent = false;
  return found;
}

}  // namespace structgen
