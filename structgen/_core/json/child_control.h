// What a value at one place inside a frame must satisfy, and what its verdicts mean for the frame.
#pragma once

#include <bitset>
#include <map>
#include <memory>
#include <vector>

#include "json/obligations.h"
#include "json/scalar_languages.h"

namespace structgen {

struct ObjectControl;
struct ArrayControl;

// How a value under one obligation may start and go on.
struct ValueControl {
  ObligationId obligation = 0;
  std::bitset<256> first;  // bytes that may start it, white space apart
  uint8_t types = 0;       // types of values that satisfy the obligation
  StringLanguage string;
  ScalarLanguage number, literal;
  ObjectControl *object = nullptr;  // made when the first object is opened
  ArrayControl *array = nullptr;

  // Any string satisfies it. Readers then tell strings apart, not frames, and there is no end of different ones.
  bool allows_any_string() const {
    return first.test('"') && string.re == RegexSpace::ANY_TEXT && string.max == UNBOUNDED && string.roots.empty();
  }
  // It is a string, any string: its quotes say where it ends.
  bool is_any_string() const { return first.count() == 1 && allows_any_string(); }
};

// A key of an object, or an item of an array.
template <class Frame>
struct ChildControl {
  bool possible = false;          // a value for it exists
  ValueControl *child = nullptr;  // null: what the value must satisfy depends on what the frame has read
  Frame *frame = nullptr;         // the frame while the value is read
  GroupRoots group_roots;         // groups that the verdicts of the child decide
  GroupRoots contains_roots;      // items: groups with `contains`, and the root that says whether the item counts
  // Frames with branches: `variants` has one control for each condition under which the frame stays live.
  std::vector<Formula> roots;
  GroupRoots undecided;  // `group_roots` over `roots`
  std::map<Formula, std::unique_ptr<ChildControl>> variants;
};
using KeyControl = ChildControl<ObjectControl>;
using ItemControl = ChildControl<ArrayControl>;

}  // namespace structgen
