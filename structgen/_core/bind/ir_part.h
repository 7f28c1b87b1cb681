// A part of an intermediate representation (IR) and the path to it, which errors name.
//
// The front ends build well-formed IR; the checks are for IR that is written by hand. A part refers to the part around
// it, which must outlive it. The path becomes text only for a message, such as `terminals[2][3]`.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace structgen {

class IrPart {
 public:
  IrPart(nanobind::handle value, const char *name) : value_(value), name_(name) {}

  IrPart field(const char *name) const;  // of a dict
  bool has(const char *name) const { return PyDict_Check(value_.ptr()) && PyDict_GetItemString(value_.ptr(), name); }
  IrPart operator[](size_t i) const;  // of a tuple or a list
  size_t size() const;                // of a tuple or a list
  size_t size(size_t least, const char *shape) const;

  // All throw std::invalid_argument if the part has another type.
  std::string_view text() const;  // lives as long as the string
  int64_t integer(int64_t least, int64_t most) const;
  uint32_t index(size_t count, const char *of) const;
  bool boolean() const;
  bool is_absent() const { return value_.is(nanobind::none()); }
  bool is_text() const { return PyUnicode_Check(value_.ptr()); }

  nanobind::handle value() const { return value_; }
  [[noreturn]] void fail(const std::string &what) const;

 private:
  IrPart(nanobind::handle value, const IrPart &around, const char *name, size_t at)
      : value_(value), around_(&around), name_(name), at_(at) {}
  std::string path() const;

  nanobind::handle value_;
  const IrPart *around_ = nullptr;
  const char *name_;  // null: it is an element, by its index
  size_t at_ = 0;
};

}  // namespace structgen
