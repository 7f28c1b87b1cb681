#include "grammar/earley.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "grammar/earley_trace.h"

namespace structgen {
namespace {

constexpr uint64_t IDENTITY = 61, SHAPE = 62, ANSWER = 64, REST = 65, MOVES_OF = 66, OUTCOME = 67;
constexpr size_t FEW = 24;  // up to this many symbols are searched linearly

}  // namespace

// ---------------------------------------------------------------- mask dependencies

MaskDependencies::MaskDependencies(const EarleySet *first, bool is_whole, const IndentLevel *indent, uint32_t brackets)
    : is_whole_(is_whole), indent_(indent), brackets_(brackets) {
  assign_label(first);
  for (uint32_t i = 0; is_whole && i < first->count; ++i)
    if (first->origins[i]) assign_label(first->origins[i]);
}

uint32_t MaskDependencies::assign_label(const EarleySet *s) {
  if (s->labelled_by == id_) return s->label;
  charge(1 + sets_.size() / 16);
  const auto same =
      std::find_if(sets_.begin(), sets_.end(), [&](const EarleySet *o) { return o->identity == s->identity; });
  s->labelled_by = id_;
  s->label = static_cast<uint32_t>(same - sets_.begin());
  if (same == sets_.end()) sets_.push_back(s);
  return s->label;
}

// Each query is stored once.
bool MaskDependencies::has_query(Query query) {
  charge(1 + queries_.size() / 16);
  return std::any_of(queries_.begin(), queries_.end(), [&](auto &one) { return key(one.first) == key(query); });
}

void MaskDependencies::record_completion(uint32_t label, Symbol symbol, const EarleySet *to, Symbol as,
                                         const Hash128 &moves) {
  resolve(label, symbol, {to, as});
  queries_.push_back({{label, symbol}, moves});
}

void MaskDependencies::record_indentation(const IndentLevel *indent, uint32_t column) {
  const bool same = indent == indent_;
  const Query query{same ? INDENTATION : ALL_INDENTATION, same ? static_cast<Symbol>(column) : 0};
  if (!has_query(query))
    queries_.push_back({query, same ? indentation_answer(indent_, column) : all_indentation_answer(indent_)});
}

Hash128 MaskDependencies::indentation_answer(const IndentLevel *indent, uint32_t column) {
  uint32_t levels = 0;
  while (indent && indent->column > column) {
    charge();
    ++levels;
    indent = indent->below;
  }
  return hash_words(ANSWER, levels, column == (indent ? indent->column : 0));
}

Hash128 MaskDependencies::all_indentation_answer(const IndentLevel *indent) {
  return indent ? indent->identity : hash_words(ANSWER);
}

void MaskDependencies::record_brackets(uint32_t open) {
  if (open > brackets_) return;  // it was opened by the same token
  const uint32_t closed = brackets_ - open + 1;
  if (!has_query({BRACKETS, static_cast<Symbol>(closed)}))
    queries_.push_back({{BRACKETS, static_cast<Symbol>(closed)}, brackets_answer(brackets_, closed)});
}

void MaskDependencies::record_all_brackets() {
  if (!has_query({BRACKETS, 0})) queries_.push_back({{BRACKETS, 0}, brackets_answer(brackets_, 0)});
}

// `closed` is 0 if their number itself is the answer.
Hash128 MaskDependencies::brackets_answer(uint32_t open, uint32_t closed) {
  return closed == 0 ? hash_words(ANSWER, open) : hash_words(ANSWER, open < closed, open == closed);
}

void MaskDependencies::record_identity() {
  if (!has_query({IDENTITY, 0})) queries_.push_back({{IDENTITY, 0}, sets_[0]->identity});
}

// ---------------------------------------------------------------- sets

const EarleySet *Earley::start(Arena &arena) {
  auto *kernels = static_cast<Kernel *>(arena.allocate(sizeof(Kernel)));
  auto *origins = static_cast<const EarleySet **>(arena.allocate(sizeof(EarleySet *)));
  kernels[0] = items_.start();
  origins[0] = nullptr;
  const bool accepting = g_.nullable(static_cast<Symbol>(g_.start));
  // As in `finish`. Otherwise this set would equal the one at the end of the text, which has no items.
  const Hash128 identity = extend(hash_words(IDENTITY, accepting), kernels[0]);
  const Hash128 shape = extend(hash_words(SHAPE, accepting), kernels[0]);
  return arena.make<EarleySet>(
      EarleySet{identity, shape, 0, 1, items_.outlook(kernels[0]), accepting, kernels, origins});
}

Earley::Target Earley::next_target(const EarleySet *s, Symbol symbol, MaskDependencies *dependencies) {
  const Target stays{s, symbol};
  const ItemSets::Scan scan = items_.scan(s->outlook, symbol);
  if (scan.rest != ItemSets::NONE) return stays;
  std::optional<Target> found;
  // Several rules in several origins count as one if all of them lead to one in the end.
  const auto passes = [&](const EarleySet *origin, uint32_t rule) {
    if (rule == items_.accepting_rule()) return false;
    const Target next{origin, static_cast<Symbol>(rule)};
    if (!found) found = next;
    if (found->set == next.set && found->symbol == next.symbol) return true;
    if (nested_ >= MOST_NESTED) return false;
    const Nested nested(nested_);
    if (!std::exchange(found->searched, true))
      std::tie(found->set, found->symbol) = resolve(found->set, found->symbol, dependencies);
    return resolve(next.set, next.symbol, dependencies) == std::pair(found->set, found->symbol);
  };
  bool all = true;
  uint32_t i = 0;
  for (; all && i < s->count; ++i) {
    const ItemSets::Move &move = items_.move(s->kernels[i], scan.heads);
    all = move.rest == ItemSets::NONE && std::all_of(move.completed.begin(), move.completed.end(),
                                                     [&](uint32_t rule) { return passes(s->origins[i], rule); });
  }
  // subtle: charges the kernels that were visited. In an ambiguous text the first of many mostly ends the search.
  work_ += i;
  charge(1 + i / 4);
  if (all && found) return *found;
  return {s, symbol, found && found->searched};
}

bool Earley::linked(const EarleySet *s, Symbol symbol, const EarleySet **to, Symbol *as) const {
  if (s->link && s->linked == symbol) {
    *to = s->link;
    *as = s->to;
    return true;
  }
  const Links::Link *found = links_.find(s, symbol);
  if (found) {
    *to = found->set;
    *as = found->symbol;
  }
  return found;
}

void Earley::link(const EarleySet *s, Symbol symbol, const EarleySet *to, Symbol as) {
  if (s->link && s->linked != symbol) return links_.put(s, symbol, {to, as});
  s->linked = symbol;
  s->to = as;
  s->link = to;
}

std::pair<const EarleySet *, Symbol> Earley::resolve(const EarleySet *s, Symbol symbol,
                                                     MaskDependencies *dependencies) {
  const EarleySet *const first = s;
  const Symbol first_symbol = symbol;
  bool moved = false;
  while (true) {
    charge();
    const uint32_t label = dependencies ? dependencies->label(s) : UINT32_MAX;
    if (const MaskDependencies::Target *known = label == UINT32_MAX ? nullptr : dependencies->resolved(label, symbol)) {
      const bool stays = known->set == s && known->symbol == symbol;
      s = known->set;
      symbol = known->symbol;
      moved = moved || !stays;
      if (stays || !dependencies->is_whole(label)) break;
      continue;
    }
    if (label != UINT32_MAX && !dependencies->is_whole(label)) {
      const auto [to, as] = resolve(s, symbol, nullptr);
      dependencies->record_completion(label, symbol, to, as, moves(to, as, *dependencies));
      moved = moved || to != s || as != symbol;
      s = to;
      symbol = as;
      break;
    }
    const EarleySet *to;
    Symbol as;
    ++work_;
    // subtle: a result is stored even if it leads nowhere. Otherwise a search below would repeat it, once for each of
    // the sets above. A link of a set that is known as a whole skips sets that were not queried.
    const bool is_whole = label != UINT32_MAX;  // any other set with a label was queried above
    if (is_whole || !linked(s, symbol, &to, &as)) {
      const Target target = next_target(s, symbol, dependencies);
      to = target.set;
      as = target.symbol;
      if (target.searched) is_whole ? dependencies->resolve(label, symbol, {to, as}) : link(s, symbol, to, as);
    }
    if (to == s && as == symbol) break;
    s = to;
    symbol = as;
    moved = true;
  }
  if (moved) link(first, first_symbol, s, symbol);
  return {s, symbol};
}

Hash128 Earley::outcome(const EarleySet *s, Symbol symbol) {
  if (outcomes_.empty()) outcomes_.resize(OUTCOMES);
  Outcome &known = outcomes_[mix(s->id, static_cast<uint32_t>(symbol)) % OUTCOMES];
  if (known.of == s->id && known.symbol == symbol) return known.outcome;
  // Items that are predicted here have this set as their origin, so their rules may be completed here.
  InlineVector<Symbol, 32> symbols;
  symbols.push_back(symbol);
  Hash128 h = hash_words(OUTCOME);
  for (size_t at = 0; at < symbols.size(); ++at) {
    const ItemSets::Scan scan = items_.scan(s->outlook, symbols[at]);
    work_ += s->count;
    charge(2 + s->count / 4);
    h = extend(h, static_cast<uint64_t>(scan.rest) << 32 | scan.heads);
    for (uint32_t i = 0; i < s->count; ++i) {
      const ItemSets::Move &move = items_.move(s->kernels[i], scan.heads);
      if (move.rest == ItemSets::NONE && move.completed.empty()) continue;
      h = extend(h, static_cast<uint64_t>(move.rest) << 32 | (move.completed.size() + 1));
      for (uint32_t rule : move.completed) h = extend(h, rule);
      if (s->origins[i]) h = extend(h, s->origins[i]->identity);
    }
    if (scan.rest == ItemSets::NONE) continue;
    for (Item item : items_.items(scan.rest)) {
      const auto head = static_cast<Symbol>(items_.head(item));
      charge(1 + symbols.size() / 16);
      if (std::find(symbols.begin(), symbols.end(), head) == symbols.end()) symbols.push_back(head);
    }
  }
  known = {s->id, symbol, h};
  return h;
}

Hash128 Earley::moves(const EarleySet *s, Symbol symbol, MaskDependencies &dependencies) {
  charge(1 + s->count);
  const ItemSets::Scan scan = items_.scan(s->outlook, symbol);
  Hash128 h = hash_words(MOVES_OF, scan.rest, scan.rest == ItemSets::NONE ? 0 : dependencies.assign_label(s) + 1);
  for (uint32_t i = 0; i < s->count; ++i) {
    const ItemSets::Move &move = items_.move(s->kernels[i], scan.heads);
    if (move.rest == ItemSets::NONE && move.completed.empty()) continue;
    h = extend(h, static_cast<uint64_t>(move.rest) << 32 | move.completed.size());
    h = extend(h, s->origins[i] ? dependencies.assign_label(s->origins[i]) + 1 : 0);
    for (uint32_t rule : move.completed) h = extend(h, rule);
  }
  return h;
}

const Hash128 &Earley::rest(const EarleySet *s, MaskDependencies *dependencies) {
  Hash128 &known = dependencies ? dependencies->rest(s) : s->rest;
  if (!(known == Hash128{})) return known;
  std::vector<std::pair<uint64_t, uint64_t>> rests;
  for (uint32_t i = 0; i < s->count; ++i)
    for (Item item : items_.items(s->kernels[i])) {
      auto [to, as] = std::pair(s->origins[i], static_cast<Symbol>(items_.head(item)));
      if (to) std::tie(to, as) = resolve(to, as, dependencies);
      Hash128 one = hash_words(REST, static_cast<uint32_t>(as));
      // subtle: an answer identifies the set, but not its other items.
      if (to) one = dependencies ? extend(one, to->id) : extend(one, to->identity);
      for (Item at = item; items_.symbol_after_dot(at) != Grammar::END; ++at)
        one = extend(one, static_cast<uint32_t>(items_.symbol_after_dot(at)));
      rests.push_back({one.a, one.b});
    }
  std::sort(rests.begin(), rests.end());
  rests.erase(std::unique(rests.begin(), rests.end()), rests.end());
  Hash128 all = hash_words(REST, static_cast<uint64_t>(s->outlook) << 1 | (s->accepting ? 1 : 0));
  for (auto &[a, b] : rests) all = extend(extend(all, a), b);
  return known = all;
}

void Earley::Builder::clear() {
  entries_.clear();
  done_.clear();
  by_origin_.clear();
  done_index_.clear();
  accepting_ = false;
  recorded_.clear();
  before_ = nullptr;
  serial_ = 0;
  moves_ = 0;
}

bool Earley::Builder::seen(const EarleySet *set, Symbol symbol) {
  if (done_.size() < FEW) {
    for (auto &[s, x] : done_)
      if (s == set && x == symbol) return true;
  } else {
    auto hash = [](const EarleySet *s, Symbol x) {
      return mix(reinterpret_cast<uint64_t>(s), static_cast<uint32_t>(x));
    };
    auto hash_at = [&](uint32_t at) { return hash(done_[at].since, done_[at].symbol); };
    auto put = [&](const EarleySet *s, Symbol x, size_t fresh) {
      auto is_it = [&](uint32_t at) { return done_[at].since == s && done_[at].symbol == x; };
      return done_index_.find_or_put(hash(s, x), static_cast<uint32_t>(fresh), is_it, hash_at);
    };
    if (done_index_.empty())
      for (size_t i = 0; i < done_.size(); ++i) put(done_[i].since, done_[i].symbol, i);
    if (put(set, symbol, done_.size()) < done_.size()) return true;
  }
  done_.push_back({set, symbol});
  return false;
}

size_t Earley::Builder::index_of(const EarleySet *origin) {
  if (entries_.size() < FEW) {
    size_t at = 0;
    while (at < entries_.size() && entries_[at].origin != origin) ++at;
    return at;
  }
  auto hash = [](const EarleySet *s) { return mix(reinterpret_cast<uint64_t>(s), 0); };
  auto hash_at = [&](uint32_t at) { return hash(entries_[at].origin); };
  auto put = [&](const EarleySet *s, size_t fresh) {
    auto is_it = [&](uint32_t at) { return entries_[at].origin == s; };
    return by_origin_.find_or_put(hash(s), static_cast<uint32_t>(fresh), is_it, hash_at);
  };
  if (by_origin_.empty())
    for (size_t i = 0; i < entries_.size(); ++i) put(entries_[i].origin, i);
  return put(origin, entries_.size());
}

void Earley::Builder::add(const EarleySet *origin, Kernel kernel) {
  if (kernel == ItemSets::NONE) return;
  const size_t at = index_of(origin);
  if (at < entries_.size()) {
    Kernel &k = entries_[at].kernel;
    k = e_.items_.merge(k, kernel);
    return;
  }
  if (entries_.size() >= std::max(FEW, e_.most_entries_))
    throw LimitError("the grammar is so ambiguous here that one place has more than " +
                     std::to_string(e_.most_entries_) + " open beginnings of rules (limit earley_items)");
  entries_.push_back({origin, kernel});
}

void Earley::Builder::recognised(const EarleySet *since, Symbol symbol) {
  if (!before_) {
    before_ = since;
    by_ = symbol;
  }
  serial_ = std::max(serial_, since->serial + 1);
  if (e_.trace_) recorded_.push_back({since, symbol});
  work_.push_back({since, symbol});
  while (!work_.empty()) {
    charge();
    auto [set, head] = work_.back();
    work_.pop_back();
    std::tie(set, head) = e_.resolve(set, head, dependencies_);
    if (seen(set, head)) continue;
    e_.work_ += set->count;
    charge(1 + set->count / 4);
    if ((moves_ += set->count) / MOVES >= e_.most_entries_)
      throw LimitError("the grammar is so ambiguous here that one place takes more than " +
                       std::to_string(e_.most_entries_) + " times " + std::to_string(MOVES) +
                       " moves of open rules (limit earley_items)");
    const ItemSets::Scan scan = e_.items_.scan(set->outlook, head);
    add(set, scan.rest);
    for (uint32_t i = 0; i < set->count; ++i) {
      const ItemSets::Move &move = e_.items_.move(set->kernels[i], scan.heads);
      add(set->origins[i], move.rest);
      for (uint32_t rule : move.completed) {
        if (rule == e_.items_.accepting_rule()) accepting_ = true;
        else work_.push_back({set->origins[i], static_cast<Symbol>(rule)});
      }
    }
  }
}

const EarleySet *Earley::Builder::finish(Arena &arena) {
  charge(1 + entries_.size());
  if (entries_.empty() && !accepting_) return nullptr;
  // Newest origin first, so that equal positions have equal sets.
  std::sort(entries_.begin(), entries_.end(), [](const Entry &a, const Entry &b) {
    if (!a.origin || !b.origin) return a.origin && !b.origin;
    if (a.origin->serial != b.origin->serial) return a.origin->serial > b.origin->serial;
    return a.origin->identity.a != b.origin->identity.a ? a.origin->identity.a < b.origin->identity.a
                                                        : a.origin->identity.b < b.origin->identity.b;
  });
  const size_t n = entries_.size();
  auto *kernels = static_cast<Kernel *>(arena.allocate(n * sizeof(Kernel)));
  auto *origins = static_cast<const EarleySet **>(arena.allocate(n * sizeof(EarleySet *)));
  Hash128 identity = hash_words(IDENTITY, accepting_), shape = hash_words(SHAPE, accepting_);
  Outlook outlook = 0;
  for (size_t i = 0; i < n; ++i) {
    kernels[i] = entries_[i].kernel;
    origins[i] = entries_[i].origin;
    shape = extend(shape, kernels[i]);
    identity = extend(identity, kernels[i]);
    if (origins[i]) identity = extend(identity, origins[i]->identity);
    outlook = e_.items_.merge_outlooks(outlook, e_.items_.outlook(kernels[i]));
  }
  const EarleySet *made = arena.make<EarleySet>(EarleySet{identity, shape, serial_, static_cast<uint32_t>(n), outlook,
                                                          accepting_, kernels, origins, before_, by_});
  if (e_.trace_) e_.trace_->moved(recorded_, made);
  return made;
}

}  // namespace structgen
