#include "grammar/lark/text.h"

#include <algorithm>

#include "grammar/lark/tokens.h"
#include "util/hashing.h"
#include "util/stack.h"
#include "util/work.h"

namespace structgen {

using namespace lark;

namespace {

constexpr int64_t MOST = 999'999'999;  // of a number; larger ones are left to lark
constexpr uint32_t DEEPEST = 100;      // nesting of groups; deeper ones are left to lark

class Reader {
 public:
  explicit Reader(std::u32string_view text, bool module = false, int64_t unbounded = -1)
      : text_(text), module_(module), unbounded_(unbounded), tokens_(Tokens(text).found) {
    out_.nodes.reserve(tokens_.size());
    out_.children.reserve(tokens_.size());
  }

  LarkText read(bool imports) {
    while (at_ < tokens_.size()) {
      charge();
      const Token &token = tokens_[at_];
      if (token.kind == Token::Line) ++at_;
      else if (token.kind != Token::Directive) definition(Kind::Define);
      else if (token.sign == 'g') ignored();
      else if (token.sign == 'm' && module_) imported_module();
      else if (token.sign == 'm' && imports) imported();
      else if (!module_) throw NotPlain{};
      else if (token.sign == 'e') declared();
      else ++at_, definition(token.sign == 'v' ? Kind::Override : Kind::Extend);
    }
    return std::move(out_);
  }

 private:
  using Text = LarkText::Text;
  using Node = LarkText::Node;
  using Kind = LarkText::Definition::Kind;

  // -- tokens; the last one is the end of a line, which nothing but `end_of_line` takes

  const Token &now() const { return tokens_[at_]; }
  bool is(char32_t sign) const { return now().kind == Token::Sign && now().sign == sign; }
  void take(char32_t sign) {
    if (!is(sign)) throw NotPlain{};
    ++at_;
  }
  void end_of_line() {
    if (now().kind != Token::Line) throw NotPlain{};
    ++at_;
  }
  std::u32string_view text_of(const Token &token) const { return text_.substr(token.offset, token.length); }
  Text intern(std::u32string_view text) {
    auto [it, fresh] = index_.try_emplace(text, static_cast<Text>(out_.texts.size()));
    if (fresh) {
      out_.texts.push_back(text);
      facts_.emplace_back();
    }
    return it->second;
  }
  Text make(std::u32string text) { return intern(out_.made.emplace_back(std::move(text))); }

  static bool is_upper(std::u32string_view name) {
    return std::none_of(name.begin(), name.end(), [](char32_t c) { return c >= 'a' && c <= 'z'; });
  }
  static bool is_lower(std::u32string_view name) {
    return std::none_of(name.begin(), name.end(), [](char32_t c) { return c >= 'A' && c <= 'Z'; });
  }
  std::u32string_view name() {
    const std::u32string_view found = text_of(now());
    if (now().kind != Token::Name || !(is_lower(found) || is_upper(found))) throw NotPlain{};
    ++at_;
    return found;
  }
  int64_t count() {
    if (now().kind != Token::Number) throw NotPlain{};
    int64_t value = 0;
    for (char32_t c : text_of(now()))
      if (c != '-') value = 10 * value + static_cast<int64_t>(c - '0');
    const bool negative = text_of(now())[0] == '-';
    ++at_;
    return negative ? -value : value;
  }
  int32_t number() {
    const int64_t value = count();
    if (value > MOST || value < -MOST) throw NotPlain{};
    return static_cast<int32_t>(value);
  }

  // -- statements

  void definition(Kind kind) {
    std::u32string modifiers;
    const uint32_t start = now().offset;
    for (; is('!') || is('?'); ++at_) modifiers.push_back(now().sign);
    const uint32_t offset = now().offset;
    const std::u32string_view name = this->name();
    if (start + modifiers.size() != offset || modifiers.size() > 2 || modifiers == U"!!" || modifiers == U"??")
      throw NotPlain{};
    terminal_ = is_upper(name);
    const bool inlined = modifiers.find(U'?') != std::u32string::npos;
    if (!modifiers.empty() && (terminal_ || (inlined && name[0] == '_'))) throw NotPlain{};
    LarkText::Definition made{intern(name), 0, 0, {}};
    made.kind = kind;
    if (is('{')) {
      if (!module_ || terminal_) throw NotPlain{};
      do {
        ++at_;
        const std::u32string_view parameter = this->name();
        if (is_upper(parameter)) throw NotPlain{};
        made.parameters.push_back(intern(parameter));
      } while (is(','));
      take('}');
    }
    if (is('.')) {
      ++at_;
      made.priority = number();
    }
    take(':');
    begin();
    const size_t first = at_;
    made.body = alternatives(0);
    made.alternatives = alternatives_;
    made.nothing = nothing_;
    const bool nothing = at_ == first;
    end_of_line();
    if (facts_[made.name].defined && !module_) throw NotPlain{};
    facts_[made.name].defined = true;
    out_.defined.push_back({made.name, offset});
    if (terminal_) {
      if (module_ ? nothing : is_empty(made.body)) throw NotPlain{};
      out_.terminals.push_back(std::move(made));
      return;
    }
    made.symbols = std::move(symbols_);
    if (module_) {
      made.literals = std::move(literals_);
      made.uses = std::move(uses_);
      out_.rules.push_back(std::move(made));
      return;
    }
    out_.rules.push_back(std::move(made));
    // Lark processes them from the inside out.
    std::stable_sort(literals_.begin(), literals_.end(), [](auto &a, auto &b) { return a.depth > b.depth; });
    for (const Met &one : literals_) {
      if (facts_[one.what].named) continue;
      facts_[one.what].named = true;
      out_.literals.push_back(one.what);
    }
  }

  // ``%declare A b``
  void declared() {
    ++at_;
    do {
      LarkText::Definition made{0, 0, 0, {}};
      const std::u32string_view one = name();
      made.name = intern(one);
      made.kind = Kind::Declare;
      (is_upper(one) ? out_.terminals : out_.rules).push_back(std::move(made));
    } while (now().kind == Token::Name);
    end_of_line();
  }

  void begin() {
    ++rule_;
    literals_.clear();
    uses_.clear();
    nothing_ = false;
    symbols_.clear();
  }

  void ignored() {
    ++at_;
    terminal_ = true;
    begin();
    const size_t first = at_;
    const uint32_t body = alternatives(0);
    if (is_empty(body)) throw NotPlain{};  // lark decides
    if (at_ == first + 1 && tokens_[first].kind == Token::Name) {
      out_.ignore.push_back(intern(text_of(tokens_[first])));
    } else {
      std::u32string name = U"__IGNORE_";
      for (char c : std::to_string(out_.ignore.size())) name.push_back(static_cast<char32_t>(c));
      const Text made = make(std::move(name));
      out_.ignore.push_back(made);
      out_.terminals.push_back({made, body, 0, {}});
    }
    end_of_line();
  }

  // ``%import common.A``, ``%import common.A -> B``, ``%import common (A, B)``
  void imported() {
    ++at_;
    if (now().kind != Token::Name || text_of(now()) != U"common") throw NotPlain{};
    ++at_;
    std::vector<std::pair<std::u32string_view, std::u32string_view>> names;
    if (is('(')) {
      do {
        ++at_;
        const std::u32string_view one = name();
        names.push_back({one, one});
      } while (is(','));
      take(')');
    } else {
      take('.');
      const std::u32string_view one = name();
      std::u32string_view alias = one;
      if (is('-')) {
        ++at_;
        alias = name();
      }
      names.push_back({one, alias});
    }
    end_of_line();
    for (auto [one, alias] : names) {
      const Text what = intern(one);
      if (facts_[what].imported || !is_upper(alias)) throw NotPlain{};
      facts_[what].imported = true;
      out_.imports.push_back({what, intern(alias)});
    }
  }

  // ``%import a.b.C``, ``%import a.b.C -> D``, ``%import a.b (C, D)``, and with a dot before all of it
  void imported_module() {
    ++at_;
    LarkText::Import made{is('.'), {}, {}};
    if (made.relative) ++at_;
    made.path.push_back(intern(name()));
    while (is('.')) {
      ++at_;
      made.path.push_back(intern(name()));
    }
    if (is('(')) {
      do {
        ++at_;
        const Text one = intern(name());
        made.names.push_back({one, one});
      } while (is(','));
      take(')');
    } else {
      const Text one = made.path.back();
      made.path.pop_back();
      if (made.path.empty()) throw NotPlain{};
      made.names.push_back({one, one});
      if (is('-')) {
        ++at_;
        made.names.back().second = intern(name());
      }
    }
    for (auto [one, alias] : made.names)
      if (is_upper(out_.texts[one]) != is_upper(out_.texts[alias])) throw NotPlain{};
    end_of_line();
    out_.modules.push_back(std::move(made));
  }

  // -- bodies; `depth` is that of lark's node for the alternatives

  uint32_t add(Node node) {
    out_.nodes.push_back(node);
    return static_cast<uint32_t>(out_.nodes.size() - 1);
  }
  uint32_t group(Node::Kind kind, const uint32_t *begin, size_t count) {
    const auto first = static_cast<uint32_t>(out_.children.size());
    out_.children.insert(out_.children.end(), begin, begin + count);
    return add({kind, 0, first, static_cast<uint32_t>(count), 0, 0});
  }
  bool is_empty(uint32_t node) const { return out_.nodes[node].kind == Node::Sequence && out_.nodes[node].count == 0; }

  uint32_t alternatives(uint32_t depth) {
    if (depth > 3 * DEEPEST || stack_is_short()) throw NotPlain{};
    const uint32_t first = alternative(depth);
    if (!is('|')) {
      alternatives_ = 1;
      return first;
    }
    std::vector<uint32_t> parts{first};
    while (is('|')) {
      charge();
      ++at_;
      parts.push_back(alternative(depth));
    }
    alternatives_ = static_cast<uint32_t>(parts.size());
    return group(Node::Choice, parts.data(), parts.size());
  }

  uint32_t alternative(uint32_t depth) {
    const size_t bottom = items_.size(), start = literals_.size(), first_use = uses_.size();
    while (true) {
      charge();
      const size_t mark = literals_.size(), use_mark = uses_.size();
      uint32_t item;
      const Token &token = now();
      if (token.kind == Token::Name) {
        item = symbol(depth);
      } else if (token.kind == Token::String || token.kind == Token::Regexp) {
        item = literal(depth);
      } else if (is('(')) {
        ++at_;
        item = alternatives(depth + 2);
        take(')');
      } else if (is('[')) {
        ++at_;
        const uint32_t inner = alternatives(depth + 3);
        item = repeat(inner, 0, 1, make_once(U"?"));
        take(']');
      } else {
        break;
      }
      if (is('*') || is('+') || is('?') || is('~')) {
        item = repeated(item);
        deepen(mark, use_mark);
      }
      items_.push_back(item);
    }
    if (is('-')) {
      ++at_;
      if (depth || terminal_ || !is_lower(name())) throw NotPlain{};
      deepen(start, first_use);
    }
    const size_t count = items_.size() - bottom;
    const uint32_t made = count == 1 ? items_[bottom] : group(Node::Sequence, items_.data() + bottom, count);
    items_.resize(bottom);
    return made;
  }

  void deepen(size_t literal, size_t use) {
    for (size_t i = literal; i < literals_.size(); ++i) ++literals_[i].depth;
    for (size_t i = use; i < uses_.size(); ++i) ++uses_[i].depth;
  }

  // The rule mentions it.
  bool mention(Text text) {
    if (facts_[text].rule == rule_) return false;
    facts_[text].rule = rule_;
    symbols_.push_back(text);
    return true;
  }

  uint32_t symbol(uint32_t depth) {
    const Token &token = now();
    const std::u32string_view name = this->name();
    const Text text = intern(name);
    if (is('{')) return use(text, depth);
    if (mention(text) && !facts_[text].met) {
      facts_[text].met = true;
      out_.used.push_back({text, token.offset});
    }
    return leaf(is_lower(name) ? Node::Rule : Node::Terminal, text);
  }

  // The arguments of a template, each a symbol, a literal or another use.
  uint32_t use(Text name, uint32_t depth) {
    if (!module_ || terminal_ || is_upper(out_.texts[name])) throw NotPlain{};
    if (depth > 3 * DEEPEST || stack_is_short()) throw NotPlain{};
    std::vector<uint32_t> arguments;
    const size_t place = uses_.size();
    uses_.push_back({depth, 0});
    do {
      ++at_;
      const Token &token = now();
      if (token.kind == Token::Name) arguments.push_back(symbol(depth + 1));
      else if (token.kind == Token::String || token.kind == Token::Regexp) arguments.push_back(literal(depth + 1));
      else throw NotPlain{};
    } while (is(','));
    take('}');
    const uint32_t made = group(Node::Use, arguments.data(), arguments.size());
    out_.nodes[made].text = name;
    uses_[place].what = made;
    return made;
  }

  uint32_t literal(uint32_t depth) {
    const Token &token = now();
    ++at_;
    const Text text = is('=') ? range(token) : intern(text_of(token));
    if (mention(text) && !facts_[text].met) {
      facts_[text].met = true;
      out_.written.push_back({text, token.offset});
    }
    literals_.push_back({depth + 2, text});
    return leaf(Node::Terminal, text);
  }

  // The node of a symbol, made once.
  uint32_t leaf(Node::Kind kind, Text text) {
    if (facts_[text].node == UINT32_MAX) facts_[text].node = add({kind, text, 0, 0, 0, 0});
    return facts_[text].node;
  }

  // ``"a".."z"``, as one text.
  Text range(const Token &from) {
    ++at_;
    std::u32string made(text_of(from));
    const std::u32string_view to = text_of(now());
    made += U"..";
    made += to;
    auto is_plain = [&](std::u32string_view end) {
      if (module_) return end.size() > 2 && end.back() == '"';
      // Characters that are not ASCII may be unprintable; lark decides.
      return end.size() == 3 && end[0] == '"' && end[1] >= 0x20 && end[1] < 0x7F && end[1] != '\\';
    };
    if (now().kind != Token::String || !is_plain(text_of(from)) || !is_plain(to)) throw NotPlain{};
    ++at_;
    return make(std::move(made));
  }

  uint32_t repeat(uint32_t item, int32_t low, int32_t high, Text written) {
    out_.children.push_back(item);
    return add({Node::Repeat, written, static_cast<uint32_t>(out_.children.size() - 1), 1, low, high});
  }
  Text make_once(std::u32string_view literal) { return intern(literal); }

  uint32_t repeated(uint32_t item) {
    const char32_t sign = now().sign;
    const uint32_t end = now().offset + 1;
    ++at_;
    if (sign == '*') return repeat(item, 0, -1, make_once(U"*"));
    if (sign == '+') return repeat(item, 1, -1, make_once(U"+"));
    if (sign == '?') {
      // Lark reads the sign as a modifier before a name.
      if (end < text_.size() && (text_[end] == '_' || (text_[end] >= 'a' && text_[end] <= 'z'))) throw NotPlain{};
      return repeat(item, 0, 1, make_once(U"?"));
    }
    const int32_t low = number();
    int64_t high = low;
    const bool bounds = is('=');
    if (bounds) {
      ++at_;
      high = count();
    }
    nothing_ = nothing_ || high == 0;
    const bool endless = bounds && module_ && high == unbounded_;
    if (low < 0 || high < low || (high == 0 && !module_) || (high > MOST && !endless)) throw NotPlain{};
    std::u32string written = U"{";
    auto append = [&](int64_t number) {
      for (char c : std::to_string(number)) written.push_back(static_cast<char32_t>(c));
    };
    append(low);
    if (bounds) {
      written.push_back(',');
      if (!endless) append(high);
    }
    written.push_back('}');
    return repeat(item, low, endless ? -1 : static_cast<int32_t>(high), make(std::move(written)));
  }

  struct Fact {         // of a text
    uint32_t rule = 0;  // the last one that mentions it
    uint32_t node = UINT32_MAX;
    bool met = false, defined = false, imported = false, named = false;
  };
  using Met = LarkText::Met;

  std::u32string_view text_;
  bool module_;
  int64_t unbounded_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  LarkText out_;
  std::unordered_map<std::u32string_view, Text, KeyedTextHash> index_;
  std::vector<Fact> facts_;
  std::vector<uint32_t> items_;  // of the sequences that are being read
  // Of the definition that is being read:
  bool terminal_ = false;
  uint32_t rule_ = 0;
  std::vector<Met> literals_, uses_;
  std::vector<Text> symbols_;
  bool nothing_ = false;
  uint32_t alternatives_ = 1;  // of the group that was read last
};

}  // namespace

std::optional<LarkText> LarkText::read(std::u32string_view text, bool imports) {
  try {
    return Reader(text).read(imports);
  } catch (const NotPlain &) {
    return std::nullopt;
  }
}

std::optional<LarkText> LarkText::module(std::u32string_view text, int64_t unbounded) {
  try {
    return Reader(text, true, unbounded).read(true);
  } catch (const NotPlain &) {
    return std::nullopt;
  }
}

}  // namespace structgen
