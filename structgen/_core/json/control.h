// The finite control of a JSON Schema: which requirement holds where, and what it allows.
//
// A value must satisfy a *goal*: root formulas over sub-schemas whose verdicts the parent
// wants to know, and a `need`, a formula over those roots that must come out true. In the
// common case there is one root and it must hold. When the type of the value is known the
// formulas are *expanded* to the keyword groups of that type, whose verdicts the frame
// finds out. Everything here is interned and built when first reached; it belongs to one
// program and is guarded by the owner's lock.
//
// `can_hold` is the emptiness oracle: a least fixpoint over requirements, memoised, within
// a work budget (past it: alive, and counted as unproven).
#pragma once

#include <bitset>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "json/formula.h"
#include "util/hashing.h"
#include "json/value.h"
#include "json/schema.h"
#include "text/text_space.h"

namespace structgen {

using GoalId = uint32_t;
using Bits = std::vector<uint64_t>;
// (keyword group, child root) pairs: the group fails when the root's verdict is false.
using Verdicts = std::vector<std::pair<SchemaId, uint32_t>>;
using Counts = std::vector<std::pair<SchemaId, uint64_t>>;
using Holds = std::function<bool(uint32_t)>;

inline bool bit(const uint64_t *words, uint32_t i) { return words[i >> 6] >> (i & 63) & 1; }
inline void set_bit(uint64_t *words, uint32_t i) { words[i >> 6] |= uint64_t{1} << (i & 63); }

struct Goal {
  std::vector<Formula> roots;
  Formula need;      // over root indices
  Formula combined;  // need with the roots put in
  bool simple;       // one root, needed, a conjunction of leaves
};

// What strings may stand: a language and, beside it, bounds on the length in characters.
struct StringLanguage {
  Re re = RegexSpace::ANY_TEXT;
  uint64_t min = 0, max = UNBOUNDED;
  std::vector<Re> roots;  // per root of the goal, when there are several
};

struct ScalarLanguage {
  Re re = RegexSpace::EMPTY;
  std::vector<Re> roots;
};

struct ObjectControl;
struct ArrayControl;

// How a value with this goal may start and go on.
struct ValueControl {
  GoalId goal = 0;
  std::bitset<256> first;  // bytes that may start it (white space apart)
  uint8_t types = 0;       // types that can still hold
  bool has_string = false, has_number = false, has_literal = false;
  StringLanguage string;
  ScalarLanguage number, literal;
  ObjectControl *object = nullptr;
  ArrayControl *array = nullptr;
};

// The keys that the sub-schemas of one object name, sorted; shared by all goals of the frame.
struct KeyUniverse {
  std::vector<std::string> keys;
  std::vector<uint32_t> rank;     // declared position of each key
  std::vector<uint32_t> by_rank;  // inverse
  std::vector<Hash128> hashes;
  uint32_t words() const { return static_cast<uint32_t>((keys.size() + 63) / 64); }
  int64_t find(std::string_view key) const;
};

// What choosing one key (or going on to one item) means for the frame and for the value there.
template <class Frame>
struct ChildControl {
  bool possible = false;  // a value for it exists
  ValueControl *child = nullptr;
  Frame *frame = nullptr;  // the frame while the value is read
  Verdicts verdicts;
  // Frames with branches: what the value needs depends on which verdicts leave the frame alive,
  // so on what the frame has read; `resolve` finds out and keeps one variant for each need.
  std::vector<Formula> roots;
  Verdicts on;       // (keyword group, root)
  Verdicts counted;  // items: (keyword group with `contains`, root that says whether the item counts)
  std::map<Formula, std::unique_ptr<ChildControl>> variants;
};
using KeyControl = ChildControl<struct ObjectControl>;
using ItemControl = ChildControl<struct ArrayControl>;

struct ObjectControl {
  GoalId goal = 0;
  const KeyUniverse *universe = nullptr;
  bool simple = false;
  std::vector<SchemaId> groups, open;  // sorted; open: they may ask something of keys that they do not name
  bool alternatives = false;  // one root, a disjunction of groups
  std::vector<SchemaId> unclosed;  // alternatives: groups that allow keys which they do not name
  std::unordered_map<uint32_t, std::unique_ptr<KeyControl>> keys;  // by universe index, made on demand
  // simple frames
  Bits required, usable;
  bool impossible = false;  // a required key has no value
  uint64_t min = 0, max = UNBOUNDED;
  bool prepared = false;
  // keys outside the universe: their language, and their control by the patterns they match
  std::vector<Re> patterns;
  std::vector<std::pair<uint32_t, Re>> classes;
  Re extra = RegexSpace::EMPTY;
  std::map<uint32_t, std::unique_ptr<KeyControl>> extras;
  uint32_t id = 0;
};

struct ArrayControl {
  GoalId goal = 0;
  bool simple = false;
  std::vector<SchemaId> groups;
  uint64_t prefix = 0;  // from this index on all items are alike
  std::vector<std::unique_ptr<ItemControl>> items;  // by min(index, prefix)
  Counts counts;           // what `contains` has met, by group; up to what still matters
  bool counting = false;   // some group has `contains`
  bool unique = false;     // some group wants distinct items
  bool loose = false;      // unique, but the frame may hold without it
  SchemaId used = NO_SCHEMA;  // unique: an enum of the scalars that are there already
  bool prepared = false;
  uint64_t min = 0, max = UNBOUNDED;                // simple frames; max lowered by items without values
  uint32_t id = 0;
};

// What an object frame has read, as the oracle needs to know it.
struct ObjectView {
  const uint64_t *seen;  // universe words
  uint64_t count;
  int64_t last_rank;  // ordered objects: rank of the latest key, or the number of keys after an extra one
};

// What an incomplete object still needs, for one way to complete it.
struct RestOfObject {
  std::vector<std::pair<std::string, Formula>> keys;  // those that must come, and what their values must satisfy
  std::vector<std::pair<Re, Formula>> extras;         // the same of keys that only have to be in a language
};

class JsonControl {
 public:
  static constexpr const char *LITERALS[] = {"null", "true", "false"};

  JsonControl(Schema schema, TextSpace &text);

  const Schema &schema() const { return schema_; }
  TextSpace &text() { return text_; }
  FormulaSpace &formulas() { return formulas_; }

  ValueControl *root() { return value(root_); }
  Formula root_requirement() const { return goals_[root_].combined; }
  const Goal &goal(GoalId id) const { return goals_[id]; }
  // An expanded requirement of this type, on values that the characters of the vocabulary can write.
  Formula written(Formula expanded, Type type);
  ValueControl *value(GoalId goal);
  ObjectControl *open_object(ValueControl *value);
  ArrayControl *open_array(ValueControl *value);
  KeyControl *key(ObjectControl *frame, uint32_t index);
  KeyControl *extra_key(ObjectControl *frame, std::string_view key);
  // Extra keys are of one kind when they match the same patterns.
  uint32_t kind_of_extra_key(const ObjectControl *frame, std::string_view key) { return matched_patterns(*frame, key); }
  KeyControl *extra_key_of(ObjectControl *frame, uint32_t kind);
  // A representative extra key: the control of the class without a pattern, when there is only that.
  KeyControl *only_extra_class(ObjectControl *frame);
  // The key in a frame that has read `view`, this key included; null when no value leaves it alive.
  KeyControl *resolve(KeyControl *key, const ObjectView &view);
  // The item that comes after `count` items; null when there is none.
  ItemControl *next_item(ArrayControl *frame, uint64_t count);

  // Liveness of frames.
  bool object_alive(ObjectControl *frame, const ObjectView &view);
  // Fills `allowed` (universe words) and says whether an extra key may come next.
  bool allowed_keys(ObjectControl *frame, const ObjectView &view, uint64_t *allowed);
  // The texts of extra keys that may come next, where `allowed_keys` says that there are some.
  Re extra_keys(ObjectControl *frame, const ObjectView &view);
  // Nothing where none was found. `key`: with this one of the universe, too, if not negative.
  std::optional<RestOfObject> rest_of_object(ObjectControl *frame, const ObjectView &view, int64_t key);
  // A text for each kind of extra key.
  std::vector<std::string> extra_key_examples(ObjectControl *frame);
  bool more_keys(ObjectControl *frame, const ObjectView &view);
  // How many texts a language of keys has; UINT64_MAX: no end of them.
  uint64_t count_keys(Re re);
  bool object_can_close(ObjectControl *frame, const ObjectView &view);
  bool array_alive(ArrayControl *frame, uint64_t count);
  bool item_allowed(ArrayControl *frame, uint64_t count);  // one more item
  bool array_can_close(ArrayControl *frame, uint64_t count);

  // Verdicts. `holds(i)`: root i of the child's goal came out true.
  ObjectControl *after_child(ObjectControl *frame, const Verdicts &verdicts,
                             const Holds &holds);
  ArrayControl *after_item(ItemControl *item, const Holds &holds);
  // Distinct items: the frame that also has this scalar; the frame where an item came twice.
  ArrayControl *with_value(ArrayControl *frame, const ItemValue &value);
  bool alive_after_item(ArrayControl *after, uint64_t count, bool reading);
  ArrayControl *after_repeat(ArrayControl *frame);
  // Are there surely as many different values (json/distinct.cpp)? Of an array or object that is open: by items or keys that
  // may follow. `open`: a key is being read, which may be one of these of the universe, or an extra one.
  bool has_many(GoalId goal, uint64_t many);
  bool has_no_last_item(ArrayControl *frame, uint64_t count);
  // `whole_keys`: until one has been read with its value, even if its key has started.
  struct OpenKey {
    uint32_t first, last;
  };
  bool has_many_keys(ObjectControl *frame, const ObjectView &view, std::optional<OpenKey> open, uint64_t many,
                     bool whole_keys);
  // The value when it may be none of these, which are JSON; null when there is no other.
  ValueControl *other_than(const ValueControl *value, const std::vector<std::string> &texts);
  void leave_unproven();
  // Strings are told apart by the reader, not by the frame: no end of them, whatever has been read.
  static bool free_strings(const ValueControl *item) {
    return item->first.test('"') && item->string.re == RegexSpace::ANY_TEXT && item->string.max == UNBOUNDED && item->string.roots.empty();
  }
  // The value is a string, and its quotes say where it ends.
  static bool only_free_strings(const ValueControl *value) { return value->first.count() == 1 && free_strings(value); }
  // A value for the item that counts for a `contains` that still wants some; null when none does.
  ValueControl *helpful(ArrayControl *frame, uint64_t count);
  std::vector<bool> object_verdicts(ObjectControl *frame, const ObjectView &view);
  std::vector<bool> array_verdicts(ArrayControl *frame, uint64_t count);

  bool can_hold(Formula requirement);
  // The shortest values of requirements; made when first asked for.
  class Shortest &shortest();
  // Sub-schemas that no value satisfies and whose own parts are not to blame.
  std::vector<SchemaId> empty_parts();

  uint64_t unproven() const;
  size_t memory() const;
  // Sub-schemas (their ids) that a goal still depends on, for messages.
  std::vector<SchemaId> schemas_of(GoalId goal) const { return formulas_.leaves(goals_[goal].combined); }
  ~JsonControl();

 private:
  friend class JsonOracle;
  friend class Shortest;
  struct FormulaInfo {
    Formula expanded[TYPE_COUNT];
    int8_t holds_type[TYPE_COUNT];
    int8_t holds = -1;
    FormulaInfo() {
      for (int t = 0; t < TYPE_COUNT; ++t) {
        expanded[t] = UINT32_MAX;
        holds_type[t] = -1;
      }
    }
  };

  FormulaInfo &info(Formula f);
  Formula schema_leaf(SchemaId id);
  Formula expand(Formula f, Type type);
  std::vector<SchemaId> applied(SchemaId id, Type type) const;
  Formula expand_schema(SchemaId id, Type type);
  Formula expand_opened(SchemaId id, Type type);
  GoalId intern(std::vector<Formula> roots, Formula need);
  std::vector<SchemaId> groups_of(GoalId goal) const;  // keyword groups of an expanded goal, sorted
  GoalId expand_goal(GoalId goal, Type type);
  // `asked`: the groups whose requirement may be another than TRUE, sorted.
  template <class Frame>
  std::unique_ptr<ChildControl<Frame>> make_child(Frame *frame, const std::vector<SchemaId> &asked,
                                                  const std::function<Formula(SchemaId)> &requirement,
                                                  const std::function<Frame *(GoalId)> &with_goal,
                                                  const std::vector<std::pair<SchemaId, Formula>> &counted = {});
  template <class Frame>
  bool branch(ChildControl<Frame> *child, const std::vector<SchemaId> &asked,
              const std::function<Formula(SchemaId)> &requirement,
              const std::function<Frame *(GoalId)> &with_goal);
  // `known`: the verdicts that leave the frame alive, where they are known already.
  template <class Frame>
  ChildControl<Frame> *resolve_child(ChildControl<Frame> *child, std::optional<Formula> known,
                                     const std::function<bool(const Holds &)> &alive);
  ObjectControl *with_key_named(ObjectControl *frame, std::string_view key);
  std::optional<Formula> verdicts_wanted(const std::vector<Formula> &roots, bool monotone,
                                         const std::function<bool(const Holds &)> &alive);
  std::optional<std::vector<bool>> better_failed(Formula frame, const Verdicts &on, size_t roots) const;
  std::optional<Formula> verdicts_by_cases(const std::vector<Formula> &roots, bool monotone,
                                           const std::function<bool(const Holds &)> &alive);
  ItemControl *item(ArrayControl *frame, uint64_t index);
  static uint64_t counted(const ArrayControl &frame, SchemaId group);
  GoalId goal_after(GoalId goal, const Verdicts &verdicts, const Holds &holds);
  GoalId without_groups(GoalId goal, const std::vector<SchemaId> &failed);  // sorted
  ArrayControl *array_after(ArrayControl *frame, const Verdicts &verdicts, const Verdicts &counted, const Holds &holds);

  StringLanguage string_leaf(SchemaId id, bool lengths_apart);
  Re string_re(Formula f);
  Re number_leaf(SchemaId id);
  Re number_re(Formula f);
  Re literal_re(Formula f);
  bool must_be_integer(Formula expanded) const;  // is every number that holds whole?
  Re digits_only(Re numbers);
  template <class LeafFn>
  Re boolean_language(Formula f, Re everything, std::unordered_map<Formula, Re> &known, LeafFn leaf);
  StringLanguage string_language(const Goal &expanded);

  ObjectControl *object_control(GoalId goal, const KeyUniverse *universe);
  const KeyUniverse *universe(const std::vector<SchemaId> &groups);
  const std::vector<std::string> &few_names(SchemaId group);
  ArrayControl *array_control(GoalId goal, const Counts &counts = {}, SchemaId used = NO_SCHEMA);
  Formula key_requirement(SchemaId group, std::string_view key);
  // Which groups name a key; which of some may ask something of it. Frames with many groups have about as many keys,
  // and most groups say nothing about most keys, so nobody asks each group about each key.
  const std::vector<SchemaId> &groups_naming(std::string_view key);
  std::vector<SchemaId> naming_among(std::string_view key, const std::vector<SchemaId> &groups);  // which are sorted
  bool is_open(SchemaId group) const;
  bool is_closed(SchemaId group) const;  // it names all keys that it allows
  std::vector<SchemaId> open_among(const std::vector<SchemaId> &groups) const;
  std::vector<SchemaId> asked_about(std::string_view key, const std::vector<SchemaId> &groups,
                                    const std::vector<SchemaId> &open);  // both sorted, as is the result
  Formula key_requirement_of_all(std::string_view key, const std::vector<SchemaId> &groups,
                                 const std::vector<SchemaId> &open);
  Formula extra_requirement(SchemaId group, const ObjectControl &frame, uint32_t matched);
  Formula item_requirement(SchemaId group, uint64_t index, SchemaId used = NO_SCHEMA);
  const std::vector<std::pair<uint32_t, Re>> &extra_classes(ObjectControl *frame);
  void prepare(ObjectControl *frame);  // the part that asks the oracle; never from inside it
  void prepare(ArrayControl *frame);
  uint64_t extra_keys_left(const ObjectControl &frame, const ObjectView &view);  // in a simple frame
  Re name_language(SchemaId group);
  // Branches that exclude each other (json/tags.cpp).
  struct Tags {
    std::set<std::string> required;
    std::multimap<std::string, SchemaId> properties;
  };
  const std::vector<std::string> *few_values(SchemaId id);
  const std::vector<std::string> *exactly_few(SchemaId id);
  Re texts_of(SchemaId id);
  void collect_tags(SchemaId id, Tags *tags) const;
  // What a property that is still to come can be, with the groups that it decides; empty where no property
  // decides many groups of `f`. Every object is one of the cases.
  struct TagCase {
    std::vector<SchemaId> yes, no;
  };
  std::vector<TagCase> tag_cases(Formula f, const std::set<std::string_view> &done, std::string_view *tag);
  bool only_tags(SchemaId group);
  bool has_tags(Formula f);  // enough groups for a case each; else no tag decides anything
  bool objects_exclude(const std::vector<SchemaId> &branches);  // no object satisfies two of them, for sure
  // Of the roots that hold for a few values alone: which of them hold together, over all values. None of them
  // holds for any other value.
  struct ValueRows {
    std::vector<uint32_t> roots;
    std::vector<std::vector<uint32_t>> rows;  // roots, ascending
  };
  ValueRows value_rows(const std::vector<Formula> &roots);
  uint32_t matched_patterns(const ObjectControl &frame, std::string_view key);
  bool holds_type(Formula requirement, Type type);

  void find_written();
  void find_gaps();
  void limit_structure(bool line, bool one_key, bool more);

  Schema schema_;
  TextSpace &text_;
  uint8_t written_types_ = ALL_TYPES;  // all but those whose brackets, quotes or digits no token spells
  SchemaId structure_ = NO_SCHEMA;     // how many keys and items there may be, where separators are missing
  FormulaSpace formulas_;
  std::deque<FormulaInfo> info_;
  std::deque<Goal> goals_;
  std::unordered_multimap<uint64_t, GoalId> goal_index_;
  std::deque<std::unique_ptr<ValueControl>> values_;
  std::map<std::pair<GoalId, const KeyUniverse *>, std::unique_ptr<ObjectControl>> objects_;
  std::map<std::vector<SchemaId>, std::unique_ptr<KeyUniverse>> universes_;
  std::unordered_map<std::string_view, std::vector<SchemaId>, KeyedTextHash> naming_;  // by key, made when first asked for
  size_t keys_looked_for_ = 0;  // in single groups, before that
  std::map<std::tuple<GoalId, Counts, SchemaId>, std::unique_ptr<ArrayControl>> arrays_;
  std::map<std::vector<std::string>, SchemaId> used_values_;
  std::unordered_map<SchemaId, const std::vector<std::string> *> used_lists_;
  std::unordered_map<Hash128, KeyControl *, HashOf128> resolved_keys_;  // by the key and what its frame has read
  std::unordered_map<Hash128, ItemControl *, HashOf128> resolved_items_;
  std::unordered_map<Hash128, GoalId, HashOf128> goals_after_;  // by the goal and the groups that have failed
  std::unordered_map<SchemaId, Re> number_leaves_, name_languages_;
  std::unordered_map<SchemaId, Re> value_languages_;  // of nodes with `enum` or `const`: their strings
  std::unordered_map<Formula, Re> string_languages_, number_languages_;  // of expanded formulas with parts
  std::unordered_map<SchemaId, std::vector<std::string>> few_values_, few_names_;
  std::unordered_map<Formula, bool> has_tags_;
  struct Many {
    uint64_t has = 0, lacks = UINT64_MAX;  // different values, for sure; from how many on it is not known
  };
  std::unordered_map<Formula, Many> many_;
  std::unique_ptr<class JsonOracle> oracle_;
  std::unique_ptr<class Shortest> shortest_;
  GoalId root_;
  uint64_t unproven_ = 0;
};

}  // namespace structgen
