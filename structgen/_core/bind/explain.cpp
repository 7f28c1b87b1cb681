#include "bind/explain.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <bitset>
#include <span>
#include <string>
#include <vector>

#include "automaton/grammar_steps.h"
#include "automaton/seen_keys.h"
#include "automaton/token_counts.h"
#include "automaton/token_steps.h"
#include "bind/gil.h"

namespace nb = nanobind;

namespace structgen {
namespace {

struct Rule {
  std::string pointer, keyword, detail;
};

struct Explanation {
  size_t offset = 0;
  bool complete = false;
  std::string place = "end";
  std::vector<std::pair<std::string, int64_t>> path;  // key, or index when >= 0
  std::vector<std::string> schemas, keys, missing;
  std::vector<Rule> rules;
  std::string next;
  bool is_grammar = false;
  bool expects_tokens = false;  // a token that is read whole may come
  bool bounded = false;         // the text must be in a regular language, too
  std::vector<std::string> terminals, within;
  std::bitset<256> begins;
  bool optional_space = true;  // white space between tokens may be left out
};

std::string decoded(std::string_view raw) {
  std::string out;
  uint32_t escape = 0;
  for (unsigned char c : raw) {
    Decoded d = decode(escape, c, Escapes::All);
    if (d.kind == Decoded::Dead || d.kind == Decoded::Quote) break;
    for (int i = 0; i < d.size; ++i) out += static_cast<char>(d.bytes[i]);
    escape = d.escape;
  }
  return out;
}

class Explainer {
 public:
  Explainer(Automaton &a, StepContext &ctx) : a_(a), ctx_(ctx) {}

  Explanation explain(const Frame *n, std::string_view text) {
    size_t i = 0, begin = 0;  // `begin`: where the text of the scalar, string or key on top began
    std::vector<std::pair<int32_t, std::pair<std::string, int64_t>>> path;  // by depth
    for (; n && i < text.size(); ++i) {
      charge();
      count_byte_as_token(ctx_, i);
      const Frame *next = with_cuts(a_, ctx_, a_.step(ctx_, n, static_cast<uint8_t>(text[i])), i + 1);
      if (!next) break;
      if (next->kind != n->kind || next->depth != n->depth) begin = is<ScalarFrame>(next) ? i : i + 1;
      while (!path.empty() && path.back().first >= next->depth) path.pop_back();
      if (is<KeyFrame>(n) && is<ObjectFrame>(next)) key_ = decoded(text.substr(key_begin_, i - key_begin_));
      if (is<KeyFrame>(next) && !is<KeyFrame>(n)) key_begin_ = i + 1;
      if (const auto *around = as_if<ContainerFrame>(next->parent); around && around->phase == Phase::InValue) {
        const auto *array = as_if<ArrayFrame>(around);
        const int64_t index = array ? static_cast<int64_t>(array->count) - 1 : -1;
        if (path.empty() || path.back().first < around->depth)
          path.push_back({around->depth, {array ? "" : key_, index}});
        else if (array && path.back().first == around->depth) path.back().second.second = index;  // the next item
      }
      if (const auto *container = as_if<ContainerFrame>(next); container && container->phase != Phase::InValue)
        while (!path.empty() && path.back().first >= next->depth) path.pop_back();
      n = next;
    }
    Explanation out;
    out.offset = i;
    for (auto &p : path) out.path.push_back(p.second);
    if (!n) return out;
    out.complete = a_.accepts(ctx_, n);
    out.expects_tokens = !expected_token_sets(a_, ctx_, n).empty();
    for (int b = 0; b < 256; ++b)
      if (a_.step(ctx_, n, static_cast<uint8_t>(b))) out.next += static_cast<char>(b);
    each_alternative(n, [&](const Frame *parse) {
      if (const auto *frame = as_if<GrammarFrame>(parse)) report_grammar(*frame, out);
    });
    while (const auto *list = as_if<AlternativesFrame>(n)) n = list->first;
    if (const auto *json = as_if<JsonFrame>(n); json && json->json)
      out.optional_space = json->options().whitespace != Whitespace::Written;
    std::string_view so_far = text.substr(std::min(begin, i), i - std::min(begin, i));
    int next_byte = i < text.size() ? static_cast<unsigned char>(text[i]) : -1;
    report_frame(n, so_far, next_byte, out);
    report_nesting(n, next_byte, out);
    // A number or literal may be correct although the byte after it is wrong in its array or object.
    const auto *scalar = as_if<ScalarFrame>(n);
    if (scalar && n->parent && a_.text().complete(scalar->text) &&
        (next_byte == ',' || next_byte == ']' || next_byte == '}')) {
      ctx_.item_text = scalar->item_text;
      const Frame *after = a_.finish(ctx_, n->parent);
      if (as_if<ContainerFrame>(after)) {
        if (!out.path.empty()) out.path.pop_back();
        report_frame(after, {}, next_byte, out);
      }
    }
    return out;
  }

 private:
  void report_frame(const Frame *n, std::string_view so_far, int next_byte, Explanation &out) {
    switch (n->kind) {
      case FrameKind::Value: report_value(*as<ValueFrame>(n)->json, as<ValueFrame>(n)->control, out); break;
      case FrameKind::String: report_string(*as<StringFrame>(n), so_far, next_byte, out); break;
      case FrameKind::Scalar: report_scalar(*as<ScalarFrame>(n), so_far, next_byte, out); break;
      case FrameKind::Object: report_object(*as<ObjectFrame>(n), next_byte, out); break;
      case FrameKind::Key: report_key(*as<KeyFrame>(n), so_far, next_byte, out); break;
      case FrameKind::Array: report_array(*as<ArrayFrame>(n), next_byte, out); break;
      case FrameKind::Grammar: out.place = "text"; break;
      default: break;
    }
  }

  // Reports the limit on open containers, if it alone refuses the next bracket or leaves nothing that may follow.
  void report_nesting(const Frame *n, int next_byte, Explanation &out) {
    const auto *array = as_if<ArrayFrame>(n);
    const bool is_item = array && (array->phase == Phase::Open || array->phase == Phase::AfterComma);
    if (!is<ValueFrame>(n) && !is_item) return;
    const uint32_t most = a_.text().limits().max_depth;
    const bool opens = next_byte == '[' || next_byte == '{';
    if (static_cast<uint32_t>(n->depth + is_item) < most) return;
    const bool is_stuck = out.next.find_first_not_of(out.optional_space ? " \t\r\n" : "") == out.next.npos;
    if (!opens && (next_byte >= 0 || !is_stuck)) return;
    const ItemControl *item = is_item ? array->json->arrays().next_item(array->control, array->count) : nullptr;
    if (is_item && !item) return;
    const ValueControl *value = is_item ? item->child : as<ValueFrame>(n)->control;
    if (opens ? !value->first.test(static_cast<size_t>(next_byte)) : value->first.none()) return;
    out.rules.assign(1, {"", "max_depth", std::to_string(most)});
  }

  // Reports the terminals that may begin and the lexemes that are running, by the names of the grammar.
  void report_grammar(const GrammarFrame &frame, Explanation &out) {
    GrammarControl &g = *frame.grammar;
    out.is_grammar = true;
    for (const GrammarEntry &entry : frame.entries()) {
      out.bounded |= entry.outer != ANYTHING;
      if (entry.lex == Lexer::FRESH || !g.lexer().ignored_ends(entry.lex).empty()) report_position(g, entry, out);
      if (entry.lex == Lexer::FRESH) continue;
      for (const Lexer::Running &running : g.lexer().running(entry.lex)) {
        if (g.lexemes().complete(running.lexeme) || g.lexer().ignores(running.terminal)) continue;
        out.begins |= g.lexemes().first(running.lexeme);
        add(out.within, g.grammar().terminals[running.terminal].name);
        report_rules(g, entry, out);
      }
      for (const Lexer::End &end : g.lexer().ends(entry.lex)) {
        GrammarEntry after;
        if (after_terminal(ctx_, g, entry, end.terminal, &after)) report_position(g, after, out);
      }
    }
  }

  // Reports the terminals that may begin at a position, and the rules that are being parsed there.
  void report_position(GrammarControl &g, const GrammarEntry &at, Explanation &out) {
    for (uint32_t t : g.items().expected(at.set->outlook)) {
      const GrammarTerminal &terminal = g.grammar().terminals[t];
      if (at.brackets == 0 && g.bracket(t) < 0) continue;
      if (at.outer != ANYTHING &&
          !g.liveness().is_lexeme_live(at.set, at.brackets, t, g.liveness().plain(t), at.outer, nullptr, ctx_.arena))
        continue;
      if (!terminal.name.empty()) add(out.terminals, terminal.name);
      else if (terminal.kind == GrammarTerminal::Text) out.begins |= g.lexemes().first_of(terminal.language);
    }
    report_rules(g, at, out);
  }

  // Reports the rules that are being parsed at a position.
  void report_rules(GrammarControl &g, const GrammarEntry &at, Explanation &out) {
    for (const Kernel kernel : std::span(at.set->kernels, at.set->count))
      for (const Item item : g.items().items(kernel))
        if (const uint32_t rule = g.items().head(item); rule < g.grammar().rules.size())
          add(out.within, g.grammar().rules[rule]);
  }

  static void add(std::vector<std::string> &to, const std::string &name) {
    if (!name.empty() && std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
  }

  std::vector<SchemaId> applying(const JsonControl &json, const ValueControl *v) {
    std::vector<SchemaId> all, todo = json.schemas_of(v->obligation);
    const Schema &s = json.schema();
    // The schemas of references and applicators that apply to the same value.
    while (!todo.empty()) {
      charge();
      SchemaId id = todo.back();
      todo.pop_back();
      if (std::find(all.begin(), all.end(), id) != all.end() || all.size() > 200) continue;
      all.push_back(id);
      const SchemaNode &node = s.nodes[id];
      for (auto &list : {node.all_of, node.refs}) todo.insert(todo.end(), list.begin(), list.end());
      for (auto &branches : node.any_of) todo.insert(todo.end(), branches.begin(), branches.end());
      for (auto &branches : node.one_of) todo.insert(todo.end(), branches.begin(), branches.end());
    }
    return all;
  }

  void report_value(const JsonControl &json, const ValueControl *v, Explanation &out) {
    out.place = "value";
    for (SchemaId id : applying(json, v)) {
      const SchemaNode &s = json.schema().nodes[id];
      out.schemas.push_back(s.pointer);
      if (s.has_values) out.rules.push_back({s.pointer, "enum", ""});
      else if (s.types != ALL_TYPES) out.rules.push_back({s.pointer, "type", types(s)});
    }
  }

  static std::string types(const SchemaNode &s) {
    static const char *const NAMES[] = {"null", "boolean", "object", "array", "number", "string"};
    std::string out;
    for (int t = 0; t < TYPE_COUNT; ++t)
      if (s.types >> t & 1) {
        if (!out.empty()) out += " or ";
        out += t == 4 && s.number.integer ? "integer" : NAMES[t];
      }
    return out;
  }

  bool language_takes(Re re, std::string_view text) {
    RegexSpace &space = a_.text().regex();
    for (unsigned char c : text) re = space.row(re)[c];
    return re != RegexSpace::EMPTY;
  }

  static uint64_t characters(std::string_view text) {
    return static_cast<uint64_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  }

  void report_string(const StringFrame &n, std::string_view so_far, int next_byte, Explanation &out) {
    out.place = "string";
    const bool closing = next_byte == '"';
    std::string text = decoded(so_far);
    if (next_byte >= 0x20 && !closing && next_byte != '\\') text += static_cast<char>(next_byte);
    RegexSpace &space = a_.text().regex();
    for (SchemaId id : applying(*n.json, n.control)) {
      const SchemaNode &s = n.json->schema().nodes[id];
      out.schemas.push_back(s.pointer);
      uint64_t length = characters(text);
      if (length > s.max_length) out.rules.push_back({s.pointer, "maxLength", std::to_string(s.max_length)});
      if (closing && length < s.min_length) out.rules.push_back({s.pointer, "minLength", std::to_string(s.min_length)});
      for (Re re : s.languages)
        if (closing ? !space.matches(re, text) : !language_takes(re, text))
          out.rules.push_back({s.pointer, "pattern or format", ""});
      if (s.has_values) {
        bool any = std::any_of(s.strings.begin(), s.strings.end(),
                               [&](const std::string &v) { return closing ? v == text : v.starts_with(text); });
        if (!any) out.rules.push_back({s.pointer, "enum", ""});
      }
    }
  }

  void report_scalar(const ScalarFrame &n, std::string_view so_far, int next_byte, Explanation &out) {
    if (!n.json) {
      out.place = "text";
      return;
    }
    out.place = "number";
    if (!so_far.empty() && so_far[0] >= 'f') out.place = "literal";
    static constexpr std::string_view NUMBER_BYTES = "0123456789+-.eE";
    const bool continues = next_byte >= 0 && NUMBER_BYTES.find(static_cast<char>(next_byte)) != NUMBER_BYTES.npos;
    std::string text(so_far);
    if (continues) text += static_cast<char>(next_byte);
    RegexSpace &space = a_.text().regex();
    for (SchemaId id : applying(*n.json, n.control)) {
      const SchemaNode &s = n.json->schema().nodes[id];
      out.schemas.push_back(s.pointer);
      if (out.place != "number") continue;
      auto breaks = [&](Re re) { return continues ? !language_takes(re, text) : !space.matches(re, text); };
      auto check = [&](const char *keyword, const std::string &detail, const NumberBounds &only) {
        if (breaks(number_language(space, only))) out.rules.push_back({s.pointer, keyword, detail});
      };
      struct Bound {
        const char *keyword;
        std::optional<std::string> NumberBounds::*member;
      };
      static constexpr Bound BOUNDS[] = {{"minimum", &NumberBounds::minimum},
                                         {"maximum", &NumberBounds::maximum},
                                         {"exclusiveMinimum", &NumberBounds::exclusive_minimum},
                                         {"exclusiveMaximum", &NumberBounds::exclusive_maximum},
                                         {"multipleOf", &NumberBounds::multiple_of}};
      for (const Bound &bound : BOUNDS)
        if (const std::optional<std::string> &value = s.number.*bound.member) {
          NumberBounds only;
          only.*bound.member = value;
          check(bound.keyword, *value, only);
        }
      if (s.number.integer) {
        NumberBounds only;
        only.integer = true;
        check("type", "integer", only);
      }
      if (s.has_values) {
        bool any = std::any_of(s.numbers.begin(), s.numbers.end(),
                               [&](const std::string &d) { return !breaks(number_equal(space, d)); });
        if (!any) out.rules.push_back({s.pointer, "enum", ""});
      }
    }
  }

  void report_object(const ObjectFrame &n, int next_byte, Explanation &out) {
    out.place = "object";
    const ObjectControl &o = *n.control;
    const KeyUniverse &u = *o.universe;
    for (SchemaId g : o.groups) {
      const SchemaNode &s = n.json->schema().nodes[g];
      out.schemas.push_back(s.pointer);
      for (const std::string &name : s.required)
        if (!bit(n.seen_declared, static_cast<uint32_t>(u.find(name)))) {
          if (std::find(out.missing.begin(), out.missing.end(), name) == out.missing.end()) out.missing.push_back(name);
          if (next_byte == '}') out.rules.push_back({s.pointer, "required", name});
        }
      if (next_byte == '}' && n.key_count < s.min_properties)
        out.rules.push_back({s.pointer, "minProperties", std::to_string(s.min_properties)});
      if (next_byte == ',' && n.key_count >= s.max_properties)
        out.rules.push_back({s.pointer, "maxProperties", std::to_string(s.max_properties)});
    }
    report_keys(n, 0, static_cast<uint32_t>(u.keys.size()), out);
  }

  // Reports the keys of the universe from index `begin` to `end` that may come.
  void report_keys(const ObjectFrame &object, uint32_t begin, uint32_t end, Explanation &out) {
    const KeyUniverse &u = *object.control->universe;
    Bits allowed(u.words() + 1);
    object.json->objects().allowed_keys(object.control, object.view(), allowed.data());
    for (uint32_t i = begin; i < end; ++i)
      if (bit(allowed.data(), i)) out.keys.push_back(u.keys[i]);
  }

  void report_key(const KeyFrame &n, std::string_view so_far, int next_byte, Explanation &out) {
    out.place = "key";
    const ObjectFrame &object = *n.object();
    std::string text = decoded(so_far);
    report_keys(object, n.match_begin, n.match_end, out);
    const KeyUniverse &u = *object.control->universe;
    int64_t i = u.find(text);
    const bool closing = next_byte == '"';
    if (closing && ((i >= 0 && bit(object.seen_declared, static_cast<uint32_t>(i))) || is_extra_key_seen(n)))
      out.rules.push_back({"", "duplicate key", text});
    for (SchemaId g : object.control->groups) {
      const SchemaNode &s = object.json->schema().nodes[g];
      out.schemas.push_back(s.pointer);
      if (s.additional_properties != NO_SCHEMA && (i < 0 || !closing))
        out.rules.push_back({s.pointer, "additionalProperties", text});
    }
    if (object.json->schema().options.ordered && closing && i >= 0) out.rules.push_back({"", "declared order", text});
  }

  void report_array(const ArrayFrame &n, int next_byte, Explanation &out) {
    out.place = "array";
    for (SchemaId g : n.control->groups) {
      const SchemaNode &s = n.json->schema().nodes[g];
      out.schemas.push_back(s.pointer);
      if (next_byte == ']' && n.count < s.min_items)
        out.rules.push_back({s.pointer, "minItems", std::to_string(s.min_items)});
      if (next_byte != ']' && n.count >= s.max_items)
        out.rules.push_back({s.pointer, "maxItems", std::to_string(s.max_items)});
    }
    if (n.phase != Phase::Open || next_byte == ']') return;
    if (const ItemControl *item = n.json->arrays().next_item(n.control, n.count))
      report_value(*n.json, item->child, out);
  }

  Automaton &a_;
  StepContext &ctx_;
  std::string key_;
  size_t key_begin_ = 0;
};

nb::list texts(const std::vector<std::string> &values) {
  nb::list out;
  for (const std::string &v : values)
    out.append(nb::steal<nb::object>(PyUnicode_DecodeUTF8(v.data(), static_cast<Py_ssize_t>(v.size()), "replace")));
  return out;
}

nb::object text(const std::string &v) {
  return nb::steal<nb::object>(PyUnicode_DecodeUTF8(v.data(), static_cast<Py_ssize_t>(v.size()), "replace"));
}

}  // namespace

nb::dict describe_to_python(Matcher &matcher, std::string_view after) {
  // Tokens that were read whole are not text: the explanation starts after the last of them.
  const Matcher::Whole read = matcher.last_whole();
  const std::string whole = (read.tokens > 0 ? matcher.text().substr(read.bytes) : matcher.text()) + std::string(after);
  Explanation explanation;
  {
    WithoutGil release;
    Program::Turn turn(matcher.program(), Program::SEARCH);
    Arena arena;
    StepContext ctx{arena};
    Automaton &automaton = matcher.program().automaton();
    const Frame *first = read.tokens > 0 ? read.state : automaton.start(ctx);
    explanation = for_caller(Explainer(automaton, ctx).explain(first, whole));
  }
  nb::dict d;
  d["offset"] = explanation.offset + (read.tokens > 0 ? read.bytes : 0);
  d["tokens_before"] = read.tokens;
  d["expects_tokens"] = explanation.expects_tokens;
  d["complete"] = explanation.complete;
  d["place"] = explanation.place;
  nb::list path;
  for (auto &[key, index] : explanation.path) {
    if (index >= 0) path.append(index);
    else path.append(text(key));
  }
  d["path"] = path;
  d["schemas"] = texts(explanation.schemas);
  nb::list rules;
  for (const Rule &r : explanation.rules)
    rules.append(nb::make_tuple(text(r.pointer), text(r.keyword), text(r.detail)));
  d["rules"] = rules;
  d["keys"] = texts(explanation.keys);
  d["missing"] = texts(explanation.missing);
  d["optional_space"] = explanation.optional_space;
  d["next"] = nb::bytes(explanation.next.data(), explanation.next.size());
  if (!explanation.is_grammar) return d;
  d["terminals"] = texts(explanation.terminals);
  d["within"] = texts(explanation.within);
  d["bounded"] = explanation.bounded;
  std::string begins;
  for (size_t b = 0; b < 256; ++b)
    if (explanation.begins.test(b)) begins += static_cast<char>(b);
  d["begins"] = nb::bytes(begins.data(), begins.size());
  return d;
}

}  // namespace structgen
