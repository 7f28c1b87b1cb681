// Completions of the text so far, as bytes and as tokens, and the fewest tokens that were found.
#include <algorithm>
#include <queue>
#include <unordered_set>

#include "automaton/signatures.h"
#include "completion/witness.h"
#include "json/shortest/shortest_values.h"
#include "matcher/matcher.h"

namespace structgen {

namespace {

// Why there is no completion, where that is not a limit of the search.
constexpr const char *DEAD_END = "the text so far has none: it cannot be read";
constexpr const char *TOKENS = "the one that was found has tokens that are read whole, not as bytes";
constexpr const char *UNSPELLED = "no tokens were found that spell one";

}  // namespace

bool Program::shortest(std::string *out, bool *exact) {
  Turn turn(*this, SEARCH);
  JsonControl *json = automaton_->plan().json.get();
  if (!json) return false;
  struct HandOver {
    std::string &text;
    ~HandOver() { hand_over(text); }
  } const at_end{*out};
  const bool found = json->shortest().text(json->root_requirement(), out);
  *exact = found && json->shortest().is_exact();
  Arena arena;
  StepContext ctx{arena};
  const Frame *node = automaton_->start(ctx);
  for (size_t i = 0; found && node && i < out->size(); ++i)
    node = automaton_->step(ctx, node, static_cast<uint8_t>((*out)[i]));
  if (found && node && automaton_->accepts(ctx, node)) return true;
  // The automaton may refuse the text, as too deep for its limits.
  *exact = false;
  out->clear();
  node = automaton_->start(ctx);
  return node && complete_text(*automaton_, ctx, node, out, false);
}

bool Matcher::witness(std::string_view after, std::string *out, bool is_patient) {
  search_failure_ = nullptr;
  return with_state(after, [&](StepContext &ctx, const Frame *n, size_t i) {
    if (!n || i < after.size()) {
      search_failure_ = DEAD_END;
      return false;
    }
    SearchFailure why = SearchFailure::Nothing;
    const bool complete = complete_text(program_->automaton(), ctx, n, out, is_patient, &why);
    if (!complete) search_failure_ = why == SearchFailure::Nothing ? TOKENS : text_of(why);
    hand_over(*out);
    return complete;
  });
}

// The fewest tokens that spell a completion; false where no tokens do. Tokens that are read whole stay as they are.
static bool fewest_tokens(Automaton &automaton, const WitnessSymbols &symbols, std::vector<uint32_t> *out) {
  const Vocabulary &vocabulary = automaton.text().vocabulary();
  for (auto at = symbols.begin();;) {
    const auto end = std::find_if(at, symbols.end(), [](uint32_t s) { return s >= FIRST_TOKEN_SET; });
    const auto tokens = vocabulary.fewest_tokens(std::string(at, end));
    if (!tokens) return false;
    out->insert(out->end(), tokens->begin(), tokens->end());
    if (end == symbols.end()) return true;
    out->push_back(automaton.token_sets().at(*end - FIRST_TOKEN_SET)->sample());
    at = end + 1;
  }
}

bool Matcher::witness_tokens(std::vector<uint32_t> *out, bool is_patient) {
  search_failure_ = nullptr;
  if (const auto *n = as_if<ScalarFrame>(state()); n && !n->parent) {
    Program::Turn turn(*program_, Program::SEARCH);
    if (program_->space().fewest_tokens(n->text, out)) {
      hand_over(*out);
      return true;
    }
    out->clear();  // too many states to find the fewest tokens: take those of a short text
  }
  WitnessSymbols symbols;
  const bool found = with_state({}, [&](StepContext &ctx, const Frame *n, size_t) {
    SearchFailure why = SearchFailure::Nothing;
    const bool complete = n && complete_state(program_->automaton(), ctx, n, &symbols, is_patient, &why);
    if (!complete) search_failure_ = n ? text_of(why) : DEAD_END;
    hand_over(symbols);
    return complete;
  });
  const Vocabulary &vocabulary = program_->space().vocabulary();
  if (found && fewest_tokens(program_->automaton(), symbols, out)) {
    if (!program_->automaton().counts_tokens()) return true;
    Program::Turn turn(*program_, Program::SEARCH);
    bool complete_within = respect_limits(state(), progress(), out);
    if (!complete_within) {
      out->clear();
      complete_within = search_tokens(state(), progress(), out) == Search::Found;
    }
    hand_over(*out);
    if (complete_within) return true;
  }
  if (found) search_failure_ = UNSPELLED;
  if (vocabulary.closed()) return false;
  out->clear();
  Program::Turn turn(*program_, Program::SEARCH);
  const bool spelled = state() && search_tokens(state(), progress(), out) == Search::Found;
  if (spelled) search_failure_ = nullptr;
  hand_over(*out);
  return spelled;
}

bool Matcher::has_no_spelling() {
  Program::Turn turn(*program_);
  return !program_->space().vocabulary().closed() && !(state() && has_spelling(state(), progress()));
}

bool Matcher::respect_limits(const Frame *from, Progress at, std::vector<uint32_t> *tokens) {
  constexpr size_t MOST = 50;
  Automaton &automaton = program_->automaton();
  Arena path, ahead;
  StepContext ctx{path}, beyond{ahead};
  size_t read = 0;
  for (size_t tries = 0; tries < MOST; ++tries) {
    const size_t before = read;
    while (read < tokens->size()) {
      Progress after = at;
      const Frame *next = step(ctx, from, (*tokens)[read], after);
      if (!next) break;
      from = next;
      at = after;
      ++read;
      if (at.ended_part) break;  // the completion may have gone on inside the part
    }
    if (automaton.accepts(ctx, from)) {
      tokens->resize(read);
      return true;
    }
    if (tries > 0 && read == before) return false;
    tokens->resize(read);
    WitnessSymbols symbols;
    if (!complete_state(automaton, beyond, from, &symbols, false) || !fewest_tokens(automaton, symbols, tokens))
      return false;
    ahead.release({});
  }
  return false;
}

bool Matcher::has_spelling(const Frame *node, Progress at) {
  constexpr size_t MOST_KNOWN = 100'000;
  if (is<ScalarFrame>(node) && !node->parent)
    return true;  // the steps of a regular expression check it: `TextSpace::spellable`
  auto &known = program_->has_spelling();
  const Hash128 key = stack_signature(program_->automaton(), node, at.tokens);
  if (const auto it = known.find(key); it != known.end()) return it->second;
  Arena ahead;
  StepContext ctx{ahead};
  WitnessSymbols symbols;
  std::vector<uint32_t> tokens;
  bool can = complete_state(program_->automaton(), ctx, node, &symbols, false) &&
             fewest_tokens(program_->automaton(), symbols, &tokens) &&
             (!program_->automaton().counts_tokens() || respect_limits(node, at, &tokens));
  if (!can) {
    tokens.clear();
    const Search found = search_tokens(node, at, &tokens);
    if (found == Search::Cut) program_->count_unproven();
    can = found != Search::Nothing;
  }
  if (known.size() > MOST_KNOWN) known.clear();
  return known[key] = can;
}

// Where some byte is only part of longer tokens, a completion in bytes need not be one that tokens can spell. This
// search follows the tokens that masks allow, best first: the distance to the end is estimated by a completion in
// bytes.
Matcher::Search Matcher::search_tokens(const Frame *from, Progress start, std::vector<uint32_t> *out) {
  constexpr size_t SHARE = 50;  // a fraction of the work of a call, which may have to decide many states
  const uint64_t most = work::done() + program_->space().limits().call_steps / SHARE;
  constexpr size_t FAR = 1'000'000;
  struct Met {
    const Frame *state;
    size_t from;  // the state before, by index
    uint32_t token;
    Progress at;
  };
  Automaton &automaton = program_->automaton();
  const Vocabulary &vocabulary = program_->space().vocabulary();
  Arena path, ahead, scratch;
  StepContext ctx{path}, beyond{ahead};
  std::vector<Met> met{{from, 0, 0, start}};
  std::unordered_set<Hash128, HashOf128> known;
  std::priority_queue<std::pair<size_t, size_t>, std::vector<std::pair<size_t, size_t>>, std::greater<>> queue;
  queue.push({0, 0});
  while (!queue.empty()) {
    const size_t at = queue.top().second;
    queue.pop();
    if (automaton.accepts(ctx, met[at].state)) {
      for (size_t i = at; i != 0; i = met[i].from) out->insert(out->begin(), met[i].token);
      return Search::Found;
    }
    const std::shared_ptr<const Mask> mask = program_->masks().mask(scratch, met[at].state);
    for (uint32_t token = 0; token < vocabulary.size(); ++token) {
      if (!mask->test(token)) continue;
      if (work::done() > most) return Search::Cut;
      const Arena::Mark before = path.mark();
      Progress after = met[at].at;
      const Frame *next = step(ctx, met[at].state, token, after);
      if (!next || !known.insert(stack_signature(automaton, next, after.tokens)).second) {
        path.release(before);
        continue;
      }
      WitnessSymbols rest;
      const size_t left = complete_state(automaton, beyond, next, &rest, false) ? rest.size() : FAR;
      ahead.release({});
      met.push_back({next, at, token, after});
      queue.push({after.tokens + left, met.size() - 1});
    }
  }
  return Search::Nothing;
}

std::optional<size_t> Matcher::least_tokens(size_t room) {
  Program::LeastTokens &known = program_->least_tokens();
  std::unique_lock lock(known.mutex, std::try_to_lock);
  while (!lock.owns_lock() && !lock.try_lock_for(std::chrono::milliseconds(10))) work::check();
  auto enough = [&] { return known.tokens && *known.tokens <= room; };
  if (enough()) return known.tokens;
  auto found = [&](size_t tokens) { known.tokens = std::min(known.tokens.value_or(tokens), tokens); };
  Matcher first(program_);
  const auto *start = as_if<ScalarFrame>(first.state());
  if (start && !start->parent) {
    TextSpace &space = program_->space();
    const Vocabulary &vocabulary = space.vocabulary();
    // A short text is found quickly; one with the fewest tokens takes a search over all states.
    if (!std::exchange(known.text_tried, true)) {
      if (std::string text; first.witness({}, &text, false))
        if (auto tokens = vocabulary.fewest_tokens(text)) found(tokens->size());
      Program::Turn turn(*program_, Program::SEARCH);
      known.least_length = std::max<int64_t>(0, space.regex().min_length(space.re(start->text)));
    }
    if (enough()) return known.tokens;
    const bool cannot_fit = known.least_length / std::max<size_t>(1, vocabulary.longest_token()) > room;
    if (cannot_fit && known.tokens) return known.tokens;
    if (!std::exchange(known.witness_tried, true)) {
      Program::Turn turn(*program_, Program::SEARCH);
      std::vector<uint32_t> tokens;
      known.is_cut = true;  // until the search has ended: a limit may throw
      if (space.fewest_tokens(start->text, &tokens, &known.is_cut)) found(tokens.size());
    }
    return enough() || !known.is_cut ? known.tokens : std::nullopt;
  }
  if (!enough() && !std::exchange(known.witness_tried, true)) {
    std::vector<uint32_t> tokens;
    if (first.witness_tokens(&tokens, false)) found(tokens.size());
  }
  if (!enough() && !std::exchange(known.shortest_tried, true)) {
    std::string text;
    bool exact;
    if (program_->shortest(&text, &exact))
      if (auto tokens = program_->space().vocabulary().fewest_tokens(text)) found(tokens->size());
  }
  return known.tokens;
}

}  // namespace structgen
