// The IR of the front ends is a tree of tuples; equal sub-trees are often one object, which is
// read once (a tree that shares its parts may be exponentially larger than its objects).
#include "bind/regex_ir.h"

#include <string>
#include <unordered_map>

#include "bind/python_source.h"
#include "regex/host_names.h"
#include "regex/numbers.h"
#include "regex/substring.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr int MAX_NESTING = 1'000;
constexpr int64_t MOST_COUNT = INT64_MAX, LAST_CHARACTER = 0x10ffff;

class Reader {
 public:
  explicit Reader(RegexSpace &space) : space_(space) {}

  Re read(const IrPart &ir, int depth) {
    if (depth > MAX_NESTING) throw LimitError("a regular expression is nested more than 1000 deep (limit regex_depth)");
    check_stack("a regular expression is nested too deeply");
    ir.size(1, "a tuple that begins with the kind of a regular expression");
    PyObject *const key = ir.value().ptr();
    if (auto it = seen_.find(key); it != seen_.end()) return it->second;
    const Re r = make(ir, depth);
    seen_.emplace(key, r);
    return r;
  }

 private:
  Re make(const IrPart &ir, int depth) {
    const IrPart first = ir[0];
    const std::string_view kind = first.text();
    if (kind == "literal") return space_.literal(ir[1].text());
    if (kind == "class") return space_.text_class(ranges(ir[1]));
    if (kind == "concat") return space_.concat(read_all(ir[1], depth));
    if (kind == "alternate") return space_.alternate(read_all(ir[1], depth));
    if (kind == "repeat") {
      const Re body = read(ir[1], depth + 1);
      const IrPart most = ir[3];
      const int64_t least = ir[2].integer(0, MOST_COUNT);
      return space_.repeat(body, least, most.is_absent() ? -1 : most.integer(0, MOST_COUNT));
    }
    if (kind == "text") return RegexSpace::ANY_TEXT;
    if (kind == "any") return space_.any_char();
    if (kind == "empty") return RegexSpace::EMPTY;
    if (kind == "literals") {
      const IrPart list = ir[1];
      std::vector<std::string> texts;
      for (size_t i = 0; i < list.size(); ++i) texts.emplace_back(list[i].text());
      return space_.literals(texts);
    }
    if (kind == "number") return number(ir);
    if (kind == "intersect") return space_.intersect(read_all(ir[1], depth));
    if (kind == "complement") return space_.complement(read(ir[1], depth + 1));
    if (kind == "scope") return space_.scope(read(ir[1], depth + 1));
    if (kind == "substring") return substring(ir);
    if (kind == "host_names") return host_names(space_, ir[1].boolean());
    if (kind == "unfold") return unfolding_from_python(space_, ir[1]);
    if (kind == "look") {
      const bool ahead = ir[1].boolean(), negative = ir[2].boolean();
      const Re body = read(ir[3], depth + 1);
      return ahead ? space_.look_ahead(body, negative) : space_.look_behind(body, negative);
    }
    first.fail("is no kind of regular expression: " + std::string(kind));
  }

  // A JSON number: minimum, maximum, the same exclusive, multiple of (texts or None), integral.
  Re number(const IrPart &ir) {
    ir.size(7, "a number: its kind, four bounds, a divisor, whether it is whole");
    NumberBounds bounds;
    std::optional<std::string> *const texts[] = {&bounds.minimum, &bounds.maximum, &bounds.exclusive_minimum,
                                                 &bounds.exclusive_maximum, &bounds.multiple_of};
    for (size_t i = 0; i < 5; ++i)
      if (const IrPart part = ir[i + 1]; !part.is_absent()) *texts[i] = std::string(part.text());
    bounds.integer = ir[6].boolean();
    return number_language(space_, bounds);
  }

  // Neighbouring pieces of a text: the text itself, whose pieces are its characters, or a list of pieces; and whether
  // no piece at all is one, too.
  Re substring(const IrPart &ir) {
    ir.size(3, "a substring: its kind, a text or its pieces, whether it may be empty");
    constexpr size_t MOST_BYTES = size_t{1} << 27;
    const IrPart from = ir[1];
    std::string text;
    std::vector<uint32_t> ends;
    auto check = [&] {
      if (text.size() > MOST_BYTES)
        throw LimitError("the text of a substring has more than 134,217,728 bytes (limit substring_characters)");
    };
    const bool characters = from.is_text();
    if (characters) {
      text = std::string(from.text());
      check();
      for (size_t i = 1; i <= text.size(); ++i)
        if (i == text.size() || (text[i] & 0xc0) != 0x80) ends.push_back(static_cast<uint32_t>(i));
    } else {
      for (size_t i = 0; i < from.size(); ++i) {
        text += from[i].text();
        check();
        ends.push_back(static_cast<uint32_t>(text.size()));
      }
    }
    return substring_language(space_, std::move(text), ends, characters, ir[2].boolean());
  }

  static std::vector<CodeRange> ranges(const IrPart &list) {
    std::vector<CodeRange> out;
    for (size_t i = 0; i < list.size(); ++i) {
      const IrPart range = list[i];
      range.size(2, "a range: its first and its last character");
      const auto low = static_cast<uint32_t>(range[0].integer(0, LAST_CHARACTER));
      const int64_t high = range[1].integer(0, LAST_CHARACTER);
      if (high < low) range.fail("ends before it begins");
      out.push_back({low, static_cast<uint32_t>(high)});
    }
    return out;
  }

  std::vector<Re> read_all(const IrPart &list, int depth) {
    std::vector<Re> out;
    for (size_t i = 0; i < list.size(); ++i) out.push_back(read(list[i], depth + 1));
    return out;
  }

  RegexSpace &space_;
  std::unordered_map<PyObject *, Re> seen_;
};

}  // namespace

Re regex_from_ir(RegexSpace &space, const IrPart &ir) { return space.scope(Reader(space).read(ir, 0)); }

}  // namespace structgen
