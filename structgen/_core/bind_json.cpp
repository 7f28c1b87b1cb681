// What Python's reader of JSON calls for each object of a text.
#include <nanobind/nanobind.h>

#include "work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {

void bind_json(nb::module_ &m) {
  // Here, since it is called for each object of each schema: in Python it takes a third of the time of reading the text.
  m.def(
      "unique_object",
      [](nb::list pairs) {
        nb::object made = nb::steal(PyDict_New());
        if (!made.is_valid()) throw nb::python_error();
        charge(4 + pairs.size());
        for (nb::handle pair : pairs) {
          if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2)
            throw nb::type_error("a pair is a tuple of a key and a value");
          PyObject *key = PyTuple_GET_ITEM(pair.ptr(), 0), *value = PyTuple_GET_ITEM(pair.ptr(), 1);
          const Py_ssize_t before = PyDict_GET_SIZE(made.ptr());
          if (PyDict_SetItem(made.ptr(), key, value) != 0) throw nb::python_error();
          if (PyDict_GET_SIZE(made.ptr()) > before) continue;
          PyErr_SetObject(PyExc_KeyError, key);
          throw nb::python_error();
        }
        return made;
      },
      "pairs"_a);
}

}  // namespace structgen
