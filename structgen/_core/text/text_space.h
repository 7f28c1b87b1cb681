// What all constraints on one vocabulary share: the regular expressions, the flat tables of text states, and
// *fragments*, which say which tokens below a trie node stay inside a text and where others leave it. A fragment is
// made once and serves every schema, pattern and position with the same text state.
//
// A text state is a regular expression with the encoding through which it is read: plain bytes, or the inside of a JSON
// string with its escape state. Rows of text states are flat: DEAD, LEAVE (the closing quote of a complete string), or
// a state. `hold` guards the space; programs over the same space take turns.
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "regex/regex.h"
#include "text/gap_tokens.h"
#include "text/host_tokens.h"
#include "text/json_text.h"
#include "util/fork_safety.h"
#include "util/hashing.h"
#include "util/work.h"
#include "vocabulary/kind_tokens.h"
#include "vocabulary/mask.h"
#include "vocabulary/rest_trie.h"
#include "vocabulary/token_sets.h"
#include "vocabulary/vocabulary.h"

namespace structgen {

using TextState = uint32_t;

enum class Encoding : uint8_t { Plain, Canonical, AllEscapes };

struct Limits {
  RegexLimits regex;
  size_t automaton_states = 200'000;               // states of regular expressions that one program may make
  size_t mask_cache_bytes = size_t{16} << 20;      // per program
  size_t fragment_cache_bytes = size_t{64} << 20;  // per vocabulary
  size_t space_bytes = size_t{256} << 20;          // regular expressions, before a fresh space is made
  size_t oracle_budget = 20'000;                   // steps to decide whether one requirement can hold
  uint32_t max_depth = 1'000;                      // open containers
  size_t max_alternatives = 256;                   // parallel readings of a sequence or union
  size_t listed_containers = 10'000;               // arrays and objects in one enum
  size_t mask_steps = 5'000'000;                   // of a grammar for one mask; four tokens each to find short texts
  size_t earley_items = 50'000;                    // items at one position of a text
  size_t call_steps = 50'000'000;                  // work of one call (util/work.h); four times as much for searches
  size_t program_bytes = size_t{1} << 30;          // heap memory that one program makes
};

// Where tokens of a fragment leave the text. In strings, `node` is the trie node of the closing quote; in plain texts,
// of the first byte after the text.
struct Exit {
  Vocabulary::Node node;
  uint32_t characters;  // of the text before it
};

// Tokens of a fragment that end in one state, each with the characters that it adds to the text.
struct TokensByEnd {
  struct Token {
    uint32_t id, characters;
  };
  TextState end;
  std::vector<Token> tokens;
  // Or all tokens of some kinds that have this number of characters.
  std::shared_ptr<const KindTokens> kinds;
  uint32_t characters = 0;
};

struct Fragment {
  bool dense = false;
  std::vector<uint32_t> bits;  // one bit per token id, if the fragment is dense or has many `ids`
  std::vector<uint32_t> ids;   // if it is not dense, with the characters that each adds to the text
  std::vector<uint32_t> characters;
  std::vector<Exit> exits;
  std::unique_ptr<RestTrie> rests;                   // of `exits`, for strings; made on demand
  std::unique_ptr<std::vector<TokensByEnd>> by_end;  // made on demand
  int64_t needs = -1;                                // an upper bound; see TextSpace::needs
  size_t memory() const;
};

// Tokens that can end an item of an array.
struct EndingTokens {
  std::vector<uint32_t> all, after_quote;  // from outside a string, and from inside
  std::vector<uint32_t> commas;            // more tokens, which end an item that is a scalar
  std::vector<uint32_t> brackets;          // with a closing bracket
  std::vector<uint32_t> with_quote,
      with_end;             // bits by id: with a quote; with a quote or a byte that may follow an item
  bool second_key = false;  // some token may close a key and then contain a whole one
};

class Lexemes;

class TextSpace {
 public:
  static constexpr TextState DEAD = 0, LEAVE = 1;
  using TextRow = std::array<TextState, 256>;

  TextSpace(std::shared_ptr<const Vocabulary> vocabulary, const Limits &limits, std::shared_ptr<HeapAccount> heap);
  ~TextSpace();

  const Vocabulary &vocabulary() const { return *vocabulary_; }
  RegexSpace &regex() { return regex_; }
  Lexemes &lexemes() { return *lexemes_; }  // those of grammars
  TokenSets &token_sets() { return token_sets_; }
  const Limits &limits() const { return limits_; }
  // Locks the space. Throws if the calling thread holds it and would wait for itself. Waiting can be interrupted as
  // work can (util/work.h).
  std::unique_lock<ForkMutex> hold();
  const std::shared_ptr<MaskPool> &mask_pool() const { return mask_pool_; }

  TextState state(Re re, uint32_t escape, Encoding encoding);
  const TextRow &row(TextState s) {
    if (!states_[s].row) fill(s);
    return *states_[s].row;
  }
  Re re(TextState s) const { return states_[s].re; }
  uint32_t escape(TextState s) const { return states_[s].escape; }
  // Can the open escape of `s` become a character after which `enough` holds?
  bool escape_viable(TextState s, const std::function<bool(Re)> &enough) {
    return escape_viable(states_[s].re, states_[s].escape, states_[s].encoding, enough);
  }
  // Can tokens spell this character string inside a JSON string, escaped canonically?
  bool spells(std::string_view text) const;
  // The strings of a language that tokens can spell inside JSON.
  Re writable(Re re);
  // May a plain text end here?
  bool complete(TextState s) const { return states_[s].complete; }

  // Tokens below trie node `node`, whose byte leads to state `s`. With `by_end` they are also grouped by the states in
  // which they end; only for strings.
  Fragment &fragment(Vocabulary::Node node, TextState s, bool by_end = false);
  const RestTrie &rests(Fragment &fragment);
  // Tokens that may come at the start of white space between JSON tokens, for flexible layouts.
  const GapTokens &gap_tokens(const JsonOptions &options);
  // A number of characters that suffices for every token of a fragment with `by_end` and some completion after it.
  int64_t needs(Fragment &fragment);
  // Builds what masks need if constraints of this space have internationalised host names. Called at compile time,
  // since it takes longer than a mask may.
  void prepare_host_names();
  // Is the rest of the text such a name? Fragments at the root then have `needs` from the start.
  bool reads_host_names(TextState s) const;

  // Tokens of at most `n` plain characters (no quote, control character or backslash): one bit per id.
  const std::vector<uint32_t> &at_most_characters(uint32_t n);
  // `structgen::escape_can_be` (text/json_text.h) with the bytes that the vocabulary spells, cached.
  bool escape_can_be(uint32_t escape, std::string_view character, Escapes mode);
  uint32_t longest_characters() const { return longest_characters_; }
  // Ids of tokens with a backslash or control byte: an escape is one character of several bytes.
  const std::vector<uint32_t> &escaped_tokens() const { return escaped_tokens_; }

  // `lines`: lines are indented, so that a line feed after an item means that its array ends.
  const EndingTokens &ending_tokens(bool lines);

  // Can tokens complete a plain text from `s`? If every byte of the vocabulary is a token, each live state can;
  // otherwise a search over pairs of states and tokens decides.
  bool spellable(TextState s);

  // Finds the fewest tokens that complete a plain text from `s`; false if the budget ends first. With `cut` the budget
  // also bounds work, and `cut` reports whether it ended the search.
  bool fewest_tokens(TextState s, std::vector<uint32_t> *out, bool *cut = nullptr);

  // The greatest minimal length in characters over the states reachable from `re`, or an upper bound; -1: too many
  // states.
  int64_t reach(Re re);

  void make_room();  // evicts fragments past their budget
  size_t memory() const { return heap_->memory(); }
  const std::shared_ptr<HeapAccount> &heap() const { return heap_; }  // of the space and all its programs

 private:
  struct State {
    Re re;
    uint32_t escape;
    Encoding encoding;
    bool complete;
    Kinds loops;
    std::unique_ptr<TextRow> row;
  };
  static constexpr Kinds NO_KINDS_YET = ~Kinds{0};
  void fill(TextState s);
  Kinds loops(TextState s);
  bool escape_viable(Re re, uint32_t escape, Encoding encoding, const std::function<bool(Re)> &enough);
  template <class Met>
  bool any_token(TextState s, const Met &met);
  // The states to which the characters of some kinds lead, all of them to the same one: by the number of characters.
  struct Chain {
    Kinds kinds = 0;
    std::vector<TextState> states;
  };
  Chain chain(TextState s);
  // Any characters of some kinds, this number of them or fewer, that may follow in any order.
  struct FreeCharacters {
    Kinds kinds = 0;
    uint32_t count = 0;
  };
  FreeCharacters free_characters(TextState s);
  std::shared_ptr<const KindTokens> kind_tokens(Kinds kinds);
  const HostTokens &host_tokens(const HostNameMachine &machine);
  struct HostNamesAt {
    std::shared_ptr<const HostNameMachine> machine;
    uint64_t state;
  };
  std::unique_ptr<Fragment> of_host_names(const HostNamesAt &at, std::vector<TokensByEnd> *by_end);
  // The fragment at the root of a state that reads host names, alone or as one alternative; null for other states.
  std::unique_ptr<Fragment> with_host_names(TextState s, std::vector<TokensByEnd> *by_end);
  std::optional<HostNamesAt> host_names_at(Re re) const;
  class Walk;  // makes fragments (text/fragment_walk.cpp)
  std::unique_ptr<Fragment> walk(Vocabulary::Node node, TextState s, std::vector<TokensByEnd> *by_end = nullptr);
  TextState similar_state(TextState s, std::bitset<256> *differing);
  std::unique_ptr<Fragment> narrow(const Fragment &any, Vocabulary::Node node, TextState s);

  std::shared_ptr<HeapAccount> heap_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  Limits limits_;
  std::shared_ptr<MaskPool> mask_pool_;
  RegexSpace regex_;
  std::unique_ptr<Lexemes> lexemes_;
  TokenSets token_sets_{*vocabulary_};
  std::vector<uint32_t> unspellable_;  // characters that must be escaped and whose escape no tokens spell
  ForkMutex mutex_{ForkMutex::Space};
  std::vector<State> states_;  // rows stay where they are when it grows
  std::unordered_map<uint64_t, TextState> index_;
  std::unordered_map<uint64_t, std::unique_ptr<Fragment>> fragments_;
  // By the state after a letter: the last state with a dense fragment at the root.
  std::unordered_map<TextState, TextState> dense_at_root_;
  std::unordered_map<Kinds, std::shared_ptr<const KindTokens>> kind_tokens_;
  std::unordered_map<uint64_t, std::unique_ptr<GapTokens>> gap_tokens_;  // by the bounds of white space
  std::unique_ptr<const HostTokens> host_tokens_;
  std::unordered_map<Re, int64_t> reach_;
  std::unordered_map<TextState, bool> spellable_;
  std::vector<uint32_t> token_characters_;  // UINT32_MAX where the token has no text
  std::vector<uint32_t> escaped_tokens_;
  std::unordered_map<uint64_t, bool> escapes_[2];  // by escape and character, for each policy
  std::unique_ptr<EndingTokens> ending_tokens_[2];
  std::vector<std::unique_ptr<std::vector<uint32_t>>> at_most_;
  uint32_t longest_characters_ = 0;
  size_t table_bytes_ = 0, fragment_bytes_ = 0;
};

}  // namespace structgen
