#include "grammar/item_sets.h"

#include <algorithm>

#include "util/sorting.h"

namespace structgen {
namespace {

template <class T>
void sort_once(std::vector<T> &v) {
  sort_numbers(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
}

template <class T>
Hash128 hash_all(uint64_t kind, const std::vector<T> &v) {
  Hash128 h = hash_words(kind, v.size());
  for (const T &x : v) h = extend(h, static_cast<uint64_t>(static_cast<int64_t>(x)));
  return h;
}

constexpr uint64_t KERNEL = 31, OUTLOOK = 32, HEADS = 33;
constexpr size_t STATE_BYTES = 1024;
constexpr size_t SYMBOLS_PER_UNIT = 4;  // read one after the other

// Removes the marks of rules, also if a limit ends the computation.
struct Unmark {
  std::vector<bool> &marked;
  const std::vector<uint32_t> &rules;
  ~Unmark() {
    for (uint32_t r : rules) marked[r] = false;
  }
};

uint64_t pair_of(uint32_t a, uint32_t b) { return static_cast<uint64_t>(a) << 32 | b; }

}  // namespace

ItemSets::ItemSets(const Grammar &grammar, size_t most) : g_(grammar), most_(most) {
  accepting_ = static_cast<uint32_t>(g_.rules.size());
  start_symbols_ = {static_cast<Symbol>(g_.start), Grammar::END};
  marked_.resize(g_.rules.size());
  kernels_.emplace_back();
  outlooks_.emplace_back();
  heads_.emplace_back();
  start_ = intern({static_cast<Item>(g_.symbols.size())});
}

void ItemSets::charge(size_t bytes) {
  bytes_ += bytes;
  // A chain of rules has long lists of items in few sets. A state may take as much memory as one of an expression.
  if (kernels_.size() + outlooks_.size() > most_ || bytes_ / STATE_BYTES > most_)
    throw LimitError("the grammar has more than " + std::to_string(most_) +
                     " sets of items that stand together (limit automaton_states)");
}

Kernel ItemSets::intern(std::vector<Item> items) {
  if (items.empty()) return NONE;
  structgen::charge(items.size() / 4);
  sort_once(items);
  const Hash128 key = hash_all(KERNEL, items);
  if (auto it = kernel_index_.find(key); it != kernel_index_.end()) return it->second;
  KernelData k;
  for (Item i : items) k.before.push_back({symbol_at(i), i});
  sort_numbers(k.before.begin(), k.before.end());
  k.items = std::move(items);
  charge(k.items.size() * 12 + sizeof(KernelData) + 64);
  kernels_.push_back(std::move(k));
  return kernel_index_[key] = static_cast<Kernel>(kernels_.size() - 1);
}

Heads ItemSets::intern_heads(std::vector<Symbol> symbols) {
  structgen::charge(symbols.size());
  sort_once(symbols);
  const Hash128 key = hash_all(HEADS, symbols);
  if (auto it = heads_index_.find(key); it != heads_index_.end()) return it->second;
  charge(symbols.size() * 4 + 64);
  heads_.push_back(std::move(symbols));
  return heads_index_[key] = static_cast<Heads>(heads_.size() - 1);
}

void ItemSets::advance(Item item, std::vector<Item> &rest, std::vector<uint32_t> &completed) const {
  for (++item;; ++item) {
    const Symbol s = symbol_at(item);
    if (s == Grammar::END) {
      completed.push_back(head_of(item));
      return;
    }
    rest.push_back(item);
    if (!g_.nullable(s)) return;
  }
}

Outlook ItemSets::outlook(Kernel kernel) {
  KernelData &k = kernels_[kernel];
  if (k.has_outlook) return k.outlook;
  std::vector<uint32_t> rules, expected;
  for (const Before &b : k.before) {
    if (b.symbol >= 0) rules.push_back(static_cast<uint32_t>(b.symbol));
    else expected.push_back(static_cast<uint32_t>(~b.symbol));
  }
  sort_once(rules);
  // Adds the rules that these begin with, transitively.
  const Unmark unmark{marked_, rules};
  for (uint32_t r : rules) marked_[r] = true;
  for (size_t i = 0; i < rules.size(); ++i) {
    structgen::charge();
    size_t items = 0;
    for (Item item : g_.productions(rules[i]))
      for (;; ++item) {
        ++items;
        const Symbol s = symbol_at(item);
        if (s == Grammar::END) break;
        if (s < 0) {
          expected.push_back(static_cast<uint32_t>(~s));
        } else if (!marked_[static_cast<uint32_t>(s)]) {
          marked_[static_cast<uint32_t>(s)] = true;
          rules.push_back(static_cast<uint32_t>(s));
        }
        if (!g_.nullable(s)) break;
      }
    structgen::charge(items / SYMBOLS_PER_UNIT);
  }
  const Outlook made = intern_outlook(std::vector<uint32_t>(rules), std::move(expected));
  k.outlook = made;
  k.has_outlook = true;
  return made;
}

Outlook ItemSets::intern_outlook(std::vector<uint32_t> rules, std::vector<uint32_t> expected) {
  structgen::charge((rules.size() + expected.size()) / 4);
  sort_once(rules);
  sort_once(expected);
  if (rules.empty() && expected.empty()) return 0;
  const Hash128 key = extend(hash_all(OUTLOOK, rules), hash_all(OUTLOOK, expected));
  if (auto it = outlook_index_.find(key); it != outlook_index_.end()) return it->second;
  OutlookData o;
  for (uint32_t r : rules) {
    const size_t before = o.before.size();
    for (Item item : g_.productions(r))
      for (;; ++item) {
        const Symbol s = symbol_at(item);
        if (s == Grammar::END) break;
        o.before.push_back({s, item});
        if (!g_.nullable(s)) break;
      }
    structgen::charge(1 + (o.before.size() - before) / SYMBOLS_PER_UNIT);
  }
  sort_numbers(o.before.begin(), o.before.end());
  o.rules = std::move(rules);
  o.expected = std::move(expected);
  charge((o.rules.size() + o.expected.size()) * 4 + o.before.size() * sizeof(Before) + sizeof(OutlookData) + 64);
  outlooks_.push_back(std::move(o));
  return outlook_index_[key] = static_cast<Outlook>(outlooks_.size() - 1);
}

Outlook ItemSets::merge_outlooks(Outlook a, Outlook b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (a > b) std::swap(a, b);
  if (auto it = merged_outlooks_.find(pair_of(a, b)); it != merged_outlooks_.end()) return it->second;
  std::vector<uint32_t> rules = outlooks_[a].rules, expected = outlooks_[a].expected;
  rules.insert(rules.end(), outlooks_[b].rules.begin(), outlooks_[b].rules.end());
  expected.insert(expected.end(), outlooks_[b].expected.begin(), outlooks_[b].expected.end());
  const Outlook made = intern_outlook(std::move(rules), std::move(expected));
  charge(32);
  return merged_outlooks_[pair_of(a, b)] = made;
}

Outlook ItemSets::only(Outlook outlook, uint32_t terminal) {
  std::vector<uint32_t> expected;
  if (terminal != UINT32_MAX && expects(outlook, terminal)) expected.push_back(terminal);
  return intern_outlook(std::vector<uint32_t>(outlooks_[outlook].rules), std::move(expected));
}

Kernel ItemSets::merge(Kernel a, Kernel b) {
  if (a == b || b == NONE) return a;
  if (a == NONE) return b;
  if (a > b) std::swap(a, b);
  const uint64_t key = pair_of(a, b);
  if (const Kernel *known = recent_merged_.find(key)) return *known;
  if (auto it = merged_.find(key); it != merged_.end()) return recent_merged_.put(key, it->second);
  std::vector<Item> items = kernels_[a].items;
  items.insert(items.end(), kernels_[b].items.begin(), kernels_[b].items.end());
  const Kernel made = intern(std::move(items));
  charge(32);
  return merged_[key] = made;
}

ItemSets::Scan ItemSets::scan(Outlook outlook, Symbol symbol) {
  const uint64_t key = pair_of(outlook, static_cast<uint32_t>(symbol));
  if (const Scan *known = recent_scans_.find(key)) return *known;
  if (auto it = scans_.find(key); it != scans_.end()) return recent_scans_.put(key, it->second);
  std::vector<Symbol> heads{symbol};
  std::vector<Item> rest;
  std::vector<uint32_t> completed;
  const std::vector<Before> &before = outlooks_[outlook].before;
  structgen::charge(1 + before.size() / 4);  // subtle: charged here and not below, where rules are marked
  for (size_t i = 0; i < heads.size(); ++i) {
    auto from = std::lower_bound(before.begin(), before.end(), Before{heads[i], 0});
    for (; from != before.end() && from->symbol == heads[i]; ++from) advance(from->item, rest, completed);
    for (uint32_t rule : completed)
      if (!marked_[rule]) {
        marked_[rule] = true;
        if (static_cast<Symbol>(rule) != symbol) heads.push_back(static_cast<Symbol>(rule));
      }
    completed.clear();
  }
  if (symbol >= 0) marked_[static_cast<uint32_t>(symbol)] = false;
  for (Symbol s : heads)
    if (s >= 0) marked_[static_cast<uint32_t>(s)] = false;
  Scan made{intern(std::move(rest)), intern_heads(std::move(heads))};
  charge(48);
  return scans_[key] = made;
}

const ItemSets::Move &ItemSets::move(Kernel kernel, Heads heads) {
  const uint64_t key = pair_of(kernel, heads);
  if (const Move *const *known = recent_moves_.find(key)) return **known;
  if (auto it = moves_.find(key); it != moves_.end()) return *recent_moves_.put(key, &it->second);
  std::vector<Item> rest;
  std::vector<uint32_t> completed;
  const std::vector<Before> &before = kernels_[kernel].before;
  auto from = before.begin();
  for (Symbol s : heads_[heads]) {
    structgen::charge();
    from = std::lower_bound(from, before.end(), Before{s, 0});
    for (; from != before.end() && from->symbol == s; ++from) advance(from->item, rest, completed);
  }
  sort_once(completed);
  Move made{intern(std::move(rest)), std::move(completed)};
  charge(sizeof(Move) + 48);
  return moves_[key] = std::move(made);
}

void ItemSets::moved_items(Kernel kernel, Symbol symbol, std::vector<Item> *out) const {
  const std::vector<Before> &before = kernels_[kernel].before;
  for (auto it = std::lower_bound(before.begin(), before.end(), Before{symbol, 0});
       it != before.end() && it->symbol == symbol; ++it)
    out->push_back(it->item + 1);
}

void ItemSets::predicted_items(Outlook outlook, Symbol symbol, std::vector<Item> *out) const {
  const std::vector<Before> &before = outlooks_[outlook].before;
  for (auto it = std::lower_bound(before.begin(), before.end(), Before{symbol, 0});
       it != before.end() && it->symbol == symbol; ++it)
    out->push_back(it->item + 1);
}

bool ItemSets::predicts(Outlook outlook, Symbol symbol) const {
  const std::vector<Before> &before = outlooks_[outlook].before;
  auto it = std::lower_bound(before.begin(), before.end(), Before{symbol, 0});
  return it != before.end() && it->symbol == symbol;
}

}  // namespace structgen
