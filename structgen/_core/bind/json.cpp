// A question about a JSON text that Python has decoded.
#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "util/work.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

// The number of keys of all objects of a well-formed text. A key is a string that is followed by a colon.
size_t keys_in(std::string_view text) {
  size_t keys = 0;
  for (size_t i = text.find('"'); i != text.npos; i = text.find('"', i)) {
    bool escaped = true;
    while (escaped && i != text.npos) {
      i = text.find('"', i + 1);
      escaped = false;
      for (size_t at = i; i != text.npos && text[at - 1] == '\\'; --at) escaped = !escaped;
    }
    if (i == text.npos) break;
    do ++i;
    while (i < text.size() && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r'));
    keys += i < text.size() && text[i] == ':';
  }
  return keys;
}

// Members of all dicts in a tree of dicts and lists.
size_t members_in(PyObject *value) {
  size_t members = 0;
  std::vector<PyObject *> left{value};
  auto look_at = [&](PyObject *child) {
    if (PyDict_CheckExact(child) || PyList_CheckExact(child)) left.push_back(child);
  };
  while (!left.empty()) {
    charge();
    PyObject *one = left.back();
    left.pop_back();
    if (PyDict_CheckExact(one)) {
      members += static_cast<size_t>(PyDict_GET_SIZE(one));
      PyObject *key = nullptr, *child = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(one, &at, &key, &child);) look_at(child);
    } else if (PyList_CheckExact(one)) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(one); ++i) look_at(PyList_GET_ITEM(one, i));
    }
  }
  return members;
}

}  // namespace

void bind_json(nb::module_ &m) {
  // The decoder keeps the last of two members with the same key, so the dicts then have fewer members than the text has
  // keys. Counting takes a third of the time of a hook that looks at each object while it is decoded.
  m.def(
      "has_repeated_keys",
      [](nb::str text, nb::handle decoded) {
        Py_ssize_t size = 0;
        const char *utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
        nb::object encoded;
        if (!utf8) {  // the text has a half of a surrogate pair
          PyErr_Clear();
          encoded = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
          if (!encoded.is_valid()) throw nb::python_error();
          utf8 = PyBytes_AS_STRING(encoded.ptr());
          size = PyBytes_GET_SIZE(encoded.ptr());
        }
        charge(static_cast<uint64_t>(size) / 16);
        return keys_in({utf8, static_cast<size_t>(size)}) != members_in(decoded.ptr());
      },
      "text"_a, "decoded"_a.none());
}

}  // namespace structgen
