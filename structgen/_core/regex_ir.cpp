#include "regex_ir.h"

#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace structgen {
namespace {

constexpr int MAX_NESTING = 3'000;

std::string_view text_of(nb::handle h) {
  Py_ssize_t n;
  const char *p = PyUnicode_AsUTF8AndSize(h.ptr(), &n);
  if (!p) {
    PyErr_Clear();
    throw std::invalid_argument("a text of the IR is not a string of Unicode scalar values");
  }
  return {p, static_cast<size_t>(n)};
}

std::vector<Re> read_all(RegexSpace &space, nb::handle list, int depth);

Re read(RegexSpace &space, nb::handle ir, int depth) {
  if (depth > MAX_NESTING) throw LimitError("a regular expression is nested more than 3000 deep");
  if (!PyTuple_Check(ir.ptr()) || nb::len(ir) == 0) throw std::invalid_argument("a regular expression IR is a tuple");
  std::string_view kind = text_of(ir[0]);
  if (kind == "literal") return space.literal(text_of(ir[1]));
  if (kind == "class") {
    std::vector<CodeRange> ranges;
    for (nb::handle r : ir[1]) ranges.push_back({nb::cast<uint32_t>(r[0]), nb::cast<uint32_t>(r[1])});
    return space.text_class(ranges);
  }
  if (kind == "concat") return space.concat(read_all(space, ir[1], depth));
  if (kind == "alternate") return space.alternate(read_all(space, ir[1], depth));
  if (kind == "repeat") {
    Re body = read(space, ir[1], depth + 1);
    nb::object hi = ir[3];
    return space.repeat(body, nb::cast<int64_t>(ir[2]), hi.is_none() ? -1 : nb::cast<int64_t>(hi));
  }
  if (kind == "text") return RegexSpace::ANY_TEXT;
  if (kind == "any") return space.any_char();
  if (kind == "empty") return RegexSpace::EMPTY;
  if (kind == "literals") {
    std::vector<std::string> texts;
    for (nb::handle t : ir[1]) texts.emplace_back(text_of(t));
    return space.literals(texts);
  }
  if (kind == "intersect") return space.intersect(read_all(space, ir[1], depth));
  if (kind == "complement") return space.complement(read(space, ir[1], depth + 1));
  if (kind == "look") {
    Re body = read(space, ir[3], depth + 1);
    bool negative = nb::cast<bool>(ir[2]);
    return nb::cast<bool>(ir[1]) ? space.look_ahead(body, negative) : space.look_behind(body, negative);
  }
  throw std::invalid_argument("unknown regular expression IR: " + std::string(kind));
}

std::vector<Re> read_all(RegexSpace &space, nb::handle list, int depth) {
  std::vector<Re> out;
  for (nb::handle x : list) out.push_back(read(space, x, depth + 1));
  return out;
}

}  // namespace

Re regex_from_ir(RegexSpace &space, nb::handle ir) { return read(space, ir, 0); }

}  // namespace structgen
