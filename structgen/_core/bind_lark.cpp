// Plain Lark grammars for Python: bodies as the tuples of `structgen.constraints.grammar.ir`.
#include <nanobind/nanobind.h>

#include <memory>

#include "lark_text.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

nb::object made(PyObject *object) {
  if (!object) throw nb::python_error();
  return nb::steal(object);
}

class Writer {
 public:
  explicit Writer(const LarkText &read) : read_(read) {
    for (std::u32string_view text : read.texts)
      texts_.push_back(made(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, text.data(), static_cast<Py_ssize_t>(text.size()))));
    for (const LarkText::Node &node : read.nodes) nodes_.push_back(body(node));
  }

  nb::object write() {
    nb::dict rules, terminals;
    for (const LarkText::Definition &one : read_.rules) rules[texts_[one.name]] = nb::make_tuple(nodes_[one.body], all(one.symbols));
    for (const LarkText::Definition &one : read_.terminals)
      terminals[texts_[one.name]] = nb::make_tuple(one.priority, nodes_[one.body]);
    nb::list ignore, literals, imports;
    for (LarkText::Text one : read_.ignore) ignore.append(texts_[one]);
    for (LarkText::Text one : read_.literals) literals.append(texts_[one]);
    for (auto [what, name] : read_.imports) imports.append(nb::make_tuple(texts_[what], texts_[name]));
    return nb::make_tuple(rules, terminals, ignore, literals, imports, places(read_.defined), places(read_.used),
                          places(read_.written));
  }

 private:
  nb::object body(const LarkText::Node &node) {
    switch (node.kind) {
      case LarkText::Node::Rule: return nb::make_tuple(rule_, texts_[node.text]);
      case LarkText::Node::Terminal: return nb::make_tuple(terminal_, texts_[node.text]);
      case LarkText::Node::Sequence: return nb::make_tuple(sequence_, parts(node));
      case LarkText::Node::Choice: return nb::make_tuple(choice_, parts(node));
      case LarkText::Node::Repeat: break;
    }
    nb::object high = node.high < 0 ? nb::none() : nb::object(nb::int_(node.high));
    return nb::make_tuple(repeat_, nodes_[read_.children[node.first]], node.low, high, texts_[node.text]);
  }
  nb::object parts(const LarkText::Node &node) {
    nb::object out = made(PyTuple_New(node.count));
    for (uint32_t i = 0; i < node.count; ++i)
      PyTuple_SET_ITEM(out.ptr(), i, nb::object(nodes_[read_.children[node.first + i]]).release().ptr());
    return out;
  }
  nb::object all(const std::vector<LarkText::Text> &texts) {
    nb::object out = made(PySet_New(nullptr));
    for (LarkText::Text one : texts)
      if (PySet_Add(out.ptr(), texts_[one].ptr())) throw nb::python_error();
    return out;
  }
  nb::dict places(const std::vector<std::pair<LarkText::Text, uint32_t>> &offsets) {
    nb::dict out;
    for (auto [text, offset] : offsets) out[texts_[text]] = offset;
    return out;
  }

  const LarkText &read_;
  std::vector<nb::object> texts_, nodes_;
  nb::str rule_{"rule"}, terminal_{"terminal"}, sequence_{"sequence"}, choice_{"choice"}, repeat_{"repeat"};
};

}  // namespace

void bind_lark(nb::module_ &m) {
  m.def(
      "read_lark",
      [](nb::str text, bool imports) -> nb::object {
        const auto size = static_cast<size_t>(PyUnicode_GET_LENGTH(text.ptr()));
        std::unique_ptr<Py_UCS4, decltype(&PyMem_Free)> copy(PyUnicode_AsUCS4Copy(text.ptr()), &PyMem_Free);
        if (!copy) throw nb::python_error();
        static_assert(sizeof(Py_UCS4) == sizeof(char32_t));
        const std::optional<LarkText> read = LarkText::read({reinterpret_cast<const char32_t *>(copy.get()), size}, imports);
        return read ? Writer(*read).write() : nb::none();
      },
      "text"_a, "imports"_a);
}

}  // namespace structgen
