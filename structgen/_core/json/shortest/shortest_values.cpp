#include "json/shortest/shortest_values.h"

#include <algorithm>

#include "json/shortest/shortest_array.h"
#include "json/shortest/shortest_object.h"
#include "text/json_text.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr uint64_t MAX_WORK = 1'000'000;
constexpr int MAX_NESTED = 300;     // requirements that are examined at once; deeper ones are queued
constexpr size_t MAX_WAYS = 2'000;  // to satisfy one formula

}  // namespace

bool ShortestValues::spend(uint64_t work) {
  work_ += work;
  charge(1 + work);
  const bool left = work_ <= MAX_WORK && !stack_is_short();
  if (!left) mark_inexact();
  return left;
}

void ShortestValues::mark_inexact(SearchFailure why) {
  exact_ = false;
  search_failure_ = first_of(search_failure_, why);
}

bool ShortestValues::text(Formula requirement, std::string *out) {
  work_ = 0;
  search_failure_ = SearchFailure::Nothing;
  current_ = UINT32_MAX;
  const size_t before = out->size();
  try {
    length(requirement);
    while (!queue_.empty()) {
      charge();
      const Formula f = queue_.front();
      queue_.pop_front();
      entries_.at(f)->queued = false;
      examine(f);
    }
    if (write(requirement, out)) return true;
    const auto it = entries_.find(requirement);  // there is no entry for a requirement that is FALSE
    if (it != entries_.end() && it->second->best.length < NO_LENGTH && it->second->best.length > MAX_SHORTEST_TEXT)
      mark_inexact(SearchFailure::Length);
    // A search that takes lengths from earlier ones does not meet the bound again, so its reason is remembered.
    search_failure_ = failed_.try_emplace(requirement, search_failure_).first->second;
  } catch (...) {  // a limit ended the search: what is incomplete is started again the next time
    clear();
    throw;
  }
  out->resize(before);
  return false;
}

void ShortestValues::clear() {
  entries_.clear();
  queue_.clear();
  undeclared_keys_.clear();
  scalars_.clear();
  failed_.clear();
  depth_ = 0;
}

// ---------------------------------------------------------------- the fixpoint

uint64_t ShortestValues::length(Formula f) {
  if (f == FormulaSpace::FALSE) return NO_LENGTH;
  auto &slot = entries_[f];
  if (!slot) slot = std::make_unique<Entry>();
  Entry &e = *slot;
  if (!e.examined) {
    if (depth_ < MAX_NESTED && !stack_is_short()) {
      examine(f);
    } else if (!e.queued) {
      e.queued = true;
      queue_.push_back(f);
    }
  }
  if (current_ != UINT32_MAX && (e.used_by.empty() || e.used_by.back() != current_)) e.used_by.push_back(current_);
  return e.best.length;
}

void ShortestValues::examine(Formula f) {
  Entry &e = *entries_.at(f);
  e.examined = true;
  if (!spend()) return;
  const Formula outer = std::exchange(current_, f);
  ++depth_;
  ValueControl *v = values_.control_of(f);
  Candidate best;
  best.length = e.best.length;
  if (!std::exchange(e.has_scalars, true)) offer_scalars(*v, &best);
  if (v->types & type_bit(Type::Array) && best.length > EMPTY_CONTAINER) {
    const Formula formula = tables_.obligations[values_.open_array(v)->obligation].requirement;
    search_containers(formula, &best, [&](const Groups &satisfied, const Groups &violated) {
      ShortestArray(*this, satisfied, violated, &best).run();
    });
  }
  if (v->types & type_bit(Type::Object) && best.length > EMPTY_CONTAINER) {
    ObjectControl *o = values_.open_object(v);
    search_containers(tables_.obligations[o->obligation].requirement, &best,
                      [&](const Groups &satisfied, const Groups &violated) {
                        ShortestObject(*this, o, satisfied, violated, &best).run();
                      });
  }
  --depth_;
  current_ = outer;
  if (best.length >= e.best.length) return;
  e.best = std::move(best);
  for (Formula user : e.used_by) {
    Entry &u = *entries_.at(user);
    if (!std::exchange(u.queued, true)) queue_.push_back(user);
  }
}

template <class Search>
void ShortestValues::search_containers(Formula f, Candidate *best, const Search &search) {
  std::vector<std::pair<Groups, Groups>> ways;
  const bool all = oracle_.formulas().list(f, MAX_WAYS, &ways);
  for (const auto &[satisfied, violated] : ways) {
    if (best->length <= EMPTY_CONTAINER || !spend(1)) return;
    search(satisfied, violated);
  }
  if (!all && best->length > EMPTY_CONTAINER) mark_inexact();
}

// ---------------------------------------------------------------- scalars and keys

void ShortestValues::offer_scalars(const ValueControl &v, Candidate *best) {
  for (const bool number : {false, true}) {
    const Re re = number ? v.number.re : v.literal.re;
    std::string text;
    if (re == RegexSpace::EMPTY || !tables_.regex().witness(re, &text) || text.size() >= best->length) continue;
    *best = {number ? Candidate::Number : Candidate::Literal, text.size(), text, {}};
  }
  if (v.types & type_bit(Type::String)) offer_string(v.string, best);
}

void ShortestValues::offer_string(const StringLanguage &s, Candidate *best) {
  RegexSpace &space = tables_.regex();
  std::string text;
  if (s.re == RegexSpace::ANY_TEXT) {
    if (s.min > MAX_SHORTEST_TEXT) return mark_inexact(SearchFailure::Length);
    text.assign(s.min, 'a');
  } else {
    const Re re = with_length(space, s);
    if (!space.witness(re, &text)) return mark_inexact();
    if (written_length(text) > text.size()) {
      // With escapes, a longer text may take fewer bytes.
      ShortestTexts texts(space, re);
      const std::string *first = texts.get(0);
      if (first) text = *first;
      else mark_inexact();
    }
  }
  const uint64_t length = written_length(text) + 2;
  if (length < best->length) *best = {Candidate::String, length, text, {}};
}

ShortestTexts &ShortestValues::undeclared_keys(const ObjectControl &o, Re language) {
  RegexSpace &space = tables_.regex();
  const std::vector<std::string> &declared = o.universe->keys;
  Re re = language;
  if (!declared.empty()) re = space.intersect(re, space.complement(space.literals(declared)));
  re = tables_.table.text().writable(re);
  auto &slot = undeclared_keys_[re];
  if (!slot) slot = std::make_unique<ShortestTexts>(space, re);
  return *slot;
}

// ---------------------------------------------------------------- writing

bool ShortestValues::write(Formula f, std::string *out) const {
  // Values may be nested more deeply than the stack allows, so what is still to be written is on an explicit stack.
  struct Piece {
    Formula value;
    const std::string *key;
    const char *text;
  };
  std::vector<Piece> todo{{f, nullptr, nullptr}};
  while (!todo.empty()) {
    charge();
    const Piece piece = todo.back();
    todo.pop_back();
    if (piece.text) {
      *out += piece.text;
      continue;
    }
    if (piece.key) {
      charge(1 + piece.key->size() / 8);
      *out += '"' + escape_json(*piece.key) + "\":";
      continue;
    }
    const auto it = entries_.find(piece.value);
    if (it == entries_.end() || it->second->best.length > MAX_SHORTEST_TEXT || out->size() > MAX_SHORTEST_TEXT)
      return false;
    const Candidate &c = it->second->best;
    charge(c.text.size() / 8 + c.members.size());
    if (c.kind == Candidate::String) {
      *out += '"' + escape_json(c.text) + '"';
    } else if (c.kind != Candidate::Array && c.kind != Candidate::Object) {
      *out += c.text;
    } else {
      const bool object = c.kind == Candidate::Object;
      *out += object ? '{' : '[';
      todo.push_back({0, nullptr, object ? "}" : "]"});
      bool last = true;
      for (size_t i = c.members.size(); i-- > 0;)
        for (uint64_t n = c.members[i].times; n > 0; --n) {
          charge();
          if (!last) todo.push_back({0, nullptr, ","});
          last = false;
          todo.push_back({c.members[i].value, nullptr, nullptr});
          if (object) todo.push_back({0, &c.members[i].key, nullptr});
        }
    }
  }
  return true;
}

}  // namespace structgen
