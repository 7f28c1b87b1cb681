// The IR of the front ends is a tree of tuples; equal sub-trees are often one object, which is
// read once (a tree that shares its parts may be exponentially larger than its objects).
#include "regex_ir.h"

#include <stdexcept>
#include <string>
#include <unordered_map>

namespace nb = nanobind;

namespace structgen {
namespace {

constexpr int MAX_NESTING = 1'000;

std::string_view text_of(nb::handle h) {
  Py_ssize_t n;
  const char *p = PyUnicode_AsUTF8AndSize(h.ptr(), &n);
  if (!p) {
    PyErr_Clear();
    throw std::invalid_argument("a text of the IR is not a string of Unicode scalar values");
  }
  return {p, static_cast<size_t>(n)};
}

class Reader {
 public:
  explicit Reader(RegexSpace &space) : space_(space) {}

  Re read(nb::handle ir, int depth) {
    if (depth > MAX_NESTING)
      throw LimitError("a regular expression is nested more than 1000 deep; flatten it or split it in parts");
    if (!PyTuple_Check(ir.ptr()) || nb::len(ir) == 0)
      throw std::invalid_argument("a regular expression in the IR is a tuple that begins with its kind");
    if (auto it = seen_.find(ir.ptr()); it != seen_.end()) return it->second;
    const Re r = make(ir, depth);
    seen_.emplace(ir.ptr(), r);
    return r;
  }

 private:
  Re make(nb::handle ir, int depth) {
    const std::string_view kind = text_of(ir[0]);
    if (kind == "literal") return space_.literal(text_of(ir[1]));
    if (kind == "class") {
      std::vector<CodeRange> ranges;
      for (nb::handle r : ir[1]) ranges.push_back({nb::cast<uint32_t>(r[0]), nb::cast<uint32_t>(r[1])});
      return space_.text_class(ranges);
    }
    if (kind == "concat") return space_.concat(read_all(ir[1], depth));
    if (kind == "alternate") return space_.alternate(read_all(ir[1], depth));
    if (kind == "repeat") {
      const Re body = read(ir[1], depth + 1);
      nb::object hi = ir[3];
      return space_.repeat(body, nb::cast<int64_t>(ir[2]), hi.is_none() ? -1 : nb::cast<int64_t>(hi));
    }
    if (kind == "text") return RegexSpace::ANY_TEXT;
    if (kind == "any") return space_.any_char();
    if (kind == "empty") return RegexSpace::EMPTY;
    if (kind == "literals") {
      std::vector<std::string> texts;
      for (nb::handle t : ir[1]) texts.emplace_back(text_of(t));
      return space_.literals(texts);
    }
    if (kind == "intersect") return space_.intersect(read_all(ir[1], depth));
    if (kind == "complement") return space_.complement(read(ir[1], depth + 1));
    if (kind == "scope") return space_.scope(read(ir[1], depth + 1));
    if (kind == "look") {
      const Re body = read(ir[3], depth + 1);
      const bool negative = nb::cast<bool>(ir[2]);
      return nb::cast<bool>(ir[1]) ? space_.look_ahead(body, negative) : space_.look_behind(body, negative);
    }
    throw std::invalid_argument("unknown kind of regular expression in the IR: " + std::string(kind));
  }

  std::vector<Re> read_all(nb::handle list, int depth) {
    std::vector<Re> out;
    for (nb::handle x : list) out.push_back(read(x, depth + 1));
    return out;
  }

  RegexSpace &space_;
  std::unordered_map<PyObject *, Re> seen_;
};

}  // namespace

Re regex_from_ir(RegexSpace &space, nb::handle ir) { return space.scope(Reader(space).read(ir, 0)); }

}  // namespace structgen
