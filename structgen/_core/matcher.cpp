#include "matcher.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <queue>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_set>

#include "shortest.h"
#include "stack.h"
#include "witness.h"

namespace structgen {
namespace {

constexpr char LONG_TOKEN[] = "a token is too long";

}  // namespace

bool Program::starts() {
  Turn turn(*this);
  Arena arena;
  Reader reader{arena};
  return !automaton_->empty(reader);
}

bool Program::shortest(std::string *out, bool *exact) {
  Turn turn(*this, SEARCH);
  JsonControl *json = automaton_->plan().json.get();
  if (!json) return false;
  struct HandOver {
    std::string &text;
    ~HandOver() { hand_over(text); }
  } const at_end{*out};
  const bool found = json->shortest().text(json->root_requirement(), out);
  *exact = found && json->shortest().exact();
  Arena arena;
  Reader reader{arena};
  const Node *node = automaton_->start(reader);
  for (size_t i = 0; found && node && i < out->size(); ++i)
    node = automaton_->step(reader, node, static_cast<uint8_t>((*out)[i]));
  if (found && node && automaton_->accepts(reader, node)) return true;
  // What the automaton does not read (too deep for its limits) is no text of it.
  *exact = false;
  out->clear();
  node = automaton_->start(reader);
  return node && complete_text(*automaton_, reader, node, out, false);
}

Matcher::Matcher(std::shared_ptr<Program> program) : program_(std::move(program)) {
  Program::Turn turn(*program_);
  Reader r{arena_};
  const Node *start = program_->automaton().start(r);
  read(0, start);
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
    if (!all->test(token) || vocabulary.is_eos(token)) continue;
    if (!run(r, state(), token)) kept->clear(token);
    scratch_.release({});
  }
  return kept;
}

const Node *Matcher::run(Reader &r, const Node *node, uint32_t token) {
  const Node *next = read_token(r, node, token);
  return next && !program_->space().vocabulary().closed() && !can_be_spelled(next) ? nullptr : next;
}

const Node *Matcher::read_token(Reader &r, const Node *node, uint32_t token) {
  const std::string_view bytes = program_->space().vocabulary().token(token);
  if (bytes.empty()) return node ? program_->automaton().step_special(r, node, token) : nullptr;
  program_->automaton().bound_token(r);
  for (char c : bytes) {
    if (!node) return nullptr;
    node = program_->automaton().step(r, node, static_cast<uint8_t>(c));
  }
  if (node && node->kind == Node::Scalar && !node->parent && !program_->space().spellable(node->text)) return nullptr;
  return node ? program_->automaton().past_lexemes(r, node) : nullptr;
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

const GrammarEntry *Matcher::keep(const GrammarEntry *entries, uint32_t count) {
  if (!scratch_.contains(entries)) return entries;
  auto *copy = static_cast<GrammarEntry *>(arena_.allocate(count * sizeof(GrammarEntry)));
  std::copy(entries, entries + count, copy);
  for (uint32_t i = 0; i < count; ++i) {
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
  if (node->entries) copy->entries = keep(node->entries, node->kind == Node::Grammar ? node->length : 1);
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
    read(token, state());
    finished_ = true;
    return true;
  }
  if (token >= v.size()) return false;
  const Node *next = run(scratch.reader, state(), token);
  if (next) next = keep(next);
  if (!next) return false;
  read(token, next);
  return true;
}

void Matcher::read(uint32_t token, const Node *node) {
  const Uncounted own;
  history_.push_back({token, node, arena_.mark()});
}

bool Matcher::begin(std::string_view bytes) {
  Program::Turn turn(*program_);
  if (history_.size() > 1 || finished_) return false;
  Scratch scratch(scratch_);
  const Node *next = state();
  for (size_t i = 0; next && i < bytes.size(); ++i)
    next = program_->automaton().step(scratch.reader, next, static_cast<uint8_t>(bytes[i]));
  if (next) next = keep(program_->automaton().past_lexemes(scratch.reader, next));
  if (!next) return false;
  const Uncounted own;
  begun_ += bytes;
  history_ = {};
  history_.push_back({0, next, arena_.mark()});
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
  size_t n = 0;
  for (; n < tokens.size() && node; ++n) {
    if (v.is_eos(tokens[n]) && program_->automaton().accepts(r, node)) {
      ++n;
      break;
    }
    const Node *next = tokens[n] < v.size() ? run(r, node, tokens[n]) : nullptr;
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
  while (node && out.size() < most) {
    std::shared_ptr<const Mask> m = program_->masks().mask(scratch_, node);
    uint32_t token;
    if (m->complete || !m->only(&token)) break;
    out.push_back(token);
    node = run(r, node, token);
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
    while (node && out.size() < most && !a.accepts(r, node)) {
      std::bitset<256> candidates = a.candidates(node);
      const Node *only = nullptr;
      int alive = 0, which = 0;
      for (int b = 0; b < 256 && alive < 2; ++b)
        if (candidates.test(static_cast<size_t>(b)))
          if (const Node *next = a.step(r, node, static_cast<uint8_t>(b))) {
            ++alive;
            only = next;
            which = b;
          }
      if (alive != 1) break;
      out += static_cast<char>(which);
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

bool Matcher::witness(std::string_view after, std::string *out, bool patient) {
  return with_state(after, [&](Reader &r, const Node *n, size_t i) {
    const bool complete = n && i == after.size() && complete_text(program_->automaton(), r, n, out, patient);
    hand_over(*out);
    return complete;
  });
}

// Between special tokens, which are no text, the fewest tokens that spell what is there; false where there are none.
static bool fewest_tokens(const Vocabulary &vocabulary, const WitnessSymbols &symbols, std::vector<uint32_t> *out) {
  for (auto at = symbols.begin();;) {
    const auto end = std::find_if(at, symbols.end(), [](uint32_t s) { return s >= FIRST_SPECIAL; });
    const auto tokens = vocabulary.fewest_tokens(std::string(at, end));
    if (!tokens) return false;
    out->insert(out->end(), tokens->begin(), tokens->end());
    if (end == symbols.end()) return true;
    out->push_back(*end - FIRST_SPECIAL);
    at = end + 1;
  }
}

bool Matcher::witness_tokens(std::vector<uint32_t> *out, bool patient) {
  if (const Node *n = state(); n && n->kind == Node::Scalar && !n->parent) {
    Program::Turn turn(*program_, Program::SEARCH);
    if (program_->space().fewest_tokens(n->text, out)) {
      hand_over(*out);
      return true;
    }
    out->clear();  // too many states for the fewest tokens: those of a short text
  }
  WitnessSymbols symbols;
  const bool found = with_state({}, [&](Reader &r, const Node *n, size_t) {
    const bool complete = n && complete_state(program_->automaton(), r, n, &symbols, patient);
    hand_over(symbols);
    return complete;
  });
  const Vocabulary &vocabulary = program_->space().vocabulary();
  if (found && fewest_tokens(vocabulary, symbols, out)) return true;
  if (vocabulary.closed()) return false;
  out->clear();
  Program::Turn turn(*program_, Program::SEARCH);
  const bool spelled = state() && search_tokens(state(), out) == Search::Found;
  hand_over(*out);
  return spelled;
}

bool Matcher::hopeless() {
  Program::Turn turn(*program_);
  return !program_->space().vocabulary().closed() && !(state() && can_be_spelled(state()));
}

bool Matcher::can_be_spelled(const Node *node) {
  constexpr size_t MOST_KNOWN = 100'000;
  if (node->kind == Node::Scalar && !node->parent) return true;  // a regular expression: see `TextSpace::spellable`
  auto &known = program_->spelled();
  const Hash128 key = program_->automaton().stack_signature(node);
  if (const auto it = known.find(key); it != known.end()) return it->second;
  Arena ahead;
  Reader r{ahead};
  WitnessSymbols symbols;
  std::vector<uint32_t> tokens;
  bool can = complete_state(program_->automaton(), r, node, &symbols, false) &&
             fewest_tokens(program_->space().vocabulary(), symbols, &tokens);
  if (!can) {
    const Search found = search_tokens(node, &tokens);
    if (found == Search::Cut) program_->add_unproven(1);
    can = found != Search::Nothing;
  }
  if (known.size() > MOST_KNOWN) known.clear();
  return known[key] = can;
}

// Where some byte is only part of longer tokens, a completion need not be one that tokens spell. The tokens that masks
// allow are followed, nearest to the end of the text first: as near as a completion in bytes is long.
Matcher::Search Matcher::search_tokens(const Node *from, std::vector<uint32_t> *out) {
  constexpr size_t SHARE = 50;  // of the work of a call: one state of many that a call may have to decide
  const uint64_t most = work::done() + program_->space().limits().call_steps / SHARE;
  constexpr size_t FAR = 1'000'000;
  struct Met {
    const Node *node;
    size_t from;
    uint32_t token, read;
  };
  Automaton &automaton = program_->automaton();
  const Vocabulary &vocabulary = program_->space().vocabulary();
  Arena path, ahead, scratch;
  Reader r{path}, beyond{ahead};
  std::vector<Met> met{{from, 0, 0, 0}};
  std::unordered_set<Hash128, HashOf128> known;
  std::priority_queue<std::pair<size_t, size_t>, std::vector<std::pair<size_t, size_t>>, std::greater<>> queue;
  queue.push({0, 0});
  while (!queue.empty()) {
    const size_t at = queue.top().second;
    queue.pop();
    if (automaton.accepts(r, met[at].node)) {
      for (size_t i = at; i != 0; i = met[i].from) out->insert(out->begin(), met[i].token);
      return Search::Found;
    }
    const std::shared_ptr<const Mask> mask = program_->masks().mask(scratch, met[at].node);
    for (uint32_t token = 0; token < vocabulary.size(); ++token) {
      if (!mask->test(token) || vocabulary.is_eos(token)) continue;
      if (work::done() > most) return Search::Cut;
      const Arena::Mark before = path.mark();
      const Node *next = read_token(r, met[at].node, token);
      if (!next || !known.insert(automaton.stack_signature(next)).second) {
        path.release(before);
        continue;
      }
      WitnessSymbols rest;
      const size_t left = complete_state(automaton, beyond, next, &rest, false) ? rest.size() : FAR;
      ahead.release({});
      met.push_back({next, at, token, met[at].read + 1});
      queue.push({met.back().read + left, met.size() - 1});
    }
  }
  return Search::Nothing;
}

std::optional<size_t> Matcher::least_tokens(size_t room) {
  Program::Least &known = program_->least();
  std::unique_lock lock(known.mutex, std::try_to_lock);
  while (!lock.owns_lock() && !lock.try_lock_for(std::chrono::milliseconds(10))) work::check();
  auto enough = [&] { return known.tokens && *known.tokens <= room; };
  if (enough()) return known.tokens;
  auto found = [&](size_t tokens) { known.tokens = std::min(known.tokens.value_or(tokens), tokens); };
  Matcher first(program_);
  const Node *start = first.state();
  if (start && start->kind == Node::Scalar && !start->parent) {
    TextSpace &space = program_->space();
    const Vocabulary &vocabulary = space.vocabulary();
    // A short text is found at once; one of the fewest tokens takes a search over all states.
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
      known.is_cut = true;  // until the search has ended, which a limit may prevent
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
