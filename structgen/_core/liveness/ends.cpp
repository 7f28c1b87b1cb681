// Where lexemes end, and which of the ends are redundant, since others allow every continuation that they allow.
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
bool GrammarLife::included(Within part, Within whole) {
  if (part == whole || whole == ANYTHING) return true;
  return part != ANYTHING && inclusion_.included(lexemes_.language(part), lexemes_.language(whole));
}

// Steps for one query. If many queries stay undecided, each gets fewer steps.
size_t GrammarLife::allowance() const { return std::max(budget_ / (1 + unproven_ / 4), LEAST_BUDGET); }

// A state that allows less than one that was met before leads to no further texts.
bool GrammarLife::is_new(Met &met, Within within) {
  if (!met.all.insert(within).second) return false;
  for (Within m : met.first)
    if (included(within, m)) return false;
  if (met.first.size() < MOST_COMPARED) met.first.push_back(within);
  return true;
}

const GrammarLife::Ends &GrammarLife::ends(LexemeState s, Within within, size_t most) {
  const Hash128 key = hash_words(ENDS, s, within, most);
  if (auto it = ends_.find(key); it != ends_.end()) return it->second;
  Ends out;
  struct Point {
    LexemeState lexeme;
    Within within;
    size_t from;
    char byte;
  };
  std::vector<Point> points{{s, within, 0, 0}};  // breadth first
  std::unordered_map<LexemeState, Met> met;
  is_new(met[s], within);
  std::unordered_map<Re, Met> known;
  auto text = [&](size_t at) {
    std::string read;
    for (; at; at = points[at].from) read.push_back(points[at].byte);
    std::reverse(read.begin(), read.end());
    return read;
  };
  RegexSpace &regex = lexemes_.space().regex();
  const size_t rows = regex.rows_made();
  const size_t limit = within == ANYTHING ? most : std::min(most, allowance());
  const size_t most_ends = within == ANYTHING ? MOST_ENDS : MOST_ENDS_WITHIN;
  for (size_t at = 0; at < points.size(); ++at) {
    const Point now = points[at];
    if (lexemes_.complete(now.lexeme)) {
      const Boundary boundary{lexemes_.after(now.lexeme), now.within};
      if (is_new(known[boundary.after], now.within)) out.found.push_back({boundary, text(at)});
    }
    const bool costly = within != ANYTHING && RegexInclusion::ROW * (regex.rows_made() - rows) > allowance();
    if (points.size() > limit || out.found.size() > most_ends || costly) {
      out.all = false;
      break;
    }
    ++points_made_;
    const std::bitset<256> bytes = lexemes_.first(now.lexeme);
    std::pair<LexemeState, Within> last{Lexemes::DEAD, Lexemes::DEAD};
    for (size_t b = 0; b < 256; ++b) {
      if (!bytes.test(b)) continue;
      const LexemeState to = lexemes_.step(now.lexeme, static_cast<uint8_t>(b));
      const Within left = lexemes_.step_within(now.within, static_cast<uint8_t>(b));
      if (to == Lexemes::DEAD || left == Lexemes::DEAD || last == std::pair{to, left}) continue;
      last = {to, left};
      if (is_new(met[to], left)) points.push_back({to, left, at, static_cast<char>(b)});
    }
  }
  return ends_[key] = std::move(out);
}

}  // namespace structgen
