// Lowering for Python: bodies come as the tuples of `structgen.ir.grammar`.
#include "bind/lowering.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string_view>

#include "regex/regex.h"
#include "util/stack.h"
#include "util/work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

constexpr uint32_t DEEPEST = 1'000;  // bodies in bodies

std::string_view text_of(PyObject *object) {
  Py_ssize_t size = 0;
  const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (!text) {
    if (PyErr_Occurred()) throw nb::python_error();
    throw std::invalid_argument("a body names its kind, and rules, by text");
  }
  charge(1 + static_cast<uint64_t>(size) / 32);
  return {text, static_cast<size_t>(size)};
}

// Bodies that Python made, and what they are here; Python keeps them meanwhile.
class Reader {
 public:
  Reader(nb::dict rules, nb::handle nullable)
      : bodies([this](uint32_t leaf) { return is_empty(leaf); }), nullable_(nullable) {
    for (auto [name, body] : rules) rule(name);
    uint32_t number = 0;
    for (auto [name, body] : rules) bodies.define(number++, read(body.ptr(), 0));
  }

  Bodies bodies;
  std::vector<std::string> rule_names, leaf_names;
  std::vector<nb::object> rules, leaves;

  uint32_t rule(nb::handle name) {
    charge(4);
    const auto [it, fresh] =
        rule_index_.try_emplace(std::string(text_of(name.ptr())), static_cast<uint32_t>(rules.size()));
    if (fresh) {
      rule_names.push_back(it->first);
      rules.push_back(nb::borrow(name));
    }
    return it->second;
  }
  uint32_t leaf(PyObject *body, std::string_view name) {
    charge(8);  // hashing a tuple hashes its parts
    nb::object number = made(PyLong_FromSize_t(leaves.size()));
    PyObject *known = PyDict_SetDefault(leaf_index_.ptr(), body, number.ptr());
    if (!known) throw nb::python_error();
    if (known == number.ptr() && PyDict_GET_SIZE(leaf_index_.ptr()) > static_cast<Py_ssize_t>(leaves.size())) {
      leaves.push_back(nb::borrow(body));
      leaf_names.emplace_back(name);
      empty_.push_back(UNKNOWN);
    }
    return static_cast<uint32_t>(PyLong_AsLong(known));
  }

  Bodies::Id read(PyObject *body, uint32_t depth) {
    charge();
    if (const auto it = known_.find(body); it != known_.end()) return it->second;
    check_stack("a rule of the grammar is nested too deeply");
    const Bodies::Id read = read_new(body, depth);
    if (bodies.height(read) > DEEPEST) too_deep();  // subtle: of parts that were known already, too
    return known_[body] = read;
  }

  // As Python has it; each body is one object.
  nb::object write(Bodies::Id id) {
    charge(6);
    if (const auto it = written_.find(id); it != written_.end()) return it->second;
    check_stack("a rule of the grammar is nested too deeply");
    return written_[id] = write_new(id);
  }

 private:
  nb::object write_new(Bodies::Id id) {
    const Bodies::Body &body = bodies[id];
    switch (body.kind) {
      case Bodies::Rule: return nb::make_tuple("rule", rules[body.first]);
      case Bodies::Leaf: return leaves[body.first];
      case Bodies::Repeat: {
        const auto [low, high] = bodies.counts(id);
        nb::object most = high == Bodies::UNBOUNDED ? nb::none() : nb::object(nb::int_(high));
        return nb::make_tuple("repeat", write(bodies.parts(id)[0]), low, most);
      }
      default: break;
    }
    nb::list parts;
    for (Bodies::Id part : bodies.parts(id)) parts.append(write(part));
    return nb::make_tuple(body.kind == Bodies::Sequence ? "sequence" : "choice", nb::tuple(parts));
  }

  enum Fact : uint8_t { UNKNOWN, NO, YES };

  [[noreturn]] static void too_deep() {
    PyErr_SetString(PyExc_RecursionError, "the grammar is nested too deeply");
    throw nb::python_error();
  }

  Bodies::Id read_new(PyObject *body, uint32_t depth) {
    if (depth > DEEPEST) too_deep();
    if (!PyTuple_Check(body) || PyTuple_GET_SIZE(body) < 2)
      throw std::invalid_argument("a body is a tuple: its kind and what it is made of");
    const std::string_view kind = text_of(PyTuple_GET_ITEM(body, 0));
    PyObject *content = PyTuple_GET_ITEM(body, 1);
    if (kind == "terminal") return bodies.leaf(leaf(body, text_of(content)));
    if (kind == "rule") return bodies.rule(rule(content));
    if (kind == "sequence" || kind == "choice") {
      if (!PyTuple_Check(content)) throw std::invalid_argument("the parts of a body are a tuple");
      std::vector<Bodies::Id> parts;
      parts.reserve(static_cast<size_t>(PyTuple_GET_SIZE(content)));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(content); ++i)
        parts.push_back(read(PyTuple_GET_ITEM(content, i), depth + 1));
      return bodies.group(kind == "sequence" ? Bodies::Sequence : Bodies::Choice, parts);
    }
    if (kind == "repeat") {
      if (PyTuple_GET_SIZE(body) != 4) throw std::invalid_argument("a repetition is its kind, a body and two counts");
      const Bodies::Id inner = read(content, depth + 1);
      PyObject *high = PyTuple_GET_ITEM(body, 3);
      return bodies.repeat(inner,
                           {count(PyTuple_GET_ITEM(body, 2)), high == Py_None ? Bodies::UNBOUNDED : count(high)});
    }
    if (kind == "text" || kind == "special" || kind == "tokens" || kind == "constraint")
      return bodies.leaf(leaf(body, "..."));
    throw std::invalid_argument("there is no body " + std::string(kind));
  }

  static int64_t count(PyObject *number) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    if (overflow || value < 0 || value > Bodies::MOST_COUNTED)
      throw LimitError("a repetition counts beyond 2 ** 62 (limit repetition_count)");
    return value;
  }

  bool is_empty(uint32_t leaf) {
    if (empty_[leaf] == UNKNOWN) {
      nb::handle body = leaves[leaf];
      const bool text = text_of(PyTuple_GET_ITEM(body.ptr(), 0)) == "text";
      empty_[leaf] = text && nullable_(nb::borrow(PyTuple_GET_ITEM(body.ptr(), 1))).is(Py_True) ? YES : NO;
    }
    return empty_[leaf] == YES;
  }

  nb::handle nullable_;
  std::unordered_map<std::string, uint32_t, KeyedTextHash> rule_index_;
  std::unordered_map<PyObject *, Bodies::Id> known_;
  std::unordered_map<Bodies::Id, nb::object> written_;
  nb::dict leaf_index_;
  std::vector<Fact> empty_;  // of leaves
};

nb::object lower_bodies(nb::dict rules, nb::str start, nb::sequence terminals, nb::handle nullable, nb::sequence kept) {
  Reader reader(rules, nullable);
  for (nb::handle name : kept) reader.bodies.keep(reader.rule(name));
  Lowering lowered(reader.bodies, reader.rule_names, reader.leaf_names);
  for (nb::handle name : terminals) {
    const nb::tuple body = nb::make_tuple("terminal", name);
    lowered.terminal(reader.leaf(body.ptr(), text_of(name.ptr())));
  }
  const Lowering::Symbol first = lowered.run(reader.rule(start));
  nb::list leaves;
  charge(lowered.terminals.size());
  for (uint32_t leaf : lowered.terminals) leaves.append(reader.leaves[leaf]);
  return nb::make_tuple(first, rules_of(lowered, reader.rule_names), productions_of(lowered), leaves);
}

}  // namespace

nb::object rules_of(const Lowering &lowered, const std::vector<std::string> &names) {
  nb::list out;
  for (const Lowering::Head &one : lowered.rules) {
    const std::string &name = one.rule == Lowering::NO_RULE ? one.name : names[one.rule];
    charge(3 + name.size() / 32);
    out.append(nb::str(name.data(), name.size()));
  }
  return nb::tuple(out);
}

nb::object productions_of(const Lowering &lowered) {
  nb::object out = made(PyTuple_New(static_cast<Py_ssize_t>(lowered.ends.size())));
  size_t at = 0;
  for (size_t i = 0; i < lowered.ends.size(); ++i) {
    charge(3 + (lowered.ends[i] - at));
    nb::object one = made(PyTuple_New(static_cast<Py_ssize_t>(lowered.ends[i] - at)));
    for (Py_ssize_t k = 0; at < lowered.ends[i]; ++at, ++k)
      PyTuple_SET_ITEM(one.ptr(), k, made(PyLong_FromLong(lowered.symbols[at])).release().ptr());
    PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), one.release().ptr());
  }
  return out;
}

void bind_lowering(nb::module_ &m) {
  m.def("lower_bodies", &lower_bodies, "rules"_a, "start"_a, "terminals"_a, "nullable"_a, "kept"_a = nb::tuple());
  m.def(
      "simplified",
      [](nb::dict rules, nb::tuple body, nb::handle nullable) {
        Reader reader(rules, nullable);
        const Bodies::Id read = reader.read(body.ptr(), 0);
        return reader.write(reader.bodies[read].kind == Bodies::Repeat ? reader.bodies.simplified(read) : read);
      },
      "rules"_a, "body"_a, "nullable"_a);
}

}  // namespace structgen
