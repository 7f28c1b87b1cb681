// Can a requirement hold? The emptiness oracle of the JSON Schema automaton.
//
// The question "is there a value" is a least fixpoint: values are finite, so a requirement
// that can only be met through itself cannot be met. Conjunctive requirements are decided
// directly; others by enumerating the ways to satisfy the formula (positive and negated
// keyword groups), lazily, the first success ends it. Exact within the work budget; past it
// the answer is "alive" and counted as unproven (the question is EXPTIME-hard in general).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json/control.h"

namespace structgen {

class JsonOracle {
 public:
  explicit JsonOracle(JsonControl &control) : c_(control) {}

  // A key that must come next: one of the universe's, or an extra one of a class.
  struct Include {
    bool extra;
    uint32_t matched;
    std::string_view name;
  };

  bool can_hold(Formula requirement);
  bool holds_type(Formula requirement, Type type);
  bool group_can_hold(SchemaId group, Type type);
  bool object_alive(ObjectControl *frame, const ObjectView &view, const Include *include);
  bool allowed_keys(ObjectControl *frame, const ObjectView &view, uint64_t *allowed);
  // May a key of this class come next?
  bool extra_class_alive(ObjectControl *frame, const ObjectView &view, uint32_t matched);
  bool extra_class_possible(ObjectControl *frame, uint32_t matched);
  // `reading`: the last item is still being read, so its value is not yet known to the frame.
  bool array_alive(ArrayControl *frame, uint64_t count, bool one_more, bool reading = false);
  // Which verdicts over a child's roots leave a frame of many branches alive; nothing where it is none (json/branches.cpp).
  std::optional<Formula> object_verdicts(ObjectControl *frame, const Verdicts &on, const ObjectView &view);
  std::optional<Formula> array_verdicts(ArrayControl *frame, const Verdicts &on, uint64_t count);
  // `include`: with this key, too.
  std::optional<RestOfObject> rest_of_object(ObjectControl *frame, const ObjectView &view, const Include *include);
  bool has_many(Formula f, uint64_t many);  // different values; false: not known
  uint64_t unproven() const { return unproven_; }
  void leave_unproven() { ++unproven_; }

  // Calls `check(positive, negative)` for the ways to satisfy `f` until one succeeds.
  using Groups = std::vector<SchemaId>;
  using Check = std::function<bool(const Groups &, const Groups &)>;
  // `type`: of the values, where it matters only whether a way succeeds, not which.
  bool any_way(Formula f, const Check &check, std::optional<Type> type = {});
  // The same for the groups of an object, which a tag still to come may decide together.
  bool any_object(Formula f, const Check &check);
  // All of them, at most `most`; false when there may be more. Leaves no trace in what later questions may cost.
  bool ways(Formula f, size_t most, std::vector<std::pair<Groups, Groups>> *out);

 private:
  Formula choice_among(Formula f, Groups *common) const;
  Groups groups_of_branch(Formula branch, const Groups &common) const;
  std::vector<Groups> branches(Formula f) const;
  std::optional<bool> any_branch(Formula f, const Check &check);
  std::optional<Formula> verdicts_of_branches(Formula frame, const Verdicts &on,
                                              const std::function<bool(const Groups &)> &possible);
  // Adds the keys that may come next; false where the frame has no such form.
  bool keys_of_branches(ObjectControl *frame, const ObjectView &view, Bits *keys);
  bool branch_keys(ObjectControl *frame, const ObjectView &view, const Groups &branch, Bits *keys);
  void preferred_first(std::vector<Formula> *alternatives) const;
  struct ObjectQuery;
  struct ObjectModel;
  class BranchSwap;
  class KeySearch;
  // What is assigned so far to hold or to fail, each once.
  class Assignment {
   public:
    struct Mark {
      size_t yes, no;
    };
    std::optional<bool> find(uint32_t one) const;
    // False: the contrary is assigned.
    bool assign(uint32_t one, bool holds);
    Mark mark() const { return {yes_.size(), no_.size()}; }
    void back_to(Mark mark);
    size_t size() const { return yes_.size() + no_.size(); }
    const std::vector<uint32_t> &yes() const { return yes_; }
    const std::vector<uint32_t> &no() const { return no_; }

   private:
    std::vector<uint32_t> yes_, no_;
    std::unordered_map<uint32_t, bool> known_;  // the same, when they are many
  };
  // The groups, and the formulas with parts, while a way to satisfy a formula is looked for. A formula that is
  // assigned already is not visited again, since its parts are or will be: shared parts are visited once on each way.
  struct Way {
    Assignment groups, wholes;
    std::optional<Type> type{};  // of the values, where all that is asked is whether there is one
    bool failed = false;         // a way has been tried in vain
  };
  // May there be a value of this type for a part of an expanded formula, whatever the rest of it asks?
  bool part_can_hold(Formula part, Type type);
  Check possible_object();  // of which nothing is there yet
  Check possible_array();
  bool any_way(std::vector<std::pair<Formula, bool>> pending, Way *way, const Check &check);
  bool any_object(Formula f, const std::set<std::string_view> &done, const Way &way, const Check &check);
  // The formula of a frame without the groups that nothing to come can change, and those whose required keys are all
  // there; then the same where a key is the next one.
  struct Settled {
    Formula formula;
    std::vector<SchemaId> begun;  // sorted
  };
  Settled settled(const ObjectControl &frame, const ObjectView &view);
  struct Told {
    std::unordered_map<SchemaId, Formula> verdicts;
    std::vector<SchemaId> begun;
  };
  Told told_by(const ObjectControl &frame, const ObjectView &view, std::string_view next);
  Told told_by_extra(const ObjectControl &frame, const ObjectView &view, uint32_t matched);
  Settled settled(const Settled &before, const Told &told);
  bool all_there(SchemaId group, const ObjectControl &frame, const ObjectView &view, std::string_view next);
  bool asks_nothing_more(SchemaId group, const ObjectControl &frame, const ObjectView &view, uint64_t count);
  Formula with_verdicts(Formula f, const std::unordered_map<SchemaId, Formula> &known);
  bool any_object(const Settled &settled, const ObjectControl &frame, const ObjectView &view, const Check &check);
  bool object_possible(const Groups &yes, const Groups &no, ObjectControl *frame, const ObjectView &view,
                       const Include *include, ObjectModel *model = nullptr);
  void tell(const ObjectQuery &q, ObjectModel *model);
  void tell(const ObjectQuery &q, RestOfObject *rest);
  static uint64_t extras_there(const ObjectQuery &q);
  bool has_key_left(const ObjectQuery &q, uint32_t kind, uint64_t included);
  bool needs_no_choice(ObjectQuery &q);
  bool choose_violations(ObjectQuery &q, size_t next);
  bool finish_object(ObjectQuery &q);
  struct ArrayQuery;
  bool array_possible(const Groups &yes, const Groups &no, ArrayControl *frame, uint64_t count, bool one_more);
  bool choose_violations(ArrayQuery &q, size_t next);
  bool finish_array(ArrayQuery &q);
  bool can_count(ArrayQuery &q, uint64_t length);
  bool distinct_items(ArrayQuery &q, uint64_t length);
  bool distinct_counted(ArrayQuery &q, uint64_t length);
  Formula item(const ArrayQuery &q, uint64_t index);
  // Are there n different values? A lower bound: false may also mean that it could not be told.
  bool has_values(Formula f, uint64_t n, int depth, bool *sure);
  bool find_values(Formula f, uint64_t n, int depth, bool *sure);
  bool way_has_values(Type type, const Groups &groups, uint64_t n, int depth);
  uint64_t count_texts(Re re, uint64_t most);
  // Is there an object, and which one? Only where the budget allows does `model` tell.
  bool find_model(const Settled &settled, ObjectControl *frame, const ObjectView &view, const Include *include,
                  ObjectModel *model);
  static Hash128 hash_of(const ObjectControl &frame, const ObjectView &view, const Include *include);
  // The answer for a frame that has read something; `frame` names both.
  bool remembered(const Hash128 &frame, const std::function<bool()> &ask);
  bool spend(size_t work = 1);
  // A question from outside, with a budget that the questions it leads to share.
  class Question {
   public:
    explicit Question(JsonOracle &oracle) : oracle_(oracle), outer_(!oracle.asking_) {
      if (outer_) oracle.begin();
      oracle.asking_ = true;
    }
    ~Question() {
      if (!outer_) return;
      oracle_.asking_ = false;
      // subtle: a limit may have ended it in the middle.
      oracle_.in_progress_.clear();
      oracle_.enough_.clear();
      oracle_.lowest_ = UINT32_MAX;
      oracle_.preferred_ = nullptr;
      oracle_.reading_ = nullptr;
    }
    Question(const Question &) = delete;

   private:
    JsonOracle &oracle_;
    bool outer_;
  };
  void begin();

  JsonControl &c_;
  std::unordered_map<Formula, uint32_t> in_progress_;
  uint32_t lowest_ = UINT32_MAX;  // lowest stack index that a negative answer leaned on
  uint64_t steps_ = 0, work_ = 0;
  size_t hardness_ = 1, allowance_ = 1;
  bool spent_ = false, asking_ = false;
  uint64_t unproven_ = 0;
  std::unordered_map<Hash128, bool, HashOf128> frames_;
  std::unordered_map<Formula, bool> parts_[TYPE_COUNT];  // what `part_can_hold` found
  struct Enough {
    bool has, sure;
  };
  std::unordered_map<Hash128, Enough, HashOf128> enough_;  // of `has_values`, for one question from outside
  struct Allowed {
    Bits keys;
    bool extra;
  };
  std::unordered_map<Hash128, Allowed, HashOf128> allowed_;
  const ArrayControl *reading_ = nullptr;  // whose last item is being read
  const std::vector<SchemaId> *preferred_ = nullptr;  // groups that alternatives are tried for first
};

}  // namespace structgen
