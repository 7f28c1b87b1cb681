// The search of `GrammarLiveness`: finds a completion of the text, or proves that there is no completion.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <span>

#include "liveness/liveness.h"

namespace structgen {

// A fact is (item, target of its end, boundary): the item's production has been written up to the dot, and the boundary
// is the one after the last lexeme. The end of a production leads to a goal (a rule from a boundary on, whose results
// others wait for) or back to an Earley set. The search is best-first: facts near the end of the text come first, so a
// completion is mostly found without a detour.
class GrammarLiveness::Search {
 public:
  // `keeps_text`: also returns the completion.
  Search(GrammarLiveness &liveness, bool keeps_text, size_t states)
      : l_(liveness),
        keeps_text_(keeps_text),
        states_(states),
        budget_(liveness.allowance()),
        points_(liveness.points_made_),
        rows_(liveness.lexemes_.space().regex().rows_made()) {
    l_.measure_items();
  }

  // Searches from a set on, after any of these ends of a lexeme.
  bool from(const EarleySet *set, uint32_t brackets, std::span<const End> ends) {
    most_open_ = brackets + MOST_OPENED;
    auto here = [&](Boundary boundary) { return Boundary{boundary.after, boundary.outer, brackets}; };
    for (const End &end : ends) prepare(end.boundary.outer);
    for (auto &[boundary, text] : ends)
      if (set->accepting && finishes(here(boundary), text)) return true;
    for (auto it = ends.rbegin(); it != ends.rend(); ++it)
      for (uint32_t i = 0; i < set->count; ++i)
        for (Item item : l_.items_.items(set->kernels[i]))
          follow(item, back_to(set->origins[i]), here(it->boundary), keeps_text_ ? it->text : std::string());
    return run();
  }
  bool from_start(Item start, OuterState outer) {
    prepare(outer);
    follow(start, back_to(nullptr), {RegexSpace::EMPTY, outer}, {});
    return run();
  }
  bool spent() const { return spent_; }
  bool left_out() const { return left_out_; }
  const std::string &text() const { return text_; }

 private:
  static constexpr uint64_t FACT = 86;
  static constexpr size_t CHARACTERS_PER_STEP = 100;  // of texts that are stored
  static constexpr uint32_t MOST_OPENED = 64;         // brackets beyond those that are open
  using Return = uint32_t;                            // an index into returns_
  using Result = End;
  struct Waiting {
    Item item;
    Return to;
    std::string text;
  };
  struct Fact {
    Item item;
    Return to;
    Boundary boundary;
  };
  struct Work {
    Fact fact;
    std::string text;  // since the goal, or since the beginning
    uint32_t fewest;   // characters to come
    size_t order;
    // Facts nearest to the end of the text come first, and of these the latest.
    bool operator<(const Work &o) const { return fewest != o.fewest ? fewest > o.fewest : order < o.order; }
  };
  struct ReturnTo {
    const EarleySet *set = nullptr;  // back into this set; null with no rule: the text ends
    bool is_goal = false;
    std::vector<Result> results;
    std::unordered_map<uint64_t, Met> met;  // in results
    std::vector<Waiting> waiting;
    // The fewest characters that any waiting item needs after the goal; facts that were postponed because the text is
    // bounded; the goals of its productions, with the items that remain after them.
    uint32_t fewest_after = FAR;
    std::vector<Work> postponed;
    std::vector<std::pair<Return, Item>> subgoals;
  };
  Return back_to(const EarleySet *set) {
    auto [it, fresh] = sets_.try_emplace(set, static_cast<Return>(returns_.size()));
    if (fresh) {
      returns_.emplace_back();
      returns_.back().set = set;
    }
    return it->second;
  }

  // A key of a boundary without its `outer`.
  static uint64_t key_without_outer(Boundary boundary) {
    return static_cast<uint64_t>(boundary.after) << 32 | boundary.brackets;
  }

  std::string joined(const std::string &a, const std::string &b) const { return keeps_text_ ? a + b : std::string(); }

  void follow(Item item, Return to, Boundary boundary, std::string text) {
    const uint32_t fewest = this->fewest(item, to), room = l_.most_left(boundary.outer);
    if (room < FAR && fewest > room) {
      if (returns_[to].is_goal) returns_[to].postponed.push_back({{item, to, boundary}, std::move(text), fewest, 0});
      return;
    }
    const uint64_t item_and_return = static_cast<uint64_t>(item) << 32 | to;
    if (!l_.is_new(met_[hash_words(FACT, item_and_return, key_without_outer(boundary))], boundary.outer)) return;
    characters_ += text.size();
    ++l_.searched_;
    work_.push({{item, to, boundary}, std::move(text), fewest, ++facts_});
  }

  // The fewest characters from an item on to the end of the text.
  uint32_t fewest(Item item, Return to) {
    const ReturnTo &back = returns_[to];
    const uint32_t after = back.is_goal ? back.fewest_after
                           : back.set   ? l_.fewest_after(back.set, l_.items_.head(item))
                                        : 0;
    return std::min(FAR, l_.fewest_left(item) + after);
  }

  // Another item waits for the goal that needs fewer characters after it.
  void make_room(Return goal, uint32_t fewest_after) {
    std::vector<std::pair<Return, uint32_t>> todo{{goal, fewest_after}};
    while (!todo.empty()) {
      charge();
      const auto [at, after] = todo.back();
      todo.pop_back();
      if (after >= returns_[at].fewest_after) continue;
      returns_[at].fewest_after = after;
      std::vector<Work> postponed = std::move(returns_[at].postponed);
      returns_[at].postponed.clear();
      for (Work &w : postponed) follow(w.fact.item, w.fact.to, w.fact.boundary, std::move(w.text));
      for (auto [asked, next] : returns_[at].subgoals)
        todo.push_back({asked, std::min(FAR, l_.fewest_left(next) + after)});
    }
  }

  // The characters that are left are computed once for all searches, so they are not charged to this one.
  void prepare(OuterState outer) {
    l_.most_left(outer);
    rows_ = l_.lexemes_.space().regex().rows_made();
  }

  // Has the search used up its budget?
  bool over() const {
    const size_t rows = l_.lexemes_.space().regex().rows_made() - rows_, points = l_.points_made_ - points_;
    return facts_ + characters_ / CHARACTERS_PER_STEP + points + RegexInclusion::ROW * rows > budget_;
  }

  bool run() {
    while (!work_.empty() && !alive_) {
      charge();
      if (over()) {
        spent_ = true;
        return true;
      }
      const Work work = work_.top();
      work_.pop();
      step(work.fact, work.text);
    }
    // A branch that was left out may have been live.
    if (!alive_ && (left_out_ || over())) spent_ = true;
    return alive_ || spent_;
  }

  void step(const Fact &fact, const std::string &text) {
    if (!keeps_text_ && fact.boundary.outer == ANYTHING && (l_.always_ || l_.separable(fact.boundary.after))) {
      alive_ = true;
      return;
    }
    const Symbol s = l_.items_.symbol_after_dot(fact.item);
    if (s == Grammar::END) return end(l_.items_.head(fact.item), fact.to, fact.boundary, text);
    if (s < 0) {
      const auto t = static_cast<uint32_t>(~s);
      const GrammarTerminal &terminal = l_.g_.terminals[t];
      if (terminal.kind == GrammarTerminal::Text) {
        // Between brackets a newline is not a symbol.
        if (t != l_.g_.indentation.newline || fact.boundary.brackets == 0) {
          const std::vector<Result> before = ignored(fact.boundary);
          for (auto it = before.rbegin(); it != before.rend() && !over(); ++it)
            lexeme(t, it->boundary, fact.item + 1, fact.to, joined(text, it->text));
        }
        if (terminal.nullable) follow(fact.item + 1, fact.to, fact.boundary, text);
      } else {
        // Indentation terminals have no text. After a token that is read as a whole, no lexeme is running.
        const bool made = terminal.is_made();
        if (made && t == l_.g_.indentation.indent && fact.boundary.brackets > 0) return;
        Boundary after = fact.boundary;
        if (!made) after.after = RegexSpace::EMPTY;
        follow(fact.item + 1, fact.to, after, text);
      }
      return;
    }
    const auto rule = static_cast<uint32_t>(s);
    auto [it, fresh] = goals_.try_emplace({rule, fact.boundary}, static_cast<Return>(returns_.size()));
    const Return goal = it->second;
    if (fresh) {
      returns_.emplace_back();
      returns_.back().is_goal = true;
    }
    if (returns_[fact.to].is_goal) returns_[fact.to].subgoals.push_back({goal, fact.item + 1});
    make_room(goal, fewest(fact.item + 1, fact.to));
    if (fresh)
      for (Item first : l_.g_.productions(rule)) follow(first, goal, fact.boundary, {});
    returns_[goal].waiting.push_back({fact.item + 1, fact.to, text});
    for (size_t i = 0; i < returns_[goal].results.size(); ++i) {
      const Result &result = returns_[goal].results[i];
      follow(fact.item + 1, fact.to, result.boundary, joined(text, result.text));
    }
  }

  void lexeme(uint32_t t, Boundary boundary, Item next, Return to, const std::string &text) {
    const std::optional<uint32_t> open = l_.opened(boundary.brackets, t);
    const LexemeState begin = open ? l_.begin(t, boundary.after) : Lexemes::DEAD;
    if (begin == Lexemes::DEAD) return;
    if (*open > most_open_) {
      left_out_ = true;
      return;
    }
    const Ends &ends = l_.ends(begin, boundary.outer, states_);
    if (!ends.all) left_out_ = true;
    for (auto it = ends.found.rbegin(); it != ends.found.rend(); ++it)
      follow(next, to, {it->boundary.after, it->boundary.outer, *open}, joined(text, it->text));
  }

  // Boundaries after any text to ignore, with that text.
  std::vector<Result> ignored(Boundary boundary) {
    std::vector<Result> out{{boundary, {}}};
    const bool in_brackets = boundary.brackets > 0;
    if (l_.g_.ignore.empty() && !in_brackets) return out;
    std::unordered_map<Re, Met> met;
    l_.is_new(met[boundary.after], boundary.outer);
    auto read_over = [&](uint32_t t, const Result before) {
      const LexemeState begin = l_.begin(t, before.boundary.after);
      if (begin == Lexemes::DEAD) return;
      const Ends &ends = l_.ends(begin, before.boundary.outer, states_);
      if (!ends.all) left_out_ = true;
      for (auto &[after, text] : ends.found)
        if (l_.is_new(met[after.after], after.outer))
          out.push_back({{after.after, after.outer, boundary.brackets}, joined(before.text, text)});
    };
    for (size_t i = 0; i < out.size(); ++i) {
      if (out.size() > MOST_ENDS_WITH_OUTER || over()) {
        left_out_ = true;
        break;
      }
      for (uint32_t t : l_.g_.ignore) read_over(t, out[i]);
      if (in_brackets) read_over(l_.g_.indentation.newline, out[i]);
    }
    return out;
  }

  // May the text end here, perhaps after text to ignore?
  bool finishes(Boundary boundary, const std::string &text) {
    if (l_.lexemes_.may_end(boundary.outer)) {
      text_ = text;
      return alive_ = true;
    }
    for (const Result &last : ignored(boundary)) {
      if (!l_.lexemes_.may_end(last.boundary.outer)) continue;
      text_ = joined(text, last.text);
      return alive_ = true;
    }
    return false;
  }

  void end(uint32_t rule, Return to, Boundary boundary, const std::string &text) {
    if (rule == l_.items_.accepting_rule()) {
      finishes(boundary, text);
      return;
    }
    if (returns_[to].is_goal) {
      std::vector<Result> &results = returns_[to].results;
      if (!l_.is_new(returns_[to].met[key_without_outer(boundary)], boundary.outer)) return;
      results.push_back({boundary, text});
      for (size_t i = 0; i < returns_[to].waiting.size(); ++i) {
        const Waiting &waiting = returns_[to].waiting[i];
        follow(waiting.item, waiting.to, boundary, joined(waiting.text, text));
      }
      return;
    }
    const EarleySet *set = returns_[to].set;
    std::vector<Item> items;
    for (uint32_t i = 0; i < set->count; ++i) {
      items.clear();
      l_.items_.moved_items(set->kernels[i], static_cast<Symbol>(rule), &items);
      for (Item item : items) follow(item, back_to(set->origins[i]), boundary, text);
    }
    items.clear();
    l_.items_.predicted_items(set->outlook, static_cast<Symbol>(rule), &items);
    for (Item item : items) follow(item, to, boundary, text);
  }

  GrammarLiveness &l_;
  bool keeps_text_;
  size_t states_;  // of a lexeme, to visit
  uint32_t most_open_ = MOST_OPENED;
  size_t budget_, points_, rows_;  // steps that it may take; what existed before it
  bool alive_ = false, spent_ = false, left_out_ = false;
  std::string text_;
  std::deque<ReturnTo> returns_;
  std::unordered_map<const EarleySet *, Return> sets_;
  std::map<std::pair<uint32_t, Boundary>, Return> goals_;
  std::unordered_map<Hash128, Met, HashOf128> met_;  // in facts that differ in nothing else
  size_t facts_ = 0, characters_ = 0;                // characters: of texts that are stored
  std::priority_queue<Work> work_;
};

}  // namespace structgen
