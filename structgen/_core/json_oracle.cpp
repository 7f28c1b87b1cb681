#include "json_oracle.h"

#include <algorithm>
#include <set>

namespace structgen {
namespace {
constexpr size_t MAX_NESTED_QUESTIONS = 250;
constexpr size_t MAX_FRAME_MEMO = 100'000;
constexpr size_t WORK_PER_STEP = 50;  // elementary steps that one step of the budget pays for
constexpr size_t QUESTION = 20;       // elementary steps to ask about one key
constexpr size_t CONTROL = 500;       // elementary steps to make a control for some groups
constexpr size_t MAX_WAYS = 1'000;    // to satisfy a frame, looked at to find the keys that it allows
constexpr size_t MAX_VIOLATING_WAYS = 16;  // ways that tell nothing, before others are no longer looked for
constexpr size_t MAX_HARDNESS = 256;
constexpr size_t WAYS_ALLOWANCE = 16;  // budgets to list all ways to satisfy one formula
constexpr int64_t LONG_KEY = 64;  // a language with texts this long has plenty of them
}  // namespace

struct JsonOracle::ObjectQuery {
  const Groups *yes, *no;
  ObjectControl *frame;  // null: an object not yet begun
  ObjectView view;
  std::map<std::string, std::vector<Formula>, std::less<>> included;  // with further demands on the value
  std::set<std::string, std::less<>> omitted;
  std::vector<std::pair<uint32_t, std::vector<Formula>>> extras;  // extra keys included: class, further demands
  uint64_t min = 0, max = UNBOUNDED;
  ObjectControl *classes = nullptr;  // tells extra keys apart for all groups of the query
};

bool JsonOracle::spend(size_t work) {
  const size_t budget = c_.text_.limits().oracle_budget * allowance_ / hardness_;
  work_ += work;
  if (++steps_ <= budget && work_ <= budget * WORK_PER_STEP) return true;
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
  Formula e = c_.expand(f, type);
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
        holds = any_object(e, nullptr, {nullptr, 0, -1}, [&](const Groups &yes, const Groups &no) {
          return object_possible(yes, no, nullptr, {nullptr, 0, -1}, nullptr);
        });
        break;
      case Type::Array:
        holds = any_way(
            e, [&](const Groups &yes, const Groups &no) { return array_possible(yes, no, nullptr, 0, false); });
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

bool JsonOracle::any_way(Formula f, const Check &check) {
  if (c_.formulas_.is_conjunction(f)) return check(c_.formulas_.leaves(f), {});
  return any_way({{f, true}}, {}, {}, check);
}

bool JsonOracle::ways(Formula f, size_t most, std::vector<std::pair<Groups, Groups>> *out) {
  const bool spent = spent_;
  const uint64_t unproven = unproven_;
  bool stopped;
  {
    const Question question(*this);
    spent_ = false;
    allowance_ = WAYS_ALLOWANCE;
    stopped = any_way(f, [&](const Groups &yes, const Groups &no) {
      out->emplace_back(yes, no);
      return out->size() >= most;
    });
  }
  allowance_ = 1;
  spent_ = spent;
  unproven_ = unproven;
  return !stopped;
}

bool JsonOracle::any_way(std::vector<std::pair<Formula, bool>> pending, Groups yes, Groups no, const Check &check) {
  FormulaSpace &fs = c_.formulas_;
  while (!pending.empty()) {
    auto [f, wanted] = pending.back();
    pending.pop_back();
    if (f <= FormulaSpace::TRUE) {
      if ((f == FormulaSpace::TRUE) != wanted) return false;
      continue;
    }
    std::vector<Formula> parts(fs.parts(f).begin(), fs.parts(f).end());
    switch (fs.kind(f)) {
      case FormulaSpace::Kind::Leaf: {
        SchemaId id = fs.leaf_id(f);
        Groups &mine = wanted ? yes : no;
        const Groups &other = wanted ? no : yes;
        if (std::find(other.begin(), other.end(), id) != other.end()) return false;
        if (std::find(mine.begin(), mine.end(), id) == mine.end()) mine.push_back(id);
        work_ += mine.size() + other.size();
        continue;
      }
      case FormulaSpace::Kind::Not:
        pending.emplace_back(parts[0], !wanted);
        continue;
      case FormulaSpace::Kind::And:
      case FormulaSpace::Kind::Or:
        if ((fs.kind(f) == FormulaSpace::Kind::And) == wanted) {
          for (Formula p : parts) pending.emplace_back(p, wanted);
          continue;
        }
        for (Formula p : parts) {
          if (!spend(pending.size() + yes.size() + no.size())) return true;
          auto next = pending;
          next.emplace_back(p, wanted);
          if (any_way(std::move(next), yes, no, check)) return true;
        }
        return false;
      default:  // One
        if (wanted) {
          for (size_t i = 0; i < parts.size(); ++i) {
            if (!spend(pending.size() + parts.size() + yes.size() + no.size())) return true;
            auto next = pending;
            for (size_t j = 0; j < parts.size(); ++j) next.emplace_back(parts[j], i == j);
            if (any_way(std::move(next), yes, no, check)) return true;
          }
          return false;
        }
        {
          auto none = pending;
          for (Formula p : parts) none.emplace_back(p, false);
          if (any_way(std::move(none), yes, no, check)) return true;
        }
        for (size_t i = 0; i < parts.size(); ++i)
          for (size_t j = i + 1; j < parts.size(); ++j) {
            if (!spend(pending.size() + parts.size() + yes.size() + no.size())) return true;
            auto next = pending;
            next.emplace_back(parts[i], true);
            next.emplace_back(parts[j], true);
            if (any_way(std::move(next), yes, no, check)) return true;
          }
        return false;
    }
  }
  return check(yes, no);
}

// ---------------------------------------------------------------- objects

bool JsonOracle::any_object(Formula f, const ObjectControl *frame, const ObjectView &view, const Check &check) {
  if (c_.formulas_.is_conjunction(f)) return check(c_.formulas_.leaves(f), {});
  std::set<std::string_view> seen;
  if (frame)
    for (uint32_t i = 0; i < frame->universe->keys.size(); ++i)
      if (bit(view.seen, i)) seen.insert(frame->universe->keys[i]);
  return any_object(f, seen, {}, {}, check);
}

// `done`: properties that are there already, or whose cases are being gone through.
bool JsonOracle::any_object(Formula f, const std::set<std::string_view> &done, const Groups &yes, const Groups &no,
                            const Check &check) {
  std::string_view tag;
  const std::vector<JsonControl::TagCase> cases = c_.tag_cases(f, done, &tag);
  if (cases.empty()) return any_way({{f, true}}, yes, no, check);
  auto done_now = done;
  done_now.insert(tag);
  auto has = [](const Groups &groups, SchemaId g) { return std::find(groups.begin(), groups.end(), g) != groups.end(); };
  for (const JsonControl::TagCase &one : cases) {
    if (!spend(one.yes.size() + one.no.size())) return true;
    const Formula left = c_.formulas_.substitute(f, [&](uint32_t g) {
      return has(one.yes, g) ? FormulaSpace::TRUE : has(one.no, g) ? FormulaSpace::FALSE : c_.formulas_.leaf(g);
    });
    Groups all_yes = yes, all_no = no;
    all_yes.insert(all_yes.end(), one.yes.begin(), one.yes.end());
    all_no.insert(all_no.end(), one.no.begin(), one.no.end());
    if (left != FormulaSpace::FALSE && any_object(left, done_now, all_yes, all_no, check)) return true;
  }
  return false;
}

Formula JsonOracle::all_keys(const Groups &yes, std::string_view name) {
  std::vector<Formula> all;
  for (SchemaId g : yes) all.push_back(c_.key_requirement(g, name));
  return c_.formulas_.conjunction(std::move(all));
}

bool JsonOracle::object_possible(const Groups &yes, const Groups &no, ObjectControl *frame, const ObjectView &view,
                                 const Include *include) {
  ObjectQuery q{};
  q.yes = &yes;
  q.no = &no;
  q.frame = frame;
  q.view = view;
  for (SchemaId g : yes) {
    const SchemaNode &n = c_.schema_.nodes[g];
    q.min = std::max(q.min, n.min_properties);
    q.max = std::min(q.max, n.max_properties);
    for (const std::string &name : n.required) {
      int64_t i = frame ? frame->universe->find(name) : -1;
      if (i >= 0 && bit(view.seen, static_cast<uint32_t>(i))) continue;
      if (i >= 0 && c_.schema_.options.ordered &&
          static_cast<int64_t>(frame->universe->rank[static_cast<size_t>(i)]) <= view.last_rank)
        return false;
      q.included.try_emplace(name);
    }
  }
  if (q.min == 0 && q.max == UNBOUNDED && no.empty() && q.included.empty() && !include) return true;
  // Groups in one control, so that classes of extra keys are the same for all.
  if (!no.empty() || q.min > 0 || (include && include->extra)) {
    if (!spend(CONTROL)) return true;
    Groups all = yes;
    all.insert(all.end(), no.begin(), no.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<Formula> leaves;
    for (SchemaId g : all) leaves.push_back(c_.formulas_.leaf(g));
    Formula f = c_.formulas_.conjunction(std::move(leaves));
    q.classes = include && include->extra ? frame
                                          : c_.object_control(c_.intern({f}, c_.formulas_.leaf(0)), c_.universe(all));
  }
  if (include) {
    if (include->extra) {
      std::vector<Formula> all;
      for (SchemaId g : yes) all.push_back(c_.extra_requirement(g, *q.classes, include->matched));
      if (!can_hold(c_.formulas_.conjunction(std::move(all)))) return false;
      q.extras.push_back({include->matched, {}});
    } else {
      q.included.try_emplace(std::string(include->name));
    }
  }
  // What must be there anyway: if that fails, no choice of violations helps.
  for (auto &[name, demands] : q.included) {
    work_ += QUESTION;
    if (!can_hold(all_keys(yes, name))) return false;
  }
  return choose_violations(q, 0);
}

// How many undeclared keys the object has already.
uint64_t JsonOracle::extras_there(const ObjectQuery &q) {
  uint64_t declared = 0;
  if (q.frame)
    for (uint32_t i = 0; i < q.frame->universe->keys.size(); ++i) declared += bit(q.view.seen, i);
  return q.view.count - declared;
}

bool JsonOracle::choose_violations(ObjectQuery &q, size_t next) {
  if (next == q.no->size()) return finish_object(q);
  if (!spend()) return true;
  SchemaId group = (*q.no)[next];
  const SchemaNode &n = c_.schema_.nodes[group];
  auto seen = [&](std::string_view name) {
    int64_t i = q.frame ? q.frame->universe->find(name) : -1;
    return i >= 0 && bit(q.view.seen, static_cast<uint32_t>(i));
  };
  auto available = [&](std::string_view name) {
    int64_t i = q.frame ? q.frame->universe->find(name) : -1;
    if (i < 0) return true;
    if (bit(q.view.seen, static_cast<uint32_t>(i))) return false;
    return !c_.schema_.options.ordered ||
           static_cast<int64_t>(q.frame->universe->rank[static_cast<size_t>(i)]) > q.view.last_rank;
  };
  // a required key left out
  for (const std::string &name : n.required) {
    if (seen(name) || q.included.count(name)) continue;
    bool fresh = q.omitted.insert(name).second;
    if (choose_violations(q, next + 1)) return true;
    if (fresh) q.omitted.erase(name);
  }
  // too few or too many keys
  if (n.min_properties > 0) {
    uint64_t old = q.max;
    q.max = std::min(q.max, n.min_properties - 1);
    if (choose_violations(q, next + 1)) return true;
    q.max = old;
  }
  if (n.max_properties != UNBOUNDED) {
    uint64_t old = q.min;
    q.min = std::max(q.min, n.max_properties + 1);
    if (choose_violations(q, next + 1)) return true;
    q.min = old;
  }
  // a value that breaks the group's requirement on its key
  std::vector<std::string> names;
  for (auto &[name, id] : n.properties) names.push_back(name);
  const std::vector<std::string> &few = c_.few_names(group);
  names.insert(names.end(), few.begin(), few.end());
  if (n.additional_properties != NO_SCHEMA || !n.pattern_properties.empty() || n.property_names != NO_SCHEMA) {
    for (const Groups *groups : {q.yes, q.no})
      for (SchemaId g : *groups) {
        const SchemaNode &other = c_.schema_.nodes[g];
        for (auto &[name, id] : other.properties) names.push_back(name);
        names.insert(names.end(), other.required.begin(), other.required.end());
        const std::vector<std::string> &some = c_.few_names(g);
        names.insert(names.end(), some.begin(), some.end());
      }
    for (auto &[name, demands] : q.included) names.push_back(name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  for (const std::string &name : names) {
    if (!available(name) || q.omitted.count(name)) continue;
    work_ += QUESTION;
    Formula broken = c_.formulas_.negation(c_.key_requirement(group, name));
    if (broken == FormulaSpace::FALSE) continue;
    std::vector<Formula> all{all_keys(*q.yes, name), broken};
    if (auto it = q.included.find(name); it != q.included.end())
      all.insert(all.end(), it->second.begin(), it->second.end());
    if (!can_hold(c_.formulas_.conjunction(std::move(all)))) continue;
    auto [it, fresh] = q.included.try_emplace(name);
    it->second.push_back(broken);
    if (choose_violations(q, next + 1)) return true;
    it = q.included.find(name);
    if (fresh) q.included.erase(it);
    else it->second.pop_back();
  }
  // an extra key that breaks it: one that is included anyway, or a new one
  auto broken_by = [&](uint32_t matched) {
    return c_.formulas_.negation(c_.extra_requirement(group, *q.classes, matched));
  };
  auto possible = [&](uint32_t matched, std::vector<Formula> all) {
    for (SchemaId g : *q.yes) all.push_back(c_.extra_requirement(g, *q.classes, matched));
    return can_hold(c_.formulas_.conjunction(std::move(all)));
  };
  for (size_t i = 0; i < q.extras.size(); ++i) {
    const uint32_t matched = q.extras[i].first;
    work_ += QUESTION;
    q.extras[i].second.push_back(broken_by(matched));
    if (possible(matched, q.extras[i].second) && choose_violations(q, next + 1)) return true;
    q.extras[i].second.pop_back();
  }
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(q.classes))) {
    work_ += QUESTION;
    if (re == RegexSpace::EMPTY || !possible(matched, {broken_by(matched)})) continue;
    if (re != RegexSpace::ANY_TEXT && !c_.text_.regex().has_length(re, LONG_KEY, -1)) {
      uint64_t included = 0;
      for (auto &extra : q.extras) included += extra.first == matched;
      const uint64_t there = extras_there(q), texts = count_texts(re, included + there + 1);
      if (texts <= included) continue;
      if (texts <= included + there) ++unproven_;  // unless those that are there are of this kind
    }
    q.extras.push_back({matched, {broken_by(matched)}});
    if (choose_violations(q, next + 1)) return true;
    q.extras.pop_back();
  }
  return false;
}

bool JsonOracle::finish_object(ObjectQuery &q) {
  uint64_t count = q.view.count + q.included.size() + q.extras.size();
  if (count > q.max || q.min > q.max) return false;
  for (auto &[name, demands] : q.included) {
    work_ += QUESTION;
    std::vector<Formula> all = demands;
    all.push_back(all_keys(*q.yes, name));
    if (!can_hold(c_.formulas_.conjunction(std::move(all)))) return false;
  }
  if (count >= q.min) return true;
  // Extra keys that are there already are of kinds unknown here: the worst is that all are of the one at hand.
  const uint64_t there = extras_there(q);
  uint64_t more = 0;
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(q.classes))) {
    std::vector<Formula> all;
    for (SchemaId g : *q.yes) all.push_back(c_.extra_requirement(g, *q.classes, matched));
    if (re == RegexSpace::EMPTY || !can_hold(c_.formulas_.conjunction(std::move(all)))) continue;
    if (re == RegexSpace::ANY_TEXT || c_.text_.regex().has_length(re, LONG_KEY, -1)) return true;
    uint64_t included = 0;
    for (auto &extra : q.extras) included += extra.first == matched;
    const uint64_t wanted = q.min - count + included, texts = count_texts(re, wanted + there);
    if (texts >= wanted + there) return true;
    more += texts > included ? texts - included : 0;
  }
  count += more;
  if (count >= q.min && there > 0) ++unproven_;  // unless too many of them are there
  std::set<std::string_view> names;
  for (const Groups *groups : {q.yes, q.no})
    for (SchemaId g : *groups) {
      const SchemaNode &n = c_.schema_.nodes[g];
      for (auto &[name, id] : n.properties) names.insert(name);
      names.insert(n.required.begin(), n.required.end());
      names.insert(c_.few_names(g).begin(), c_.few_names(g).end());
    }
  for (std::string_view name : names) {
    if (count >= q.min) return true;
    if (q.included.count(name) || q.omitted.count(name)) continue;
    if (q.frame) {
      int64_t i = q.frame->universe->find(name);
      if (i >= 0 && (bit(q.view.seen, static_cast<uint32_t>(i)) ||
                     (c_.schema_.options.ordered &&
                      static_cast<int64_t>(q.frame->universe->rank[static_cast<size_t>(i)]) <= q.view.last_rank)))
        continue;
    }
    if (can_hold(all_keys(*q.yes, name))) ++count;
  }
  return count >= q.min;
}

bool JsonOracle::object_alive(ObjectControl *o, const ObjectView &view, const Include *include) {
  Hash128 h = extend(extend(Hash128{o->id, 1}, static_cast<uint64_t>(view.last_rank)), view.count);
  for (uint32_t i = 0; i < o->universe->words(); ++i) h = extend(h, view.seen[i]);
  if (include) h = extend(include->extra ? extend(h, include->matched + 1) : h, hash_text(include->name).a);
  return remembered(h, [&] {
    return any_object(c_.goals_[o->goal].combined, o, view, [&](const Groups &yes, const Groups &no) {
      return object_possible(yes, no, o, view, include);
    });
  });
}

bool JsonOracle::remembered(const Hash128 &frame, const std::function<bool()> &ask) {
  if (auto it = frames_.find(frame); it != frames_.end()) return it->second;
  const bool outermost = in_progress_.empty();
  const Question question(*this);
  const bool alive = ask();
  if (frames_.size() > MAX_FRAME_MEMO) frames_.clear();
  if (outermost) frames_.emplace(frame, alive);
  return alive;
}

// A way to satisfy the frame without a violation is a simple frame, which says at once which keys it allows.
// True: the ways that were found are all there are, so no other key is allowed.
bool JsonOracle::allowed_by_ways(ObjectControl *o, const ObjectView &view, uint64_t *allowed, bool *extra) {
  std::vector<Groups> ways;
  bool all = o->patterns.empty();
  size_t violating = 0;
  {
    const Question question(*this);
    const uint64_t before = unproven_;
    any_object(c_.goals_[o->goal].combined, o, view, [&](const Groups &yes, const Groups &no) {
      if (no.empty()) ways.push_back(yes);
      else all = false, ++violating;
      return ways.size() >= MAX_WAYS || violating >= MAX_VIOLATING_WAYS;
    });
    // Nothing is taken as alive here, so nothing remains unproven.
    if (spent_ || ways.size() >= MAX_WAYS) all = false;
    spent_ = false;
    unproven_ = before;
  }
  Bits bits(o->universe->words());
  for (const Groups &yes : ways) {
    std::vector<Formula> leaves;
    for (SchemaId g : yes) leaves.push_back(c_.formulas_.leaf(g));
    const Formula f = c_.formulas_.conjunction(std::move(leaves));
    ObjectControl *one = c_.object_control(c_.intern({f}, c_.formulas_.leaf(0)), o->universe);
    c_.prepare(one);
    if (!c_.object_alive(one, view)) continue;
    if (c_.allowed_keys(one, view, bits.data())) *extra = true;
    for (size_t w = 0; w < bits.size(); ++w) allowed[w] |= bits[w];
  }
  return all;
}

bool JsonOracle::allowed_keys(ObjectControl *o, const ObjectView &view, uint64_t *allowed) {
  const KeyUniverse &u = *o->universe;
  for (uint32_t w = 0; w < u.words(); ++w) allowed[w] = 0;
  if (!c_.schema_.options.ordered) {
    bool extra = false;
    if (allowed_by_ways(o, view, allowed, &extra)) return extra;
  }
  Bits seen(view.seen, view.seen + u.words());
  for (uint32_t i = 0; i < u.keys.size(); ++i) {
    if (bit(view.seen, i) || bit(allowed, i)) continue;
    auto rank = static_cast<int64_t>(u.rank[i]);
    if (c_.schema_.options.ordered) {
      if (rank <= view.last_rank) continue;
      // After this key the earlier ones are gone: ask about the frame with this key seen.
      KeyControl *k = c_.key(o, i);
      if (!k->possible) continue;
      set_bit(seen.data(), i);
      if (object_alive(k->frame, {seen.data(), view.count + 1, rank}, nullptr)) set_bit(allowed, i);
      seen[i >> 6] &= ~(uint64_t{1} << (i & 63));
      continue;
    }
    Include include{false, 0, u.keys[i]};
    if (object_alive(o, view, &include)) set_bit(allowed, i);
  }
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(o))) {
    if (re != RegexSpace::EMPTY && extra_class_alive(o, view, matched)) return true;
  }
  return false;
}

bool JsonOracle::extra_class_alive(ObjectControl *o, const ObjectView &view, uint32_t matched) {
  Include include{true, matched, {}};
  ObjectView after = view;
  if (c_.schema_.options.ordered) after.last_rank = static_cast<int64_t>(o->universe->keys.size());
  return object_alive(o, after, &include);
}

bool JsonOracle::extra_class_possible(ObjectControl *o, uint32_t matched) {
  Bits none(o->universe->words());
  Include include{true, matched, {}};
  return object_alive(o, {none.data(), 0, -1}, &include);
}

bool JsonOracle::enough_extra_keys(ObjectControl *o, uint64_t n) {
  if (o->extra != RegexSpace::ANY_TEXT && n > 1 && !c_.text_.regex().has_length(o->extra, LONG_KEY, -1)) ++unproven_;
  return true;
}

}  // namespace structgen
