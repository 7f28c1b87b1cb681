#include "canvas/arcs.h"

#include <algorithm>
#include <map>

namespace structgen {
namespace {

constexpr size_t MOST_TOKENS = 1'000;  // of a token set: each token is an edge of its own at each position

BinaryGrammar canvas_grammar(const Plan &plan, TextSpace &space) {
  if (plan.kind == Plan::Regex) return {plan.re, space};
  if (plan.grammar->empty()) return {};
  return {plan.grammar->grammar(), plan.grammar->lexer()};
}

constexpr uint64_t STEPS = 81, TEXT = 82;
constexpr size_t SPARSE = 32;  // an arc with fewer than 1/32 of all tokens stores a list of ids

}  // namespace

bool CanvasArcs::Arc::meets(const uint32_t *mask) const {
  for (uint32_t id : ids)
    if (mask[id >> 5] >> (id & 31) & 1) return true;
  for (size_t w = 0; w < bits.size(); ++w)
    if (bits[w] & mask[w]) return true;
  return false;
}

void CanvasArcs::Arc::add_to(uint32_t *mask) const {
  for (uint32_t id : ids) mask[id >> 5] |= 1u << (id & 31);
  for (size_t w = 0; w < bits.size(); ++w) mask[w] |= bits[w];
}

bool CanvasArcs::Arc::has(uint32_t token) const {
  if (!bits.empty()) return bits[token >> 5] >> (token & 31) & 1;
  return std::binary_search(ids.begin(), ids.end(), token);
}

std::string canvas_obstacle(const Plan &plan, TextSpace &space) {
  switch (plan.kind) {
    case Plan::Regex: return {};
    case Plan::Json: return "a JSON Schema";
    case Plan::Sequence:
      if (plan.max_tokens > 0) return "a part with a limit of tokens";
      return "a sequence of constraints that are not regular expressions";
    case Plan::Union: return "a choice between constraints that are not regular expressions";
    case Plan::Grammar: break;
  }
  const Grammar &g = plan.grammar->grammar();
  if (g.indentation.active()) return "a grammar whose lines are indented";
  if (g.contextual && g.lexing != Lexing::Scannerless) return "a grammar with a contextual lexer";
  if (g.outer_language != RegexSpace::ANY_TEXT) return "a grammar together with another constraint on the whole text";
  for (const GrammarTerminal &t : g.terminals)
    if (t.kind == GrammarTerminal::Constraint) return "a grammar that holds another constraint";
  for (const GrammarTerminal &t : g.terminals) {
    if (t.kind != GrammarTerminal::Tokens) continue;
    const TokenSet &set = space.token_sets()[t.tokens];
    if (set.has_text()) return "a grammar that names tokens of text by number";
    if (set.size() > MOST_TOKENS) return "a grammar with a set of more than " + std::to_string(MOST_TOKENS) + " tokens";
  }
  return {};
}

CanvasArcs::CanvasArcs(const Plan &plan, TextSpace &space) : space_(space), grammar_(canvas_grammar(plan, space)) {
  boundary(RegexSpace::EMPTY);
  std::map<std::vector<uint64_t>, uint32_t> sets;
  for (uint32_t t = 0; t < grammar_.terminal_count(); ++t) {
    const auto [it, fresh] = sets.try_emplace(grammar_.follow[t], static_cast<uint32_t>(follower_sets_.size()));
    if (fresh) {
      follower_sets_.emplace_back();
      for (uint32_t u = 0; u < grammar_.terminal_count(); ++u)
        if (grammar_.follow[t][u / 64] >> u % 64 & 1) follower_sets_.back().push_back(u);
    }
    followers_.push_back(it->second);
  }
}

uint32_t CanvasArcs::run(uint32_t terminal, LexemeState lexeme) {
  const auto [it, fresh] =
      run_index_.try_emplace(static_cast<uint64_t>(terminal) << 32 | lexeme, static_cast<uint32_t>(runs_.size()));
  if (fresh) runs_.push_back({terminal, lexeme, nullptr});
  return it->second;
}

uint32_t CanvasArcs::boundary(Re after) {
  after = space_.lexemes().coarsen(after);
  const auto [it, fresh] = boundary_index_.try_emplace(after, static_cast<uint32_t>(boundaries_.size()));
  if (fresh) boundaries_.push_back(after);
  return it->second;
}

uint32_t CanvasArcs::begin(uint32_t boundary, uint32_t terminal) {
  const uint64_t key = static_cast<uint64_t>(boundary) << 32 | terminal;
  if (const auto it = begin_index_.find(key); it != begin_index_.end()) return it->second;
  const BinaryGrammar::Terminal &t = grammar_.terminals[terminal];
  if (!t.tokens.empty() || t.begin == Lexemes::DEAD) return NONE;
  Lexemes &lexemes = space_.lexemes();
  const Re after = boundaries_[boundary];
  const bool meet = (lexemes.first_of(after) & lexemes.first(t.begin)).any();
  const LexemeState s = meet ? lexemes.restricted(t.begin, after) : t.begin;
  const uint32_t made = s == Lexemes::DEAD ? NONE : run(terminal, s);
  return begin_index_[key] = made;
}

// Reads `text` from state `s` of a terminal on. If the terminal may end before the text does, `rest_of` reads the rest
// into the terminals that may follow.
template <class RestOf>
void CanvasArcs::read(uint32_t terminal, LexemeState s, std::string_view text, std::vector<Step> &out,
                      const RestOf &rest_of) {
  Lexemes &lexemes = space_.lexemes();
  for (size_t i = 0; i < text.size(); ++i) {
    s = lexemes.step(s, static_cast<uint8_t>(text[i]));
    if (s == Lexemes::DEAD) return;
    if (i + 1 == text.size() || !lexemes.complete(s)) continue;
    if (const uint32_t left = rest_of(terminal, lexemes.after(s), text.substr(i + 1)); left != NONE)
      out.push_back({Kind::Rest, terminal, left});
  }
  if (goes_on(s)) out.push_back({Kind::Run, terminal, run(terminal, s)});
  if (lexemes.complete(s)) out.push_back({Kind::Boundary, terminal, boundary(lexemes.after(s))});
}

// The steps of a rest are computed from the steps of shorter rests. Unknown shorter rests come first, on an explicit
// stack, since a token may have thousands of bytes, each of them a lexeme.
uint32_t CanvasArcs::rest(uint32_t terminal, Re after, std::string_view text) {
  struct Query {
    uint32_t set;
    Re after;
    std::string_view text;
    Hash128 key;
  };
  auto query = [&](uint32_t ended, Re forbidden, std::string_view left) {
    const uint32_t set = followers_[ended];
    return Query{set, forbidden, left, extend(hash_words(TEXT, set, forbidden), hash_text(left))};
  };
  const Query first = query(terminal, after, text);
  if (const auto it = rest_of_.find(first.key); it != rest_of_.end()) return it->second;
  std::vector<Query> open{first};
  while (!open.empty()) {
    charge();
    const Query now = open.back();
    const size_t before = open.size();
    std::vector<Step> steps;
    auto known = [&](uint32_t ended, Re forbidden, std::string_view left) {
      const Query shorter = query(ended, forbidden, left);
      if (const auto it = rest_of_.find(shorter.key); it != rest_of_.end()) return it->second;
      open.push_back(shorter);
      return NONE;
    };
    if (!rest_of_.contains(now.key)) {  // the stack may contain it twice
      const uint32_t at = boundary(now.after);
      for (uint32_t next : follower_sets_[now.set])
        if (const uint32_t run = begin(at, next); run != NONE) read(next, runs_[run].lexeme, now.text, steps, known);
    }
    if (open.size() > before) continue;
    open.pop_back();
    if (!rest_of_.contains(now.key)) rest_of_[now.key] = interned(std::move(steps));
  }
  return rest_of_[first.key];
}

uint32_t CanvasArcs::interned(std::vector<Step> steps) {
  if (steps.empty()) return NONE;
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  Hash128 identity = hash_words(STEPS);
  for (const Step &s : steps)
    identity = extend(extend(identity, static_cast<uint64_t>(s.kind) << 32 | s.terminal), s.to);
  const auto [it, fresh] = rest_index_.try_emplace(identity, static_cast<uint32_t>(rests_.size()));
  if (fresh) rests_.push_back(std::move(steps));
  return it->second;
}

const std::vector<CanvasArcs::Step> &CanvasArcs::steps(uint32_t run, uint32_t token) {
  const uint64_t key = static_cast<uint64_t>(run) << 32 | token;
  if (const auto it = single_.find(key); it != single_.end()) return it->second;
  std::vector<Step> out;
  const std::string_view text = vocabulary().token(token);
  auto rest_of = [&](uint32_t terminal, Re after, std::string_view left) { return rest(terminal, after, left); };
  if (!text.empty()) read(runs_[run].terminal, runs_[run].lexeme, text, out, rest_of);  // special tokens have no text
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return single_[key] = std::move(out);
}

// Walks the trie of all tokens.
class CanvasArcs::Walk {
 public:
  Walk(CanvasArcs &arcs, uint32_t terminal) : arcs_(arcs), v_(arcs.vocabulary()), terminal_(terminal) {}

  // Visits all nodes in order, with the states of the nodes above each one.
  void visit_all(LexemeState begin) {
    Lexemes &lexemes = arcs_.space_.lexemes();
    std::vector<LexemeState> states{begin};
    for (Vocabulary::Node node = Vocabulary::ROOT + 1; node < v_.end(Vocabulary::ROOT);) {
      const size_t depth = v_.depth(node);
      states.resize(depth);
      const LexemeState to = lexemes.step(states.back(), v_.byte(node));
      if (to == Lexemes::DEAD) {
        node = v_.end(node);
        continue;
      }
      states.push_back(to);
      if (!v_.ids(node).empty()) {
        if (arcs_.goes_on(to)) add({Kind::Run, terminal_, arcs_.run(terminal_, to)}, v_.ids(node));
        if (lexemes.complete(to)) add({Kind::Boundary, terminal_, arcs_.boundary(lexemes.after(to))}, v_.ids(node));
      }
      if (lexemes.complete(to)) add_rests(node, lexemes.after(to));
      ++node;
    }
  }

  std::vector<Arc> finish() {
    std::vector<Arc> out;
    for (auto &[step, ids] : arcs_by_step_) {
      Arc arc{step, {}, {}};
      std::sort(ids.begin(), ids.end());
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      if (ids.size() * SPARSE >= v_.size()) {
        arc.bits.resize(v_.words());
        for (uint32_t id : ids) arc.bits[id >> 5] |= 1u << (id & 31);
      } else {
        arc.ids = std::move(ids);
      }
      out.push_back(std::move(arc));
    }
    return out;
  }

 private:
  // Adds the tokens below `node`, where the terminal may end: each of them has a rest.
  void add_rests(Vocabulary::Node node, Re after) {
    std::bitset<256> begins;
    Lexemes &lexemes = arcs_.space_.lexemes();
    for (uint32_t next : arcs_.follower_sets_[arcs_.followers_[terminal_]])
      if (const uint32_t run = arcs_.begin(arcs_.boundary(after), next); run != NONE)
        begins |= lexemes.first(arcs_.runs_[run].lexeme);
    if (begins.none()) return;
    const size_t depth = v_.depth(node);
    for (Vocabulary::Node child = node + 1; child < v_.end(node); child = v_.end(child)) {
      if (!begins.test(v_.byte(child))) continue;
      const auto [from, to] = v_.places_within(child);
      for (uint32_t i = from; i < to; ++i) {
        const std::string_view text = v_.token_at(i);
        const uint32_t left = arcs_.rest(terminal_, after, text.substr(depth));
        if (left != NONE) {
          const uint32_t id = v_.id_at(i);
          add({Kind::Rest, terminal_, left}, {&id, 1});
        }
      }
    }
  }

  void add(const Step &step, std::span<const uint32_t> ids) {
    std::vector<uint32_t> &known = arcs_by_step_[step];
    known.insert(known.end(), ids.begin(), ids.end());
  }

  CanvasArcs &arcs_;
  const Vocabulary &v_;
  uint32_t terminal_;
  std::map<Step, std::vector<uint32_t>> arcs_by_step_;
};

const std::vector<CanvasArcs::Arc> &CanvasArcs::arcs(uint32_t run) {
  if (!runs_[run].arcs) {
    Walk walk(*this, runs_[run].terminal);
    walk.visit_all(runs_[run].lexeme);
    // subtle: the walk has made runs, and may have moved them.
    runs_[run].arcs = std::make_unique<std::vector<Arc>>(walk.finish());
  }
  return *runs_[run].arcs;
}

}  // namespace structgen
