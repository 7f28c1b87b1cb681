// A plain Lark grammar under rule "longest", from its text to symbols and productions: what `lark.plain_reader`,
// `lark.terminals` and the lowering (Python) make of it, at once.
//
// Why: most grammars need nothing else before the first mask, and most terminals are words and signs, which do not need
// a parser of patterns. Patterns are left to Python, which parses those of `re`.
// Invariant: the same terminals under the same names in the same order, and the same productions; or none, and then
// the long way is taken, which words the error.
// Cost: a few hundred nanoseconds a token. Source: lark 1.3, load_grammar (PrepareAnonTerminals, Grammar.compile).
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "grammar/lark/text.h"
#include "grammar/lowering.h"
#include "util/hashing.h"

namespace structgen {

class LarkGrammar {
 public:
  using Text = LarkText::Text;
  // What tells patterns apart: of a word or sign as it is, `of_word`; of others, what Python says.
  using Key = std::u32string;

  struct Terminal {
    std::u32string name;
    Key key;
    int64_t priority = 0;
    // Of its pattern, for the order:
    bool is_pattern = false;
    int64_t widest = 0, length = 0;
  };
  struct Literal {  // in rules, that is not a word or sign as it is
    Key key;
    std::u32string telling;  // the name that it suggests; empty: none
  };

  explicit LarkGrammar(LarkText read) : read_(std::move(read)) {}
  const LarkText &read() const { return read_; }

  // A text in quotes without escapes, flags or characters beyond printable ASCII: the word or sign in it.
  static std::optional<std::u32string_view> word(std::u32string_view written);
  // The word that is all of a terminal's definition.
  static std::optional<std::u32string_view> word_in(const LarkText &read, const LarkText::Definition &terminal);
  static Key of_word(std::u32string_view word) { return U"str//" + std::u32string(word); }
  static std::optional<std::u32string_view> word_of(const Key &key);

  // `defined`: all terminals that have a definition, in lark's order. `suggested` is the name of a sign, or empty.
  // False where the long way is to be taken.
  bool find(std::u32string_view start, std::vector<Terminal> defined,
            const std::unordered_map<std::u32string, Literal, KeyedTextHash> &literals,
            const std::function<std::u32string(std::u32string_view)> &suggested);
  // Those that count, in the order in which they were defined or met; their ranks may be completed.
  std::vector<Terminal> terminals;
  void sort();
  const std::vector<uint32_t> &ignored() const { return ignored_; }  // after `sort`

  // After `sort`: terminals are its leaves.
  Bodies bodies() const;
  uint32_t start() const { return start_; }
  std::vector<std::string> rule_names() const;
  std::vector<std::string> terminal_names() const;

 private:
  bool mentions_itself_by_helper(uint32_t rule) const;
  std::vector<bool> kept_rules() const;
  void keep_used(std::vector<Terminal> defined);

  LarkText read_;
  uint32_t start_ = 0;                              // a rule
  std::unordered_map<Text, std::u32string> names_;  // of literals
  std::vector<uint32_t> rule_of_;                   // by text; NONE: it names no rule
  std::vector<uint32_t> ignored_;
};

}  // namespace structgen
