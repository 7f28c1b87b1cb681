// One constraint, one sequence: tokens in, masks out.
//
// A matcher is a stack of automaton states, one per token read. A rollback pops states, a fork shares the stack. One
// thread uses a matcher at a time (`Use`). Several threads may use different matchers at once, also of the same
// program.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "automaton/token_counts.h"
#include "masks/mask_cache.h"
#include "matcher/grammar_trace.h"
#include "matcher/history.h"
#include "util/exclusive_use.h"
#include "util/work.h"

namespace structgen {

// A compiled constraint over a vocabulary, shared by its matchers.
class Program {
 public:
  // `heap`: what the program has allocated so far; `nodes` of them belong to regular expressions. `assumptions`: on
  // which the compilation relied.
  Program(std::unique_ptr<Plan> plan, std::shared_ptr<TextSpace> space, std::shared_ptr<HeapAccount> heap, size_t nodes,
          std::unordered_set<uint32_t> assumptions)
      : nodes_(nodes),
        assumptions_(std::move(assumptions)),
        heap_(std::move(heap)),
        space_(std::move(space)),
        automaton_(std::make_unique<Automaton>(std::move(plan), *space_)),
        masks_(std::make_unique<MaskCache>(*automaton_)) {}
  ~Program() {
    const HeapCharge freed(HeapCharge::NO_PROGRAM, space_->heap(), SIZE_MAX);
    masks_.reset();
    automaton_.reset();
    has_spelling_ = {};
  }

  TextSpace &space() { return *space_; }
  // Does the constraint name tokens of text, so that they are read whole?
  bool names_text_tokens() const {
    const auto &sets = automaton_->token_sets();
    return std::any_of(sets.begin(), sets.end(), [](const auto &set) { return set.second->has_text(); });
  }
  Automaton &automaton() { return *automaton_; }
  MaskCache &masks() { return *masks_; }
  // In bytes: the program, and what it was the first to need of its space.
  size_t memory() const { return heap_->memory(); }
  // Does the constraint have a text, at least as bytes?
  bool has_text();
  // A short text of a JSON Schema; false where none was found. `exact`: no text is shorter.
  bool shortest(std::string *out, bool *exact);

  // Exclusive use of the program's space. States, nodes, bytes and work are charged to the program: a constraint that
  // explodes meets its limits alone, and the others on the space go on.
  class Turn {
   public:
    // `share`: a multiple of the work that a call may do; searches for texts may do more.
    explicit Turn(Program &program, size_t share = 1)
        : lock_(program.space_->hold()),
          call_(multiply(program.space_->limits().call_steps, share)),
          heap_(program.heap_, program.space_->heap(), program.space_->limits().program_bytes),
          record_(program.space_->regex(), program.assumptions_),
          program_(program) {
      RegexSpace &regex = program.space_->regex();
      const size_t all = program.space_->limits().automaton_states;
      before_ = regex.rows_made();
      regex.allow_rows(all > program.states_ ? all - program.states_ : 0);
      nodes_before_ = regex.size();
      const size_t most = program.space_->limits().regex.max_nodes;
      regex.allow_nodes(most > program.nodes_ ? most - program.nodes_ : 0);
    }
    ~Turn() {
      const RegexSpace &regex = program_.space_->regex();
      program_.states_ += regex.rows_made() - before_;
      program_.nodes_ += regex.size() - nodes_before_;
    }
    Turn(const Turn &) = delete;

   private:
    std::unique_lock<ForkMutex> lock_;
    Call call_;
    HeapCharge heap_;
    AssumptionRecord record_;
    Program &program_;
    size_t before_, nodes_before_;
  };

  static constexpr size_t SEARCH = 4;  // the share of calls that compile, or search for whole texts
  static uint64_t multiply(uint64_t steps, size_t share) { return steps < UINT64_MAX / share ? steps * share : steps; }

  // Searches that met their limit, so that this program counts states as live. The searches of regular expressions are
  // shared by the programs of a space: each program counts those on which it relied.
  uint64_t unproven() const { return assumptions_.size() + searches_cut_ + automaton_->unproven(); }
  void count_unproven() { ++searches_cut_; }

  // The number of tokens in the shortest texts that were found so far.
  struct LeastTokens {
    ForkMutex mutex{ForkMutex::ShortestTexts};
    bool text_tried = false, witness_tried = false, shortest_tried = false;
    bool is_cut = false;      // the search for the fewest tokens of a regular expression's text met its limit
    size_t least_length = 0;  // of such a text, in characters; a lower bound
    std::optional<size_t> tokens;
  };
  LeastTokens &least_tokens() { return least_tokens_; }

  // By `stack_signature`: can tokens spell a completion of the state? Empty for vocabularies that spell all texts.
  std::unordered_map<Hash128, bool, HashOf128> &has_spelling() { return has_spelling_; }

 private:
  LeastTokens least_tokens_;
  std::unordered_map<Hash128, bool, HashOf128> has_spelling_;
  size_t states_ = 0, nodes_ = 0;
  std::unordered_set<uint32_t> assumptions_;  // searches of the space, see RegexSpace::record_assumptions
  uint64_t searches_cut_ = 0;
  std::shared_ptr<HeapAccount> heap_;
  std::shared_ptr<TextSpace> space_;
  std::unique_ptr<Automaton> automaton_;
  std::unique_ptr<MaskCache> masks_;
};

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Program> program);
  ~Matcher() {
    const Uncounted own;
    history_ = {};
    first_bytes_ = {};
  }

  UseFlag &in_use() { return in_use_; }

  std::shared_ptr<const Mask> mask();
  bool advance(uint32_t token);
  // Reads bytes before the first token that belong to no token of the sequence: the end of a token that was read
  // elsewhere. False, and nothing changes, where no text starts with them.
  bool begin(std::string_view bytes);
  // Is every continuation in valid UTF-8 a text? False also for constraints that are no regular expression.
  bool accepts_everything();
  size_t accepts(std::span<const uint32_t> tokens);
  std::vector<uint32_t> forced(size_t most);
  std::string forced_bytes(size_t most);
  void rollback(size_t n);
  std::unique_ptr<Matcher> fork();
  void reset();
  bool complete();  // the text so far satisfies the constraint
  bool finished() const { return finished_; }
  bool dead() const { return history_.back().state == nullptr; }
  std::vector<uint32_t> tokens() const { return history_.tokens(); }
  std::string text() const;
  // The state after the last token that may have been read whole, and the number of tokens and bytes up to there.
  struct Whole {
    const Frame *state;
    size_t tokens, bytes;
  };
  Whole last_whole() const;
  // The number of leading bytes of `text` that can follow.
  size_t viable_bytes(std::string_view text);
  // Bytes that can come next, and whether the text may end.
  std::bitset<256> next_bytes(std::string_view after, bool *may_end);
  // A short completion of the text so far and `after`, as bytes; false where none was found.
  bool witness(std::string_view after, std::string *out, bool is_patient = true);
  // Why the last search found nothing; null where it found a completion.
  const char *search_failure() const { return search_failure_; }
  // Tokens of a short completion: the fewest for a regular expression, otherwise the fewest that spell the witness.
  bool witness_tokens(std::vector<uint32_t> *out, bool is_patient = true);
  // Is it certain that no sequence of tokens completes the text? Only where tokens cannot spell every text.
  bool has_no_spelling();
  // The number of tokens of some text of the constraint, from its beginning: at most `room` where such a text is found,
  // otherwise of the shortest one found. Nothing where none was found, or where a pattern has too many states to
  // decide.
  std::optional<size_t> least_tokens(size_t room);
  // The terminals of the text of a grammar, oldest first, for each position of its parser if nothing more is read into
  // the last lexeme. Empty for other constraints.
  std::vector<std::vector<uint32_t>> lexemes();
  // How a text of a grammar can be cut into terminals, from its beginning. Units are bytes, and special tokens from 256
  // on.
  GrammarTrace trace(std::span<const uint32_t> units);
  // The temperature of the next token, where a rule of the grammar has one.
  std::optional<double> temperature();
  // Tokens that start a lexeme of `terminal` at a position of the parser.
  std::shared_ptr<const Mask> beginning(size_t position, uint32_t terminal);
  const Frame *state() const { return history_.back().state; }
  Program &program() { return *program_; }
  std::shared_ptr<Program> shared_program() { return program_; }
  // In bytes, without what a fork shares.
  size_t memory() const { return arena_.own_memory() + history_.memory(); }

  // Reads `text`, and calls `fn` with the state before the first byte that cannot follow, or after all of it, and its
  // offset.
  template <class Fn>
  auto with_state(std::string_view text, Fn fn) {
    Program::Turn turn(*program_, Program::SEARCH);
    Scratch scratch(scratch_);
    StepContext &ctx = scratch.ctx;
    Automaton &automaton = program_->automaton();
    const Frame *n = state();
    size_t i = 0;
    for (; n && i < text.size(); ++i) {
      count_byte_as_token(ctx, progress().tokens + i);
      const Frame *next =
          with_cuts(automaton, ctx, automaton.step(ctx, n, static_cast<uint8_t>(text[i])), progress().tokens + i + 1);
      if (!next) break;
      n = next;
    }
    return fn(ctx, n, i);
  }

 private:
  // Memory for the states of one call. It is released at the end of the call, also where a limit ends it.
  struct Scratch {
    explicit Scratch(Arena &arena) : ctx{arena} {}
    ~Scratch() { ctx.arena.release({}); }
    Scratch(const Scratch &) = delete;
    StepContext ctx;
  };
  explicit Matcher(Matcher *origin);
  struct Progress {
    uint64_t tokens;            // read so far
    uint8_t missing_bytes = 0;  // of the character at the end
    bool ended_part = false;    // the last token used up the tokens of a part, which ended
  };
  Progress progress() const {
    return {history_.size() - 1 + (first_bytes_.empty() ? 0 : 1), history_.back().missing_bytes};
  }
  void append(uint32_t token, const Frame *state, uint8_t missing_bytes);
  // The state after a token, and in `at` the progress after it. Null also where no tokens spell a completion.
  const Frame *step_spellable(StepContext &ctx, const Frame *state, uint32_t token, Progress &at);
  const Frame *step(StepContext &ctx, const Frame *state, uint32_t token, Progress &at);
  // Where tokens cannot spell every text: does some sequence of tokens complete the text?
  bool has_spelling(const Frame *state, Progress at);
  enum class Search : uint8_t { Found, Nothing, Cut };
  Search search_tokens(const Frame *from, Progress at, std::vector<uint32_t> *out);
  // Changes a completion that ignores the limits of parts with `max_tokens` into one that respects them; false where
  // none is found.
  bool respect_limits(const Frame *from, Progress at, std::vector<uint32_t> *tokens);

  std::shared_ptr<Program> program_;
  Arena arena_, scratch_;
  History history_;
  std::string first_bytes_;  // before the first token
  const char *search_failure_ = nullptr;
  bool finished_ = false;
  UseFlag in_use_{
      "this matcher is in use by another thread. Give each thread a matcher of its own: matcher.fork() makes one in "
      "the same "
      "state"};
};

// Fills row i of `out` (`words` words per row) with the mask of matcher i. Uses up to `threads` threads, one for each
// space.
void fill_masks(std::span<Matcher *const> matchers, int32_t *out, size_t words, unsigned threads);

}  // namespace structgen
