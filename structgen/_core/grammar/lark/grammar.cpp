#include "grammar/lark/grammar.h"

#include <algorithm>

#include "util/sorting.h"

namespace structgen {
namespace {

constexpr uint32_t NONE = UINT32_MAX;
constexpr int32_t MANY = 50;  // from this count on, lark makes separate rules for a repetition
constexpr std::u32string_view WORD_KEY = U"str//";

bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_identifier(std::u32string_view text) {
  return is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char32_t c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::u32string upper(std::u32string_view text) {
  std::u32string out(text);
  for (char32_t &c : out)
    if (c >= 'a' && c <= 'z') c -= 'a' - 'A';
  return out;
}

// Of names, which are ASCII.
std::string narrow(std::u32string_view text) { return {text.begin(), text.end()}; }

}  // namespace

std::optional<std::u32string_view> LarkGrammar::word(std::u32string_view written) {
  if (written.size() < 3 || written.front() != '"' || written.back() != '"') return std::nullopt;
  const std::u32string_view inside = written.substr(1, written.size() - 2);
  for (char32_t c : inside)
    if (c < 0x20 || c > 0x7E || c == '\\' || c == '"') return std::nullopt;
  return inside;
}

std::optional<std::u32string_view> LarkGrammar::word_in(const LarkText &read, const LarkText::Definition &terminal) {
  const LarkText::Node &body = read.nodes[terminal.body];
  return body.kind == LarkText::Node::Terminal ? word(read.texts[body.text]) : std::nullopt;
}

std::optional<std::u32string_view> LarkGrammar::word_of(const Key &key) {
  if (!key.starts_with(WORD_KEY)) return std::nullopt;
  return std::u32string_view(key).substr(WORD_KEY.size());
}

bool LarkGrammar::find(std::u32string_view start, std::vector<Terminal> defined,
                       const std::unordered_map<std::u32string, Literal, KeyedTextHash> &literals,
                       const std::function<std::u32string(std::u32string_view)> &suggested) {
  terminals.clear();
  ignored_.clear();
  names_.clear();
  std::unordered_set<std::u32string, KeyedTextHash> taken;
  std::unordered_map<Key, std::u32string, KeyedTextHash> by_key;
  for (const Terminal &one : defined) {
    charge(4);
    if (!taken.insert(one.name).second) return false;
    by_key[one.key] = one.name;
  }
  rule_of_.assign(read_.texts.size(), NONE);
  for (uint32_t r = 0; r < read_.rules.size(); ++r) rule_of_[read_.rules[r].name] = r;
  const auto found =
      std::find_if(read_.rules.begin(), read_.rules.end(), [&](auto &rule) { return read_.texts[rule.name] == start; });
  if (found == read_.rules.end()) return false;
  start_ = static_cast<uint32_t>(found - read_.rules.begin());
  for (Text one : read_.ignore)
    if (!taken.contains(std::u32string(read_.texts[one]))) return false;
  charge(read_.used.size());
  for (auto [text, offset] : read_.used)
    if (rule_of_[text] == NONE && !taken.contains(std::u32string(read_.texts[text]))) return false;

  uint32_t anonymous = 0;
  for (Text text : read_.literals) {
    charge(10);
    const std::u32string_view written = read_.texts[text];
    Key key;
    std::u32string telling;
    if (const auto word = LarkGrammar::word(written)) {
      key = of_word(*word);
      telling = suggested(*word);
      if (telling.empty() && is_identifier(*word)) telling = upper(*word);
    } else {
      const auto it = literals.find(std::u32string(written));
      if (it == literals.end()) return false;
      key = it->second.key;
      telling = it->second.telling;
    }
    auto [it, fresh] = by_key.try_emplace(key);
    if (fresh) {
      if (telling.empty() || taken.contains(telling)) {
        telling = U"__ANON_";
        for (char c : std::to_string(anonymous++)) telling.push_back(static_cast<char32_t>(c));
      }
      it->second = telling;
      taken.insert(telling);
      defined.push_back({telling, key});
    }
    names_[text] = it->second;
  }

  keep_used(std::move(defined));
  return true;
}

// Keeps the terminals that a rule or %ignore names.
void LarkGrammar::keep_used(std::vector<Terminal> defined) {
  const std::vector<bool> kept = kept_rules();
  std::unordered_set<std::u32string_view, KeyedTextHash> wanted;
  for (Text one : read_.ignore) wanted.insert(read_.texts[one]);
  for (uint32_t r = 0; r < kept.size(); ++r) {
    if (!kept[r]) continue;
    charge(1 + 2 * read_.rules[r].symbols.size());
    for (Text one : read_.rules[r].symbols) {
      const auto name = names_.find(one);
      wanted.insert(name == names_.end() ? read_.texts[one] : std::u32string_view(name->second));
    }
  }
  for (Terminal &one : defined) {
    charge(2);
    if (!wanted.contains(one.name)) continue;
    if (const auto word = word_of(one.key)) one.widest = one.length = static_cast<int64_t>(word->size());
    terminals.push_back(std::move(one));
  }
}

// Does a rule mention itself inside a repetition for which lark would make a separate rule?
bool LarkGrammar::mentions_itself_by_helper(uint32_t rule) const {
  std::vector<std::pair<uint32_t, bool>> pending{{read_.rules[rule].body, false}};
  while (!pending.empty()) {
    charge();
    auto [at, helper] = pending.back();
    pending.pop_back();
    const LarkText::Node &node = read_.nodes[at];
    if (node.kind == LarkText::Node::Rule && node.text == read_.rules[rule].name && helper) return true;
    if (node.kind == LarkText::Node::Repeat) helper = helper || node.high < 0 || node.high >= MANY;
    for (uint32_t i = 0; i < node.count; ++i) pending.push_back({read_.children[node.first + i], helper});
  }
  return false;
}

// subtle: keeps not the reachable rules, but those that others mention (`lark.lark_loader.select`).
std::vector<bool> LarkGrammar::kept_rules() const {
  const size_t count = read_.rules.size();
  std::vector<uint32_t> mentioned(count);
  std::vector<std::vector<uint32_t>> mentions(count);
  for (uint32_t r = 0; r < count; ++r)
    for (Text one : read_.rules[r].symbols) {
      charge();
      const uint32_t other = rule_of_[one];
      if (other == NONE || (other == r && !mentions_itself_by_helper(r))) continue;
      mentions[r].push_back(other);
      ++mentioned[other];
    }
  std::vector<bool> kept(count, true);
  std::vector<uint32_t> pending;
  for (uint32_t r = 0; r < count; ++r)
    if (mentioned[r] == 0 && r != start_) pending.push_back(r);
  // Rounds, as in lark: rules that only dropped rules mention are dropped, too. Rules that mention one another stay.
  while (!pending.empty()) {
    charge();
    const uint32_t r = pending.back();
    pending.pop_back();
    kept[r] = false;
    for (uint32_t other : mentions[r])
      if (--mentioned[other] == 0 && other != start_ && kept[other]) pending.push_back(other);
  }
  return kept;
}

void LarkGrammar::sort() {
  // Terminals are large, and a stable sort moves each of them as often as it compares it.
  charge(2 * terminals.size() * search_work(terminals.size()));
  std::stable_sort(terminals.begin(), terminals.end(), [](const Terminal &a, const Terminal &b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.is_pattern != b.is_pattern) return b.is_pattern;
    if (a.widest != b.widest) return a.widest > b.widest;
    if (a.length != b.length) return a.length > b.length;
    return a.name < b.name;
  });
  for (Text one : read_.ignore) {
    const auto it =
        std::find_if(terminals.begin(), terminals.end(), [&](auto &t) { return t.name == read_.texts[one]; });
    const auto place = static_cast<uint32_t>(it - terminals.begin());
    if (std::find(ignored_.begin(), ignored_.end(), place) == ignored_.end()) ignored_.push_back(place);
  }
}

Bodies LarkGrammar::bodies() const {
  Bodies out([](uint32_t) { return false; });  // terminals without the empty text
  out.expect(read_.nodes.size());
  std::unordered_map<std::u32string_view, uint32_t> leaves;
  for (uint32_t t = 0; t < terminals.size(); ++t) leaves[terminals[t].name] = t;
  std::vector<Bodies::Id> ids(read_.nodes.size(), Bodies::NONE);
  std::vector<Bodies::Id> parts;
  std::unordered_set<Bodies::Id> met;
  // The parts of a node have smaller numbers. Nodes that are not kept are made, too, if all their parts are.
  for (uint32_t n = 0; n < read_.nodes.size(); ++n) {
    const LarkText::Node &node = read_.nodes[n];
    charge(2);
    if (node.kind == LarkText::Node::Rule) {
      if (rule_of_[node.text] != NONE) ids[n] = out.rule(rule_of_[node.text]);
      continue;
    }
    if (node.kind == LarkText::Node::Terminal) {
      const auto name = names_.find(node.text);
      const auto it = leaves.find(name == names_.end() ? read_.texts[node.text] : std::u32string_view(name->second));
      if (it != leaves.end()) ids[n] = out.leaf(it->second);
      continue;
    }
    parts.clear();
    bool known = true;
    const auto same = node.kind == LarkText::Node::Sequence ? Bodies::Sequence : Bodies::Choice;
    met.clear();
    const auto add = [&](Bodies::Id id) {
      if (same == Bodies::Sequence || met.insert(id).second) parts.push_back(id);
    };
    for (uint32_t i = 0; i < node.count && known; ++i) {
      charge(2);
      const Bodies::Id part = ids[read_.children[node.first + i]];
      known = part != Bodies::NONE;
      if (!known) break;
      if (node.kind != LarkText::Node::Repeat && out[part].kind == same) {
        const std::vector<Bodies::Id> inner(out.parts(part).begin(), out.parts(part).end());
        for (Bodies::Id one : inner) add(one);
      } else {
        add(part);
      }
    }
    if (!known) continue;
    if (node.kind == LarkText::Node::Repeat) {
      const Bodies::Counts counts{node.low, node.high < 0 ? Bodies::UNBOUNDED : node.high};
      ids[n] = counts == Bodies::Counts{1, 1} ? parts[0] : out.repeat(parts[0], counts);
    } else {
      ids[n] = parts.size() == 1 ? parts[0] : out.group(same, parts);
    }
  }
  for (uint32_t r = 0; r < read_.rules.size(); ++r) out.define(r, ids[read_.rules[r].body]);
  return out;
}

std::vector<std::string> LarkGrammar::rule_names() const {
  std::vector<std::string> out;
  for (const LarkText::Definition &rule : read_.rules) out.push_back(narrow(read_.texts[rule.name]));
  return out;
}

std::vector<std::string> LarkGrammar::terminal_names() const {
  std::vector<std::string> out;
  for (const Terminal &one : terminals) out.push_back(narrow(one.name));
  return out;
}

}  // namespace structgen
