// Which keys may come next in an object with branches.
//
// Asking of each key whether there is an object with it would take as many questions as there are keys, each as long as
// the formula of the frame: quadratic for `oneOf` of many branches. But an object that satisfies the frame mostly still
// does so with one more key: only the groups that name the key, or that left it out on purpose, have a say. So keys are
// tried on the objects that were found already. What they do not show is found by the ways to satisfy the frame without
// a violation, each of which is a simple frame, and only what is left after that is asked key by key.
#include <algorithm>

#include "json/oracle/object_query.h"
#include "util/sorting.h"

namespace structgen {
namespace {
constexpr size_t MAX_WAYS = 1'000;         // to satisfy a frame, looked at to find the keys that it allows
constexpr size_t MAX_KEYS_OF_WAYS = 65'536;  // the same, times the keys that are looked at for each of them
constexpr size_t MAX_VIOLATING_WAYS = 16;  // ways that tell nothing, before others are no longer looked for
constexpr size_t MAX_MODELS = 8;           // that all keys are tried on
constexpr size_t MAX_SWAPPED_KEYS = 64;    // to come in an object in which another branch is tried
constexpr size_t MAX_ALLOWED_MEMO = 4 << 20;  // words
}  // namespace

// `oneOf` once in the formula, over groups that stand nowhere else: another of its branches may hold instead.
class JsonOracle::BranchSwap {
 public:
  BranchSwap(JsonOracle &oracle, const ObjectControl &frame, const ObjectView &view)
      : oracle_(oracle), c_(oracle.c_), o_(frame), view_(view) {}

  void look_at(Formula f) {
    const FormulaSpace &fs = c_.formulas_;
    std::unordered_map<Formula, uint32_t> uses;
    std::vector<Formula> todo{f};
    uses[f] = 1;
    while (!todo.empty()) {
      charge();
      const Formula now = todo.back();
      todo.pop_back();
      for (Formula p : fs.parts(now))
        if (++uses[p] == 1) todo.push_back(p);
    }
    std::vector<Formula> top{f};
    if (fs.kind(f) == FormulaSpace::Kind::And) top.assign(fs.parts(f).begin(), fs.parts(f).end());
    for (Formula one : top) {
      if (fs.kind(one) != FormulaSpace::Kind::One || uses[one] != 1) continue;
      for (Formula p : fs.parts(one))
        if (fs.kind(p) == FormulaSpace::Kind::Leaf && uses[p] == 1) home_.emplace(fs.leaf_id(p), one);
    }
  }

  // Does the object of the model still satisfy the frame with this key, where another branch holds instead?
  bool takes(const ObjectModel &model, const std::string &key) {
    if (!model.plain || home_.empty()) return false;
    for (SchemaId c : c_.groups_naming(key)) {
      const auto at = home_.find(c);
      if (at == home_.end() || std::binary_search(model.satisfied.begin(), model.satisfied.end(), c)) continue;
      for (SchemaId b : model.satisfied)
        if (const auto home = home_.find(b); home != home_.end() && home->second == at->second) {
          if (takes_instead(model, b, c, key)) return true;
          break;
        }
    }
    return false;
  }

 private:
  const SchemaNode &node(SchemaId g) const { return c_.schema_.nodes[g]; }
  bool seen(const std::string &name) const {
    const int64_t i = o_.universe->find(name);
    return i >= 0 && bit(view_.seen, static_cast<uint32_t>(i));
  }
  bool lacks_one(SchemaId group, const std::set<std::string, std::less<>> &keys) const {
    return std::any_of(node(group).required.begin(), node(group).required.end(),
                       [&](const std::string &name) { return !seen(name) && !keys.contains(name); });
  }
  bool required_by_others(const ObjectModel &model, SchemaId but, const std::string &name) const {
    return std::any_of(c_.groups_naming(name).begin(), c_.groups_naming(name).end(), [&](SchemaId g) {
      return g != but && std::binary_search(model.satisfied.begin(), model.satisfied.end(), g) &&
             std::find(node(g).required.begin(), node(g).required.end(), name) != node(g).required.end();
    });
  }

  bool takes_instead(const ObjectModel &model, SchemaId before, SchemaId now, const std::string &key) {
    for (SchemaId g : {before, now})
      if (node(g).min_properties > 0 || node(g).max_properties != UNBOUNDED) return false;
    if (model.included.size() + node(now).required.size() > MAX_SWAPPED_KEYS) return false;
    std::set<std::string, std::less<>> keys = model.included;
    for (const std::string &name : node(before).required)
      if (!required_by_others(model, before, name)) keys.erase(name);
    for (const std::string &name : node(now).required)
      if (!seen(name)) keys.insert(name);
    keys.insert(key);
    const uint64_t count = view_.count + keys.size();
    if (count < model.min || count > model.max || !lacks_one(before, keys)) return false;
    for (const std::string &name : keys) {
      if (model.included.contains(name)) continue;
      if (const auto left_out = model.absences.find(name); left_out != model.absences.end())
        for (SchemaId g : left_out->second)
          if (g != now && !lacks_one(g, keys)) return false;
    }
    std::vector<SchemaId> satisfied = model.satisfied;
    std::erase(satisfied, before);
    satisfied.insert(std::upper_bound(satisfied.begin(), satisfied.end(), now), now);
    const std::vector<SchemaId> open = c_.open_among(satisfied);
    return std::all_of(keys.begin(), keys.end(), [&](const std::string &name) {
      return oracle_.can_hold(c_.key_requirement_of_all(name, satisfied, open));
    });
  }

  JsonOracle &oracle_;
  JsonControl &c_;
  const ObjectControl &o_;
  const ObjectView &view_;
  std::unordered_map<SchemaId, Formula> home_;  // the `oneOf` in which a group stands
};

class JsonOracle::KeySearch {
 public:
  KeySearch(JsonOracle &oracle, ObjectControl *frame, const ObjectView &view)
      : oracle_(oracle),
        c_(oracle.c_),
        o_(frame),
        view_(view),
        swap_(oracle, *frame, view),
        found_{Bits(frame->universe->words()), false} {}

  Allowed run() {
    if (oracle_.keys_of_branches(o_, view_, &found_.keys)) return found_;
    if (c_.schema_.options.ordered) {
      in_order();
    } else {
      ObjectModel model;
      settled_ = oracle_.settled(*o_, view_);
      if (!oracle_.find_model(settled_, o_, view_, nullptr, &model)) return found_;
      swap_.look_at(settled_.formula);
      try_on(model);
      if ((found_.extra && none_open()) || by_ways()) return found_;
      one_by_one();
    }
    if (!found_.extra)
      for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(o_)))
        if (re != RegexSpace::EMPTY && oracle_.extra_class_alive(o_, view_, matched)) {
          found_.extra = true;
          break;
        }
    return found_;
  }

 private:
  bool open(uint32_t i) const { return !bit(view_.seen, i) && !bit(found_.keys.data(), i); }
  bool none_open() const {
    for (uint32_t i = 0; i < o_->universe->keys.size(); ++i)
      if (open(i)) return false;
    return true;
  }

  // Before a key is read the earlier ones are gone.
  void in_order() {
    const KeyUniverse &u = *o_->universe;
    for (uint32_t i = 0; i < u.keys.size(); ++i) {
      const auto rank = static_cast<int64_t>(u.rank[i]);
      if (bit(view_.seen, i) || rank <= view_.last_rank) continue;
      if (!c_.key(o_, i)->possible) continue;
      const Include include{false, 0, u.keys[i]};
      if (oracle_.object_alive(o_, {view_.seen, view_.count, rank - 1}, &include)) set_bit(found_.keys.data(), i);
    }
  }

  void try_on(const ObjectModel &model) {
    if (!model.found) return;
    const KeyUniverse &u = *o_->universe;
    for (const std::string &name : model.included)
      if (const int64_t i = u.find(name); i >= 0) set_bit(found_.keys.data(), static_cast<uint32_t>(i));
    if (model.count >= model.max || tried_++ >= MAX_MODELS) return;
    for (uint32_t i = 0; i < u.keys.size(); ++i)
      if (open(i) && (takes(model, u.keys[i]) || swap_.takes(model, u.keys[i]))) set_bit(found_.keys.data(), i);
    if (found_.extra) return;
    for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(o_)))
      if (re != RegexSpace::EMPTY && takes_extra(model, matched)) {
        found_.extra = true;
        return;
      }
  }

  // Does the object still satisfy the frame with this key?
  bool takes(const ObjectModel &model, const std::string &key) {
    std::vector<Formula> all{c_.key_requirement_of_all(key, model.satisfied, model.open)};
    if (const auto left_out = model.absences.find(key); left_out != model.absences.end())
      for (SchemaId g : left_out->second) {
        if (lacks_another(model, g, key)) continue;
        all.push_back(c_.formulas_.negation(c_.key_requirement(g, key)));
      }
    return oracle_.can_hold(c_.formulas_.conjunction(std::move(all)));
  }

  bool lacks_another(const ObjectModel &model, SchemaId group, const std::string &key) const {
    const std::vector<std::string> &required = c_.schema_.nodes[group].required;
    return std::any_of(required.begin(), required.end(), [&](const std::string &name) {
      const int64_t i = o_->universe->find(name);
      return name != key && !model.included.contains(name) && !(i >= 0 && bit(view_.seen, static_cast<uint32_t>(i)));
    });
  }

  bool takes_extra(const ObjectModel &model, uint32_t matched) {
    std::vector<Formula> all;
    for (SchemaId g : model.open) all.push_back(c_.extra_requirement(g, *o_, matched));
    return oracle_.can_hold(c_.formulas_.conjunction(std::move(all)));
  }

  // A way to satisfy the frame without a violation is a simple frame, which says at once which keys it allows.
  // True: the ways that were found are all there are, so no other key is allowed.
  bool by_ways() {
    std::vector<Groups> ways;
    const size_t most = std::min(MAX_WAYS, MAX_KEYS_OF_WAYS / (o_->universe->keys.size() + 1) + 1);
    bool all = o_->patterns.empty();
    size_t violating = 0;
    {
      const Question question(oracle_);
      struct Forgotten {  // nothing is taken as alive here, so nothing remains unproven
        JsonOracle &oracle;
        uint64_t unproven;
        ~Forgotten() {
          oracle.spent_ = false;
          oracle.unproven_ = unproven;
        }
      };
      const Forgotten forgotten{oracle_, oracle_.unproven_};
      oracle_.any_object(settled_, *o_, view_, [&](const Groups &yes, const Groups &no) {
        if (no.empty()) ways.push_back(yes);
        else all = false, ++violating;
        return ways.size() >= most || violating >= MAX_VIOLATING_WAYS;
      });
      if (oracle_.spent_ || ways.size() >= most) all = false;
    }
    Bits bits(o_->universe->words());
    for (const Groups &yes : ways) {
      if (!may_allow_more(yes)) continue;
      std::vector<Formula> leaves;
      for (SchemaId g : yes) leaves.push_back(c_.formulas_.leaf(g));
      const Formula f = c_.formulas_.conjunction(std::move(leaves));
      ObjectControl *one = c_.object_control(c_.intern({f}, c_.formulas_.leaf(0)), o_->universe);
      c_.prepare(one);
      if (!c_.object_alive(one, view_)) continue;
      if (c_.allowed_keys(one, view_, bits.data())) found_.extra = true;
      for (size_t w = 0; w < bits.size(); ++w) found_.keys[w] |= bits[w];
    }
    return all;
  }

  // Could these groups together allow a key that is not known to be allowed? Few keys are left, and a control looks at all.
  bool may_allow_more(const Groups &yes) {
    const auto is_closed = [&](SchemaId g) { return c_.is_closed(g); };
    if (!found_.extra && std::none_of(yes.begin(), yes.end(), is_closed)) return true;
    Groups sorted = yes;
    sort_numbers(sorted.begin(), sorted.end());
    const Groups unnamed = c_.open_among(sorted);
    charge(1 + o_->universe->keys.size() / 16);
    for (uint32_t i = 0; i < o_->universe->keys.size(); ++i)
      if (open(i) && c_.can_hold(c_.key_requirement_of_all(o_->universe->keys[i], sorted, unnamed))) return true;
    return false;
  }

  void one_by_one() {
    const KeyUniverse &u = *o_->universe;
    ObjectModel model;
    const std::unordered_map<SchemaId, bool> wanted = verdicts_wanted();
    for (uint32_t i = 0; i < u.keys.size(); ++i) {
      if (!open(i)) continue;
      const Told told = oracle_.told_by(*o_, view_, u.keys[i]);
      if (std::any_of(told.verdicts.begin(), told.verdicts.end(), [&](auto &verdict) {
            const auto at = wanted.find(verdict.first);
            return at != wanted.end() && at->second != (verdict.second == FormulaSpace::TRUE);
          }))
        continue;
      const Include include{false, 0, u.keys[i]};
      const Settled next = oracle_.settled(settled_, told);
      if (!oracle_.find_model(next, o_, view_, &include, &model)) continue;
      set_bit(found_.keys.data(), i);
      try_on(model);
    }
  }

  // Of the groups that the frame leaves no choice about: a look at one of them spares a look at the whole formula.
  std::unordered_map<SchemaId, bool> verdicts_wanted() const {
    const FormulaSpace &fs = c_.formulas_;
    std::vector<Formula> top{settled_.formula};
    if (fs.kind(top[0]) == FormulaSpace::Kind::And) top.assign(fs.parts(top[0]).begin(), fs.parts(top[0]).end());
    std::unordered_map<SchemaId, bool> wanted;
    for (Formula p : top) {
      if (!fs.is_literal(p)) continue;
      const bool holds = fs.kind(p) == FormulaSpace::Kind::Leaf;
      wanted.emplace(fs.leaf_id(holds ? p : fs.parts(p)[0]), holds);
    }
    return wanted;
  }

  JsonOracle &oracle_;
  JsonControl &c_;
  ObjectControl *o_;
  const ObjectView &view_;
  BranchSwap swap_;
  Settled settled_{};
  Allowed found_;
  size_t tried_ = 0;
};

bool JsonOracle::allowed_keys(ObjectControl *o, const ObjectView &view, uint64_t *allowed) {
  const Hash128 frame = hash_of(*o, view, nullptr);
  auto known = allowed_.find(frame);
  if (known == allowed_.end()) {
    Allowed found = KeySearch(*this, o, view).run();
    if ((allowed_.size() + 1) * (found.keys.size() + 8) > MAX_ALLOWED_MEMO) allowed_.clear();
    known = allowed_.emplace(frame, std::move(found)).first;
  }
  std::copy(known->second.keys.begin(), known->second.keys.end(), allowed);
  return known->second.extra;
}

bool JsonOracle::extra_class_alive(ObjectControl *o, const ObjectView &view, uint32_t matched) {
  if (o->alternatives && o->unclosed.empty()) return false;
  Include include{true, matched, {}};
  ObjectView after = view;
  if (c_.schema_.options.ordered) after.last_rank = static_cast<int64_t>(o->universe->keys.size());
  return object_alive(o, after, &include);
}

bool JsonOracle::extra_class_possible(ObjectControl *o, uint32_t matched) {
  if (o->alternatives && o->unclosed.empty()) return false;
  Bits none(o->universe->words());
  Include include{true, matched, {}};
  return object_alive(o, {none.data(), 0, -1}, &include);
}

}  // namespace structgen
