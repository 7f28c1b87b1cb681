#include "matcher/matcher.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <set>
#include <system_error>
#include <thread>

#include "automaton/frame_copier.h"
#include "automaton/token_counts.h"
#include "automaton/token_steps.h"
#include "vocabulary/character_bytes.h"

namespace structgen {
namespace {

// Where the parts that end in one token are noted.
struct Ended {
  Ended(StepContext &context, std::vector<const SequenceFrame *> *parts) : ctx(context) { ctx.ended_parts = parts; }
  ~Ended() { ctx.ended_parts = nullptr; }
  Ended(const Ended &) = delete;
  StepContext &ctx;
};

}  // namespace

bool Program::starts() {
  Turn turn(*this);
  Arena arena;
  StepContext ctx{arena};
  return automaton_->start(ctx) != nullptr;
}

Matcher::Matcher(std::shared_ptr<Program> program) : program_(std::move(program)) {
  Program::Turn turn(*program_);
  StepContext ctx{arena_};
  const Frame *start = program_->automaton().start(ctx);
  read(0, start, 0);
}

std::shared_ptr<const Mask> Matcher::mask() {
  Program::Turn turn(*program_);
  if (finished_ || !state()) {
    return new_mask(program_->space().mask_pool());  // allows nothing
  }
  Scratch scratch(scratch_);
  const std::shared_ptr<const Mask> all = program_->masks().mask(scratch_, state());
  const Vocabulary &vocabulary = program_->space().vocabulary();
  if (vocabulary.closed() || program_->automaton().plan().kind == Plan::Regex) return all;
  const std::shared_ptr<Mask> kept = new_mask(*all);
  StepContext &ctx = scratch.ctx;
  for (uint32_t token = 0; token < vocabulary.size(); ++token) {
    if (!all->test(token) || (all->complete && vocabulary.is_eos(token))) continue;
    Progress at = progress();
    if (!run(ctx, state(), token, at)) kept->clear(token);
    scratch_.release({});
  }
  return kept;
}

const Frame *Matcher::run(StepContext &ctx, const Frame *node, uint32_t token, Progress &at) {
  const Frame *next = read_token(ctx, node, token, at);
  return next && !program_->space().vocabulary().closed() && !can_be_spelled(next, at) ? nullptr : next;
}

const Frame *Matcher::read_token(StepContext &ctx, const Frame *node, uint32_t token, Progress &at) {
  if (!node) return nullptr;
  Automaton &automaton = program_->automaton();
  std::vector<const SequenceFrame *> ended;
  const Ended noted(ctx, automaton.counts_tokens() ? &ended : nullptr);
  ctx.token = at.tokens;
  node = step_token(automaton, ctx, node, token);
  ++at.tokens;
  at.lacking = lacking_after(at.lacking, program_->space().vocabulary().token(token));
  const Frame *after = end_token(automaton, ctx, node, at.tokens, at.lacking > 0);
  at.ended_part = after != node;
  return after;
}

bool Matcher::advance(uint32_t token) {
  Program::Turn turn(*program_);
  if (finished_ || !state()) return false;
  const Vocabulary &v = program_->space().vocabulary();
  Scratch scratch(scratch_);
  if (v.is_eos(token) && program_->automaton().accepts(scratch.ctx, state())) {
    read(token, state(), 0);
    finished_ = true;
    return true;
  }
  if (token >= v.size()) return false;
  Progress at = progress();
  const Frame *next = run(scratch.ctx, state(), token, at);
  if (next) next = FrameCopier(scratch_, arena_).copy(next);
  if (!next) return false;
  read(token, next, at.lacking);
  return true;
}

void Matcher::read(uint32_t token, const Frame *node, uint8_t lacking) {
  const Uncounted own;
  history_.push_back({token, lacking, node, arena_.mark()});
}

bool Matcher::begin(std::string_view bytes) {
  Program::Turn turn(*program_);
  if (history_.size() > 1 || finished_) return false;
  Scratch scratch(scratch_);
  Automaton &automaton = program_->automaton();
  StepContext &ctx = scratch.ctx;  // all of it is the end of one token
  std::vector<const SequenceFrame *> ended;
  const Ended noted(ctx, &ended);
  const Frame *next = state();
  for (size_t i = 0; next && i < bytes.size(); ++i) {
    ctx.is_last_byte = i + 1 == bytes.size();
    next = automaton.step(ctx, next, static_cast<uint8_t>(bytes[i]));
  }
  const uint8_t lacking = lacking_after(history_.back().lacking, bytes);
  if (next) next = end_token(automaton, ctx, skip_ended_lexemes(automaton, ctx, next), bytes.empty() ? 0 : 1, lacking > 0);
  if (next) next = FrameCopier(scratch_, arena_).copy(next);
  if (!next) return false;
  const Uncounted own;
  begun_ += bytes;
  history_ = {};
  history_.push_back({0, lacking, next, arena_.mark()});
  return true;
}

bool Matcher::universal() {
  Program::Turn turn(*program_);
  const auto *scalar = as_if<ScalarFrame>(state());
  return scalar && !scalar->parent && !finished_ &&
         program_->space().regex().universal(program_->space().re(scalar->text));
}

size_t Matcher::accepts(std::span<const uint32_t> tokens) {
  Program::Turn turn(*program_);
  if (finished_) return 0;
  const Vocabulary &v = program_->space().vocabulary();
  Scratch scratch(scratch_);
  StepContext &ctx = scratch.ctx;
  const Frame *node = state();
  Progress at = progress();
  size_t n = 0;
  for (; n < tokens.size() && node; ++n) {
    if (v.is_eos(tokens[n]) && program_->automaton().accepts(ctx, node)) {
      ++n;
      break;
    }
    const Frame *next = tokens[n] < v.size() ? run(ctx, node, tokens[n], at) : nullptr;
    if (!next) break;
    node = next;
  }
  return n;
}

std::vector<uint32_t> Matcher::forced(size_t most) {
  Program::Turn turn(*program_);
  std::vector<uint32_t> out;
  if (finished_) return out;
  Arena path;  // states of the run; masks use the scratch memory
  StepContext ctx{path};
  const Frame *node = state();
  Progress at = progress();
  while (node && out.size() < most) {
    std::shared_ptr<const Mask> m = program_->masks().mask(scratch_, node);
    uint32_t token;
    if (m->complete || !m->only(&token)) break;
    out.push_back(token);
    node = run(ctx, node, token, at);
  }
  return for_caller(out);
}

std::string Matcher::forced_bytes(size_t most) {
  Program::Turn turn(*program_);
  std::string out;
  if (finished_) return out;
  Automaton &a = program_->automaton();
  Scratch scratch(scratch_);
  StepContext &ctx = scratch.ctx;
  const Frame *node = state();
  a.limit_token_work(ctx);  // all of them together
  try {
    // A token that may be read whole need not begin with the byte that its text would go on with.
    while (node && out.size() < most && !a.accepts(ctx, node) && expected_token_sets(a, ctx, node).empty()) {
      std::bitset<256> candidates = a.candidates(node);
      const Frame *only = nullptr;
      int alive = 0, which = 0;
      count_byte_as_token(ctx, progress().tokens + out.size());
      for (int b = 0; b < 256 && alive < 2; ++b)
        if (candidates.test(static_cast<size_t>(b)))
          if (const Frame *next = a.step(ctx, node, static_cast<uint8_t>(b))) {
            ++alive;
            only = next;
            which = b;
          }
      if (alive != 1) break;
      out += static_cast<char>(which);
      // Tokens of single bytes may use up a part here, and something else may follow then.
      if (may_be_cut(a, only, progress().tokens + out.size())) break;
      node = skip_ended_lexemes(a, ctx, only);  // once for all bytes that may come next
    }
  } catch (const LimitError &) {
    if (out.empty()) throw;  // what was found is forced nevertheless
  }
  return for_caller(out);
}

std::vector<std::vector<uint32_t>> Matcher::lexemes() {
  Program::Turn turn(*program_);
  std::vector<std::vector<uint32_t>> out;
  const auto *grammar = as_if<GrammarFrame>(state());
  if (!grammar) return out;
  Scratch scratch(scratch_);
  for (const ParserPosition &position : positions_of(scratch.ctx, *grammar)) {
    std::vector<uint32_t> &read = out.emplace_back();
    for (const EarleySet *s = position.at.set; s && s->before; s = s->before) read.push_back(static_cast<uint32_t>(~s->by));
    std::reverse(read.begin(), read.end());
  }
  return for_caller(out);
}

GrammarTrace Matcher::trace(std::span<const uint32_t> units) {
  Program::Turn turn(*program_, Program::SEARCH);
  Scratch scratch(scratch_);
  return trace_grammar(program_->automaton(), scratch.ctx, units);
}

std::optional<double> Matcher::temperature() {
  Program::Turn turn(*program_);
  return temperature_at(program_->automaton(), state());
}

std::shared_ptr<const Mask> Matcher::beginning(size_t place, uint32_t terminal) {
  Program::Turn turn(*program_);
  const auto *grammar = as_if<GrammarFrame>(state());
  if (!grammar) return new_mask(program_->space().mask_pool());
  Scratch scratch(scratch_);
  return program_->masks().beginning(scratch_, grammar, place, terminal);
}

void Matcher::rollback(size_t n) {
  if (n >= history_.size()) throw std::out_of_range("cannot roll back more tokens than were read");
  if (n == 0) return;
  history_.drop(n);
  arena_.release(history_.back().mark);
  finished_ = false;
}

std::unique_ptr<Matcher> Matcher::fork() {
  return std::unique_ptr<Matcher>(new Matcher(this));
}

Matcher::Matcher(Matcher *origin)
    : program_(origin->program_),
      arena_(origin->arena_.fork()),
      history_(origin->history_.fork()),
      begun_(origin->begun_),
      finished_(origin->finished_) {}

void Matcher::reset() { rollback(history_.size() - 1); }

bool Matcher::complete() {
  Program::Turn turn(*program_);
  if (!state()) return false;
  Scratch scratch(scratch_);
  return program_->automaton().accepts(scratch.ctx, state());
}

std::string Matcher::text() const {
  std::vector<uint32_t> read = tokens();
  if (finished_) read.pop_back();
  std::string out = begun_;
  for (uint32_t token : read) out += program_->space().vocabulary().token(token);
  return out;
}

Matcher::Whole Matcher::last_whole() const {
  const Vocabulary &vocabulary = program_->space().vocabulary();
  const auto &sets = program_->automaton().token_sets();
  Whole out{history_.at(0).node, 0, 0};
  size_t bytes = begun_.size();
  for (size_t i = 1; i < history_.size() && !sets.empty(); ++i) {
    const History::Entry &entry = history_.at(i);
    bytes += vocabulary.token(entry.token).size();
    if (std::any_of(sets.begin(), sets.end(), [&](const auto &set) { return set.second->has(entry.token); }))
      out = {entry.node, i, bytes};
  }
  return out;
}

size_t Matcher::viable_bytes(std::string_view text) {
  return with_state(text, [](StepContext &, const Frame *, size_t i) { return i; });
}

std::bitset<256> Matcher::next_bytes(std::string_view after, bool *may_end) {
  return with_state(after, [&](StepContext &ctx, const Frame *n, size_t i) {
    std::bitset<256> out;
    *may_end = false;
    if (!n || i < after.size()) return out;
    Automaton &a = program_->automaton();
    *may_end = a.accepts(ctx, n);
    std::bitset<256> candidates = a.candidates(n);
    for (size_t b = 0; b < 256; ++b)
      if (candidates.test(b) && a.step(ctx, n, static_cast<uint8_t>(b))) out.set(b);
    return out;
  });
}

void fill_masks(std::span<Matcher *const> matchers, int32_t *out, size_t words, unsigned threads) {
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto bounds = CallBounds::current();
  auto work = [&](bool of_other_thread) {
    const auto adopted = CallBounds::again(of_other_thread ? bounds : nullptr);
    for (size_t i; (i = next++) < matchers.size();) {
      try {
        std::shared_ptr<const Mask> m = matchers[i]->mask();
        const std::span<const uint32_t> bits = m->bits();
        std::memcpy(out + i * words, bits.data(), std::min(words, bits.size()) * 4);
        if (words > bits.size()) std::memset(out + i * words + bits.size(), 0, (words - bits.size()) * 4);
      } catch (...) {
        // One request's failure is its own: its row allows nothing, the others are filled.
        std::memset(out + i * words, 0, words * 4);
        std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  // Programs over one space take turns on it: a thread more than there are spaces would only wait.
  std::set<const TextSpace *> spaces;
  for (Matcher *m : matchers) spaces.insert(&m->program().space());
  const size_t count = std::min<size_t>(threads, spaces.size());
  std::vector<std::thread> others;
  try {
    for (size_t i = 1; i < count; ++i) others.emplace_back(work, true);
  } catch (const std::system_error &) {
    // The system has no more threads to give; those that there are do it all.
  }
  work(false);
  for (std::thread &t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace structgen
