// The search for a completion: declared here, defined by what it completes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "completion/witness.h"

namespace structgen {

class WitnessSearch {
 public:
  enum class Mode : uint8_t {
    Quick,
    Thorough,     // a key of any other name is taken where a declared one would lead too deep
    WholeValues,  // a value that has not begun is taken as a whole, the shortest one
  };
  WitnessSearch(Automaton &a, StepContext &ctx) : a_(a), ctx_(ctx), space_(a.text().regex()) {}

  // Steps from here on.
  void allow(uint64_t steps, Mode mode);
  bool run(const Frame *node, int32_t deepest, WitnessSymbols *out);
  bool cut() const { return cut_; }
  bool spent() const { return steps_ > budget_; }
  SearchFailure search_failure() const { return why_; }
  void note(SearchFailure why) { why_ = first_of(why_, why); }

 private:
  static const JsonOptions &options(const Frame *n) { return as<JsonFrame>(n)->options(); }

  size_t stack_used() const;
  // Completes the text from `n`, trying the choices in order; leaves `out_` as it was on failure.
  bool from(const Frame *n);
  // What a state goes on to: another one, or null where all that follows has been tried.
  struct Next {
    const Frame *state = nullptr;
    bool is_complete = false;  // a choice has completed the text
  };
  Next next_of(const Frame *n, size_t before);
  Next next_of_value(const ValueFrame *value, size_t before);
  Next next_of_object(const ObjectFrame *object);
  const Frame *next_of_array(const ArrayFrame *array);
  const Frame *read(const Frame *n, std::string_view text);
  const Frame *read_symbol(const Frame *n, uint32_t symbol);
  // What is left of a grammar's text, and the frame below.
  const Frame *grammar(const GrammarFrame *n);
  // The end of a container, on a line of its own where lines are written.
  const Frame *end(const ContainerFrame *n, char bracket);
  static std::string last_line(const JsonFrame &container);
  const Frame *comma(const ContainerFrame *n);
  // Every text in turn, each with all that follows.
  bool choose(const Frame *n, const std::vector<std::string> &texts, size_t before);
  const Frame *open_object(const ValueFrame *n);
  const Frame *open_item(const ArrayFrame *n);

  // Values as a whole (completion/values.cpp).
  // A compact text of a value, with the white space that the policy wants.
  const Frame *read_value_of(const Frame *n, std::string_view compact);
  const Frame *read_space_before(const Frame *n, char c);
  // A value after which its container can close, where that depends on which of several requirements it meets.
  const Frame *closing_value(const ValueFrame *n);
  const Frame *closing_item(const JsonFrame *n, ItemControl *item, uint64_t count);
  const Frame *closing(const JsonFrame *n, const ValueControl *v, const std::function<bool(const Holds &)> &closes);
  // A shortest value of `v`; as an item of `array`, one that counts if some are wanted, and another than there are.
  const Frame *whole_value(const JsonFrame *n, const ValueControl *v, const ArrayFrame *array, uint64_t before);
  // A whole item that counts for a `contains` which wants more; null when none does.
  const Frame *counted(const JsonFrame *n, ArrayControl *array, uint64_t before);

  // Strings and other scalars (completion/texts.cpp).
  const Frame *scalar_text(const Frame *n, const ValueControl *v);
  const Frame *string(const StringFrame *n);
  bool at_character(const StringFrame &n);
  const Frame *any_of(const Frame *n, std::string_view bytes);
  const Frame *any_byte(const Frame *n);
  const Frame *scalar(const ScalarFrame *n);

  // Keys (completion/keys.cpp).
  // A frame of many branches, up to where it may end: the keys that one branch still needs, with their values.
  const Frame *rest_of_object(const JsonFrame *n);
  bool by_rest_of_object(const JsonFrame *n);
  const Frame *end_escape(const KeyFrame *key);
  const Frame *key_and_value(const JsonFrame *n, std::string_view key, Formula value);
  // In a simple frame any key will do: the first that can be read is taken, those that are owed first.
  const Frame *simple_key(const KeyFrame *n);
  bool key(const KeyFrame *n, size_t before);
  // A key of a branching frame that lets the object end right after its value: one key after the other that
  // does not could be taken for ever.
  bool closing_key(const KeyFrame *n, const std::vector<std::string> &texts);
  // The i-th rest of an undeclared key that is worth a try, with its quote; false when there are no more.
  bool extra_key(const KeyFrame *n, uint64_t i, std::string *text);
  // The rest of a key in `re` that is not there yet.
  bool other_key(const KeyFrame *n, Re re, std::string *rest);
  // The i-th of infinitely many texts that tokens can spell, the shortest first; i > 0.
  std::string name(uint64_t i);

  Automaton &a_;
  StepContext &ctx_;
  RegexSpace &space_;
  static constexpr std::string_view ESCAPE_BYTES = "\"\\/bfnrtu0123456789abcdef";
  static constexpr uint64_t WHOLE = 100;  // steps that finding a shortest value counts for
  std::vector<std::string> letters_;
  std::unordered_map<const ObjectControl *, std::vector<std::string>> examples_;  // of extra keys
  WitnessSymbols out_;
  int32_t deepest_ = 0;
  uint64_t steps_ = 0, budget_ = 0;
  const char *base_ = nullptr;  // of the stack, where the search began
  bool cut_ = false;
  SearchFailure why_ = SearchFailure::Choices;
  std::unordered_map<Formula, size_t> taken_;  // scalars of items that must differ
  Mode mode_ = Mode::Quick;
  std::unordered_set<const Frame *> hopeless_;  // grammars of which no end is found
};

}  // namespace structgen
