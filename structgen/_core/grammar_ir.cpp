#include "grammar_ir.h"

#include <algorithm>
#include <stdexcept>

namespace nb = nanobind;

namespace structgen {
namespace {

std::string text_of(nb::handle h) {
  Py_ssize_t n;
  const char *p = PyUnicode_AsUTF8AndSize(h.ptr(), &n);
  if (!p) {
    PyErr_Clear();
    throw std::invalid_argument("a text of the IR is not a string of Unicode scalar values");
  }
  return {p, static_cast<size_t>(n)};
}

// Tuples are read directly: a large grammar has a million numbers.
int64_t number_at(PyObject *tuple, Py_ssize_t i) {
  const int64_t n = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
  if (n == -1 && PyErr_Occurred()) throw nb::python_error();
  return n;
}

PyObject *tuple_of(nb::handle h) {
  if (!PyTuple_Check(h.ptr())) throw std::invalid_argument("a grammar in the IR is made of tuples");
  return h.ptr();
}

// Has the constraint the empty text?
bool has_empty_text(const Plan &plan, const RegexSpace &regex) {
  auto has = [&](const std::unique_ptr<Plan> &part) { return has_empty_text(*part, regex); };
  switch (plan.kind) {
    case Plan::Regex: return regex.nullable(plan.re);
    case Plan::Json: return false;
    case Plan::Grammar: {
      const Grammar &g = plan.grammar->grammar();
      return !plan.grammar->empty() && g.nullable(static_cast<Symbol>(g.start)) && regex.nullable(g.within);
    }
    case Plan::Sequence: return std::all_of(plan.parts.begin(), plan.parts.end(), has);
    case Plan::Union: return std::any_of(plan.parts.begin(), plan.parts.end(), has);
  }
  return false;
}

}  // namespace

std::unique_ptr<GrammarControl> grammar_from_ir(nb::handle ir, TextSpace &space, const ReadRe &re, const ReadPlan &plan) {
  Grammar g;
  RegexSpace &regex = space.regex();
  const std::string lexing = text_of(ir["lexing"]);
  g.lexing = lexing == "longest" ? Lexing::Longest : lexing == "ordered" ? Lexing::Ordered : Lexing::Scannerless;
  g.contextual = nb::cast<bool>(ir["contextual"]);
  g.start = nb::cast<uint32_t>(ir["start"]);
  if (nb::object within = ir["within"]; !within.is_none()) g.within = re(within);
  for (nb::handle name : ir["rules"]) g.rules.push_back(text_of(name));
  for (nb::handle scanner : ir["scanners"]) g.scanners.push_back(re(scanner));
  for (nb::handle t : ir["terminals"]) {
    GrammarTerminal terminal;
    const std::string kind = text_of(t[0]);
    terminal.name = text_of(t[1]);
    terminal.scanner = nb::cast<uint32_t>(t[3]);
    if (kind == "text") {
      terminal.language = re(t[2]);
    } else if (kind == "constraint") {
      terminal.kind = GrammarTerminal::Constraint;
      terminal.plan = plan(t[2]);
      terminal.nullable = has_empty_text(*terminal.plan, regex);
    } else if (kind == "special") {
      const std::string text = text_of(t[2]);
      if (const auto id = space.vocabulary().special(text)) {
        terminal.kind = GrammarTerminal::Special;
        terminal.token = *id;
      } else {
        // A tokenizer without that token: then it is text like any other.
        terminal.language = regex.literal(text);
      }
    } else {  // of an indentation: it has no text, the lexer makes it
      terminal.kind = GrammarTerminal::Special;
      terminal.token = UINT32_MAX;
    }
    if (terminal.kind == GrammarTerminal::Text && regex.nullable(terminal.language)) {
      terminal.nullable = true;
      terminal.language = regex.intersect(terminal.language, regex.complement(RegexSpace::EPSILON));
    }
    if (terminal.scanner >= g.scanners.size() && g.lexing == Lexing::Ordered && terminal.kind == GrammarTerminal::Text)
      throw std::invalid_argument("a terminal of the IR has no scanner");
    g.terminals.push_back(std::move(terminal));
  }
  const auto terminals = static_cast<int64_t>(g.terminals.size()), rules = static_cast<int64_t>(g.rules.size());
  for (nb::handle t : ir["ignore"]) g.ignore.push_back(nb::cast<uint32_t>(t));
  auto is_terminal = [&](uint32_t t) { return static_cast<int64_t>(t) < terminals; };
  if (nb::object indentation = ir["indentation"]; !indentation.is_none()) {
    IndentationRule &rule = g.indentation;
    rule.newline = nb::cast<uint32_t>(indentation[0]);
    rule.indent = nb::cast<uint32_t>(indentation[1]);
    rule.dedent = nb::cast<uint32_t>(indentation[2]);
    for (nb::handle t : indentation[3]) rule.open.push_back(nb::cast<uint32_t>(t));
    for (nb::handle t : indentation[4]) rule.close.push_back(nb::cast<uint32_t>(t));
    rule.tab_width = nb::cast<uint32_t>(indentation[5]);
    for (uint32_t t : {rule.newline, rule.indent, rule.dedent})
      if (!is_terminal(t)) throw std::invalid_argument("an indentation names a terminal that is not there");
    for (auto *list : {&rule.open, &rule.close})
      for (uint32_t t : *list)
        if (!is_terminal(t)) throw std::invalid_argument("an indentation names a terminal that is not there");
  }
  for (uint32_t t : g.ignore)
    if (!is_terminal(t)) throw std::invalid_argument("a terminal to ignore is not there");
  if (g.within != RegexSpace::ANY_TEXT) {
    if (g.contextual || g.indentation.active())
      throw std::invalid_argument("a contextual or an indented grammar within another constraint");
    for (const GrammarTerminal &t : g.terminals)
      if (t.kind != GrammarTerminal::Text)
        throw std::invalid_argument("a grammar within another constraint has terminals that are not regular");
  }
  if (static_cast<int64_t>(g.start) >= rules) throw std::invalid_argument("the start rule is not there");
  std::vector<Grammar::Production> productions;
  nb::object all = ir["productions"];
  PyObject *listed = tuple_of(all);
  const Py_ssize_t count = PyTuple_GET_SIZE(listed);
  productions.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *one = tuple_of(PyTuple_GET_ITEM(listed, i));
    const Py_ssize_t n = PyTuple_GET_SIZE(one);
    Grammar::Production p;
    for (Py_ssize_t k = 0; k < n; ++k) {
      const int64_t symbol = number_at(one, k);
      if (symbol >= rules || symbol < -terminals || (k == 0 && symbol < 0))
        throw std::invalid_argument("a production names a symbol that is not there");
      if (k == 0) p.head = static_cast<uint32_t>(symbol);
      else p.body.push_back(static_cast<Symbol>(symbol));
    }
    if (n == 0) throw std::invalid_argument("a production without a head");
    productions.push_back(std::move(p));
  }
  return std::make_unique<GrammarControl>(std::move(g), std::move(productions), space);
}

}  // namespace structgen
