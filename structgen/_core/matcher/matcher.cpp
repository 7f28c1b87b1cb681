#include "matcher/matcher.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <set>
#include <system_error>
#include <thread>

#include "automaton/frame_copier.h"
#include "automaton/grammar_steps.h"
#include "automaton/token_counts.h"
#include "automaton/token_steps.h"
#include "vocabulary/character_bytes.h"

namespace structgen {
namespace {

// Collects the parts that end in one token.
struct EndedParts {
  EndedParts(StepContext &context, std::vector<const SequenceFrame *> *parts) : ctx(context) {
    ctx.ended_parts = parts;
  }
  ~EndedParts() { ctx.ended_parts = nullptr; }
  EndedParts(const EndedParts &) = delete;
  StepContext &ctx;
};

}  // namespace

bool Program::has_text() {
  Turn turn(*this);
  Arena arena;
  StepContext ctx{arena};
  return automaton_->start(ctx) != nullptr;
}

Matcher::Matcher(std::shared_ptr<Program> program) : program_(std::move(program)) {
  Program::Turn turn(*program_);
  StepContext ctx{arena_};
  const Frame *start = program_->automaton().start(ctx);
  append(0, start, 0);
}

std::shared_ptr<const Mask> Matcher::mask() {
  Program::Turn turn(*program_);
  if (finished_ || !state()) {
    return new_mask(program_->space().mask_pool());  // no token is allowed
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
    if (!step_spellable(ctx, state(), token, at)) kept->clear(token);
    scratch_.release({});
  }
  return kept;
}

const Frame *Matcher::step_spellable(StepContext &ctx, const Frame *state, uint32_t token, Progress &at) {
  const Frame *next = step(ctx, state, token, at);
  return next && !program_->space().vocabulary().closed() && !has_spelling(next, at) ? nullptr : next;
}

const Frame *Matcher::step(StepContext &ctx, const Frame *state, uint32_t token, Progress &at) {
  if (!state) return nullptr;
  Automaton &automaton = program_->automaton();
  std::vector<const SequenceFrame *> ended;
  const EndedParts collected(ctx, automaton.counts_tokens() ? &ended : nullptr);
  ctx.token = at.tokens;
  const Frame *next = step_token(automaton, ctx, state, token);
  ++at.tokens;
  at.missing_bytes = lacking_after(at.missing_bytes, program_->space().vocabulary().token(token));
  const Frame *after = end_token(automaton, ctx, next, at.tokens, at.missing_bytes > 0);
  at.ended_part = after != next;
  return after;
}

bool Matcher::advance(uint32_t token) {
  Program::Turn turn(*program_);
  if (finished_ || !state()) return false;
  const Vocabulary &v = program_->space().vocabulary();
  Scratch scratch(scratch_);
  if (v.is_eos(token) && program_->automaton().accepts(scratch.ctx, state())) {
    append(token, state(), 0);
    finished_ = true;
    return true;
  }
  if (token >= v.size()) return false;
  Progress at = progress();
  const Frame *next = step_spellable(scratch.ctx, state(), token, at);
  if (next) next = FrameCopier(scratch_, arena_).copy(next);
  if (!next) return false;
  append(token, next, at.missing_bytes);
  return true;
}

void Matcher::append(uint32_t token, const Frame *state, uint8_t missing_bytes) {
  const Uncounted own;
  history_.push_back({token, missing_bytes, state, arena_.mark()});
}

bool Matcher::begin(std::string_view bytes) {
  Program::Turn turn(*program_);
  if (history_.size() > 1 || finished_) return false;
  Scratch scratch(scratch_);
  Automaton &automaton = program_->automaton();
  StepContext &ctx = scratch.ctx;  // all bytes are the end of one token
  std::vector<const SequenceFrame *> ended;
  const EndedParts collected(ctx, &ended);
  const Frame *next = state();
  for (size_t i = 0; next && i < bytes.size(); ++i) {
    ctx.is_last_byte = i + 1 == bytes.size();
    next = automaton.step(ctx, next, static_cast<uint8_t>(bytes[i]));
  }
  const uint8_t missing_bytes = lacking_after(history_.back().missing_bytes, bytes);
  if (next)
    next =
        end_token(automaton, ctx, skip_ended_lexemes(automaton, ctx, next), bytes.empty() ? 0 : 1, missing_bytes > 0);
  if (next) next = FrameCopier(scratch_, arena_).copy(next);
  if (!next) return false;
  const Uncounted own;
  first_bytes_ += bytes;
  history_ = {};
  history_.push_back({0, missing_bytes, next, arena_.mark()});
  return true;
}

bool Matcher::accepts_everything() {
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
    const Frame *next = tokens[n] < v.size() ? step_spellable(ctx, node, tokens[n], at) : nullptr;
    if (!next) break;
    node = next;
  }
  return n;
}

std::vector<uint32_t> Matcher::forced(size_t most) {
  Program::Turn turn(*program_);
  std::vector<uint32_t> out;
  if (finished_) return out;
  Arena path;  // holds the states; masks use the scratch memory
  StepContext ctx{path};
  const Frame *node = state();
  Progress at = progress();
  while (node && out.size() < most) {
    std::shared_ptr<const Mask> m = program_->masks().mask(scratch_, node);
    uint32_t token;
    if (m->complete || !m->only(&token)) break;
    out.push_back(token);
    node = step_spellable(ctx, node, token, at);
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
    // A token that may be read whole need not start with the byte that must come next.
    while (node && out.size() < most && !a.accepts(ctx, node) && expected_token_sets(a, ctx, node).empty()) {
      std::bitset<256> candidates = a.candidates(node);
      const Frame *only = nullptr;
      int live = 0, which = 0;
      count_byte_as_token(ctx, progress().tokens + out.size());
      for (int b = 0; b < 256 && live < 2; ++b)
        if (candidates.test(static_cast<size_t>(b)))
          if (const Frame *next = a.step(ctx, node, static_cast<uint8_t>(b))) {
            ++live;
            only = next;
            which = b;
          }
      if (live != 1) break;
      out += static_cast<char>(which);
      // Tokens of single bytes may use up the tokens of a part here, and then something else may follow.
      if (may_be_cut(a, only, progress().tokens + out.size())) break;
      node = skip_ended_lexemes(a, ctx, only);  // once for all bytes that may come next
    }
  } catch (const LimitError &) {
    if (out.empty()) throw;  // what was found is forced all the same
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
    for (const EarleySet *s = position.at.set; s && s->before; s = s->before)
      read.push_back(static_cast<uint32_t>(~s->by));
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

std::shared_ptr<const Mask> Matcher::beginning(size_t position, uint32_t terminal) {
  Program::Turn turn(*program_);
  const auto *grammar = as_if<GrammarFrame>(state());
  if (!grammar) return new_mask(program_->space().mask_pool());
  Scratch scratch(scratch_);
  return program_->masks().beginning(scratch_, grammar, position, terminal);
}

void Matcher::rollback(size_t n) {
  if (n >= history_.size()) throw std::out_of_range("cannot roll back more tokens than were read");
  if (n == 0) return;
  history_.drop(n);
  arena_.release(history_.back().mark);
  finished_ = false;
}

std::unique_ptr<Matcher> Matcher::fork() { return std::unique_ptr<Matcher>(new Matcher(this)); }

Matcher::Matcher(Matcher *origin)
    : program_(origin->program_),
      arena_(origin->arena_.fork()),
      history_(origin->history_.fork()),
      first_bytes_(origin->first_bytes_),
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
  std::string out = first_bytes_;
  for (uint32_t token : read) out += program_->space().vocabulary().token(token);
  return out;
}

Matcher::Whole Matcher::last_whole() const {
  const Vocabulary &vocabulary = program_->space().vocabulary();
  const auto &sets = program_->automaton().token_sets();
  Whole out{history_.at(0).state, 0, 0};
  size_t bytes = first_bytes_.size();
  for (size_t i = 1; i < history_.size() && !sets.empty(); ++i) {
    const History::Entry &entry = history_.at(i);
    bytes += vocabulary.token(entry.token).size();
    if (std::any_of(sets.begin(), sets.end(), [&](const auto &set) { return set.second->has(entry.token); }))
      out = {entry.state, i, bytes};
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
        // A failure concerns one request only: its row allows no token, and the other rows are filled.
        std::memset(out + i * words, 0, words * 4);
        std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  // Programs over one space use it in turn: more threads than spaces would only wait.
  std::set<const TextSpace *> spaces;
  for (Matcher *m : matchers) spaces.insert(&m->program().space());
  const size_t count = std::min<size_t>(threads, spaces.size());
  std::vector<std::thread> others;
  try {
    for (size_t i = 1; i < count; ++i) others.emplace_back(work, true);
  } catch (const std::system_error &) {
    // The system allows no more threads; the existing ones do all the work.
  }
  work(false);
  for (std::thread &t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace structgen
