#include "grammar/grammar.h"

#include <algorithm>

#include "util/work.h"

namespace structgen {
namespace {

constexpr size_t SYMBOLS_PER_UNIT = 4;  // read one after the other

// Rules found by counting down, for each production, the symbols that are not known to be good yet.
std::vector<bool> closure(const std::vector<Grammar::Production> &productions, size_t rules,
                          const std::vector<bool> &good_terminals) {
  std::vector<bool> good(rules, false);
  std::vector<uint32_t> missing(productions.size(), 0);
  std::vector<std::vector<uint32_t>> uses(rules);
  std::vector<uint32_t> work;
  auto found = [&](uint32_t rule) {
    if (good[rule]) return;
    good[rule] = true;
    work.push_back(rule);
  };
  for (uint32_t p = 0; p < productions.size(); ++p) {
    charge(1 + productions[p].body.size() / SYMBOLS_PER_UNIT);
    bool never = false;
    for (Symbol s : productions[p].body) {
      if (s < 0) never = never || !good_terminals[static_cast<uint32_t>(~s)];
      else ++missing[p], uses[static_cast<uint32_t>(s)].push_back(p);
    }
    if (never) missing[p] = UINT32_MAX;
  }
  for (uint32_t p = 0; p < productions.size(); ++p)
    if (missing[p] == 0) found(productions[p].head);
  while (!work.empty()) {
    charge();
    const uint32_t rule = work.back();
    work.pop_back();
    charge(uses[rule].size() / 2);
    for (uint32_t p : uses[rule])
      if (missing[p] != UINT32_MAX && --missing[p] == 0) found(productions[p].head);
  }
  return good;
}

}  // namespace

bool Grammar::lay_out(std::vector<Production> productions, const std::vector<bool> &dead) {
  std::vector<bool> live(terminals.size()), empty(terminals.size());
  for (size_t t = 0; t < terminals.size(); ++t) {
    live[t] = !dead[t] || terminals[t].nullable;
    empty[t] = terminals[t].nullable;
  }
  const std::vector<bool> productive = closure(productions, rules.size(), live);
  nullable_rule = closure(productions, rules.size(), empty);
  if (!productive[start]) return false;
  std::erase_if(productions, [&](const Production &p) {
    charge(2 + p.body.size() / SYMBOLS_PER_UNIT);
    return std::any_of(p.body.begin(), p.body.end(), [&](Symbol s) {
      return s < 0 ? !live[static_cast<uint32_t>(~s)] : !productive[static_cast<uint32_t>(s)];
    });
  });
  for (Production &p : productions) {  // of these only the empty text is left
    charge(1 + p.body.size() / SYMBOLS_PER_UNIT);
    std::erase_if(p.body, [&](Symbol s) { return s < 0 && dead[static_cast<uint32_t>(~s)]; });
  }
  charge(2 * productions.size());
  std::stable_sort(productions.begin(), productions.end(),
                   [](const Production &a, const Production &b) { return a.head < b.head; });
  first_of.assign(rules.size() + 1, 0);
  for (const Production &p : productions) {
    charge(1 + p.body.size() / SYMBOLS_PER_UNIT);
    ++first_of[p.head + 1];
    first.push_back(static_cast<Item>(symbols.size()));
    symbols.insert(symbols.end(), p.body.begin(), p.body.end());
    symbols.push_back(END);
    head.resize(symbols.size(), p.head);
  }
  for (size_t r = 0; r < rules.size(); ++r) first_of[r + 1] += first_of[r];
  return true;
}

}  // namespace structgen
