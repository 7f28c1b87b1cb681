// The automaton of dotted rules: which items stand together, and where a symbol moves them.
//
// An Earley set holds items with origins. Those that share an origin always move together, so they are one
// *kernel*: an interned set of items whose dot is inside their production. What a kernel predicts (all of it with
// the set itself as origin) is its *outlook*. Both are made when first needed, and so are their moves; a set
// is then a short list of (kernel, origin) pairs. (Aycock and Horspool, "Practical Earley Parsing", 2002,
// with the states made lazily; nullable symbols are stepped over when a kernel is made.)
//
// A symbol that is recognised completes rules; within one set that chains on (unit rules, precedence levels). The
// rules completed that way are found out once for each outlook: they are the symbol's *heads*.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "util/hashing.h"

namespace structgen {

using Kernel = uint32_t;   // 0: none
using Outlook = uint32_t;  // 0: nothing is predicted or expected
using Heads = uint32_t;    // an interned sorted set of symbols

// What was found last in a table, each at one place of a few: where a grammar is ambiguous the same pairs are looked
// up millions of times for one mask.
template <class Value>
class Recent {
 public:
  // Null where the key is not among them.
  const Value *find(uint64_t key) const {
    const Slot &slot = slots_[place(key)];
    return slot.key == key ? &slot.value : nullptr;
  }
  const Value &put(uint64_t key, const Value &value) {
    Slot &slot = slots_[place(key)];
    slot = {key, value};
    return slot.value;
  }

 private:
  static constexpr int BITS = 9;
  struct Slot {
    uint64_t key = UINT64_MAX;
    Value value{};
  };
  static size_t place(uint64_t key) { return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> (64 - BITS)); }
  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << BITS);
};

class ItemSets {
 public:
  static constexpr Kernel NONE = 0;

  ItemSets(const Grammar &grammar, size_t most);

  // The item before the start symbol; completing its rule is accepting.
  Kernel start() const { return start_; }
  uint32_t accepting_rule() const { return accepting_; }

  struct Scan {   // where predicted items are moved by a symbol
    Kernel rest;  // of those that are not complete
    Heads heads;  // the symbol itself, and all rules that this completes at the same set
  };
  Scan scan(Outlook outlook, Symbol symbol);

  struct Move {  // where a kernel's items are moved by any of some symbols
    Kernel rest = NONE;
    std::vector<uint32_t> completed;  // rules
  };
  const Move &move(Kernel kernel, Heads heads);

  Kernel merge(Kernel a, Kernel b);
  Outlook outlook(Kernel kernel);
  Outlook merge_outlooks(Outlook a, Outlook b);
  // Terminals that the items of an outlook, and of the kernels it comes from, stand before; sorted.
  std::span<const uint32_t> expected(Outlook outlook) const { return outlooks_[outlook].expected; }
  // The same items where of all expected terminals only this one may come; UINT32_MAX: none.
  Outlook only(Outlook outlook, uint32_t terminal);
  bool expects(Outlook outlook, uint32_t terminal) const {
    const auto &e = outlooks_[outlook].expected;
    return std::binary_search(e.begin(), e.end(), terminal);
  }
  std::span<const Item> items(Kernel kernel) const { return kernels_[kernel].items; }
  Symbol symbol_before(Item item) const { return symbol_at(item); }  // the symbol that its dot is before
  uint32_t head(Item item) const { return head_of(item); }
  // Items after `symbol`, of a kernel or predicted, ends included; for searches that follow single items.
  void moved_items(Kernel kernel, Symbol symbol, std::vector<Item> *out) const;
  void predicted_items(Outlook outlook, Symbol symbol, std::vector<Item> *out) const;
  bool predicts(Outlook outlook, Symbol symbol) const;

  size_t memory() const { return bytes_; }
  size_t size() const { return kernels_.size() + outlooks_.size(); }

 private:
  struct Before {  // an item whose dot is before `symbol`
    Symbol symbol;
    Item item;
    bool operator<(const Before &o) const { return symbol != o.symbol ? symbol < o.symbol : item < o.item; }
    bool operator==(const Before &) const = default;
  };
  struct KernelData {
    std::vector<Item> items;
    std::vector<Before> before;  // sorted
    Outlook outlook = 0;
    bool has_outlook = false;
  };
  struct OutlookData {
    std::vector<uint32_t> rules;     // predicted, sorted
    std::vector<uint32_t> expected;  // terminals, sorted
    std::vector<Before> before;      // of predicted items; sorted
  };

  Kernel intern(std::vector<Item> items);
  Outlook intern_outlook(std::vector<uint32_t> rules, std::vector<uint32_t> expected);
  Heads intern_heads(std::vector<Symbol> symbols);
  // The item after the dot has moved over its symbol, with the items after nullable symbols. Adds complete rules to
  // `completed`.
  void advance(Item item, std::vector<Item> &rest, std::vector<uint32_t> &completed) const;
  void charge(size_t bytes);

  const Grammar &g_;
  size_t most_;
  Kernel start_ = 0;
  uint32_t accepting_;
  std::vector<Symbol> start_symbols_;  // of the production that is not in the grammar: start, END
  std::deque<KernelData> kernels_;
  std::deque<OutlookData> outlooks_;
  std::vector<std::vector<Symbol>> heads_;
  std::unordered_map<Hash128, uint32_t, HashOf128> kernel_index_, outlook_index_, heads_index_;
  std::unordered_map<uint64_t, Scan> scans_;
  std::unordered_map<uint64_t, Move> moves_;
  std::unordered_map<uint64_t, uint32_t> merged_, merged_outlooks_;
  Recent<Scan> recent_scans_;
  Recent<Kernel> recent_merged_;
  Recent<const Move *> recent_moves_;
  std::vector<bool> marked_;  // scratch: rules
  size_t bytes_ = 0;

  Symbol symbol_at(Item item) const {
    return item < g_.symbols.size() ? g_.symbols[item] : start_symbols_[item - g_.symbols.size()];
  }
  uint32_t head_of(Item item) const { return item < g_.symbols.size() ? g_.head[item] : accepting_; }
};

}  // namespace structgen
