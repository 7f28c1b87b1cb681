// The search for a completion: declared here, defined in the files named after what they complete.
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
    Thorough,     // keys of any other name are considered where a declared one would lead too deep
    WholeValues,  // a value that has not started is read as a whole, the shortest one
  };
  WitnessSearch(Automaton &automaton, StepContext &ctx)
      : automaton_(automaton), ctx_(ctx), space_(automaton.text().regex()) {}

  // Allows so many steps from here on.
  void set_budget(uint64_t steps, Mode mode);
  // Appends a completion whose containers are at most `max_depth` frames deep.
  bool run(const Frame *state, int32_t max_depth, WitnessSymbols *out);
  bool was_cut() const { return was_cut_; }  // a deeper completion was not looked for
  bool is_exhausted() const { return steps_ > budget_; }
  SearchFailure search_failure() const { return why_; }
  void note(SearchFailure why) { why_ = first_of(why_, why); }

 private:
  // The functions `read_…` read a text from a state, append it to `out_`, and return the state after it; null, with
  // `out_` as it was, where that text cannot be read. The functions `complete_…` complete the whole text from a state.

  size_t stack_used() const;
  // Tries the choices in order.
  bool complete_from(const Frame *state);
  // What a state goes on to: another one, or null where all that follows has been tried.
  struct Next {
    const Frame *state = nullptr;
    bool is_complete = false;  // a choice has completed the text
  };
  // `before`: the length of `out_` to restore after a choice that fails.
  Next next_of(const Frame *state, size_t before);
  Next next_of_value(const ValueFrame *value, size_t before);
  Next next_of_object(const ObjectFrame *object);
  const Frame *next_of_array(const ArrayFrame *array);
  // Reads each text in turn, and completes all that follows.
  bool complete_after_one_of(const Frame *state, const std::vector<std::string> &texts, size_t before);

  const Frame *read(const Frame *state, std::string_view text);
  const Frame *read_symbol(const Frame *state, uint32_t symbol);
  // Reads all of these symbols, or none.
  const Frame *read_symbols(const Frame *state, const WitnessSymbols &symbols);
  const Frame *read_any_of(const Frame *state, std::string_view bytes);
  const Frame *read_any_byte(const Frame *state);
  // The rest of a grammar's text.
  const Frame *read_rest_of_grammar(const GrammarFrame *grammar);
  // The end of a container, on a line of its own where lines are written.
  const Frame *read_bracket(const ContainerFrame *container, char bracket);
  static std::string line_before_bracket(const JsonFrame &container);
  const Frame *read_comma(const ContainerFrame *container);
  const Frame *begin_object(const ValueFrame *value);
  const Frame *begin_item(const ArrayFrame *array);

  // Whole values (completion/values.cpp).
  // Reads a value from its compact text, with the white space that the layout wants.
  const Frame *read_value(const Frame *state, std::string_view compact);
  const Frame *read_space_before(const Frame *state, char token);
  // A value after which its container can close, where that depends on which of several requirements the value meets.
  const Frame *read_closing_value(const ValueFrame *value);
  const Frame *read_closing_item(const JsonFrame *state, ItemControl *item, uint64_t count);
  const Frame *read_value_with_verdicts(const JsonFrame *state, const ValueControl *control,
                                        const std::function<bool(const Holds &)> &are_enough);
  // A shortest value. As an item of `array` after `count_before` others: one that counts for a `contains` that wants
  // more, and that differs from the seen items.
  const Frame *read_whole_value(const JsonFrame *state, const ValueControl *control, const ArrayFrame *array,
                                uint64_t count_before);
  // An item that counts for a `contains` that wants more; null where none does.
  const Frame *read_counted_item(const JsonFrame *state, ArrayControl *array, uint64_t count_before);

  // Strings and other scalars (completion/texts.cpp).
  const Frame *begin_scalar(const Frame *state, const ValueControl *control);
  const Frame *read_rest_of_string(const StringFrame *string);
  bool is_at_character(const StringFrame &string);
  const Frame *read_rest_of_scalar(const ScalarFrame *scalar);

  // Keys (completion/keys.cpp).
  // All keys that one branch of an object still needs, with their values. For objects with many branches.
  const Frame *read_rest_of_object(const JsonFrame *object_or_key);
  bool complete_by_rest_of_object(const JsonFrame *object_or_key);
  const Frame *read_key_and_value(const JsonFrame *object_or_key, std::string_view key, Formula value);
  // In an object without branches every key will do: the first that can be read, required ones before others.
  const Frame *read_rest_of_key(const KeyFrame *key);
  bool complete_from_key(const KeyFrame *key, size_t before);
  // A key of an object with branches that lets the object end right after its value. Otherwise one key after the other
  // that does not could be taken for ever.
  bool complete_by_closing_key(const KeyFrame *key, const std::vector<std::string> &texts);
  const Frame *read_rest_of_escape(const KeyFrame *key);
  // The i-th rest of an extra key to try, with its quote; false when there are no more.
  bool nth_extra_key(const KeyFrame *key, uint64_t i, std::string *text);
  // The rest of a key in `re` that the object does not have.
  bool unused_key(const KeyFrame *key, Re re, std::string *rest);
  // The i-th of infinitely many texts that tokens can spell, the shortest first; i > 0.
  std::string nth_name(uint64_t i);

  static constexpr std::string_view ESCAPE_BYTES = "\"\\/bfnrtu0123456789abcdef";
  static constexpr uint64_t WHOLE_VALUE_STEPS = 100;  // what finding a shortest value counts for

  Automaton &automaton_;
  StepContext &ctx_;
  RegexSpace &space_;
  std::vector<std::string> letters_;                                              // of `nth_name`
  std::unordered_map<const ObjectControl *, std::vector<std::string>> examples_;  // of extra keys, one for each class
  WitnessSymbols out_;
  int32_t max_depth_ = 0;
  uint64_t steps_ = 0, budget_ = 0;
  const char *stack_base_ = nullptr;  // where the search began
  bool was_cut_ = false;
  SearchFailure why_ = SearchFailure::Choices;
  std::unordered_map<Formula, size_t> next_scalar_;  // for items that must differ: the first scalar not yet tried
  Mode mode_ = Mode::Quick;
  std::unordered_set<const Frame *> hopeless_;  // grammars and objects whose end was not found
};

}  // namespace structgen
