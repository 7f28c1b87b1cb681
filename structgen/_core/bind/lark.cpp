// Plain Lark grammars for Python: bodies as the tuples of `structgen.ir.grammar`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <memory>

#include "bind/lowering.h"
#include "grammar/lark/grammar.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

nb::object text_from(std::u32string_view text) {
  charge(3 + text.size() / 16);
  return made(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, text.data(), static_cast<Py_ssize_t>(text.size())));
}

std::u32string text_to(nb::handle text) {
  if (!PyUnicode_Check(text.ptr())) throw std::invalid_argument("a name, a key and a text are of type str");
  const auto size = static_cast<size_t>(PyUnicode_GET_LENGTH(text.ptr()));
  charge(2 + size / 16);
  std::u32string out(size, 0);
  static_assert(sizeof(Py_UCS4) == sizeof(char32_t));
  if (!PyUnicode_AsUCS4(text.ptr(), reinterpret_cast<Py_UCS4 *>(out.data()), static_cast<Py_ssize_t>(size), 0) &&
      size > 0)
    throw nb::python_error();
  return out;
}

class Writer {
 public:
  explicit Writer(const LarkText &read) : read_(read), texts_(read.texts.size()), nodes_(read.nodes.size()) {}

  const nb::object &text(LarkText::Text id) {
    charge(2);
    if (!texts_[id].is_valid()) texts_[id] = text_from(read_.texts[id]);
    return texts_[id];
  }
  const nb::object &node(uint32_t id) {
    charge(4);
    if (!nodes_[id].is_valid()) nodes_[id] = body(read_.nodes[id]);
    return nodes_[id];
  }
  // Of each terminal: its priority, its body, and whether it is a word.
  nb::dict terminals() {
    nb::dict out;
    for (const LarkText::Definition &definition : read_.terminals)
      out[text(definition.name)] = nb::make_tuple(definition.priority, node(definition.body),
                                                  LarkGrammar::word_in(read_, definition).has_value());
    return out;
  }
  nb::list imports() {
    nb::list out;
    for (auto [what, name] : read_.imports) out.append(nb::make_tuple(text(what), text(name)));
    return out;
  }
  // A module: rules, terminals, what is ignored, imports, and the texts and patterns that are written.
  nb::object write_module() {
    nb::list rules, terminals, ignore, imports, written;
    const auto met = [](const std::vector<LarkText::Met> &all, auto &&what) {
      nb::list out;
      for (const LarkText::Met &use : all) out.append(nb::make_tuple(use.depth, what(use.what)));
      return out;
    };
    const auto texts = [&](const std::vector<LarkText::Text> &all) {
      nb::list out;
      for (LarkText::Text id : all) out.append(text(id));
      return nb::tuple(out);
    };
    for (const LarkText::Definition &rule : read_.rules)
      rules.append(nb::make_tuple(text(rule.name), static_cast<int>(rule.kind), texts(rule.parameters),
                                  rule.kind == LarkText::Definition::Declare ? nb::none() : node(rule.body),
                                  all(rule.symbols), met(rule.literals, [&](uint32_t t) { return text(t); }),
                                  met(rule.uses, [&](uint32_t n) { return node(n); }), rule.nothing));
    for (const LarkText::Definition &definition : read_.terminals)
      terminals.append(
          nb::make_tuple(text(definition.name), static_cast<int>(definition.kind), definition.priority,
                         definition.kind == LarkText::Definition::Declare ? nb::none() : node(definition.body),
                         definition.alternatives));
    for (LarkText::Text id : read_.ignore) ignore.append(text(id));
    for (const LarkText::Import &imported : read_.modules) {
      nb::list names;
      for (auto [what, name] : imported.names) names.append(nb::make_tuple(text(what), text(name)));
      imports.append(nb::make_tuple(imported.relative, texts(imported.path), names));
    }
    for (auto [id, offset] : read_.written) written.append(text(id));
    return nb::make_tuple(rules, terminals, ignore, imports, written);
  }
  nb::object write() {
    nb::dict rules;
    for (const LarkText::Definition &rule : read_.rules)
      rules[text(rule.name)] = nb::make_tuple(node(rule.body), all(rule.symbols));
    nb::list ignore, literals;
    for (LarkText::Text id : read_.ignore) ignore.append(text(id));
    for (LarkText::Text id : read_.literals) literals.append(text(id));
    return nb::make_tuple(rules, terminals(), ignore, literals, imports(), places(read_.defined), places(read_.used),
                          places(read_.written));
  }

 private:
  nb::object body(const LarkText::Node &source) {
    switch (source.kind) {
      case LarkText::Node::Rule: return nb::make_tuple(rule_, text(source.text));
      case LarkText::Node::Terminal: return nb::make_tuple(terminal_, text(source.text));
      case LarkText::Node::Sequence: return nb::make_tuple(sequence_, parts(source));
      case LarkText::Node::Choice: return nb::make_tuple(choice_, parts(source));
      case LarkText::Node::Use: return nb::make_tuple(use_, text(source.text), parts(source));
      case LarkText::Node::Repeat: break;
    }
    nb::object high = source.high < 0 ? nb::none() : nb::object(nb::int_(source.high));
    return nb::make_tuple(repeat_, node(read_.children[source.first]), source.low, high, text(source.text));
  }
  nb::object parts(const LarkText::Node &source) {
    nb::object out = made(PyTuple_New(source.count));
    for (uint32_t i = 0; i < source.count; ++i)
      PyTuple_SET_ITEM(out.ptr(), i, nb::object(node(read_.children[source.first + i])).release().ptr());
    return out;
  }
  nb::object all(const std::vector<LarkText::Text> &texts) {
    nb::object out = made(PySet_New(nullptr));
    for (LarkText::Text id : texts)
      if (PySet_Add(out.ptr(), text(id).ptr())) throw nb::python_error();
    return out;
  }
  nb::dict places(const std::vector<std::pair<LarkText::Text, uint32_t>> &offsets) {
    nb::dict out;
    for (auto [id, offset] : offsets) out[text(id)] = offset;
    return out;
  }

  const LarkText &read_;
  std::vector<nb::object> texts_, nodes_;  // created when they are first needed
  nb::str rule_{"rule"}, terminal_{"terminal"}, sequence_{"sequence"}, choice_{"choice"}, repeat_{"repeat"},
      use_{"use"};
};

// A plain grammar that has been read, and is lowered to productions.
class PlainLark {
 public:
  static std::unique_ptr<PlainLark> read(nb::str text) {
    auto source = std::make_unique<std::u32string>(text_to(text));
    std::optional<LarkText> read = LarkText::read(*source, true);
    if (!read || names_anonymous(*read)) return nullptr;
    return std::unique_ptr<PlainLark>(new PlainLark(std::move(source), std::move(*read)));
  }

  nb::dict terminals() const { return Writer(grammar_.read()).terminals(); }
  nb::list imports() const { return Writer(grammar_.read()).imports(); }
  // The literals of rules that are not words.
  nb::list literals() const {
    nb::list out;
    for (LarkText::Text id : grammar_.read().literals)
      if (!LarkGrammar::word(grammar_.read().texts[id])) out.append(text_from(grammar_.read().texts[id]));
    return out;
  }

  nb::object lower(nb::str start, nb::list imported, nb::dict keys, nb::dict literals, nb::dict signs,
                   nb::callable language) {
    std::vector<LarkGrammar::Terminal> defined;
    for (nb::handle entry : imported)
      defined.push_back({text_to(entry[0]), text_to(entry[2]), nb::cast<int64_t>(entry[1])});
    for (const LarkText::Definition &definition : grammar_.read().terminals) {
      const std::u32string_view name = grammar_.read().texts[definition.name];
      const auto word = LarkGrammar::word_in(grammar_.read(), definition);
      defined.push_back({std::u32string(name),
                         word ? LarkGrammar::of_word(*word) : text_to(nb::object(keys[text_from(name)])),
                         definition.priority});
    }
    std::unordered_map<std::u32string, LarkGrammar::Literal, KeyedTextHash> known;
    for (auto [text, fact] : literals) known[text_to(text)] = {text_to(fact[0]), text_to(fact[1])};
    const auto suggested = [&](std::u32string_view word) {
      if (word.size() != 1) return std::u32string();  // lark names signs of one character only
      PyObject *name = PyDict_GetItemWithError(signs.ptr(), text_from(word).ptr());
      return name ? text_to(name) : std::u32string();
    };
    if (!grammar_.find(text_to(start), std::move(defined), known, suggested)) return nb::none();
    // Python's facts about a terminal: is it a pattern, its longest text, its length, its text for messages, its
    // language.
    std::unordered_map<std::u32string, nb::object, KeyedTextHash> facts;
    for (LarkGrammar::Terminal &terminal : grammar_.terminals) {
      if (LarkGrammar::word_of(terminal.key)) continue;
      nb::object fact = language(text_from(terminal.name), text_from(terminal.key));
      if (fact.is(nb::none())) return nb::none();
      terminal.is_pattern = nb::cast<bool>(fact[0]);
      terminal.widest = nb::cast<int64_t>(fact[1]);
      terminal.length = nb::cast<int64_t>(fact[2]);
      facts[terminal.name] = fact;
    }
    grammar_.sort();
    nb::list terminals, ignored;
    for (const LarkGrammar::Terminal &terminal : grammar_.terminals) {
      charge(15);  // tuples and texts for Python
      if (const auto word = LarkGrammar::word_of(terminal.key)) {
        const nb::object text = text_from(*word);
        // An escape can name half of a surrogate pair, which no UTF-8 text contains.
        const bool spelled =
            std::none_of(word->begin(), word->end(), [](char32_t c) { return c >= 0xD800 && c <= 0xDFFF; });
        const nb::object language = spelled ? nb::make_tuple("literal", text) : nb::make_tuple("empty");
        terminals.append(nb::make_tuple("text", made(PyObject_Repr(text.ptr())), language, 0));
      } else {
        const nb::object &fact = facts[terminal.name];
        terminals.append(nb::make_tuple("text", fact[3], fact[4], 0));
      }
    }
    for (uint32_t terminal : grammar_.ignored()) ignored.append(terminal);
    Bodies bodies = grammar_.bodies();
    const std::vector<std::string> rules = grammar_.rule_names(), leaves = grammar_.terminal_names();
    Lowering lowered(bodies, rules, leaves);
    for (uint32_t t = 0; t < leaves.size(); ++t) lowered.terminal(t);
    const Lowering::Symbol first = lowered.run(grammar_.start());
    return nb::make_tuple(first, rules_of(lowered, rules), productions_of(lowered), nb::tuple(terminals),
                          nb::tuple(ignored));
  }

 private:
  PlainLark(std::unique_ptr<std::u32string> text, LarkText read) : text_(std::move(text)), grammar_(std::move(read)) {}

  // Does a text contain a name that lark gives to anonymous terminals? Then lark could confuse two terminals.
  static bool names_anonymous(const LarkText &read) {
    return std::any_of(read.written.begin(), read.written.end(), [&](auto &entry) {
      std::u32string text(read.texts[entry.first]);
      charge(1 + text.size() / 4);
      const bool ascii = std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; });
      for (char32_t &c : text)
        if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
      return text.find(ascii ? U"__anon_" : U"__") != text.npos;
    });
  }

  std::unique_ptr<std::u32string> text_;
  LarkGrammar grammar_;
};

}  // namespace

void bind_lark(nb::module_ &m) {
  m.def(
      "read_lark",
      [](nb::str text, bool imports) -> nb::object {
        const std::u32string copy = text_to(text);
        const std::optional<LarkText> read = LarkText::read(copy, imports);
        return read ? Writer(*read).write() : nb::none();
      },
      "text"_a, "imports"_a);
  m.def(
      "read_lark_module",
      [](nb::str text, int64_t unbounded) -> nb::object {
        const std::u32string copy = text_to(text);
        const std::optional<LarkText> read = LarkText::module(copy, unbounded);
        return read ? Writer(*read).write_module() : nb::none();
      },
      "text"_a, "unbounded"_a);
  nb::class_<PlainLark>(m, "PlainLark")
      .def_static("read", &PlainLark::read, "text"_a)
      .def_prop_ro("terminals", &PlainLark::terminals)
      .def_prop_ro("imports", &PlainLark::imports)
      .def_prop_ro("literals", &PlainLark::literals)
      .def("lower", &PlainLark::lower, "start"_a, "imported"_a, "keys"_a, "literals"_a, "signs"_a, "language"_a);
}

}  // namespace structgen
