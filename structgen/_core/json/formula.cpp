#include "json/formula.h"

#include <algorithm>
#include <set>

#include "util/sorting.h"

namespace structgen {
namespace {

constexpr uint64_t FORMULA = 43;
constexpr size_t MAX_ABSORBED_PARTS = 16;   // of an operand that is tested for being implied by the others
constexpr size_t MAX_COMPARED_CHOICES = 4;  // disjunctions of one conjunction

bool has(const std::vector<Formula> &sorted, Formula f) {
  charge(search_work(sorted.size()));
  return std::binary_search(sorted.begin(), sorted.end(), f);
}

}  // namespace

FormulaSpace::FormulaSpace() {
  nodes_.push_back({Kind::False, false, true, 0, 0, 0});
  nodes_.push_back({Kind::True, true, true, 0, 0, 0});
}

Formula FormulaSpace::intern(Kind kind, uint32_t leaf, std::span<const Formula> parts) {
  charge(2 + parts.size());
  Hash128 h = hash_words(FORMULA, static_cast<uint64_t>(kind), leaf);
  for (Formula p : parts) h = extend(h, p);
  if (const auto it = index_.find(h); it != index_.end()) return it->second;
  bool conjunctive = kind == Kind::Leaf;
  if (kind == Kind::And)
    conjunctive = std::all_of(parts.begin(), parts.end(), [&](Formula p) { return this->kind(p) == Kind::Leaf; });
  bool monotone = kind != Kind::Not && kind != Kind::One;
  charge(2);
  for (Formula p : parts) monotone = monotone && nodes_[p].monotone;
  auto f = static_cast<Formula>(nodes_.size());
  auto begin = static_cast<uint32_t>(parts_.size());
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  nodes_.push_back({kind, conjunctive, monotone, leaf, begin, static_cast<uint32_t>(parts_.size())});
  index_[h] = f;
  return f;
}

// Removes operands of a conjunction (`inner` is Or) or a disjunction (`inner` is And) that the others imply. `flat` is
// sorted.
void FormulaSpace::absorb(std::vector<Formula> *flat, Kind inner) const {
  const Kind outer = inner == Kind::Or ? Kind::And : Kind::Or;
  auto said = [&](Formula q) {
    if (has(*flat, q)) return true;
    return kind(q) == outer && parts(q).size() <= MAX_ABSORBED_PARTS &&
           std::all_of(parts(q).begin(), parts(q).end(), [&](Formula p) { return has(*flat, p); });
  };
  const auto absorbed = [&](Formula p) {
    return kind(p) == inner && parts(p).size() <= MAX_ABSORBED_PARTS &&
           std::any_of(parts(p).begin(), parts(p).end(), said);
  };
  // subtle: collected first, since `said` searches all of them. None absorbs itself: an operand of `p` is never `p`.
  std::vector<Formula> left;
  for (Formula p : *flat)
    if (!absorbed(p)) left.push_back(p);
  flat->swap(left);
}

// Does each alternative of `a` imply an alternative of `b`? Those of `b` are found by their first conjunct, so this
// takes linear time. Also false if too many of them have the same first conjunct.
bool FormulaSpace::implies_choice(Formula a, Formula b) const {
  const auto said = [&](const Formula &f) { return kind(f) == Kind::And ? parts(f) : std::span<const Formula>(&f, 1); };
  const auto says = [&](std::span<const Formula> more, const Formula &p) {
    const std::span<const Formula> less = said(p);
    charge(1 + less.size() / 4);
    return std::includes(more.begin(), more.end(), less.begin(), less.end());
  };
  // Mostly the first alternative already implies none.
  const std::span<const Formula> one = said(parts(a)[0]);
  if (std::none_of(parts(b).begin(), parts(b).end(), [&](const Formula &p) { return says(one, p); })) return false;
  std::unordered_map<Formula, std::vector<const Formula *>> by_first;
  charge(4 * parts(b).size());
  for (const Formula &p : parts(b)) by_first[said(p)[0]].push_back(&p);
  return std::all_of(parts(a).begin(), parts(a).end(), [&](const Formula &p) {
    const std::span<const Formula> more = said(p);
    charge(more.size());
    return std::any_of(more.begin(), more.end(), [&](Formula first) {
      const auto it = by_first.find(first);
      return it != by_first.end() && it->second.size() <= MAX_ABSORBED_PARTS &&
             std::any_of(it->second.begin(), it->second.end(), [&](const Formula *less) { return says(more, *less); });
    });
  });
}

// Removes disjunctions of a conjunction that another one implies.
void FormulaSpace::absorb_choices(std::vector<Formula> *flat) const {
  std::vector<Formula> choices;
  for (Formula p : *flat)
    if (kind(p) == Kind::Or && choices.size() <= MAX_COMPARED_CHOICES) choices.push_back(p);
  if (choices.size() < 2 || choices.size() > MAX_COMPARED_CHOICES) return;
  for (Formula b : choices)
    for (Formula a : choices)
      if (a != b && has(*flat, a) && implies_choice(a, b)) {
        std::erase(*flat, b);
        break;
      }
}

Formula FormulaSpace::leaf(uint32_t id) {
  if (id < leaves_.size() && leaves_[id] != FALSE) return leaves_[id];
  const Formula made = intern(Kind::Leaf, id, {});
  if (id >= leaves_.size()) leaves_.resize(size_t{id} + 1, FALSE);
  return leaves_[id] = made;
}

Formula FormulaSpace::conjunction(std::vector<Formula> parts) {
  charge(1 + parts.size() / 4);
  if (parts.size() == 1) return parts[0];
  std::vector<Formula> flat;
  for (Formula p : parts) {
    if (p == FALSE) return FALSE;
    if (p == TRUE) continue;
    if (kind(p) == Kind::And) flat.insert(flat.end(), this->parts(p).begin(), this->parts(p).end());
    else flat.push_back(p);
  }
  sort_numbers(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return TRUE;
  if (flat.size() == 1) return flat[0];
  for (Formula p : flat)
    if (kind(p) == Kind::Not && has(flat, this->parts(p)[0])) return FALSE;
  absorb(&flat, Kind::Or);
  absorb_choices(&flat);
  if (flat.size() == 1) return flat[0];
  return intern(Kind::And, 0, flat);
}

Formula FormulaSpace::disjunction(std::vector<Formula> parts) {
  charge(1 + parts.size() / 4);
  if (parts.size() == 1) return parts[0];
  std::vector<Formula> flat;
  for (Formula p : parts) {
    if (p == TRUE) return TRUE;
    if (p == FALSE) continue;
    if (kind(p) == Kind::Or) flat.insert(flat.end(), this->parts(p).begin(), this->parts(p).end());
    else flat.push_back(p);
  }
  sort_numbers(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return FALSE;
  if (flat.size() == 1) return flat[0];
  for (Formula p : flat)
    if (kind(p) == Kind::Not && has(flat, this->parts(p)[0])) return TRUE;
  absorb(&flat, Kind::And);
  if (flat.size() == 1) return flat[0];
  return intern(Kind::Or, 0, flat);
}

Formula FormulaSpace::negation(Formula f) {
  if (f == FALSE) return TRUE;
  if (f == TRUE) return FALSE;
  if (kind(f) == Kind::Not) return parts(f)[0];
  const Formula p[] = {f};
  return intern(Kind::Not, 0, p);
}

Formula FormulaSpace::exactly_one(std::vector<Formula> parts) {
  charge(1 + parts.size() / 4);
  size_t certain = std::count(parts.begin(), parts.end(), TRUE);
  if (certain > 1) return FALSE;
  std::erase(parts, FALSE);
  if (certain == 1) {
    std::erase(parts, TRUE);
    for (Formula &p : parts) p = negation(p);
    return conjunction(std::move(parts));
  }
  sort_numbers(parts.begin(), parts.end());
  // Of two contraries exactly one holds, so none of the others may.
  for (Formula p : parts)
    if (kind(p) == Kind::Not && has(parts, this->parts(p)[0])) {
      const Formula contrary = this->parts(p)[0];
      parts.erase(std::find(parts.begin(), parts.end(), p));
      parts.erase(std::find(parts.begin(), parts.end(), contrary));
      for (Formula &q : parts) q = negation(q);
      return conjunction(std::move(parts));
    }
  // A branch that occurs twice cannot be the only one that holds.
  if (std::adjacent_find(parts.begin(), parts.end()) != parts.end()) {
    std::vector<Formula> once, all;
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool again = i > 0 && parts[i - 1] == parts[i];
      if (again) all.push_back(negation(parts[i]));
      else if (i + 1 == parts.size() || parts[i + 1] != parts[i]) once.push_back(parts[i]);
    }
    all.push_back(exactly_one(std::move(once)));
    return conjunction(std::move(all));
  }
  if (parts.empty()) return FALSE;
  if (parts.size() == 1) return parts[0];
  return intern(Kind::One, 0, parts);
}

Formula FormulaSpace::substitute(Formula root, const std::function<Formula(uint32_t)> &with) {
  std::vector<Formula> roots{root};
  substitute(&roots, with);
  return roots[0];
}

void FormulaSpace::substitute(std::vector<Formula> *roots, const std::function<Formula(uint32_t)> &with) {
  std::unordered_map<Formula, Formula> known;
  for (Formula &root : *roots) root = substitute(root, with, known);
}

Formula FormulaSpace::substitute(Formula root, const std::function<Formula(uint32_t)> &with,
                                 std::unordered_map<Formula, Formula> &known) {
  if (root <= TRUE) return root;
  auto leaf = [&](uint32_t id) {
    const Formula given = with(id);
    return given == SAME ? this->leaf(id) : given;
  };
  return fold(root, known, leaf, [&](Formula f, std::span<const Formula> values) {
    std::vector<Formula> parts(values.begin(), values.end());
    switch (kind(f)) {
      case Kind::And: return conjunction(std::move(parts));
      case Kind::Or: return disjunction(std::move(parts));
      case Kind::Not: return negation(parts[0]);
      case Kind::One: return exactly_one(std::move(parts));
      default: return f;
    }
  });
}

bool FormulaSpace::evaluate(Formula root, const std::function<bool(uint32_t)> &leaf) const {
  struct Open {
    Formula f;
    uint32_t next = 0;  // part
    uint32_t held = 0;  // parts that hold, of those before
  };
  std::vector<Open> open;
  std::unordered_map<Formula, bool> known;  // formulas with parts that are not just leaves
  auto enter = [&](Formula f) -> std::optional<bool> {
    if (f <= TRUE) return f == TRUE;
    if (kind(f) == Kind::Leaf) return leaf(leaf_id(f));
    if (is_literal(f)) return !leaf(leaf_id(parts(f)[0]));
    if (const auto it = known.find(f); it != known.end()) return it->second;
    open.push_back({f});
    return std::nullopt;
  };
  // The value of a formula, as soon as its operands so far decide it.
  auto decided = [&](const Open &now, bool last) -> std::optional<bool> {
    switch (kind(now.f)) {
      case Kind::Not: return !last;
      case Kind::And: return last ? std::nullopt : std::optional(false);
      case Kind::Or: return last ? std::optional(true) : std::nullopt;
      default: return now.held > 1 ? std::optional(false) : std::nullopt;  // One
    }
  };
  std::optional<bool> last = enter(root);
  charge();
  while (!open.empty()) {
    charge();
    Open &now = open.back();
    std::optional<bool> value;
    if (last) {
      now.held += *last;
      value = decided(now, *last);
    }
    if (!value && now.next < parts(now.f).size()) {
      last = enter(parts(now.f)[now.next++]);
      continue;
    }
    if (!value) value = kind(now.f) == Kind::One ? now.held == 1 : kind(now.f) == Kind::And;
    if (open.size() > 1) known.emplace(now.f, *value);
    last = value;
    open.pop_back();
  }
  return *last;
}

std::vector<uint32_t> FormulaSpace::leaves(Formula f) const {
  std::vector<uint32_t> out;
  std::set<Formula> seen;
  std::vector<Formula> todo{f};
  while (!todo.empty()) {
    charge();
    Formula g = todo.back();
    todo.pop_back();
    if (kind(g) == Kind::Leaf) {
      out.push_back(leaf_id(g));
      continue;
    }
    charge(parts(g).size() / 2);
    for (Formula p : parts(g)) {
      if (is_literal(p)) out.push_back(leaf_id(kind(p) == Kind::Not ? parts(p)[0] : p));
      else if (charge(4), seen.insert(p).second) todo.push_back(p);
    }
  }
  sort_numbers(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace structgen
