#include "json/oracle/oracle.h"

#include <algorithm>
#include <set>

#include "util/stack.h"

namespace structgen {
namespace {
constexpr size_t MAX_NESTED_QUESTIONS = 250;
constexpr size_t WORK_PER_STEP = 50;  // elementary steps that one step of the budget pays for
constexpr size_t MAX_HARDNESS = 256;
constexpr size_t FEW_TOLD = 64;  // groups that are looked through to see whether one is among them
constexpr size_t MAX_PARTS = 100'000;  // of formulas, of which it is known whether they can hold
constexpr size_t WAYS_ALLOWANCE = 16;  // budgets to list all ways to satisfy one formula
}  // namespace

bool JsonOracle::spend(size_t work) {
  const size_t budget = c_.text_.limits().oracle_budget * allowance_ / hardness_;
  work_ += work;
  charge(1 + work);
  if (++steps_ <= budget && work_ <= budget * WORK_PER_STEP && !stack_is_short()) return true;
  ++unproven_;
  spent_ = true;
  return false;
}

// A schema whose questions use up their budget gets less and less for each, so that all of them
// together stay within a few budgets.
void JsonOracle::begin() {
  if (spent_) hardness_ = std::min<size_t>(hardness_ * 2, MAX_HARDNESS);
  spent_ = false;
  steps_ = work_ = 0;
  allowance_ = 1;
}

// ---------------------------------------------------------------- requirements

bool JsonOracle::can_hold(Formula f) {
  charge();
  if (f <= FormulaSpace::TRUE) return f == FormulaSpace::TRUE;
  if (int8_t known = c_.info(f).holds; known >= 0) return known != 0;
  if (auto it = in_progress_.find(f); it != in_progress_.end()) {
    lowest_ = std::min(lowest_, it->second);
    return false;
  }
  const Question question(*this);
  if (in_progress_.size() > MAX_NESTED_QUESTIONS || !spend()) {
    if (in_progress_.size() > MAX_NESTED_QUESTIONS) ++unproven_;
    return true;
  }
  auto index = static_cast<uint32_t>(in_progress_.size());
  uint32_t outer = lowest_;
  lowest_ = UINT32_MAX;
  in_progress_.emplace(f, index);
  bool holds = false;
  for (Type t : {Type::Null, Type::Boolean, Type::String, Type::Number, Type::Array, Type::Object})
    if (holds_type(f, t)) {
      holds = true;
      break;
    }
  in_progress_.erase(f);
  if (holds) {
    c_.info(f).holds = 1;
    lowest_ = outer;
  } else {
    if (lowest_ >= index) c_.info(f).holds = 0;  // leaned on nothing below itself: final
    lowest_ = std::min(outer, lowest_ >= index ? UINT32_MAX : lowest_);
  }
  return holds;
}

bool JsonOracle::holds_type(Formula f, Type type) {
  auto t = static_cast<int>(type);
  if (int8_t known = c_.info(f).holds_type[t]; known >= 0) return known != 0;
  Formula e = c_.written(c_.expand(f, type), type);
  bool holds = true;
  const bool outermost = in_progress_.empty();
  const Question question(*this);
  if (outermost) lowest_ = UINT32_MAX;
  if (e == FormulaSpace::FALSE || (e == FormulaSpace::TRUE && type != Type::Null && type != Type::Boolean)) {
    holds = e == FormulaSpace::TRUE;
  } else {
    switch (type) {
      case Type::Null:
      case Type::Boolean: {
        holds = false;
        for (int i = type == Type::Null ? 0 : 1; i < (type == Type::Null ? 1 : 3); ++i)
          holds |= c_.text_.spells(JsonControl::LITERALS[i]) &&
                   c_.formulas_.evaluate(e, [&](uint32_t id) { return (c_.schema_.nodes[id].literals >> i & 1) != 0; });
        break;
      }
      case Type::Number: holds = c_.text_.regex().alive(c_.number_re(e)); break;
      case Type::String: {
        Goal g{{e}, FormulaSpace::FALSE, e, c_.formulas_.is_conjunction(e)};
        g.need = c_.formulas_.leaf(0);
        holds = c_.string_language(g).re != RegexSpace::EMPTY;
        break;
      }
      case Type::Object:
        holds = any_object(e, possible_object());
        break;
      case Type::Array:
        holds = any_way(e, possible_array(), Type::Array);
        break;
    }
  }
  if (holds || outermost) c_.info(f).holds_type[t] = holds;
  return holds;
}

bool JsonOracle::group_can_hold(SchemaId group, Type type) {
  const Question question(*this);
  return type == Type::Object ? object_possible({group}, {}, nullptr, {nullptr, 0, -1}, nullptr)
                              : array_possible({group}, {}, nullptr, 0, false);
}

// ---------------------------------------------------------------- ways to satisfy a formula

void JsonOracle::preferred_first(std::vector<Formula> *alternatives) const {
  if (!preferred_ || preferred_->empty()) return;
  charge(alternatives->size());
  const FormulaSpace &fs = c_.formulas_;
  auto preferred = [&](Formula f) {
    return fs.kind(f) == FormulaSpace::Kind::Leaf &&
           std::binary_search(preferred_->begin(), preferred_->end(), fs.leaf_id(f));
  };
  std::stable_partition(alternatives->begin(), alternatives->end(), [&](Formula f) {
    if (fs.kind(f) != FormulaSpace::Kind::And) return preferred(f);
    return std::any_of(fs.parts(f).begin(), fs.parts(f).end(), preferred);
  });
}

JsonOracle::Check JsonOracle::possible_object() {
  return [this](const Groups &yes, const Groups &no) {
    return object_possible(yes, no, nullptr, {nullptr, 0, -1}, nullptr);
  };
}

JsonOracle::Check JsonOracle::possible_array() {
  return [this](const Groups &yes, const Groups &no) { return array_possible(yes, no, nullptr, 0, false); };
}

bool JsonOracle::part_can_hold(Formula part, Type type) {
  charge();
  if (c_.formulas_.is_conjunction(part)) return true;
  std::unordered_map<Formula, bool> &parts = parts_[static_cast<int>(type)];
  if (parts.size() > MAX_PARTS) parts.clear();
  // subtle: true says nothing, so it is the answer while the part is looked at, and where a limit ends that.
  if (const auto [it, fresh] = parts.emplace(part, true); !fresh) return it->second;
  const uint32_t outer = std::exchange(lowest_, UINT32_MAX);
  Way way;
  way.type = type;
  way.failed = true;  // inner parts first
  const bool holds = type == Type::Object ? any_object(part, {}, way, possible_object())
                                          : any_way({{part, true}}, &way, possible_array());
  const bool final = !holds && lowest_ == UINT32_MAX;  // leaned on no question in progress
  if (final) parts[part] = false;
  lowest_ = holds ? outer : std::min(outer, lowest_);
  return !final;
}

bool JsonOracle::any_way(Formula f, const Check &check, std::optional<Type> type) {
  charge();
  if (c_.formulas_.is_conjunction(f)) return check(c_.formulas_.leaves(f), {});
  Way way;
  way.type = type;
  return any_way({{f, true}}, &way, check);
}

bool JsonOracle::ways(Formula f, size_t most, std::vector<std::pair<Groups, Groups>> *out) {
  struct Restored {  // also where a limit is met
    JsonOracle &oracle;
    bool spent;
    uint64_t unproven;
    ~Restored() {
      oracle.allowance_ = 1;
      oracle.spent_ = spent;
      oracle.unproven_ = unproven;
    }
  };
  const Restored restored{*this, spent_, unproven_};
  const Question question(*this);
  spent_ = false;
  allowance_ = WAYS_ALLOWANCE;
  return !any_way(f, [&](const Groups &yes, const Groups &no) {
    out->emplace_back(yes, no);
    return out->size() >= most;
  });
}

std::optional<bool> JsonOracle::Assignment::find(uint32_t one) const {
  if (!known_.empty()) {
    const auto it = known_.find(one);
    return it == known_.end() ? std::nullopt : std::optional(it->second);
  }
  if (std::find(yes_.begin(), yes_.end(), one) != yes_.end()) return true;
  return std::find(no_.begin(), no_.end(), one) != no_.end() ? std::optional(false) : std::nullopt;
}

bool JsonOracle::Assignment::assign(uint32_t one, bool holds) {
  if (const std::optional<bool> before = find(one)) return *before == holds;
  (holds ? yes_ : no_).push_back(one);
  if (!known_.empty()) {
    known_.emplace(one, holds);
  } else if (size() >= FEW_TOLD) {
    for (const std::vector<uint32_t> *all : {&yes_, &no_})
      for (uint32_t each : *all) known_.emplace(each, all == &yes_);
  }
  return true;
}

void JsonOracle::Assignment::back_to(Mark mark) {
  for (auto [all, size] : {std::pair{&yes_, mark.yes}, {&no_, mark.no}})
    for (; all->size() > size; all->pop_back())
      if (!known_.empty()) known_.erase(all->back());
}

bool JsonOracle::any_way(std::vector<std::pair<Formula, bool>> pending, Way *way, const Check &check) {
  FormulaSpace &fs = c_.formulas_;
  auto any = [&](std::vector<std::pair<Formula, bool>> next) {
    const Assignment::Mark groups = way->groups.mark(), wholes = way->wholes.mark();
    if (any_way(std::move(next), way, check)) return true;
    way->groups.back_to(groups);
    way->wholes.back_to(wholes);
    return false;
  };
  auto assigned = [&](Formula p) -> std::optional<bool> {
    if (p <= FormulaSpace::TRUE) return p == FormulaSpace::TRUE;
    const bool negated = fs.kind(p) == FormulaSpace::Kind::Not;
    const Formula f = negated ? fs.parts(p)[0] : p;
    const auto found = fs.kind(f) == FormulaSpace::Kind::Leaf ? way->groups.find(fs.leaf_id(f)) : way->wholes.find(f);
    return found ? std::optional(*found != negated) : std::nullopt;
  };
  // Where ways have failed, a part may be why: one that cannot hold on its own is found once, not on each way.
  auto possible = [&](Formula p, bool holds) {
    return !way->failed || !way->type || fs.is_literal(p) || part_can_hold(holds ? p : fs.negation(p), *way->type);
  };
  while (!pending.empty()) {
    charge();
    auto [f, wanted] = pending.back();
    pending.pop_back();
    if (f <= FormulaSpace::TRUE) {
      if ((f == FormulaSpace::TRUE) != wanted) return false;
      continue;
    }
    if (const std::optional<bool> before = assigned(f)) {
      if (*before != wanted) return false;
      continue;
    }
    if (fs.kind(f) > FormulaSpace::Kind::Leaf && fs.kind(f) != FormulaSpace::Kind::Not) way->wholes.assign(f, wanted);
    charge(fs.parts(f).size() / 2);
    std::vector<Formula> parts(fs.parts(f).begin(), fs.parts(f).end());
    switch (fs.kind(f)) {
      case FormulaSpace::Kind::Leaf: {
        ++work_;
        way->groups.assign(fs.leaf_id(f), wanted);
        continue;
      }
      case FormulaSpace::Kind::Not:
        pending.emplace_back(parts[0], !wanted);
        continue;
      case FormulaSpace::Kind::And:
      case FormulaSpace::Kind::Or:
        if ((fs.kind(f) == FormulaSpace::Kind::And) == wanted) {
          // What leaves no choice comes first, the rest in the order of the schema; the last of `pending` is next.
          std::reverse(parts.begin(), parts.end());
          std::stable_partition(parts.begin(), parts.end(), [&](Formula p) { return !fs.is_literal(p); });
          for (Formula p : parts) pending.emplace_back(p, wanted);
          continue;
        }
        charge(parts.size() / 2);
        if (std::any_of(parts.begin(), parts.end(), [&](Formula p) { return assigned(p) == wanted; })) continue;
        if (wanted) preferred_first(&parts);
        for (Formula p : parts) {
          if (!possible(p, wanted)) continue;
          if (!spend(pending.size() + way->groups.size())) return true;
          auto next = pending;
          next.emplace_back(p, wanted);
          if (any(std::move(next))) return true;
        }
        return false;
      default:  // One
        if (wanted) {
          preferred_first(&parts);
          for (size_t i = 0; i < parts.size(); ++i) {
            if (!possible(parts[i], true)) continue;
            if (!spend(pending.size() + parts.size() + way->groups.size())) return true;
            auto next = pending;
            for (size_t j = 0; j < parts.size(); ++j) next.emplace_back(parts[j], i == j);
            if (any(std::move(next))) return true;
          }
          return false;
        }
        {
          if (!spend(pending.size() + parts.size() + way->groups.size())) return true;
          auto none = pending;
          for (Formula p : parts) none.emplace_back(p, false);
          if (any(std::move(none))) return true;
        }
        for (size_t i = 0; i < parts.size(); ++i)
          for (size_t j = i + 1; j < parts.size(); ++j) {
            if (!spend(pending.size() + parts.size() + way->groups.size())) return true;
            auto next = pending;
            next.emplace_back(parts[i], true);
            next.emplace_back(parts[j], true);
            if (any(std::move(next))) return true;
          }
        return false;
    }
  }
  if (check(way->groups.yes(), way->groups.no())) return true;
  way->failed = true;
  return false;
}

}  // namespace structgen
