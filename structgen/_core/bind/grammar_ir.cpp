#include "bind/grammar_ir.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace structgen {

bool has_empty_text(const Plan &plan, const RegexSpace &regex) {
  auto has = [&](const std::unique_ptr<Plan> &part) { return has_empty_text(*part, regex); };
  switch (plan.kind) {
    case Plan::Regex: return regex.nullable(plan.re);
    case Plan::Json: return false;
    case Plan::Grammar: {
      const Grammar &g = plan.grammar->grammar();
      return !plan.grammar->empty() && g.nullable(static_cast<Symbol>(g.start)) && regex.nullable(g.outer_language);
    }
    case Plan::Sequence: return std::all_of(plan.parts.begin(), plan.parts.end(), has);
    case Plan::Union: return std::any_of(plan.parts.begin(), plan.parts.end(), has);
  }
  return false;
}

namespace {

constexpr int64_t MOST_TAB_WIDTH = 1'000;

Lexing lexing_of(const IrPart &ir) {
  const std::string_view name = ir.text();
  if (name == "longest") return Lexing::Longest;
  if (name == "ordered") return Lexing::Ordered;
  if (name != "scannerless") ir.fail("must be \"scannerless\", \"longest\" or \"ordered\"");
  return Lexing::Scannerless;
}

// Tokens as ranges of numbers, (first, last), and texts.
void read_members(const IrPart &ir, std::vector<TokenRange> &ranges, std::vector<std::string> &texts) {
  for (size_t i = 0; i < ir.size(); ++i) {
    const IrPart one = ir[i];
    if (one.is_text()) {
      texts.emplace_back(one.text());
      continue;
    }
    one.size(2, "a range of tokens: the first and the last number");
    const auto first = static_cast<uint32_t>(one[0].integer(0, UINT32_MAX - 1));
    const auto last = static_cast<uint32_t>(one[1].integer(first, UINT32_MAX - 1));
    ranges.push_back({first, last});
  }
}

// A set of tokens: (those that it has, or none for all, those that it has not, where it is written, whether it is read
// as its text where no token has that). Nothing: such a text, which is no token.
std::optional<uint32_t> read_token_set(const IrPart &ir, TextSpace &space, std::string *spelled) {
  ir.size(4, "a set of tokens: its members, those left out, where it is written, and whether it may be spelled");
  TokenSetParts parts;
  if (ir[0].is_absent()) parts.is_any = true;
  else read_members(ir[0], parts.ranges, parts.texts);
  read_members(ir[1], parts.excluded, parts.excluded_texts);
  const auto where = std::string(ir[2].text());
  if (ir[3].boolean()) {
    if (parts.texts.size() != 1 || !parts.ranges.empty()) ir.fail("may be spelled only where it is one text");
    *spelled = parts.texts[0];
    if (tokens_with_text(space.vocabulary(), *spelled).empty()) return std::nullopt;
  }
  try {
    return space.token_sets().add(tokens_of(parts, space.vocabulary()));
  } catch (const NoSuchToken &error) {
    throw TokenError(error.what, where,
                     "Write numbers and texts of tokens that this tokenizer has: vocabulary.token_bytes(number).");
  }
}

// A text that names a token which the tokenizer lacks.
void read_spelled(const std::string &text, const Grammar &g, RegexSpace &regex, GrammarTerminal &terminal) {
  if (g.lexing == Lexing::Scannerless) {
    terminal.language = regex.literal(text);
    return;
  }
  // The lexer does not know that text either: it begins wherever a lexeme may end.
  terminal.kind = GrammarTerminal::Constraint;
  auto plan = std::make_shared<Plan>();
  plan->kind = Plan::Regex;
  plan->re = regex.literal(text);
  plan->texts = regex.alive(plan->re) ? Plan::Some : Plan::None;
  terminal.has_text = plan->texts == Plan::Some;
  terminal.plan = std::move(plan);
}

// (kind, name, content, scanner)
GrammarTerminal read_terminal(const IrPart &ir, const Grammar &g, TextSpace &space, const ReadRe &re,
                              const ReadPlan &plan) {
  RegexSpace &regex = space.regex();
  GrammarTerminal terminal;
  ir.size(4, "a terminal: kind, name, content, scanner");
  const IrPart first = ir[0], content = ir[2];
  const std::string_view kind = first.text();
  terminal.name = ir[1].text();
  if (kind == "text") {
    terminal.language = re(content);
  } else if (kind == "constraint") {
    terminal.kind = GrammarTerminal::Constraint;
    terminal.plan = plan(content);
    terminal.has_text = terminal.plan->texts == Plan::Some;
    terminal.nullable = has_empty_text(*terminal.plan, regex);
  } else if (kind == "special") {
    const std::string text(content.text());
    if (const auto id = space.vocabulary().special(text)) {
      terminal.kind = GrammarTerminal::Tokens;
      terminal.tokens = space.token_sets().add({*id});
    } else {
      read_spelled(text, g, regex, terminal);  // of a tokenizer without that token
    }
  } else if (kind == "tokens") {
    std::string spelled;
    if (const auto set = read_token_set(content, space, &spelled)) {
      terminal.kind = GrammarTerminal::Tokens;
      terminal.tokens = *set;
    } else {
      read_spelled(spelled, g, regex, terminal);
    }
  } else if (kind == "declared") {  // of an indentation: it has no text, the lexer makes it
    terminal.kind = GrammarTerminal::Tokens;
    terminal.tokens = GrammarTerminal::NONE;
  } else {
    first.fail("must be \"text\", \"constraint\", \"special\", \"tokens\" or \"declared\"");
  }
  const bool scanned = g.lexing == Lexing::Ordered && terminal.kind == GrammarTerminal::Text;
  if (scanned) terminal.scanner = ir[3].index(g.scanners.size(), "a scanner");
  if (terminal.kind == GrammarTerminal::Text && regex.nullable(terminal.language)) {
    terminal.nullable = true;
    terminal.language = regex.intersect(terminal.language, regex.complement(RegexSpace::EPSILON));
  }
  return terminal;
}

std::vector<uint32_t> read_terminal_list(const IrPart &ir, const Grammar &g) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < ir.size(); ++i) {
    const IrPart part = ir[i];
    out.push_back(part.index(g.terminals.size(), "a terminal"));
    if (g.terminals[out.back()].kind != GrammarTerminal::Text) part.fail("names a terminal that is no text");
  }
  return out;
}

void read_lazy(const IrPart &ir, Grammar &g) {
  for (uint32_t t : read_terminal_list(ir, g)) {
    if (g.lexing == Lexing::Scannerless) ir.fail("needs a lexer");
    g.terminals[t].lazy = true;
  }
}

// Pairs of a rule and its temperature.
void read_temperatures(const IrPart &ir, Grammar &g) {
  for (size_t i = 0; i < ir.size(); ++i) {
    const IrPart one = ir[i];
    one.size(2, "a rule and its temperature");
    const IrPart rule = one[0], value = one[1];
    const double temperature = PyFloat_AsDouble(value.value().ptr());
    if (PyErr_Occurred()) PyErr_Clear();
    if (!(temperature >= 0) || !std::isfinite(temperature)) value.fail("is no temperature, a number from 0 on");
    g.temperatures.resize(g.rules.size(), std::numeric_limits<double>::quiet_NaN());
    g.temperatures[rule.index(g.rules.size(), "a rule")] = temperature;
  }
}

// (own, ((found, pattern, replaces), ...))
void read_keywords(const IrPart &ir, Grammar &g) {
  for (size_t i = 0; i < ir.size(); ++i) {
    const IrPart one = ir[i];
    if (!g.contextual || g.lexing != Lexing::Ordered) one.fail("needs a contextual lexer with rule \"ordered\"");
    one.size(2, "a keyword: its own terminal, and what its patterns find");
    const IrPart own = one[0], finders = one[1];
    GrammarKeyword keyword{own.index(g.terminals.size(), "a terminal")};
    auto belongs = [&](uint32_t t, const IrPart &part) {
      if (g.terminals[t].kind != GrammarTerminal::Text) part.fail("names a terminal that is no text");
      if (g.terminals[t].keyword != GrammarTerminal::NONE) part.fail("names a terminal of another keyword");
      g.terminals[t].keyword = static_cast<uint32_t>(g.keywords.size());
    };
    belongs(keyword.own, own);
    for (size_t k = 0; k < finders.size(); ++k) {
      const IrPart finder = finders[k];
      finder.size(3, "what a pattern finds: the terminal, the pattern's terminal, and whether it replaces the keyword");
      const IrPart found = finder[0], pattern = finder[1];
      keyword.finders.push_back({found.index(g.terminals.size(), "a terminal"),
                                 pattern.index(g.terminals.size(), "a terminal"), finder[2].boolean()});
      if (!keyword.finders.back().ignores()) belongs(keyword.finders.back().found, found);
    }
    g.keywords.push_back(std::move(keyword));
  }
}

// (newline, indent, dedent, opening brackets, closing brackets, width of a tab)
IndentationRule read_indentation(const IrPart &ir, const Grammar &g) {
  IndentationRule rule;
  if (ir.is_absent()) return rule;
  if (g.lexing == Lexing::Scannerless) ir.fail("needs a lexer");
  ir.size(6, "an indentation: newline, indent, dedent, opening brackets, closing brackets, width of a tab");
  const IrPart newline = ir[0], width = ir[5];
  rule.newline = newline.index(g.terminals.size(), "a terminal");
  if (g.terminals[rule.newline].kind != GrammarTerminal::Text) newline.fail("names a terminal that is no text");
  uint32_t *const made[] = {&rule.indent, &rule.dedent};
  for (size_t i = 0; i < 2; ++i) {
    const IrPart part = ir[i + 1];
    *made[i] = part.index(g.terminals.size(), "a terminal");
    const GrammarTerminal &terminal = g.terminals[*made[i]];
    if (!terminal.is_made()) part.fail("names a terminal that is not declared");
  }
  rule.open = read_terminal_list(ir[3], g);
  rule.close = read_terminal_list(ir[4], g);
  rule.tab_width = static_cast<uint32_t>(width.integer(0, MOST_TAB_WIDTH));
  return rule;
}

// Rules and terminals in one list, its head first.
std::vector<Grammar::Production> read_productions(const IrPart &ir, const Grammar &g) {
  const auto terminals = static_cast<int64_t>(g.terminals.size()), rules = static_cast<int64_t>(g.rules.size());
  std::vector<Grammar::Production> out;
  const size_t count = ir.size();
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const IrPart one = ir[i];
    const size_t n = one.size(1, "a production: its head, then symbols");
    Grammar::Production p;
    p.head = one[0].index(g.rules.size(), "a rule");
    p.body.reserve(n - 1);
    for (size_t k = 1; k < n; ++k) {
      const IrPart part = one[k];
      const int64_t symbol = part.integer(INT32_MIN, INT32_MAX);
      if (symbol >= rules || symbol < -terminals) part.fail("names a symbol that is not there");
      p.body.push_back(static_cast<Symbol>(symbol));
    }
    out.push_back(std::move(p));
  }
  return out;
}

}  // namespace

std::unique_ptr<GrammarControl> grammar_from_ir(const IrPart &ir, TextSpace &space, const ReadRe &re,
                                                const ReadPlan &plan) {
  Grammar g;
  g.lexing = lexing_of(ir.field("lexing"));
  g.contextual = ir.field("contextual").boolean();
  const IrPart within = ir.field("within"), rules = ir.field("rules"), scanners = ir.field("scanners"),
               terminals = ir.field("terminals");
  if (!within.is_absent()) g.outer_language = re(within);
  for (size_t i = 0; i < rules.size(); ++i) g.rules.emplace_back(rules[i].text());
  if (ir.has("temperatures")) read_temperatures(ir.field("temperatures"), g);
  for (size_t i = 0; i < scanners.size(); ++i) g.scanners.push_back(re(scanners[i]));
  for (size_t i = 0; i < terminals.size(); ++i) g.terminals.push_back(read_terminal(terminals[i], g, space, re, plan));
  g.ignore = read_terminal_list(ir.field("ignore"), g);
  read_lazy(ir.field("lazy"), g);
  read_keywords(ir.field("keywords"), g);
  g.indentation = read_indentation(ir.field("indentation"), g);
  if (g.outer_language != RegexSpace::ANY_TEXT) {
    if (g.contextual || g.indentation.active()) within.fail("joins a contextual or an indented grammar");
    for (const GrammarTerminal &t : g.terminals)
      if (t.kind != GrammarTerminal::Text) within.fail("joins a grammar with terminals that are not regular");
  }
  g.start = ir.field("start").index(g.rules.size(), "a rule");
  std::vector<Grammar::Production> productions = read_productions(ir.field("productions"), g);
  return std::make_unique<GrammarControl>(std::move(g), std::move(productions), space);
}

}  // namespace structgen
