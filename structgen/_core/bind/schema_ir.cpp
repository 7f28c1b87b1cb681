#include "bind/schema_ir.h"

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <unordered_set>

#include "bind/grammar_ir.h"
#include "bind/regex_ir.h"
#include "json/nesting.h"
#include "text/json_space.h"
#include "util/stack.h"
#include "util/work.h"
#include "vocabulary/character_bytes.h"

namespace nb = nanobind;

namespace structgen {
namespace {

constexpr uint64_t TEXT_BYTES_PER_UNIT = 32;  // of a string that Python may have to encode, and that is copied here
constexpr uint64_t READ_NODE = 10, READ_KEYWORD = 4;        // units of work, without the lists inside a keyword
constexpr uint32_t MOST_NESTED = 500, MOST_PLANS = 50'000;  // constraints inside each other; in all

std::string_view text_of(nb::handle h) {
  Py_ssize_t n;
  const char *p = PyUnicode_AsUTF8AndSize(h.ptr(), &n);
  if (!p) {
    PyErr_Clear();
    throw std::invalid_argument("text with lone surrogates cannot be generated");
  }
  charge(2 + static_cast<uint64_t>(n) / TEXT_BYTES_PER_UNIT);
  return {p, static_cast<size_t>(n)};
}

uint64_t count_of(nb::handle h) {
  // A count beyond 64 bits never matters, since nothing that large fits in memory.
  int overflow = 0;
  long long x = PyLong_AsLongLongAndOverflow(h.ptr(), &overflow);
  if (overflow > 0) return UNBOUNDED - 1;
  if (x < 0) {
    PyErr_Clear();
    throw std::invalid_argument("a count in the schema IR is not a non-negative integer");
  }
  return static_cast<uint64_t>(x);
}

// Calls `each` for the parts of a tuple or of another sequence. For a tuple, calls `size` with their number first.
template <class Size, class Each>
void for_each_part(nb::handle h, const Size &size, const Each &each) {
  if (!PyTuple_CheckExact(h.ptr())) {
    for (nb::handle x : h) each(x);
    return;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(h.ptr());
  size(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) each(nb::handle(PyTuple_GET_ITEM(h.ptr(), i)));
}

// Calls `read` with each part, and returns the results.
template <class Made, class Read>
std::vector<Made> read_each(nb::handle h, const Read &read) {
  std::vector<Made> out;
  for_each_part(h, [&](size_t count) { out.reserve(count); }, [&](nb::handle x) { out.push_back(read(x)); });
  return out;
}

// Returns `x[0]` and `x[1]`.
std::pair<nb::object, nb::object> pair_of(nb::handle x) {
  if (PyTuple_CheckExact(x.ptr()) && PyTuple_GET_SIZE(x.ptr()) == 2)
    return {nb::borrow(PyTuple_GET_ITEM(x.ptr(), 0)), nb::borrow(PyTuple_GET_ITEM(x.ptr(), 1))};
  return {nb::object(x[0]), nb::object(x[1])};
}

struct NodeReader {
  RegexSpace &space;
  RegexCache &cache;
  size_t size;

  SchemaId id(nb::handle h) const {
    charge();
    auto i = nb::cast<uint32_t>(h);
    if (i >= size) throw std::invalid_argument("schema node id out of range");
    return i;
  }
  std::vector<SchemaId> ids(nb::handle h) const {
    return read_each<SchemaId>(h, [&](nb::handle x) { return id(x); });
  }
  std::vector<std::vector<SchemaId>> id_lists(nb::handle h) const {
    return read_each<std::vector<SchemaId>>(h, [&](nb::handle x) {
      charge(2);
      return ids(x);
    });
  }
  std::vector<std::string> texts(nb::handle h) const {
    return read_each<std::string>(h, [](nb::handle x) {
      charge();  // for its slot in the list, which is allocated at once
      return std::string(text_of(x));
    });
  }
};

using Handler = void (*)(const NodeReader &, SchemaNode &, nb::handle);

const std::unordered_map<std::string_view, Handler> HANDLERS = {
    {"pointer", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.pointer = text_of(v); }},
    {"types", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.types = nb::cast<uint8_t>(v) & ALL_TYPES; }},
    {"integer",
     [](const NodeReader &, SchemaNode &n, nb::handle v) { n.has_number |= n.number.integer = nb::cast<bool>(v); }},
    {"digits", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.digits = nb::cast<bool>(v); }},
    {"strings",
     [](const NodeReader &r, SchemaNode &n, nb::handle v) {
       n.has_values = true;
       n.strings = r.texts(v);
     }},
    {"numbers",
     [](const NodeReader &r, SchemaNode &n, nb::handle v) {
       n.has_values = true;
       n.numbers = r.texts(v);
     }},
    {"literals",
     [](const NodeReader &, SchemaNode &n, nb::handle v) {
       n.has_values = true;
       for (nb::handle x : v) {
         std::string_view t = text_of(x);
         n.literals |= t == "null" ? 1 : t == "true" ? 2 : 4;
       }
     }},
    {"values",
     [](const NodeReader &r, SchemaNode &n, nb::handle v) {
       n.has_values = true;
       n.values = r.ids(v);
     }},
    {"minimum",
     [](const NodeReader &, SchemaNode &n, nb::handle v) {
       n.number.minimum = text_of(v);
       n.has_number = true;
     }},
    {"exclusiveMinimum",
     [](const NodeReader &, SchemaNode &n, nb::handle v) {
       n.number.exclusive_minimum = text_of(v);
       n.has_number = true;
     }},
    {"maximum",
     [](const NodeReader &, SchemaNode &n, nb::handle v) {
       n.number.maximum = text_of(v);
       n.has_number = true;
     }},
    {"exclusiveMaximum",
     [](const NodeReader &, SchemaNode &n, nb::handle v) {
       n.number.exclusive_maximum = text_of(v);
       n.has_number = true;
     }},
    {"multipleOf",
     [](const NodeReader &, SchemaNode &n, nb::handle v) {
       n.number.multiple_of = text_of(v);
       n.has_number = true;
     }},
    {"minLength", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.min_length = count_of(v); }},
    {"maxLength", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.max_length = count_of(v); }},
    {"pattern", [](const NodeReader &r, SchemaNode &n,
                   nb::handle v) { n.languages.push_back(r.cache.convert(r.space, {v, "the pattern"})); }},
    {"format", [](const NodeReader &r, SchemaNode &n,
                  nb::handle v) { n.languages.push_back(r.cache.convert(r.space, {v, "the format"})); }},
    {"prefixItems", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.prefix_items = r.ids(v); }},
    {"items", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.items = r.id(v); }},
    {"contains", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.contains = r.id(v); }},
    {"minContains", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.min_contains = count_of(v); }},
    {"maxContains", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.max_contains = count_of(v); }},
    {"uniqueItems", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.unique_items = nb::cast<bool>(v); }},
    {"minItems", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.min_items = count_of(v); }},
    {"maxItems", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.max_items = count_of(v); }},
    {"properties",
     [](const NodeReader &r, SchemaNode &n, nb::handle v) {
       n.properties = read_each<std::pair<std::string, SchemaId>>(v, [&](nb::handle x) {
         charge(4);
         const auto [name, id] = pair_of(x);
         return std::pair{std::string(text_of(name)), r.id(id)};
       });
     }},
    {"patternProperties",
     [](const NodeReader &r, SchemaNode &n, nb::handle v) {
       for (nb::handle x : v) {
         charge(4);
         n.pattern_properties.emplace_back(r.cache.convert(r.space, {nb::object(x[0]), "the pattern"}), r.id(x[1]));
       }
     }},
    {"additionalProperties",
     [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.additional_properties = r.id(v); }},
    {"propertyNames", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.property_names = r.id(v); }},
    {"required", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.required = r.texts(v); }},
    {"minProperties", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.min_properties = count_of(v); }},
    {"maxProperties", [](const NodeReader &, SchemaNode &n, nb::handle v) { n.max_properties = count_of(v); }},
    {"allOf", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.all_of = r.ids(v); }},
    {"anyOf", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.any_of = r.id_lists(v); }},
    {"oneOf", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.one_of = r.id_lists(v); }},
    {"not", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.nots = r.ids(v); }},
    {"ref", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.refs = r.ids(v); }},
    {"if", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.if_ = r.id(v); }},
    {"then", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.then_ = r.id(v); }},
    {"else", [](const NodeReader &r, SchemaNode &n, nb::handle v) { n.else_ = r.id(v); }},
};

// ("flexible", blanks, indentation), ("written", indent or None, spaces before and after ',' and ':'), or
// ("table", the states where gaps begin, rows). A row has the next states after ' ', '\t', '\n' and '\r', and whether a
// value and a closing bracket may follow.
void read_whitespace(nb::handle ir, JsonOptions &o) {
  const std::string_view kind = text_of(ir[0]);
  if (kind == "flexible") {
    o.max_inline = nb::cast<uint32_t>(ir[1]);
    o.max_indent = nb::cast<uint32_t>(ir[2]);
    if (o.max_inline >= SPACE_RETURN || o.max_indent >= SPACE_CLOSED - SPACE_INDENT)
      throw std::invalid_argument("white space without a bound");
    return;
  }
  if (kind == "table") {
    o.whitespace = Whitespace::Table;
    for (nb::handle columns : nb::cast<nb::list>(nb::list(ir[2]))) {
      SpaceRow row;
      for (int i = 0; i < 4; ++i) {
        const int next = nb::cast<int>(columns[i]);
        row.next[i] = next < 0 ? SpaceRow::NONE : static_cast<uint16_t>(next);
      }
      row.goes_on = nb::cast<bool>(columns[4]);
      row.closes = nb::cast<bool>(columns[5]);
      o.rows.push_back(row);
    }
    if (o.rows.size() < 2 || o.rows.size() >= SPACE_RETURN)
      throw std::invalid_argument("white space with too many states");
    for (int i = 0; i < 6; ++i) o.gap_starts[i] = nb::cast<uint16_t>(ir[1][i]);
    for (const SpaceRow &row : o.rows)
      for (uint16_t next : row.next)
        if (next != SpaceRow::NONE && next >= o.rows.size())
          throw std::invalid_argument("white space has no such state");
    for (uint16_t start : o.gap_starts)
      if (start >= o.rows.size()) throw std::invalid_argument("white space has no such state");
    return;
  }
  if (kind != "written") throw std::invalid_argument("unknown whitespace policy: " + std::string(kind));
  o.whitespace = Whitespace::Written;
  nb::object indent = ir[1];
  if (!indent.is(nb::none())) {
    o.lines = true;
    o.indent = std::string(text_of(indent));
  }
  uint8_t *const spaces[] = {&o.before_comma, &o.after_comma, &o.before_colon, &o.after_colon};
  for (int i = 0; i < 4; ++i) {
    *spaces[i] = nb::cast<uint8_t>(ir[i + 2]);
    if (*spaces[i] >= SPACE_LINE - SPACE_OWED) throw std::invalid_argument("too many spaces around a separator");
  }
}

JsonOptions read_options(nb::dict options) {
  JsonOptions o;
  for (auto [key, value] : options) {
    std::string_view name = text_of(key);
    if (name == "whitespace") {
      read_whitespace(value, o);
    } else if (name == "escapes") {
      o.escapes = text_of(value) == "all" ? Escapes::All : Escapes::Canonical;
    } else if (name == "integers") {
      o.integer_digits = text_of(value) == "digits";
    } else if (name == "ordered") {
      o.ordered = nb::cast<bool>(value);
    } else {
      throw std::invalid_argument("unknown JSON option: " + std::string(name));
    }
  }
  return o;
}

// Calls `read` for a part of a schema. If the part has an unexpected shape, throws an error with its name, `part()`.
template <class Part, class Read>
auto read_checked(const Part &part, const Read &read) {
  auto malformed = [&] {
    return std::invalid_argument("malformed IR: " + part() + " has another shape than the core expects");
  };
  try {
    return read();
  } catch (const nb::cast_error &) {
    throw malformed();
  } catch (nb::python_error &error) {
    for (PyObject *shape : {PyExc_TypeError, PyExc_LookupError, PyExc_ValueError, PyExc_ArithmeticError})
      if (error.matches(shape)) throw malformed();
    throw;
  }
}

Schema read_schema(nb::handle ir, TextSpace &space, RegexCache &cache) {
  Schema schema;
  nb::dict d = nb::cast<nb::dict>(ir);
  nb::object nodes = d["nodes"];
  const size_t count = nb::len(nodes);
  // subtle: nodes are large, so they are made one by one. If a limit ends the reading, few of them must be destroyed.
  schema.nodes.reserve(count);
  schema.root = nb::cast<uint32_t>(d["root"]);
  if (schema.root >= count) throw std::invalid_argument("schema root out of range");
  if (d.contains("options")) schema.options = read_options(nb::cast<nb::dict>(d["options"]));
  NodeReader reader{space.regex(), cache, count};
  for (nb::handle h : nodes) {
    charge(READ_NODE);
    SchemaNode &n = schema.nodes.emplace_back();
    if (PyBool_Check(h.ptr())) {
      n.boolean = h.ptr() == Py_True;
      continue;
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    if (!PyDict_Check(h.ptr())) throw std::invalid_argument("a schema node is neither a boolean nor a dict");
    while (PyDict_Next(h.ptr(), &position, &key, &value)) {
      charge(READ_KEYWORD);
      auto it = HANDLERS.find(text_of(key));
      if (it == HANDLERS.end())
        throw std::invalid_argument("the core does not know the keyword " + std::string(text_of(key)) + " at " +
                                    n.pointer);
      read_checked([&] { return "the keyword " + std::string(it->first) + " at " + n.pointer; },
                   [&] { it->second(reader, n, value); });
    }
    if (n.values.size() > space.limits().listed_containers)
      throw LimitError("enum lists " + std::to_string(n.values.size()) + " arrays and objects at " + n.pointer + "; " +
                       std::to_string(space.limits().listed_containers) + " are read (limit listed_containers)");
  }
  if (schema.nodes.size() != count)
    throw std::invalid_argument("malformed IR: the list of nodes changed while it was read");
  return schema;
}

// Finds expressions that may need a control character that no token contains. JSON strings can escape every control
// character, so the space treats all of them as spellable. Outside JSON, the characters that no token contains must be
// removed from the language. That matters only if an expression may *need* one of them: otherwise each of its leaves
// keeps a character that can be written, and every live state stays live.
class MissingControls {
 public:
  explicit MissingControls(const std::bitset<256> &spellable) : spellable_(spellable) {}

  bool may_be_needed(nb::handle ir, int depth = 0) {
    charge(4);
    if (depth > 500 || stack_is_short()) return true;
    if (!seen_.insert(ir.ptr()).second) return false;  // subtle: the first visit returned false, or is still running
    const std::string_view kind = text_of(ir[0]);
    if (kind == "literal") return holds_one(ir[1]);
    if (kind == "literals") {
      for (nb::handle t : ir[1])
        if (holds_one(t)) return true;
      return false;
    }
    if (kind == "class") {
      for (nb::handle r : ir[1]) {
        charge(4);
        auto hi = nb::cast<uint32_t>(r[1]);
        if (hi >= 0x20) return false;
        for (auto c = nb::cast<uint32_t>(r[0]); c <= hi; ++c)
          if (spellable_.test(c)) return false;
      }
      return true;
    }
    if (kind == "concat" || kind == "alternate") {
      for (nb::handle x : ir[1])
        if (may_be_needed(x, depth + 1)) return true;
      return false;
    }
    if (kind == "repeat") return may_be_needed(ir[1], depth + 1);
    return kind == "complement" || kind == "intersect" || kind == "look";
  }

 private:
  bool holds_one(nb::handle text) const {
    const std::string_view t = text_of(text);
    return std::any_of(t.begin(), t.end(), [&](char c) { return !spellable_.test(static_cast<unsigned char>(c)); });
  }

  const std::bitset<256> &spellable_;
  std::unordered_set<PyObject *> seen_;  // a part that occurs several times is often one object
};

Schema checked_schema(const IrPart &ir, TextSpace &space, RegexCache &cache) {
  Schema schema = read_checked([] { return std::string("the JSON Schema"); },
                               [&] { return read_schema(ir.value(), space, cache); });
  space.prepare_host_names();
  return schema;
}

Re without_missing_controls(Re re, nb::handle ir, TextSpace &space) {
  const std::bitset<256> &spellable = space.vocabulary().spellable();
  std::vector<CodeRange> kept;
  for (uint32_t c = 0; c < 0x20; ++c)
    if (spellable.test(c)) kept.push_back({c, c});
  if (kept.size() == 0x20 || !MissingControls(spellable).may_be_needed(ir)) return re;
  kept.push_back({0x20, 0x10ffff});
  RegexSpace &regex = space.regex();
  return regex.intersect(re, regex.repeat(regex.text_class(kept), 0, -1));
}

}  // namespace

Re RegexCache::convert(RegexSpace &space, const IrPart &ir) {
  if (auto it = known_.find(ir.value().ptr()); it != known_.end()) return it->second;
  Re re = regex_from_ir(space, ir);
  known_.emplace(ir.value().ptr(), re);
  kept_.push_back(nb::borrow(ir.value()));
  return re;
}

namespace {

Plan::Texts texts_of(const Plan &plan, RegexSpace &regex) {
  auto of = [](const std::unique_ptr<Plan> &a, const std::unique_ptr<Plan> &b) { return a->texts < b->texts; };
  switch (plan.kind) {
    case Plan::Regex:
      if (!regex.nullable(plan.re)) return regex.alive(plan.re) ? Plan::Some : Plan::None;
      return regex.alive(regex.intersect(plan.re, regex.complement(RegexSpace::EPSILON))) ? Plan::Some : Plan::Empty;
    case Plan::Json: return plan.json->root()->first.none() ? Plan::None : Plan::Some;
    case Plan::Grammar: return plan.grammar->empty() ? Plan::None : Plan::Some;
    case Plan::Sequence:
      if ((*std::min_element(plan.parts.begin(), plan.parts.end(), of))->texts == Plan::None) return Plan::None;
      return (*std::max_element(plan.parts.begin(), plan.parts.end(), of))->texts;
    case Plan::Union: return (*std::max_element(plan.parts.begin(), plan.parts.end(), of))->texts;
  }
  return Plan::Some;
}

// Is every text complete after each of its characters? Then it is complete wherever it is cut. May return false
// although it is.
bool ends_anywhere(const Plan &plan, RegexSpace &regex) {
  constexpr size_t MOST = 100;  // states to search; the texts over a set of characters need about a dozen
  if (plan.kind != Plan::Regex || !regex.nullable(plan.re)) return false;
  std::set<std::pair<Re, uint8_t>> known{{plan.re, 0}};
  std::vector<std::pair<Re, uint8_t>> pending{{plan.re, 0}};
  while (!pending.empty()) {
    const auto [re, lacking] = pending.back();
    pending.pop_back();
    if (known.size() > MOST || (lacking == 0 && !regex.nullable(re))) return false;
    const Row &row = regex.row(re);
    for (size_t byte = 0; byte < row.size(); ++byte) {
      if (row[byte] == RegexSpace::EMPTY) continue;
      const char c = static_cast<char>(byte);
      const std::pair next{row[byte], lacking_after(lacking, {&c, 1})};
      if (known.insert(next).second) pending.push_back(next);
    }
  }
  return true;
}

// Plans own their parts, so a part that occurs in the IR several times is read each time.
class PlanReader {
 public:
  PlanReader(TextSpace &space, RegexCache &cache) : space_(space), cache_(cache) {}

  // `depth`: the depth of the plan's first frame; `nested`: the number of constraints around it.
  std::unique_ptr<Plan> read(const IrPart &ir, int32_t depth, uint32_t nested) {
    std::unique_ptr<Plan> plan = read_plan(ir, depth, nested);
    if (nested > 0) plan->texts = texts_of(*plan, space_.regex());
    return plan;
  }

 private:
  std::unique_ptr<Plan> read_plan(const IrPart &ir, int32_t depth, uint32_t nested);
  Re read_regex(const IrPart &ir) {
    return without_missing_controls(cache_.convert(space_.regex(), ir), ir.value(), space_);
  }
  void read_json(Plan &plan, const IrPart &ir, int32_t depth);
  void read_counted(Plan &plan, const IrPart &ir, int32_t depth, uint32_t nested);

  TextSpace &space_;
  RegexCache &cache_;
  uint32_t plans_ = 0;
};

void PlanReader::read_json(Plan &plan, const IrPart &ir, int32_t depth) {
  plan.kind = Plan::Json;
  Schema schema = checked_schema(ir, space_, cache_);
  if (applies_itself(schema))
    throw std::invalid_argument(
        "malformed IR: a node of the JSON Schema leads back to itself without looking at the value");
  schema.options.root_depth = depth;
  plan.json = std::make_unique<JsonControl>(std::move(schema), space_);
  const Schema &read = plan.json->schema();
  const uint32_t most = space_.limits().max_depth;
  if (read.nodes.size() > most)  // each level of containers has a sub-schema of its own
    if (const uint32_t needed = least_nesting(read); needed > most)
      throw LimitError("every value of the schema has containers inside each other, at least " +
                       std::to_string(needed) + " deep; " + std::to_string(most) + " may be open (limit max_depth)");
  plan.json->prepare_first_key();
}

void PlanReader::read_counted(Plan &plan, const IrPart &ir, int32_t depth, uint32_t nested) {
  ir.size(4, "a part with a count: the constraint, its tokens, whether it is cut, and what is enough then");
  plan.kind = Plan::Sequence;
  plan.parts.push_back(read(ir[0], depth + 1, nested + 1));
  if (!ir[3].is_absent()) {
    auto enough = std::make_unique<Plan>(), both = std::make_unique<Plan>();
    enough->kind = Plan::Sequence;
    enough->at_limit = true;
    enough->parts.push_back(read(ir[3], depth + 2, nested + 2));
    enough->texts = texts_of(*enough, space_.regex());
    both->kind = Plan::Union;
    both->parts.push_back(std::move(plan.parts[0]));
    both->parts.push_back(std::move(enough));
    both->texts = texts_of(*both, space_.regex());
    plan.parts[0] = std::move(both);
  }
  const auto most = static_cast<uint64_t>(ir[1].integer(0, UINT32_MAX));
  const bool cuts = ir[2].boolean();
  const Plan &part = *plan.parts[0];
  if (most == 0 && (cuts || has_empty_text(part, space_.regex()))) {
    plan.kind = Plan::Regex;
    plan.parts.clear();
    plan.re = RegexSpace::EPSILON;
    return;
  }
  plan.max_tokens = std::max<uint64_t>(most, 1);  // a part without the empty text needs a token
  plan.cuts = cuts && !ends_anywhere(part, space_.regex());
}

std::unique_ptr<Plan> PlanReader::read_plan(const IrPart &ir, int32_t depth, uint32_t nested) {
  if (nested > MOST_NESTED)
    throw LimitError("constraints are nested more than " + std::to_string(MOST_NESTED) +
                     " deep (limit constraint_depth)");
  if (++plans_ > MOST_PLANS)
    throw LimitError("more than " + std::to_string(MOST_PLANS) +
                     " constraints are joined in one (limit constraint_parts); "
                     "a constraint that stands in several places counts in each");
  check_stack("constraints are nested too deeply");
  if (ir.size() != 2) ir.fail("is not a pair: the kind of a constraint, and its content");
  const IrPart first = ir[0], content = ir[1];
  const std::string_view kind = first.text();
  auto plan = std::make_unique<Plan>();
  if (kind == "regex") {
    plan->kind = Plan::Regex;
    plan->re = read_regex(content);
    return plan;
  }
  if (kind == "json") {
    read_json(*plan, content, depth);
    return plan;
  }
  if (kind == "grammar") {
    plan->kind = Plan::Grammar;
    // A grammar's regular expressions become terminals, so they get no plan and no frame.
    plan->grammar = grammar_from_ir(
        content, space_, [&](const IrPart &part) { return read_regex(part); },
        [&](const IrPart &part) { return read(part, depth + 1, nested + 1); });
    return plan;
  }
  if (kind == "counted") {
    read_counted(*plan, content, depth, nested);
    return plan;
  }
  if (kind != "sequence" && kind != "union") first.fail("is no kind of constraint: " + std::string(kind));
  plan->kind = kind == "sequence" ? Plan::Sequence : Plan::Union;
  if (plan->kind == Plan::Sequence) ++depth;  // it has a frame of its own
  const size_t parts = content.size(1, "a list of constraints, which has at least one");
  for (size_t i = 0; i < parts; ++i) plan->parts.push_back(read(content[i], depth, nested + 1));
  return plan;
}

}  // namespace

std::unique_ptr<Plan> plan_from_ir(const IrPart &ir, TextSpace &space, RegexCache &cache) {
  return PlanReader(space, cache).read(ir, 0, 0);
}

}  // namespace structgen
