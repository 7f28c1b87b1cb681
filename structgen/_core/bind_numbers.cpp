// Number languages for Python: the tests run the machine byte by byte against exact fractions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "numbers.h"

namespace nb = nanobind;

namespace structgen {

void bind_numbers(nb::module_ &m) {
  nb::class_<NumberMachine>(m, "NumberMachine")
      .def(
          "__init__",
          [](NumberMachine *self, bool exponent, bool any_exponent, int64_t max_exponent) {
            new (self) NumberMachine({exponent, any_exponent, max_exponent});
          },
          nb::kw_only(), nb::arg("exponent") = true, nb::arg("any_exponent") = false,
          nb::arg("max_exponent") = 400)
      .def(
          "language",
          [](NumberMachine &self, std::optional<std::string> minimum, std::optional<std::string> maximum,
             std::optional<std::string> exclusive_minimum, std::optional<std::string> exclusive_maximum,
             std::optional<std::string> multiple_of, bool integer, bool plain) {
            return self.language({std::move(minimum), std::move(maximum), std::move(exclusive_minimum),
                                  std::move(exclusive_maximum), std::move(multiple_of), integer, plain});
          },
          nb::kw_only(), nb::arg("minimum") = nb::none(), nb::arg("maximum") = nb::none(),
          nb::arg("exclusive_minimum") = nb::none(), nb::arg("exclusive_maximum") = nb::none(),
          nb::arg("multiple_of") = nb::none(), nb::arg("integer") = false,
          nb::arg("plain") = false)
      .def("meet", &NumberMachine::meet)
      .def("includes", &NumberMachine::includes)
      .def("step", &NumberMachine::step)
      .def("accepts", &NumberMachine::accepts)
      .def("alive", &NumberMachine::alive)
      .def("__len__", &NumberMachine::size);
}

}  // namespace structgen
