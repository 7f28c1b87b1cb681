// A plain Lark grammar read without lark: its statements, and bodies of rules and terminals as they are written.
//
// Why: most grammars are rules, terminals, priorities, aliases, `%ignore` and imports from `common`; what those say is
// read here in a few nanoseconds a character. What the terminals are to lark, `lark.plain_reader` (Python) knows.
//
// Invariant: a text is read as lark reads it, or not at all: the additions of other dialects and every mistake make it
// "not plain". Then lark's loader reads it, and finds the mistake. Templates, `%override`, `%extend`, `%declare` and
// imports from other modules are read as modules (`module`), whose definitions `lark.modules` (Python) joins.
// Cost: linear in the text. Source: lark 1.3, load_grammar (its tokens and its rules of them).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace structgen {

struct LarkText {
  using Text = uint32_t;  // an index into `texts`: a name, or a text, a pattern or a range as it is written
  struct Node {
    enum Kind : uint8_t { Rule, Terminal, Sequence, Choice, Repeat, Use } kind;
    Text text;              // Rule, Terminal: which; Repeat: how it is written for `re`; Use: of which template
    uint32_t first, count;  // in `children`
    int32_t low, high;      // Repeat; high < 0: without a bound
  };
  struct Met {
    uint32_t depth;  // of its node in lark's tree
    uint32_t what;
  };
  struct Definition {
    enum Kind : uint8_t { Define, Override, Extend, Declare };
    Text name;
    uint32_t body;              // a node; a declaration has no body
    int32_t priority;           // of a terminal
    std::vector<Text> symbols;  // of a rule: what it mentions, each once
    // Of modules:
    Kind kind = Define;
    uint32_t alternatives = 1;
    bool nothing = false;  // something in it stands no times, which mentions nothing
    std::vector<Text> parameters = {};
    std::vector<Met> literals = {}, uses = {};  // of a rule: texts, and nodes that use templates, as they are written
  };
  struct Import {  // of a module
    bool relative;
    std::vector<Text> path;
    std::vector<std::pair<Text, Text>> names;  // what, and under which name
  };
  std::vector<std::u32string_view> texts;  // of the text that was read, and of `made`
  std::vector<Node> nodes;                 // the parts of a node come before it
  std::vector<uint32_t> children;
  std::vector<Definition> rules, terminals;
  std::vector<Text> ignore;
  std::vector<Text> literals;                  // in rules, in the order in which lark names them
  std::vector<std::pair<Text, Text>> imports;  // from `common`: what, and under which name
  std::vector<Import> modules;
  // Where a name is defined, where it is mentioned first, and where a literal is written first: characters.
  std::vector<std::pair<Text, uint32_t>> defined, used, written;

  // None where it is not plain. `imports`: does `common` mean lark's own module?
  static std::optional<LarkText> read(std::u32string_view text, bool imports);
  // The same as a module. `unbounded`: a count that stands for none.
  static std::optional<LarkText> module(std::u32string_view text, int64_t unbounded);

  std::deque<std::u32string> made;  // texts that stand nowhere in one piece
};

}  // namespace structgen
