// The automaton of dotted rules: which items occur together, and where a symbol moves them.
//
// An Earley set holds items with origins. Those that share an origin always move together, so they are one
// *kernel*: an interned set of items whose dot is inside their production. The items that a kernel predicts are its
// *outlook*; their origin is the set itself. Kernels, outlooks and their moves are made when they are first needed. An
// Earley set is then a short list of (kernel, origin) pairs. Source: Aycock and Horspool, "Practical Earley Parsing",
// 2002. Here the states are made lazily, and a new kernel contains the items after nullable symbols.
//
// A recognised symbol completes rules, and these may complete further rules in the same set (unit rules, precedence
// levels). The rules that are completed in this way, and the symbol itself, are the symbol's *heads*. They are computed
// once for each outlook.
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

// A small direct-mapped cache in front of a hash table. In an ambiguous grammar, one mask looks up the same pairs
// millions of times.
template <class Value>
class Recent {
 public:
  // Null if the key is not cached.
  const Value *find(uint64_t key) const {
    const Slot &slot = slots_[slot_of(key)];
    return slot.key == key ? &slot.value : nullptr;
  }
  const Value &put(uint64_t key, const Value &value) {
    Slot &slot = slots_[slot_of(key)];
    slot = {key, value};
    return slot.value;
  }

 private:
  static constexpr int BITS = 9;
  struct Slot {
    uint64_t key = UINT64_MAX;
    Value value{};
  };
  static size_t slot_of(uint64_t key) { return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> (64 - BITS)); }
  std::vector<Slot> slots_ = std::vector<Slot>(size_t{1} << BITS);
};

class ItemSets {
 public:
  static constexpr Kernel NONE = 0;

  ItemSets(const Grammar &grammar, size_t most);

  // The kernel of the item before the start symbol. A text that completes the rule of this item is accepted.
  Kernel start() const { return start_; }
  uint32_t accepting_rule() const { return accepting_; }

  struct Scan {   // the predicted items after a symbol
    Kernel rest;  // the items that are not complete
    Heads heads;  // the symbol itself, and all rules that it completes in the same set
  };
  Scan scan(Outlook outlook, Symbol symbol);

  struct Move {                       // a kernel's items after any of the symbols in `heads`
    Kernel rest = NONE;               // the items that are not complete
    std::vector<uint32_t> completed;  // the rules of the complete items
  };
  const Move &move(Kernel kernel, Heads heads);

  Kernel merge(Kernel a, Kernel b);
  Outlook outlook(Kernel kernel);
  Outlook merge_outlooks(Outlook a, Outlook b);
  // The terminals after the dots of an outlook's items, and of the kernels that it was made for; sorted.
  std::span<const uint32_t> expected(Outlook outlook) const { return outlooks_[outlook].expected; }
  // The same predicted items, but with `terminal` as the only expected terminal; UINT32_MAX: no terminal is expected.
  Outlook only(Outlook outlook, uint32_t terminal);
  bool expects(Outlook outlook, uint32_t terminal) const {
    const auto &e = outlooks_[outlook].expected;
    return std::binary_search(e.begin(), e.end(), terminal);
  }
  std::span<const Item> items(Kernel kernel) const { return kernels_[kernel].items; }
  Symbol symbol_after_dot(Item item) const { return symbol_at(item); }  // the symbol after the item's dot
  uint32_t head(Item item) const { return head_of(item); }
  // For searches that follow single items: the items of a kernel, or the predicted ones, after `symbol`. Complete items
  // are included.
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
