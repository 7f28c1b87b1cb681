// One constraint, one sequence: tokens in, masks out.
//
// A matcher is a stack of automaton states, one per token read. Rolling back pops, forking
// shares it. A matcher is used by one thread at a time (`Use`); matchers of the same or of different
// programs may be used by several at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "automaton/token_counts.h"
#include "util/exclusive_use.h"
#include "matcher/grammar_trace.h"
#include "matcher/history.h"
#include "masks/masks.h"
#include "util/work.h"

namespace structgen {

// A compiled constraint on a vocabulary, shared by its matchers.
class Program {
 public:
  // `heap`: what it has allocated so far, `nodes` of regular expressions among it.
  Program(std::unique_ptr<Plan> plan, std::shared_ptr<TextSpace> space, std::shared_ptr<HeapAccount> heap, size_t nodes)
      : nodes_(nodes),
        heap_(std::move(heap)),
        space_(std::move(space)),
        automaton_(std::make_unique<Automaton>(std::move(plan), *space_)),
        masks_(std::make_unique<Masks>(*automaton_)) {}
  ~Program() {
    const HeapCharge freed(HeapCharge::NO_PROGRAM, space_->heap(), SIZE_MAX);
    masks_.reset();
    automaton_.reset();
    spelled_ = {};
  }

  TextSpace &space() { return *space_; }
  // Are some tokens of text read whole, whatever their bytes are?
  bool names_text_tokens() const {
    const auto &sets = automaton_->token_sets();
    return std::any_of(sets.begin(), sets.end(), [](const auto &set) { return set.second->has_text(); });
  }
  Automaton &automaton() { return *automaton_; }
  Masks &masks() { return *masks_; }
  // Bytes that it made: its own, and what it was the first to need of its space.
  size_t memory() const { return heap_->memory(); }
  // Is there a text, as far as bytes are concerned?
  bool starts();
  // A shortest text of a JSON Schema, and whether it is known to be one; false when none was found.
  bool shortest(std::string *out, bool *exact);

  // Exclusive use of the program's space, on the program's own account of states, nodes, bytes and work: a
  // constraint that explodes meets its limits alone, and the others on the space go on.
  class Turn {
   public:
    // `share`: of the work that a call may do; searches for texts may do more.
    explicit Turn(Program &program, size_t share = 1)
        : lock_(program.space_->hold()),
          call_(many(program.space_->limits().call_steps, share)),
          heap_(program.heap_, program.space_->heap(), program.space_->limits().program_bytes),
          program_(program) {
      RegexSpace &regex = program.space_->regex();
      const size_t all = program.space_->limits().automaton_states;
      before_ = regex.rows_made();
      unproven_ = regex.unproven();
      regex.allow_rows(all > program.states_ ? all - program.states_ : 0);
      nodes_before_ = regex.size();
      const size_t most = program.space_->limits().regex.max_nodes;
      regex.allow_nodes(most > program.nodes_ ? most - program.nodes_ : 0);
    }
    ~Turn() {
      const RegexSpace &regex = program_.space_->regex();
      program_.states_ += regex.rows_made() - before_;
      program_.unproven_ += regex.unproven() - unproven_;
      program_.nodes_ += regex.size() - nodes_before_;
    }
    Turn(const Turn &) = delete;

   private:
    std::unique_lock<ForkMutex> lock_;
    Call call_;
    HeapCharge heap_;
    Program &program_;
    size_t before_, unproven_, nodes_before_;
  };

  static constexpr size_t SEARCH = 4;  // the share of calls that compile, or search for whole texts
  static uint64_t many(uint64_t steps, size_t share) { return steps < UINT64_MAX / share ? steps * share : steps; }

  // Answers "alive" for lack of budget that this program asked for; `texts` of them before it was made.
  uint64_t unproven() const { return unproven_ + automaton_->unproven(); }
  void add_unproven(uint64_t texts) { unproven_ += texts; }

  // How many tokens the shortest texts found take; found out when first asked for.
  struct Least {
    ForkMutex mutex{ForkMutex::ShortestTexts};
    bool text_tried = false, witness_tried = false, shortest_tried = false;
    bool is_cut = false;      // the search for the fewest tokens of a plain text
    size_t least_length = 0;  // of a plain text, in characters; a lower bound
    std::optional<size_t> tokens;
  };
  Least &least() { return least_; }

  // By `Automaton::stack_signature`: can tokens spell a completion? Only for vocabularies where that is a question.
  std::unordered_map<Hash128, bool, HashOf128> &spelled() { return spelled_; }

 private:
  Least least_;
  std::unordered_map<Hash128, bool, HashOf128> spelled_;
  size_t states_ = 0, nodes_ = 0;
  uint64_t unproven_ = 0;
  std::shared_ptr<HeapAccount> heap_;
  std::shared_ptr<TextSpace> space_;
  std::unique_ptr<Automaton> automaton_;
  std::unique_ptr<Masks> masks_;
};

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Program> program);
  ~Matcher() {
    const Uncounted own;
    history_ = {};
    begun_ = {};
  }

  UseFlag &in_use() { return in_use_; }

  std::shared_ptr<const Mask> mask();
  bool advance(uint32_t token);
  // Read bytes that no token of the sequence stands for, before its first one: what a token that was read elsewhere ends
  // with. False, and nothing changed, where they cannot begin a text.
  bool begin(std::string_view bytes);
  // Is every continuation, of valid UTF-8, a text? Told of regular expressions only.
  bool universal();
  size_t accepts(std::span<const uint32_t> tokens);
  std::vector<uint32_t> forced(size_t most);
  std::string forced_bytes(size_t most);
  void rollback(size_t n);
  std::unique_ptr<Matcher> fork();
  void reset();
  bool complete();  // the text so far is in the language
  bool finished() const { return finished_; }
  bool dead() const { return history_.back().node == nullptr; }
  std::vector<uint32_t> tokens() const { return history_.tokens(); }
  std::string text() const;
  // The state after the last token that may have been read whole, how many tokens were read until then, and their bytes.
  struct Whole {
    const Frame *node;
    size_t tokens, bytes;
  };
  Whole last_whole() const;
  // How many leading bytes of `text` can follow.
  size_t viable_bytes(std::string_view text);
  // Bytes that can come next, and whether the text may end.
  std::bitset<256> next_bytes(std::string_view after, bool *may_end);
  // Shortest-first completion of the current text, as bytes; false when none was found.
  bool witness(std::string_view after, std::string *out, bool patient = true);
  // Why the last of these searches found nothing; null where it did not look in vain.
  const char *search_failure() const { return search_failure_; }
  // Tokens of a short completion: the fewest for a regular expression, otherwise the fewest that
  // spell the witness.
  bool witness_tokens(std::vector<uint32_t> *out, bool patient = true);
  // Does no sequence of tokens complete the text, for sure? Only where tokens do not spell all that their bytes do.
  bool hopeless();
  // Tokens of a text of the constraint, from its beginning: of one that fits `room` where one is found, otherwise of
  // the shortest one found. Nothing where none was found, or not all of a pattern's states were looked at.
  std::optional<size_t> least_tokens(size_t room);
  // The terminals that the text of a grammar is made of, oldest first, for each place that it may stand at if nothing
  // more is read into its last lexeme. Of other constraints: nothing.
  std::vector<std::vector<uint32_t>> lexemes();
  // How a text of a grammar can be cut into terminals, from its beginning: units are bytes, and special tokens from 256 on.
  GrammarTrace trace(std::span<const uint32_t> units);
  // At which temperature the next token is sampled, where a rule of the grammar says so.
  std::optional<double> temperature();
  // Tokens that begin a lexeme of `terminal` at such a place.
  std::shared_ptr<const Mask> beginning(size_t place, uint32_t terminal);
  const Frame *state() const { return history_.back().node; }
  Program &program() { return *program_; }
  std::shared_ptr<Program> shared_program() { return program_; }
  // Bytes that no fork shares.
  size_t memory() const { return arena_.own_memory() + history_.memory(); }

  // Runs `text` and hands the state before the byte that fails (or after all of it).
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
      const Frame *next = with_cuts(automaton, ctx, automaton.step(ctx, n, static_cast<uint8_t>(text[i])), progress().tokens + i + 1);
      if (!next) break;
      n = next;
    }
    return fn(ctx, n, i);
  }

 private:
  // Memory for the states of one call, given back at its end, also where a limit ends it.
  struct Scratch {
    explicit Scratch(Arena &arena) : ctx{arena} {}
    ~Scratch() { ctx.arena.release({}); }
    Scratch(const Scratch &) = delete;
    StepContext ctx;
  };
  explicit Matcher(Matcher *origin);
  struct Progress {
    uint64_t tokens;      // that have been read
    uint8_t lacking = 0;  // bytes that the character at the end still lacks
    bool ended_part = false;  // a part ended there because its tokens were used up
  };
  Progress progress() const { return {history_.size() - 1 + (begun_.empty() ? 0 : 1), history_.back().lacking}; }
  void read(uint32_t token, const Frame *node, uint8_t lacking);
  // The state after a token that is read at `at`, which moves on.
  const Frame *run(StepContext &ctx, const Frame *node, uint32_t token, Progress &at);
  const Frame *read_token(StepContext &ctx, const Frame *node, uint32_t token, Progress &at);
  // Where tokens do not spell all that their bytes do: does some sequence of tokens complete the text?
  bool can_be_spelled(const Frame *node, Progress at);
  enum class Search : uint8_t { Found, Nothing, Cut };
  Search search_tokens(const Frame *from, Progress at, std::vector<uint32_t> *out);
  // Makes of tokens that complete the text, but for the ends of parts with `max_tokens`, some that do; false where none are found.
  bool respect_limits(const Frame *from, Progress at, std::vector<uint32_t> *tokens);

  std::shared_ptr<Program> program_;
  Arena arena_, scratch_;
  History history_;
  std::string begun_;  // bytes before the first token
  const char *search_failure_ = nullptr;
  bool finished_ = false;
  UseFlag in_use_{
      "this matcher is in use by another thread. Give each thread a matcher of its own: matcher.fork() makes one in the same "
      "state"};
};

// Fills row i of `out` (words per row) with the mask of matcher i; uses up to `threads` threads, one a space.
void fill_masks(std::span<Matcher *const> matchers, int32_t *out, size_t words, unsigned threads);

}  // namespace structgen
