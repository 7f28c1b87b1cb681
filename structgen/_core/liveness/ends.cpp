// Finds where lexemes may end. Drops redundant ends: those for which another end allows at least the same texts.
#include <algorithm>
#include <bitset>

#include "liveness/liveness.h"

namespace structgen {
namespace {

constexpr size_t MOST_ENDS = 64;
constexpr size_t MOST_COMPARED =
    8;  // number of states that a new state is compared with, among those that differ in nothing else
constexpr size_t LEAST_BUDGET = 200;
constexpr uint64_t ENDS = 84;

}  // namespace

// Does `whole` allow everything that `part` allows? False if that is not known.
bool GrammarLiveness::included(OuterState part, OuterState whole) {
  if (part == whole || whole == ANYTHING) return true;
  return part != ANYTHING && inclusion_.included(lexemes_.language(part), lexemes_.language(whole));
}

// Steps for one query. If many queries stay undecided, each gets fewer steps.
size_t GrammarLiveness::allowance() const { return std::max(budget_ / (1 + unproven_ / 4), LEAST_BUDGET); }

// False if an earlier state allows all texts that this state allows: then it leads to no further texts.
bool GrammarLiveness::is_new(Met &met, OuterState outer) {
  if (!met.all.insert(outer).second) return false;
  for (OuterState m : met.first)
    if (included(outer, m)) return false;
  if (met.first.size() < MOST_COMPARED) met.first.push_back(outer);
  return true;
}

const GrammarLiveness::Ends &GrammarLiveness::ends(LexemeState s, OuterState outer, size_t most) {
  const Hash128 key = hash_words(ENDS, s, outer, most);
  if (auto it = ends_.find(key); it != ends_.end()) return it->second;
  Ends out;
  struct Point {
    LexemeState lexeme;
    OuterState outer;
    size_t from;
    char byte;
  };
  std::vector<Point> points{{s, outer, 0, 0}};  // breadth first
  std::unordered_map<LexemeState, Met> met;
  is_new(met[s], outer);
  std::unordered_map<Re, Met> known;
  auto text = [&](size_t at) {
    std::string read;
    for (; at; at = points[at].from) read.push_back(points[at].byte);
    std::reverse(read.begin(), read.end());
    return read;
  };
  RegexSpace &regex = lexemes_.space().regex();
  const size_t rows = regex.rows_made();
  const size_t limit = outer == ANYTHING ? most : std::min(most, allowance());
  const size_t most_ends = outer == ANYTHING ? MOST_ENDS : MOST_ENDS_WITH_OUTER;
  for (size_t at = 0; at < points.size(); ++at) {
    const Point now = points[at];
    if (lexemes_.complete(now.lexeme)) {
      const Boundary boundary{lexemes_.after(now.lexeme), now.outer};
      if (is_new(known[boundary.after], now.outer)) out.found.push_back({boundary, text(at)});
    }
    const bool costly = outer != ANYTHING && RegexInclusion::ROW * (regex.rows_made() - rows) > allowance();
    if (points.size() > limit || out.found.size() > most_ends || costly) {
      out.all = false;
      break;
    }
    ++points_made_;
    const std::bitset<256> bytes = lexemes_.first(now.lexeme);
    std::pair<LexemeState, OuterState> last{Lexemes::DEAD, Lexemes::DEAD};
    for (size_t b = 0; b < 256; ++b) {
      if (!bytes.test(b)) continue;
      const LexemeState to = lexemes_.step(now.lexeme, static_cast<uint8_t>(b));
      const OuterState left = lexemes_.step_outer(now.outer, static_cast<uint8_t>(b));
      if (to == Lexemes::DEAD || left == Lexemes::DEAD || last == std::pair{to, left}) continue;
      last = {to, left};
      if (is_new(met[to], left)) points.push_back({to, left, at, static_cast<char>(b)});
    }
  }
  return ends_[key] = std::move(out);
}

}  // namespace structgen
