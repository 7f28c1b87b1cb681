// Number languages and the hash of identities for Python: the tests run the machine byte by byte against exact
// fractions, and look for hashes that lose something.
#include "regex/numbers.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "util/hashing.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {

namespace {

using Text = std::optional<std::string>;

// A function of bounds given by keyword, after the positional `Self`.
template <typename Self, typename Language>
auto by_keyword(Language language) {
  return [language](Self &self, Text minimum, Text maximum, Text exclusive_minimum, Text exclusive_maximum,
                    Text multiple_of, bool integer, bool plain) {
    return language(self, NumberBounds{std::move(minimum), std::move(maximum), std::move(exclusive_minimum),
                                       std::move(exclusive_maximum), std::move(multiple_of), integer, plain});
  };
}

}  // namespace

void bind_numbers(nb::module_ &m) {
  nb::class_<NumberMachine>(m, "NumberMachine")
      .def(
          "__init__",
          [](NumberMachine *self, bool exponent, bool any_exponent, int64_t max_exponent, int64_t max_fraction) {
            new (self) NumberMachine({exponent, any_exponent, max_exponent, max_fraction});
          },
          nb::kw_only(), "exponent"_a = true, "any_exponent"_a = false, "max_exponent"_a = 400, "max_fraction"_a = 16)
      .def("language",
           by_keyword<NumberMachine>([](NumberMachine &self, const NumberBounds &b) { return self.language(b); }),
           nb::kw_only(), "minimum"_a = nb::none(), "maximum"_a = nb::none(), "exclusive_minimum"_a = nb::none(),
           "exclusive_maximum"_a = nb::none(), "multiple_of"_a = nb::none(), "integer"_a = false, "plain"_a = false)
      .def("meet", &NumberMachine::meet)
      .def("includes", &NumberMachine::includes)
      .def("step", &NumberMachine::step)
      .def("accepts", &NumberMachine::accepts)
      .def("alive", &NumberMachine::alive)
      .def("__len__", &NumberMachine::size);

  m.def("number_language",
        by_keyword<RegexSpace>([](RegexSpace &space, const NumberBounds &b) { return number_language(space, b); }),
        "space"_a, nb::kw_only(), "minimum"_a = nb::none(), "maximum"_a = nb::none(),
        "exclusive_minimum"_a = nb::none(), "exclusive_maximum"_a = nb::none(), "multiple_of"_a = nb::none(),
        "integer"_a = false, "plain"_a = false);

  m.def("identity_hash", [](uint64_t kind, const std::vector<uint64_t> &words) {
    Hash128 h = hash_words(kind);
    for (uint64_t word : words) h = extend(h, word);
    return std::make_pair(h.a, h.b);
  });
}

}  // namespace structgen
