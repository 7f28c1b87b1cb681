#include "json/control/allowed_keys.h"

#include <algorithm>

#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t MAX_WAYS = 1'000;           // to satisfy a frame, listed to find the keys that it allows
constexpr size_t MAX_KEYS_OF_WAYS = 65'536;  // the same, times the keys that are looked at for each of them
constexpr size_t MAX_VIOLATING_WAYS = 16;    // ways that show no keys, before the search for others ends
constexpr size_t MAX_MODELS = 8;             // objects on which all keys are tested
constexpr size_t MAX_SWAPPED_KEYS = 64;      // to come in an object in which another branch is tested

using Names = std::set<std::string, std::less<>>;

// A `oneOf` that occurs once in the formula, over groups that occur nowhere else: another of its branches may hold
// instead of the one that holds in a model.
class BranchSwap {
 public:
  BranchSwap(SchemaTables &tables, JsonOracle &oracle, const ObjectControl &frame, const ObjectView &view)
      : tables_(tables), formulas_(tables.formulas()), oracle_(oracle), o_(frame), view_(view) {}

  void index(Formula f) {
    std::unordered_map<Formula, uint32_t> uses;
    std::vector<Formula> todo{f};
    uses[f] = 1;
    while (!todo.empty()) {
      charge();
      const Formula now = todo.back();
      todo.pop_back();
      for (Formula p : formulas_.parts(now))
        if (++uses[p] == 1) todo.push_back(p);
    }
    std::vector<Formula> top{f};
    if (formulas_.kind(f) == FormulaSpace::Kind::And) top.assign(formulas_.parts(f).begin(), formulas_.parts(f).end());
    for (Formula one : top) {
      if (formulas_.kind(one) != FormulaSpace::Kind::One || uses[one] != 1) continue;
      for (Formula p : formulas_.parts(one))
        if (formulas_.kind(p) == FormulaSpace::Kind::Leaf && uses[p] == 1) one_of_.emplace(formulas_.leaf_id(p), one);
    }
  }

  // Does the object of the model still satisfy the frame with this key, if another branch holds instead?
  bool allows(const ObjectModel &model, const std::string &key) {
    if (!model.by_absence || one_of_.empty()) return false;
    for (SchemaId other : tables_.keys.groups_naming(key)) {
      const auto at = one_of_.find(other);
      if (at == one_of_.end() || contains(model.satisfied, other)) continue;
      const auto holding = std::find_if(model.satisfied.begin(), model.satisfied.end(), [&](SchemaId g) {
        const auto it = one_of_.find(g);
        return it != one_of_.end() && it->second == at->second;
      });
      if (holding != model.satisfied.end() && allows_instead(model, *holding, other, key)) return true;
    }
    return false;
  }

 private:
  static bool contains(const Groups &groups, SchemaId g) { return std::binary_search(groups.begin(), groups.end(), g); }
  const SchemaNode &node(SchemaId g) const { return tables_.node(g); }

  bool seen(const std::string &name) const {
    const int64_t i = o_.universe->find(name);
    return i >= 0 && bit(view_.seen, static_cast<uint32_t>(i));
  }
  bool lacks_required_key(SchemaId group, const Names &keys) const {
    return std::any_of(node(group).required.begin(), node(group).required.end(),
                       [&](const std::string &name) { return !seen(name) && !keys.contains(name); });
  }
  bool is_required_by_others(const ObjectModel &model, SchemaId but, const std::string &name) const {
    const Groups &naming = tables_.keys.groups_naming(name);
    return std::any_of(naming.begin(), naming.end(), [&](SchemaId g) {
      return g != but && contains(model.satisfied, g) &&
             std::find(node(g).required.begin(), node(g).required.end(), name) != node(g).required.end();
    });
  }

  // With the keys that `now` requires, and without those that only `before` required.
  bool allows_instead(const ObjectModel &model, SchemaId before, SchemaId now, const std::string &key) {
    for (SchemaId g : {before, now})
      if (node(g).min_properties > 0 || node(g).max_properties != UNBOUNDED) return false;
    if (model.included.size() + node(now).required.size() > MAX_SWAPPED_KEYS) return false;
    Names keys = model.included;
    for (const std::string &name : node(before).required)
      if (!is_required_by_others(model, before, name)) keys.erase(name);
    for (const std::string &name : node(now).required)
      if (!seen(name)) keys.insert(name);
    keys.insert(key);
    const uint64_t count = view_.count + keys.size();
    if (count < model.min || count > model.max || !lacks_required_key(before, keys)) return false;
    for (const std::string &name : keys) {
      if (model.included.contains(name)) continue;
      if (const auto absent = model.absences.find(name); absent != model.absences.end())
        for (SchemaId g : absent->second)
          if (g != now && !lacks_required_key(g, keys)) return false;
    }
    Groups satisfied = model.satisfied;
    std::erase(satisfied, before);
    satisfied.insert(std::upper_bound(satisfied.begin(), satisfied.end(), now), now);
    const Groups open = tables_.keys.open_groups(satisfied);
    return std::all_of(keys.begin(), keys.end(), [&](const std::string &name) {
      return oracle_.can_hold(tables_.keys.requirement(name, satisfied, open));
    });
  }

  SchemaTables &tables_;
  FormulaSpace &formulas_;
  JsonOracle &oracle_;
  const ObjectControl &o_;
  const ObjectView &view_;
  std::unordered_map<SchemaId, Formula> one_of_;  // the `oneOf` of which a group is a branch
};

class KeySearch {
 public:
  KeySearch(SchemaTables &tables, JsonOracle &oracle, ObjectFrames &frames, ObjectControl *frame,
            const ObjectView &view)
      : tables_(tables),
        formulas_(tables.formulas()),
        oracle_(oracle),
        frames_(frames),
        o_(frame),
        view_(view),
        swap_(tables, oracle, *frame, view),
        found_{Bits(frame->universe->words()), false} {}

  AllowedKeys run() {
    if (oracle_.branches().add_allowed_keys(o_, view_, &found_.declared)) return found_;
    if (tables_.table.options().ordered) {
      test_in_order();
    } else {
      ObjectModel model;
      residual_ = oracle_.objects().residual(*o_, view_);
      if (!oracle_.objects().find_model(residual_, o_, view_, nullptr, &model)) return found_;
      swap_.index(residual_.formula);
      test_on(model);
      if ((found_.undeclared && !any_open()) || list_ways()) return found_;
      test_one_by_one();
    }
    if (!found_.undeclared) found_.undeclared = any_class_allowed();
    return found_;
  }

 private:
  // Keys that were neither read nor found to be allowed.
  bool is_open(uint32_t i) const { return !bit(view_.seen, i) && !bit(found_.declared.data(), i); }
  bool any_open() const {
    for (uint32_t i = 0; i < o_->universe->keys.size(); ++i)
      if (is_open(i)) return true;
    return false;
  }
  // A copy, since tests may make classes of other frames.
  std::vector<std::pair<KeyClass, Re>> classes() const { return tables_.objects.classes(o_); }

  bool any_class_allowed() {
    for (auto &[of, re] : classes())
      if (re != RegexSpace::EMPTY && oracle_.objects().class_allowed(o_, view_, of)) return true;
    return false;
  }

  // Keys have an order: when one is read, the keys before it cannot come any more.
  void test_in_order() {
    const KeyUniverse &u = *o_->universe;
    for (uint32_t i = 0; i < u.keys.size(); ++i) {
      const auto rank = static_cast<int64_t>(u.rank[i]);
      if (bit(view_.seen, i) || rank <= view_.last_rank) continue;
      if (!frames_.key(o_, i)->possible) continue;
      const NextKey next{false, 0, u.keys[i]};
      if (oracle_.objects().live(o_, {view_.seen, view_.count, rank - 1}, &next)) set_bit(found_.declared.data(), i);
    }
  }

  // ---------------------------------------------------------------- objects that were found

  void test_on(const ObjectModel &model) {
    if (!model.found) return;
    const KeyUniverse &u = *o_->universe;
    for (const std::string &name : model.included)
      if (const int64_t i = u.find(name); i >= 0) set_bit(found_.declared.data(), static_cast<uint32_t>(i));
    if (model.count >= model.max || models_++ >= MAX_MODELS) return;
    for (uint32_t i = 0; i < u.keys.size(); ++i)
      if (is_open(i) && (allows(model, u.keys[i]) || swap_.allows(model, u.keys[i])))
        set_bit(found_.declared.data(), i);
    if (found_.undeclared) return;
    for (auto &[of, re] : classes())
      if (re != RegexSpace::EMPTY && oracle_.can_hold(tables_.objects.requirement(model.open, *o_, of))) {
        found_.undeclared = true;
        return;
      }
  }

  // Does the object of the model still satisfy the frame with this key?
  bool allows(const ObjectModel &model, const std::string &key) {
    std::vector<Formula> all{tables_.keys.requirement(key, model.satisfied, model.open)};
    if (const auto absent = model.absences.find(key); absent != model.absences.end())
      for (SchemaId g : absent->second) {
        if (lacks_another_key(model, g, key)) continue;
        all.push_back(formulas_.negation(tables_.keys.requirement(g, key)));
      }
    return oracle_.can_hold(formulas_.conjunction(std::move(all)));
  }

  bool lacks_another_key(const ObjectModel &model, SchemaId group, const std::string &key) const {
    const std::vector<std::string> &required = tables_.node(group).required;
    return std::any_of(required.begin(), required.end(), [&](const std::string &name) {
      const int64_t i = o_->universe->find(name);
      return name != key && !model.included.contains(name) && !(i >= 0 && bit(view_.seen, static_cast<uint32_t>(i)));
    });
  }

  // ---------------------------------------------------------------- ways to satisfy the frame

  // Adds the keys of each way without a violated group, which is a simple frame. True: these are all ways there are, so
  // no other key is allowed.
  bool list_ways() {
    std::vector<Groups> ways;
    const bool all = find_ways(&ways);
    Bits bits(o_->universe->words());
    for (const Groups &satisfied : ways) {
      if (!may_allow_more(satisfied)) continue;
      std::vector<Formula> leaves;
      for (SchemaId g : satisfied) leaves.push_back(formulas_.leaf(g));
      const ObligationId obligation = tables_.obligations.require(formulas_.conjunction(std::move(leaves)));
      ObjectControl *one = tables_.objects.control(obligation, o_->universe);
      frames_.prepare(one);
      if (!frames_.live(one, view_)) continue;
      if (frames_.allowed_keys(one, view_, bits.data())) found_.undeclared = true;
      for (size_t w = 0; w < bits.size(); ++w) found_.declared[w] |= bits[w];
    }
    return all;
  }

  // False: there may be other ways.
  bool find_ways(std::vector<Groups> *ways) {
    const size_t most = std::min(MAX_WAYS, MAX_KEYS_OF_WAYS / (o_->universe->keys.size() + 1) + 1);
    bool all = o_->patterns.empty();
    size_t violating = 0;
    const Query query(oracle_.budget(), oracle_.state());
    // Nothing is assumed to be live here, so nothing is left unproven.
    const Budget::Unaccounted unaccounted(oracle_.budget(), false);
    oracle_.objects().any(residual_, *o_, view_, [&](const Groups &satisfied, const Groups &violated) {
      if (violated.empty()) ways->push_back(satisfied);
      else all = false, ++violating;
      return ways->size() >= most || violating >= MAX_VIOLATING_WAYS;
    });
    return all && !oracle_.budget().exhausted() && ways->size() < most;
  }

  // Could these groups together allow a key that is not known to be allowed? Only few keys are open by now, while the
  // control of a frame looks at all of them.
  bool may_allow_more(const Groups &satisfied) {
    const auto is_closed = [&](SchemaId g) { return tables_.keys.is_closed(g); };
    if (!found_.undeclared && std::none_of(satisfied.begin(), satisfied.end(), is_closed)) return true;
    Groups sorted = satisfied;
    sort_numbers(sorted.begin(), sorted.end());
    const Groups open = tables_.keys.open_groups(sorted);
    const std::vector<std::string> &keys = o_->universe->keys;
    charge(1 + keys.size() / 16);
    for (uint32_t i = 0; i < keys.size(); ++i)
      if (is_open(i) && oracle_.can_hold(tables_.keys.requirement(keys[i], sorted, open))) return true;
    return false;
  }

  // ---------------------------------------------------------------- key by key

  void test_one_by_one() {
    const KeyUniverse &u = *o_->universe;
    ObjectModel model;
    const std::unordered_map<SchemaId, bool> fixed = fixed_verdicts();
    for (uint32_t i = 0; i < u.keys.size(); ++i) {
      if (!is_open(i)) continue;
      const KeyVerdicts key = oracle_.objects().verdicts_of_key(*o_, view_, u.keys[i]);
      if (std::any_of(key.verdicts.begin(), key.verdicts.end(), [&](auto &verdict) {
            const auto at = fixed.find(verdict.first);
            return at != fixed.end() && at->second != (verdict.second == FormulaSpace::TRUE);
          }))
        continue;
      const NextKey next{false, 0, u.keys[i]};
      const ResidualFormula after = oracle_.objects().residual(residual_, key);
      if (!oracle_.objects().find_model(after, o_, view_, &next, &model)) continue;
      set_bit(found_.declared.data(), i);
      test_on(model);
    }
  }

  // The groups about which the frame leaves no choice. Most keys that are not allowed contradict one of these.
  std::unordered_map<SchemaId, bool> fixed_verdicts() const {
    std::vector<Formula> top{residual_.formula};
    if (formulas_.kind(top[0]) == FormulaSpace::Kind::And)
      top.assign(formulas_.parts(top[0]).begin(), formulas_.parts(top[0]).end());
    std::unordered_map<SchemaId, bool> fixed;
    for (Formula p : top) {
      if (!formulas_.is_literal(p)) continue;
      const bool holds = formulas_.kind(p) == FormulaSpace::Kind::Leaf;
      fixed.emplace(formulas_.leaf_id(holds ? p : formulas_.parts(p)[0]), holds);
    }
    return fixed;
  }

  SchemaTables &tables_;
  FormulaSpace &formulas_;
  JsonOracle &oracle_;
  ObjectFrames &frames_;
  ObjectControl *o_;
  const ObjectView &view_;
  BranchSwap swap_;
  ResidualFormula residual_{};
  AllowedKeys found_;
  size_t models_ = 0;
};

}  // namespace

AllowedKeys find_allowed_keys(SchemaTables &tables, JsonOracle &oracle, ObjectFrames &frames, ObjectControl *frame,
                              const ObjectView &view) {
  return KeySearch(tables, oracle, frames, frame, view).run();
}

}  // namespace structgen
