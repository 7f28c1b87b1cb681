#include "matcher/matcher.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <set>
#include <system_error>
#include <thread>

#include "vocabulary/character_bytes.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr char LONG_TOKEN[] = "a token is too long";

// Where the parts that end in one token are noted.
struct Ended {
  Ended(Reader &reader, std::vector<const Node *> *parts) : r(reader) { r.ended = parts; }
  ~Ended() { r.ended = nullptr; }
  Ended(const Ended &) = delete;
  Reader &r;
};

}  // namespace

bool Program::starts() {
  Turn turn(*this);
  Arena arena;
  Reader reader{arena};
  return !automaton_->empty(reader);
}

Matcher::Matcher(std::shared_ptr<Program> program) : program_(std::move(program)) {
  Program::Turn turn(*program_);
  Reader r{arena_};
  const Node *start = program_->automaton().start(r);
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
  Reader &r = scratch.reader;
  for (uint32_t token = 0; token < vocabulary.size(); ++token) {
    if (!all->test(token) || (all->complete && vocabulary.is_eos(token))) continue;
    Progress at = progress();
    if (!run(r, state(), token, at)) kept->clear(token);
    scratch_.release({});
  }
  return kept;
}

const Node *Matcher::run(Reader &r, const Node *node, uint32_t token, Progress &at) {
  const Node *next = read_token(r, node, token, at);
  return next && !program_->space().vocabulary().closed() && !can_be_spelled(next, at) ? nullptr : next;
}

const Node *Matcher::read_token(Reader &r, const Node *node, uint32_t token, Progress &at) {
  if (!node) return nullptr;
  Automaton &automaton = program_->automaton();
  std::vector<const Node *> ended;
  const Ended noted(r, automaton.counts_tokens() ? &ended : nullptr);
  r.token = at.tokens;
  node = automaton.step_token(r, node, token);
  ++at.tokens;
  at.lacking = lacking_after(at.lacking, program_->space().vocabulary().token(token));
  const Node *after = automaton.end_token(r, node, at.tokens, at.lacking > 0);
  at.ended_part = after != node;
  return after;
}

// The fresh part of a list, oldest first.
template <class Link>
std::vector<const Link *> Matcher::fresh(const Link *last) const {
  std::vector<const Link *> out;
  for (const Link *l = last; l && scratch_.contains(l); l = l->previous) out.push_back(l);
  std::reverse(out.begin(), out.end());
  return out;
}

const SeenItem *Matcher::keep(const SeenItem *last) {
  for (const SeenItem *s : fresh(last)) {
    SeenItem *copy = arena_.make<SeenItem>(*s);
    if (s->previous && scratch_.contains(s->previous)) copy->previous = last;
    if (s->text && scratch_.contains(s->text)) {
      auto *text = static_cast<char *>(arena_.allocate(s->length));
      std::memcpy(text, s->text, s->length);
      copy->text = text;
    }
    last = copy;
  }
  return last;
}

const KeyTree *Matcher::keep(const KeyTree *tree) {
  if (!tree || !scratch_.contains(tree)) return tree;
  KeyTree *copy = arena_.make<KeyTree>(*tree);
  if (scratch_.contains(tree->text)) {
    auto *text = static_cast<char *>(arena_.allocate(tree->length));
    std::copy(tree->text, tree->text + tree->length, text);
    copy->text = text;
  }
  copy->left = keep(tree->left);
  copy->right = keep(tree->right);
  return copy;
}

const TextLink *Matcher::keep(const TextLink *last) {
  for (const TextLink *l : fresh(last)) {
    TextLink *copy = arena_.make<TextLink>(*l);
    if (l->previous && scratch_.contains(l->previous)) copy->previous = last;
    last = copy;
  }
  return last;
}

const EarleySet *Matcher::keep(const EarleySet *set) {
  if (!set || !scratch_.contains(set)) return set;
  if (set->kept) return set->kept;
  check_stack(LONG_TOKEN);
  auto *kernels = static_cast<Kernel *>(arena_.allocate(set->count * sizeof(Kernel)));
  auto *origins = static_cast<const EarleySet **>(arena_.allocate(set->count * sizeof(EarleySet *)));
  std::copy(set->kernels, set->kernels + set->count, kernels);
  for (uint32_t i = 0; i < set->count; ++i) origins[i] = keep(set->origins[i]);
  EarleySet *copy = arena_.make<EarleySet>(*set);
  copy->before = keep(set->before);
  copy->kernels = kernels;
  copy->origins = origins;
  copy->link = nullptr;  // it may lead to what is not kept
  copy->id = next_serial();
  set->kept = copy;
  return copy;
}

const IndentLevel *Matcher::keep(const IndentLevel *level) {
  if (!level || !scratch_.contains(level)) return level;
  check_stack(LONG_TOKEN);
  IndentLevel *copy = arena_.make<IndentLevel>(*level);
  copy->below = keep(level->below);
  return copy;
}

const GrammarEntry *Matcher::keep(std::span<const GrammarEntry> entries) {
  if (!scratch_.contains(entries.data())) return entries.data();
  auto *copy = static_cast<GrammarEntry *>(arena_.allocate(entries.size_bytes()));
  std::copy(entries.begin(), entries.end(), copy);
  for (size_t i = 0; i < entries.size(); ++i) {
    copy[i].set = keep(entries[i].set);
    copy[i].indent = keep(entries[i].indent);
  }
  return copy;
}

// Copies what a token's steps left behind into the matcher's own memory, and nothing else.
const Node *Matcher::keep(const Node *node) {
  if (!node || !scratch_.contains(node)) return node;
  check_stack(LONG_TOKEN);
  Node *copy = arena_.make<Node>(*node);
  copy->parent = keep(node->parent);
  if (node->entries) copy->entries = keep(node->all_entries());
  if (node->traced) copy->trace = keep(node->trace);
  auto copy_array = [&](auto *items, size_t count) {
    if (!items || !scratch_.contains(items)) return items;
    auto *to = arena_.allocate(count * sizeof(*items));
    std::memcpy(to, items, count * sizeof(*items));
    return static_cast<decltype(items)>(to);
  };
  switch (node->kind) {
    case Node::Alternatives: copy->control.left = keep(node->control.left); break;
    case Node::String: copy->roots = copy_array(node->roots, node->control.value->string.roots.size()); break;
    case Node::Scalar:
      if (node->roots)
        copy->roots = copy_array(node->roots, std::max(node->control.value->number.roots.size(),
                                                       node->control.value->literal.roots.size()));
      break;
    case Node::Object:
      copy->bits = copy_array(node->bits, node->control.object->universe->words());
      copy->seen = keep(node->seen);
      break;
    case Node::Array: copy->items = keep(node->items); break;
    case Node::Key:
      copy->bits = copy_array(node->bits, node->parent->control.object->universe->words());
      copy->link = keep(node->link);
      copy->seen = keep(node->seen);
      break;
    default: break;
  }
  return copy;
}

bool Matcher::advance(uint32_t token) {
  Program::Turn turn(*program_);
  if (finished_ || !state()) return false;
  const Vocabulary &v = program_->space().vocabulary();
  Scratch scratch(scratch_);
  if (v.is_eos(token) && program_->automaton().accepts(scratch.reader, state())) {
    read(token, state(), 0);
    finished_ = true;
    return true;
  }
  if (token >= v.size()) return false;
  Progress at = progress();
  const Node *next = run(scratch.reader, state(), token, at);
  if (next) next = keep(next);
  if (!next) return false;
  read(token, next, at.lacking);
  return true;
}

void Matcher::read(uint32_t token, const Node *node, uint8_t lacking) {
  const Uncounted own;
  history_.push_back({token, lacking, node, arena_.mark()});
}

bool Matcher::begin(std::string_view bytes) {
  Program::Turn turn(*program_);
  if (history_.size() > 1 || finished_) return false;
  Scratch scratch(scratch_);
  Automaton &automaton = program_->automaton();
  Reader &r = scratch.reader;  // all of it is the end of one token
  std::vector<const Node *> ended;
  const Ended noted(r, &ended);
  const Node *next = state();
  for (size_t i = 0; next && i < bytes.size(); ++i) {
    r.is_last_byte = i + 1 == bytes.size();
    next = automaton.step(r, next, static_cast<uint8_t>(bytes[i]));
  }
  const uint8_t lacking = lacking_after(history_.back().lacking, bytes);
  if (next) next = automaton.end_token(r, automaton.past_lexemes(r, next), bytes.empty() ? 0 : 1, lacking > 0);
  if (next) next = keep(next);
  if (!next) return false;
  const Uncounted own;
  begun_ += bytes;
  history_ = {};
  history_.push_back({0, lacking, next, arena_.mark()});
  return true;
}

bool Matcher::universal() {
  Program::Turn turn(*program_);
  const Node *node = state();
  return node && !finished_ && node->kind == Node::Scalar && !node->parent &&
         program_->space().regex().universal(program_->space().re(node->text));
}

size_t Matcher::accepts(std::span<const uint32_t> tokens) {
  Program::Turn turn(*program_);
  if (finished_) return 0;
  const Vocabulary &v = program_->space().vocabulary();
  Scratch scratch(scratch_);
  Reader &r = scratch.reader;
  const Node *node = state();
  Progress at = progress();
  size_t n = 0;
  for (; n < tokens.size() && node; ++n) {
    if (v.is_eos(tokens[n]) && program_->automaton().accepts(r, node)) {
      ++n;
      break;
    }
    const Node *next = tokens[n] < v.size() ? run(r, node, tokens[n], at) : nullptr;
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
  Reader r{path};
  const Node *node = state();
  Progress at = progress();
  while (node && out.size() < most) {
    std::shared_ptr<const Mask> m = program_->masks().mask(scratch_, node);
    uint32_t token;
    if (m->complete || !m->only(&token)) break;
    out.push_back(token);
    node = run(r, node, token, at);
  }
  return for_caller(out);
}

std::string Matcher::forced_bytes(size_t most) {
  Program::Turn turn(*program_);
  std::string out;
  if (finished_) return out;
  Automaton &a = program_->automaton();
  Scratch scratch(scratch_);
  Reader &r = scratch.reader;
  const Node *node = state();
  a.bound_token(r);  // all of them together
  try {
    // A token that may be read whole need not begin with the byte that its text would go on with.
    while (node && out.size() < most && !a.accepts(r, node) && a.expected_sets(r, node).empty()) {
      std::bitset<256> candidates = a.candidates(node);
      const Node *only = nullptr;
      int alive = 0, which = 0;
      a.reads_byte(r, progress().tokens + out.size());
      for (int b = 0; b < 256 && alive < 2; ++b)
        if (candidates.test(static_cast<size_t>(b)))
          if (const Node *next = a.step(r, node, static_cast<uint8_t>(b))) {
            ++alive;
            only = next;
            which = b;
          }
      if (alive != 1) break;
      out += static_cast<char>(which);
      // Tokens of single bytes may use up a part here, and something else may follow then.
      if (a.may_be_cut(only, progress().tokens + out.size())) break;
      node = a.past_lexemes(r, only);  // once for all bytes that may come next
    }
  } catch (const LimitError &) {
    if (out.empty()) throw;  // what was found is forced nevertheless
  }
  return for_caller(out);
}

std::vector<std::vector<uint32_t>> Matcher::lexemes() {
  Program::Turn turn(*program_);
  std::vector<std::vector<uint32_t>> out;
  if (!state() || state()->kind != Node::Grammar) return out;
  Scratch scratch(scratch_);
  for (const Automaton::Place &place : program_->automaton().places(scratch.reader, state())) {
    std::vector<uint32_t> &read = out.emplace_back();
    for (const EarleySet *s = place.at.set; s && s->before; s = s->before) read.push_back(static_cast<uint32_t>(~s->by));
    std::reverse(read.begin(), read.end());
  }
  return for_caller(out);
}

GrammarTrace Matcher::trace(std::span<const uint32_t> units) {
  Program::Turn turn(*program_, Program::SEARCH);
  Scratch scratch(scratch_);
  return trace_grammar(program_->automaton(), scratch.reader, units);
}

std::optional<double> Matcher::temperature() {
  Program::Turn turn(*program_);
  return temperature_at(program_->automaton(), state());
}

std::shared_ptr<const Mask> Matcher::beginning(size_t place, uint32_t terminal) {
  Program::Turn turn(*program_);
  if (!state() || state()->kind != Node::Grammar) return new_mask(program_->space().mask_pool());
  Scratch scratch(scratch_);
  return program_->masks().beginning(scratch_, state(), place, terminal);
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
  return program_->automaton().accepts(scratch.reader, state());
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
  return with_state(text, [](Reader &, const Node *, size_t i) { return i; });
}

std::bitset<256> Matcher::next_bytes(std::string_view after, bool *may_end) {
  return with_state(after, [&](Reader &r, const Node *n, size_t i) {
    std::bitset<256> out;
    *may_end = false;
    if (!n || i < after.size()) return out;
    Automaton &a = program_->automaton();
    *may_end = a.accepts(r, n);
    std::bitset<256> candidates = a.candidates(n);
    for (size_t b = 0; b < 256; ++b)
      if (candidates.test(b) && a.step(r, n, static_cast<uint8_t>(b))) out.set(b);
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
