// Liveness of a grammar's prefix if a lexer's rule restricts which lexemes may follow each other.
//
// Every Earley set has a continuation in terminals. Whether terminals can be written one after the other is another
// question: after a name no name can begin, so `start: NAME NAME` without text to ignore between them is empty. A
// *boundary* is what must not follow a lexeme that has ended. From the cheapest method to the most expensive one:
//   1. Nothing is forbidden (scannerless), or all terminals that the grammar allows in sequence can be written in
//      sequence at every boundary: every state is live.
//   2. *Separators*: text to ignore after which every terminal can be written, and after it a separator again. A
//      lexeme that can be completed to a boundary where a separator may stand is *free*: it is alive wherever its
//      terminal is expected.
//   3. The rest is a least fixpoint over (symbol, boundary before, boundary after), computed as far as one query needs
//      it. A budget bounds it. Past the budget, the answer is "alive" and is counted as unproven.
//
// If the whole text must be in a regular language as well (`&`), the state of that *outer* language is a part of every
// boundary. The problem is then the emptiness of the intersection of a context-free and a regular language. If the
// regular language has few states, a chart decides it exactly (liveness/intersection.h). Otherwise 3. does.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/earley.h"
#include "grammar/lexer.h"
#include "regex/regex_inclusion.h"
#include "util/serial.h"

namespace structgen {

class GrammarLiveness {
 public:
  // A number of characters that is never reached.
  static constexpr uint32_t FAR = 1'000'000'000;

  GrammarLiveness(const Grammar &grammar, ItemSets &items, Lexer &lexer, Earley &earley, size_t budget);
  ~GrammarLiveness();

  bool always() const { return always_; }
  // The first state of a lexeme of `t` if no lexeme comes before it.
  LexemeState plain(uint32_t t) const { return plain_[t]; }
  // Can lexeme `s` of terminal `t`, which began at `set`, be completed and then the text?
  bool is_lexeme_live(const EarleySet *set, uint32_t brackets, uint32_t t, LexemeState s, OuterState outer,
                      MaskDependencies *dependencies, Arena &scratch);
  // Can a text lead to this pair of states, as far as is known? Call `is_lexeme_live` only for reachable pairs.
  bool is_reachable(LexemeState s, OuterState outer);
  // Can the text be completed after terminal `t`, a set of tokens or another constraint, is read at `set`?
  bool is_nonlexical_live(const EarleySet *set, uint32_t brackets, uint32_t t, MaskDependencies *dependencies,
                          Arena &scratch);
  // A text that completes lexeme `s` and then the whole text; nullopt if none was found.
  std::optional<std::string> completion(const EarleySet *set, uint32_t brackets, uint32_t t, LexemeState s,
                                        OuterState outer, Arena &scratch);
  // A text that completes the whole text after the end of a lexeme, if every text may follow that lexeme.
  std::optional<std::string> completion(const EarleySet *set, uint32_t brackets, OuterState outer, Arena &scratch);
  // Is every token of the fragment alive wherever the terminal is expected?
  bool all_free(Lexemes::Fragment &fragment);
  bool empty();  // has the grammar no text?
  // Text to ignore that may stand at a boundary; empty if there is no such text.
  std::string separator(Re boundary);
  uint64_t unproven() const { return unproven_; }
  // Facts and states that searches have looked at so far; not those of a chart (liveness/intersection.h).
  size_t work() const { return searched_ + lengths_steps_ + points_made_; }

 private:
  struct Separator {
    std::string text;
    Re after;
  };
  struct Boundary {
    Re after;               // must not follow
    OuterState outer;       // what follows must be accepted from here
    uint32_t brackets = 0;  // that are open, where an indentation counts them
    auto operator<=>(const Boundary &) const = default;
  };
  struct End {
    Boundary boundary;
    std::string text;  // a text that leads there
  };
  struct Ends {  // of a lexeme, each with a shortest text, shortest first
    std::vector<End> found;
    bool all = true;  // false: too many states to find them all
  };
  struct Met {
    std::vector<OuterState> first;
    std::unordered_set<OuterState> all;
  };
  class Search;
  class Chart;
  static constexpr size_t MOST_ENDS_WITH_OUTER = 2'000;  // where another constraint tells ends apart
  static constexpr size_t MOST_KNOWN = 100'000;

  bool free(LexemeState s);
  bool stops(uint32_t t);  // free(plain_[t])
  bool separable(Re boundary);
  bool separates(const Separator &separator, Re boundary);
  void find_separators();
  bool fits_everywhere();
  bool is_new(Met &met, OuterState outer);
  bool included(OuterState part, OuterState whole);
  size_t allowance() const;
  // `most`: lexeme states to visit. A few suffice to find a completion; the proof that there is no completion takes
  // all.
  const Ends &ends(LexemeState s, OuterState outer, size_t most);
  template <class EndsOf>
  std::optional<std::string> written(const EarleySet *set, uint32_t brackets, const EndsOf &ends_of);
  bool leads_on(const EarleySet *set, uint32_t brackets, const End &end);
  bool is_lexeme_live_in_both(const EarleySet *set, uint32_t brackets, uint32_t t, LexemeState s, OuterState outer,
                              MaskDependencies *dependencies, Arena &scratch);
  void measure_items();
  // Items past those of the grammar are those before and after the start rule.
  uint32_t fewest_left(Item item) const {
    if (item < fewest_left_.size()) return fewest_left_[item];
    return items_.symbol_after_dot(item) == Grammar::END ? 0 : fewest_of_start_;
  }
  uint32_t most_left(OuterState outer);
  uint32_t fewest_after(const EarleySet *set, std::optional<uint32_t> ended = std::nullopt);
  uint32_t fewest_after_rule(const EarleySet *set, uint32_t rule);
  std::optional<uint32_t> known_after_rule(const EarleySet *set, uint32_t rule) const;
  const EarleySet *after(const EarleySet *set, uint32_t brackets, uint32_t t, MaskDependencies *dependencies,
                         Arena &scratch);
  // A lexeme of `t` after `boundary`, among all terminals.
  LexemeState begin(uint32_t t, Re boundary);
  enum class Near : uint8_t { Free, Dead, Open };
  // How many brackets are open after `t`; none where it cannot be read.
  std::optional<uint32_t> opened(uint32_t brackets, uint32_t t) const;
  void record_dependencies(MaskDependencies &dependencies) const;
  Near near(Outlook outlook, uint32_t brackets, Re boundary);
  // Can the text be completed at `set`, after a lexeme with this boundary?
  bool can_continue(const EarleySet *set, uint32_t brackets, bool after_newline, Re boundary,
                    MaskDependencies *dependencies, Arena &scratch);
  // Are there contexts in which a lexeme is allowed that is not allowed when all terminals compete?
  bool has_contexts() const { return g_.contextual && !g_.indentation.active(); }
  std::optional<std::string> in_contexts(const EarleySet *set, Re boundary, bool *spent, Arena &scratch);

  const uint64_t serial_ = next_serial();
  const Grammar &g_;
  ItemSets &items_;
  Lexer &lexer_;
  Lexemes &lexemes_;
  RegexInclusion inclusion_;
  Earley &earley_;
  size_t budget_;
  bool always_ = false;
  std::vector<LexemeState> plain_;  // by terminal, where nothing is before it
  std::vector<Separator> separators_;
  std::unordered_map<LexemeState, bool> free_;
  std::unordered_map<Re, bool> separable_;
  std::unordered_map<Hash128, Ends, HashOf128> ends_;
  std::vector<uint32_t> fewest_left_;  // characters, from an item on to the end of its production
  uint32_t fewest_of_start_ = 0;
  std::unordered_map<OuterState, uint32_t> most_left_;
  std::unordered_map<Hash128, uint32_t, HashOf128> fewest_after_;
  std::unordered_map<Hash128, bool, HashOf128> known_liveness_;  // by what the sets still need (`Earley::rest`)
  std::unordered_map<Hash128, Near, HashOf128> near_;
  std::unique_ptr<Chart> chart_;
  uint64_t unproven_ = 0;
  size_t searched_ = 0;       // facts that searches met
  size_t lengths_steps_ = 0;  // taken to find out how much a set needs
  size_t points_made_ = 0;    // states looked at to find ends of lexemes
};

}  // namespace structgen
