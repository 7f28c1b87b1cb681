// Regular expressions for Python: the algebra of constraints and the tests use them directly.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/regex_ir.h"
#include "util/fork_safety.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {

void bind_regex(nb::module_ &m) {
  nb::register_exception_translator([](const std::exception_ptr &raised, void *) {
    try {
      std::rethrow_exception(raised);
    } catch (const InUseError &error) {
      PyErr_SetString(nb::module_::import_("structgen.errors").attr("ConcurrentUse").ptr(), error.what());
    }
  });
  nb::class_<RegexSpace>(m, "RegexSpace")
      .def(
          "__init__",
          [](RegexSpace *self, std::optional<nb::bytes> spellable, size_t max_nodes, size_t emptiness_budget) {
            std::bitset<256> bytes;
            if (spellable)
              for (size_t i = 0; i < spellable->size(); ++i)
                bytes.set(static_cast<unsigned char>(spellable->c_str()[i]));
            else bytes.set();
            new (self) RegexSpace(bytes, {max_nodes, emptiness_budget});
          },
          "spellable"_a = nb::none(), "max_nodes"_a = 2'000'000, "emptiness_budget"_a = 50'000)
      .def_prop_ro_static("EMPTY", [](nb::handle) { return RegexSpace::EMPTY; })
      .def_prop_ro_static("EPSILON", [](nb::handle) { return RegexSpace::EPSILON; })
      .def_prop_ro_static("ANY_TEXT", [](nb::handle) { return RegexSpace::ANY_TEXT; })
      .def(
          "compile", [](RegexSpace &s, nb::handle ir) { return regex_from_ir(s, {ir, "the expression"}); }, "ir"_a)
      .def("concat", [](RegexSpace &s, Re a, Re b) { return s.concat(a, b); })
      .def("alternate", [](RegexSpace &s, Re a, Re b) { return s.alternate(a, b); })
      .def("intersect", [](RegexSpace &s, Re a, Re b) { return s.intersect(a, b); })
      .def("complement", &RegexSpace::complement)
      .def("scope", &RegexSpace::scope)
      .def("look_ahead", &RegexSpace::look_ahead, "a"_a, "negative"_a = false)
      .def("look_behind", &RegexSpace::look_behind, "a"_a, "negative"_a = false)
      .def("literals", [](RegexSpace &s, const std::vector<std::string> &texts) { return s.literals(texts); })
      .def("repeat",
           [](RegexSpace &s, Re a, int64_t lo, std::optional<int64_t> hi) { return s.repeat(a, lo, hi.value_or(-1)); })
      .def("nullable", &RegexSpace::nullable)
      .def("derivative", &RegexSpace::derivative)
      .def("row",
           [](RegexSpace &s, Re r) {
             const Row &row = s.row(r);
             return std::vector<Re>(row.begin(), row.end());
           })
      .def("alive", &RegexSpace::alive)
      .def("matches", [](RegexSpace &s, Re r, nb::bytes text) { return s.matches(r, {text.c_str(), text.size()}); })
      .def("witness",
           [](RegexSpace &s, Re r) -> std::optional<nb::bytes> {
             std::string out;
             if (!s.witness(r, &out)) return std::nullopt;
             return nb::bytes(out.data(), out.size());
           })
      .def("has_length", [](RegexSpace &s, Re r, int64_t lo,
                            std::optional<int64_t> hi) { return s.has_length(r, lo, hi.value_or(-1)); })
      .def("min_length", &RegexSpace::min_length)
      .def("bounded_by_length", &RegexSpace::bounded_by_length)
      .def(
          "describe", [](const RegexSpace &s, Re r, size_t limit) { return s.describe(r, limit); }, "r"_a,
          "limit"_a = 200)
      .def_prop_ro("unproven", &RegexSpace::unproven)
      .def_prop_ro("memory", &RegexSpace::memory)
      .def_prop_ro("size", &RegexSpace::size);
}

}  // namespace structgen
