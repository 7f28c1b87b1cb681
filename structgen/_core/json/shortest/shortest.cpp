#include "json/shortest/shortest.h"

#include <algorithm>
#include <type_traits>

#include "json/oracle/oracle.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr uint64_t WORK = 1'000'000;
constexpr int MAX_NESTED = 300;              // requirements looked into at once; deeper ones wait their turn
constexpr size_t MAX_WAYS = 2'000;           // to satisfy one formula

// The language of a string, its bounds on the length taken in.
Re with_length(RegexSpace &space, const StringLanguage &s) {
  if (s.min == 0 && s.max == UNBOUNDED) return s.re;
  const int64_t most = s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max);
  return space.intersect(s.re, space.repeat(space.any_char(), static_cast<int64_t>(s.min), most));
}

}  // namespace

bool Shortest::spend(uint64_t work) {
  work_ += work;
  charge(1 + work);
  const bool left = work_ <= WORK && !stack_is_short();
  if (!left) doubt();
  return left;
}

bool Shortest::text(Formula requirement, std::string *out) {
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
      look(f);
    }
    if (write(requirement, out)) return true;
    const auto it = entries_.find(requirement);  // none of a requirement that nothing satisfies
    if (it != entries_.end() && it->second->best.length < NONE && it->second->best.length > MAX_TEXT) doubt(SearchFailure::Length);
    search_failure_ = failed_.try_emplace(requirement, search_failure_).first->second;  // cached lengths do not report a bound twice
  } catch (...) {  // a limit: what was half done is begun anew another time
    entries_.clear();
    queue_.clear();
    texts_.clear();
    scalars_.clear();
    failed_.clear();
    depth_ = 0;
    throw;
  }
  out->resize(before);
  return false;
}

// ---------------------------------------------------------------- the fixpoint

uint64_t Shortest::length(Formula f) {
  if (f == FormulaSpace::FALSE) return NONE;
  auto &slot = entries_[f];
  if (!slot) slot = std::make_unique<Entry>();
  Entry &e = *slot;
  if (!e.seen) {
    if (depth_ < MAX_NESTED && !stack_is_short()) {
      look(f);
    } else if (!e.queued) {
      e.queued = true;
      queue_.push_back(f);
    }
  }
  // Whoever asks before the answer is final is told when it changes.
  if (current_ != UINT32_MAX && (e.used_by.empty() || e.used_by.back() != current_)) e.used_by.push_back(current_);
  return e.best.length;
}

void Shortest::look(Formula f) {
  Entry &e = *entries_.at(f);
  e.seen = true;
  if (!spend()) return;
  const Formula outer = std::exchange(current_, f);
  ++depth_;
  ValueControl *v = c_.value(c_.intern({f}, c_.formulas_.leaf(0)));
  Candidate best;
  best.length = e.best.length;
  if (!std::exchange(e.scalars_done, true)) scalars(*v, &best);
  if (v->types & type_bit(Type::Array) && best.length > EMPTY_CONTAINER) arrays(c_.open_array(v), &best);
  if (v->types & type_bit(Type::Object) && best.length > EMPTY_CONTAINER) objects(c_.open_object(v), &best);
  --depth_;
  current_ = outer;
  if (best.length >= e.best.length) return;
  e.best = std::move(best);
  for (Formula user : e.used_by) {
    Entry &u = *entries_.at(user);
    if (!std::exchange(u.queued, true)) queue_.push_back(user);
  }
}

std::vector<std::pair<Shortest::Groups, Shortest::Groups>> Shortest::ways(Formula f, bool *all) {
  std::vector<std::pair<Groups, Groups>> out;
  *all = c_.oracle_->ways(f, MAX_WAYS, &out);
  return out;
}

// ---------------------------------------------------------------- scalars

void Shortest::scalars(const ValueControl &v, Candidate *best) {
  for (const bool number : {false, true}) {
    const Re re = number ? v.number.re : v.literal.re;
    std::string text;
    if (re == RegexSpace::EMPTY || !c_.text_.regex().witness(re, &text) || text.size() >= best->length) continue;
    *best = {number ? Candidate::Number : Candidate::Literal, text.size(), text, {}};
  }
  if (v.types & type_bit(Type::String)) offer_string(v.string, best);
}

void Shortest::offer_string(const StringLanguage &s, Candidate *best) {
  RegexSpace &space = c_.text_.regex();
  std::string text;
  if (s.re == RegexSpace::ANY_TEXT) {
    if (s.min > MAX_TEXT) return doubt(SearchFailure::Length);
    text.assign(s.min, 'a');
  } else {
    const Re re = with_length(space, s);
    if (!space.witness(re, &text)) return doubt();
    if (written_length(text) > text.size()) {
      // The fewest bytes of characters need not be the fewest as written.
      ShortestTexts texts(space, re);
      const std::string *first = texts.get(0);
      if (first) text = *first;
      else doubt();
    }
  }
  const uint64_t length = written_length(text) + 2;
  if (length < best->length) *best = {Candidate::String, length, text, {}};
}

const std::string *Shortest::scalar(Formula requirement, size_t i) {
  RegexSpace &space = c_.text_.regex();
  const auto [it, fresh] = scalars_.try_emplace(requirement);
  Scalars &all = it->second;
  if (fresh) {
    const ValueControl &v = *c_.value(c_.intern({requirement}, c_.formulas_.leaf(0)));
    for (const Re re : {v.literal.re, v.number.re})
      if (re != RegexSpace::EMPTY) all.kinds.push_back({ShortestTexts(space, re), false});
    if (v.types & type_bit(Type::String)) {
      all.kinds.push_back({ShortestTexts(space, c_.text_.writable(with_length(space, v.string))), true});
    }
  }
  while (all.texts.size() <= i) {
    charge();
    const auto kind = std::find_if(all.kinds.begin(), all.kinds.end(), [](auto &one) { return !one.ended; });
    if (kind == all.kinds.end()) return nullptr;
    const std::string *text = kind->texts.get(kind->taken++);
    if (text) all.texts.push_back(kind->is_string ? '"' + escape_json(*text) + '"' : *text);
    else kind->ended = true;
  }
  return &all.texts[i];
}

// ---------------------------------------------------------------- writing

bool Shortest::write(Formula f, std::string *out) const {
  // Nesting may be far deeper than the machine's stack: what is still to be written is a stack of our own.
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
    if (it == entries_.end() || it->second->best.length > MAX_TEXT || out->size() > MAX_TEXT) return false;
    const Candidate &c = it->second->best;
    charge(c.scalar.size() / 8 + c.parts.size());
    if (c.kind == Candidate::String) {
      *out += '"' + escape_json(c.scalar) + '"';
    } else if (c.kind != Candidate::Array && c.kind != Candidate::Object) {
      *out += c.scalar;
    } else {
      const bool object = c.kind == Candidate::Object;
      *out += object ? '{' : '[';
      todo.push_back({0, nullptr, object ? "}" : "]"});
      bool last = true;
      for (size_t i = c.parts.size(); i-- > 0;)
        for (uint64_t n = c.parts[i].times; n > 0; --n) {
          charge();
          if (!last) todo.push_back({0, nullptr, ","});
          last = false;
          todo.push_back({c.parts[i].value, nullptr, nullptr});
          if (object) todo.push_back({0, &c.parts[i].key, nullptr});
        }
    }
  }
  return true;
}

// ---------------------------------------------------------------- values as schemas

SchemaId Shortest::add(SchemaNode node) {
  static_assert(std::is_nothrow_move_constructible_v<SchemaNode>, "views of names survive the nodes' moving");
  const auto id = static_cast<SchemaId>(c_.schema_.nodes.size());
  c_.schema_.nodes.push_back(std::move(node));
  SchemaNode &kept = c_.schema_.nodes.back();
  for (auto &[name, value] : kept.properties) kept.property_index.emplace(name, value);
  return id;
}

namespace {

// The node that exactly one value satisfies, from its JSON; `add` takes the nodes it consists of.
class ConstantReader {
 public:
  ConstantReader(std::string_view json, const std::function<SchemaId(SchemaNode)> &add) : s_(json), add_(add) {}

  SchemaId value() {
    check_stack("a value is nested too deeply");
    skip();
    SchemaNode n;
    if (peek() == '[') {
      n.types = type_bit(Type::Array);
      for (++at_, skip(); at_ < s_.size() && peek() != ']'; separator()) n.prefix_items.push_back(value());
      ++at_;
      n.min_items = n.max_items = n.prefix_items.size();
    } else if (peek() == '{') {
      n.types = type_bit(Type::Object);
      for (++at_, skip(); at_ < s_.size() && peek() != '}'; separator()) {
        n.required.push_back(read_value(scalar()).text);
        skip();
        ++at_;  // the colon
        n.properties.emplace_back(n.required.back(), value());
      }
      ++at_;
      n.min_properties = n.max_properties = n.properties.size();
    } else {
      const ItemValue v = read_value(scalar());
      n.has_values = true;
      if (v.kind == ItemValue::String) n.strings.push_back(v.text);
      else if (v.kind == ItemValue::Number) n.numbers.push_back(v.text);
      else n.literals = v.text == "null" ? 1 : v.text == "true" ? 2 : 4;
    }
    return add_(std::move(n));
  }

 private:
  char peek() const { return at_ < s_.size() ? s_[at_] : '\0'; }
  void skip() { at_ = std::min(s_.find_first_not_of(" \t\r\n", at_), s_.size()); }
  void separator() {
    skip();
    if (peek() == ',') ++at_, skip();
  }
  std::string_view scalar() {
    const size_t start = at_;
    if (peek() == '"') {
      for (++at_; at_ < s_.size() && peek() != '"'; ++at_) at_ += peek() == '\\';
      ++at_;
    } else {
      at_ = std::min(s_.find_first_of(",]} \t\r\n", at_), s_.size());
    }
    return s_.substr(start, at_ - start);
  }

  std::string_view s_;
  const std::function<SchemaId(SchemaNode)> &add_;
  size_t at_ = 0;
};

}  // namespace

Formula Shortest::other_than(Formula requirement, const std::vector<std::string> &texts) {
  // Scalars and containers in one enum: its negation is one leaf.
  std::vector<SchemaId> ids;
  const std::function<SchemaId(SchemaNode)> adder = [&](SchemaNode n) { return add(std::move(n)); };
  for (const std::string &t : texts) {
    charge(8 + t.size() / 8);
    SchemaId &known = constants_.try_emplace(t, NO_SCHEMA).first->second;  // subtle: also left so by a limit
    if (known == NO_SCHEMA) known = ConstantReader(t, adder).value();
    ids.push_back(known);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto it = enums_.try_emplace(ids, NO_SCHEMA).first;
  if (it->second == NO_SCHEMA) {
    SchemaNode n;
    n.has_values = true;
    for (SchemaId id : ids) {
      const SchemaNode &one = c_.schema_.nodes[id];
      if (!one.has_values) n.values.push_back(id);
      n.strings.insert(n.strings.end(), one.strings.begin(), one.strings.end());
      n.numbers.insert(n.numbers.end(), one.numbers.begin(), one.numbers.end());
      n.literals |= one.literals;
    }
    it->second = add(std::move(n));
  }
  return c_.formulas_.both(requirement, c_.formulas_.negation(c_.formulas_.leaf(it->second)));
}

}  // namespace structgen
