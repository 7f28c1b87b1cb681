#include "bind/ir_part.h"

#include <stdexcept>

#include "util/work.h"

namespace nb = nanobind;

namespace structgen {
namespace {

constexpr uint64_t TEXT_BYTES_PER_UNIT = 32;  // of a string that Python may have to encode, and the caller copies

}  // namespace

IrPart IrPart::field(const char *name) const {
  if (!PyDict_Check(value_.ptr())) fail("is not a dict");
  PyObject *found = PyDict_GetItemString(value_.ptr(), name);
  if (!found) fail(std::string("has no ") + name);
  return {found, *this, name, 0};
}

IrPart IrPart::operator[](size_t i) const {
  charge();
  if (i >= size()) fail("has no element " + std::to_string(i));
  return {PySequence_Fast_GET_ITEM(value_.ptr(), static_cast<Py_ssize_t>(i)), *this, nullptr, i};
}

size_t IrPart::size() const {
  if (!PyTuple_Check(value_.ptr()) && !PyList_Check(value_.ptr())) fail("is not a tuple");
  return static_cast<size_t>(PySequence_Fast_GET_SIZE(value_.ptr()));
}

size_t IrPart::size(size_t least, const char *shape) const {
  const size_t n = size();
  if (n < least) fail(std::string("is not ") + shape);
  return n;
}

std::string_view IrPart::text() const {
  if (!PyUnicode_Check(value_.ptr())) fail("is not a string");
  Py_ssize_t n;
  const char *p = PyUnicode_AsUTF8AndSize(value_.ptr(), &n);
  if (!p) {
    PyErr_Clear();
    fail("is not a string of Unicode scalar values");
  }
  charge(1 + static_cast<uint64_t>(n) / TEXT_BYTES_PER_UNIT);
  return {p, static_cast<size_t>(n)};
}

int64_t IrPart::integer(int64_t least, int64_t most) const {
  if (!PyLong_Check(value_.ptr())) fail("is not an integer");
  int overflow = 0;
  const int64_t n = PyLong_AsLongLongAndOverflow(value_.ptr(), &overflow);
  if (overflow != 0 || n < least || n > most)
    fail("is not an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return n;
}

uint32_t IrPart::index(size_t count, const char *of) const {
  const auto most = static_cast<int64_t>(count);
  if (!PyLong_Check(value_.ptr())) fail("is not an integer");
  int overflow = 0;
  const int64_t n = PyLong_AsLongLongAndOverflow(value_.ptr(), &overflow);
  if (overflow != 0 || n < 0 || n >= most) fail(std::string("names ") + of + " that is not there");
  return static_cast<uint32_t>(n);
}

bool IrPart::boolean() const {
  if (!PyBool_Check(value_.ptr())) fail("is not a boolean");
  return value_.ptr() == Py_True;
}

void IrPart::fail(const std::string &what) const {
  throw std::invalid_argument("malformed IR: " + path() + " " + what);
}

std::string IrPart::path() const {
  if (!around_) return name_;
  const std::string before = around_->path();
  return name_ ? before + "." + name_ : before + "[" + std::to_string(at_) + "]";
}

}  // namespace structgen
