// The automaton of a constraint: states are nodes, a step reads one byte.
//
// A node is the top of a stack of open frames (its `parent`), immutable once made, and
// lives in the arena of the matcher that made it. Dead is a null pointer. A program is a
// plan: regular expressions, JSON Schemas, and sequences and unions of them; the JSON part
// is deterministic, and `Alternatives` nodes hold the parallel readings that a sequence or a
// union can have.
//
// Invariant: a node that `step` returns has a completion (see the guarantees of
// RegexSpace and JsonControl).
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "automaton/plan.h"
#include "util/arena.h"
#include "json/key_tree.h"
#include "text/text_space.h"

namespace structgen {

struct SeenItem {  // of an array whose items must differ
  const SeenItem *previous;
  const char *text;  // of a string its characters, of a container its JSON; else null
  uint32_t length;
  bool container, containers;  // it is one; it or one before it is
  Hash128 hash;
};

struct TextLink {  // text of an extra key while it is read, last byte first
  const TextLink *previous;
  const char *base;  // or a run of bytes that other memory holds
  uint32_t length;   // in all
  uint8_t byte;
  int16_t differs_above = -1;  // see Reader; of the arrays around what has been read
};

enum class Phase : uint8_t { Open, AfterKey, InValue, AfterValue, AfterComma };

struct Node {
  enum Kind : uint8_t {
    End, Value, String, Scalar, Object, Key, Array, Sequence, Alternatives,
    Grammar,  // readings of a text of a grammar
    Symbol,   // a grammar in which another constraint's text stands
  } kind = End;
  Phase phase = Phase::Open;
  uint16_t space = 0;
  int32_t depth = 0;
  const Node *parent = nullptr;
  JsonControl *json = nullptr;
  union Control {
    ValueControl *value;
    ObjectControl *object;
    ArrayControl *array;
    const Plan *plan;
    const Node *left;  // Alternatives: one reading; `parent` is the rest
    GrammarControl *grammar;
  } control{};
  // String, Scalar, Key
  TextState text = TextSpace::DEAD;
  uint32_t escape = 0;             // Key
  // String: characters; Key: bytes; Sequence: index of the running part; Array: where in the trace its item begins;
  // Grammar: number of entries; Symbol: the terminal
  uint32_t length = 0;
  bool traced = false;  // inside an array whose items must differ: `trace` is the text since the item began
  uint32_t lo = 0, hi = 0;         // Key: range of the universe that still matches
  const TextState *roots = nullptr;  // String, Scalar: a state for each root of the goal
  const TextLink *link = nullptr;  // Key
  const GrammarEntry *entries = nullptr;  // Grammar; Symbol: where it began
  // Object, Array; Symbol: number of entries; Sequence whose tokens are counted: the token that its text began in
  uint64_t count = 0;
  int64_t last_rank = -1;  // kept where keys come in order only: elsewhere the set of keys tells all
  const uint64_t *bits = nullptr;  // Object: keys seen; Key: keys allowed
  const KeyTree *seen = nullptr;  // Object: extra keys; Key: those of them that begin as it does, if that may matter
  const SeenItem *items = nullptr;  // Array: where they must differ
  const TextLink *trace = nullptr;
  Hash128 hash;                    // Object: of the keys seen; Key: of the text
  union Child {
    KeyControl *key;
    ItemControl *item;
  } child{};

  // Of a grammar's text: its readings, or the places where the constraint in it began.
  std::span<const GrammarEntry> all_entries() const {
    return {entries, entries ? kind == Grammar ? length : static_cast<size_t>(count) : 0};
  }
};

// Frames of constraints in a grammar whose text has not begun. One with the empty text may not end before a byte of it is
// read: the grammar takes the empty text for itself, and might begin another one for ever.
struct Unread {
  const Node *frame;
  const Unread *outer;
};

// Who is reading: where nodes go, and how deep into the stack the reading looked.
struct Reader {
  Arena &arena;
  int32_t lowest = INT32_MAX;  // least depth of a frame whose content was used; -1: the end of the stack
  const TextLink *trace = nullptr;  // of the step that runs
  // Masks leave out which items are there already, and put that right token by token; `leaned` says that
  // an item's own text was used nevertheless.
  bool blind = false, leaned = false;
  Reads *reads = nullptr;  // of the mask of a grammar that is being made
  bool is_mask = false;    // a mask is being made, of a grammar or of what a grammar follows
  uint64_t work_left = UINT64_MAX;  // in grammars
  GrammarControl *worked_for = nullptr;  // the grammar whose moves are counted next, and how many it had made
  uint64_t worked = 0;
  const Unread *unread = nullptr;
  bool keeps_all = false;  // readings of a grammar that are alike are not merged: the text is traced
  bool repeats = false;  // blind: an array that began in the same token has more than one item, or a container
  int32_t differs_above = -1;  // depth of an array: in those down to it, the item that is being read equals none that is there
  // Where parts with `max_tokens` begin: the number of the token that is being read, whether its last byte is, and whether
  // that byte belongs to what came before.
  uint64_t token = 0;
  bool is_last_byte = false, is_read = false;
  std::vector<const Node *> *ended = nullptr;  // frames of such parts whose text ends where the token does
  const Plan *used_up = nullptr;               // the part whose tokens are used up, while its end is looked for
  void looked_at(const Node *frame) { lowest = std::min(lowest, frame ? frame->depth : -1); }
};

class Automaton {
 public:
  Automaton(std::unique_ptr<Plan> plan, TextSpace &text);

  const Node *start(Reader &r);
  const Node *step(Reader &r, const Node *node, uint8_t byte);
  // Reads a token of a set that the constraint names, whole.
  const Node *step_tokens(Reader &r, const Node *node, uint32_t set);
  // Reads a token as one of each set that has it, and not by its bytes.
  const Node *step_whole(Reader &r, const Node *node, uint32_t token);
  // Reads a token: what its bytes mean, and as one of each set that has it.
  const Node *step_token(Reader &r, const Node *node, uint32_t token);
  bool accepts(Reader &r, const Node *node) { return completes(r, node, nullptr); }
  // Is the text complete down to the frame `bottom`, below a grammar's node or null for all frames?
  bool completes(Reader &r, const Node *node, const Node *bottom);
  // Bytes that may begin a step; a superset, cheap.
  std::bitset<256> candidates(const Node *node);

  // The frame's part of the key under which masks are remembered.
  Hash128 signature(const Node *node);
  // Of all frames: states that are equal in it have the same completions, once `tokens` have been read.
  Hash128 stack_signature(const Node *node, uint64_t tokens);
  static Hash128 entry_identity(const GrammarEntry &entry);  // of all that can follow
  // The state after the value on top is complete, with no verdict in question.
  const Node *finish(Reader &r, const Node *parent);
  template <class Holds>
  const Node *finish_with(Reader &r, const Node *parent, const Holds &holds);

  // Pieces that masks use.
  const Node *close_extra_key(Reader &r, const Node *key_node);
  const Node *close_extra_key_of(Reader &r, const Node *key_node, uint32_t kind);
  Encoding encoding(const Node *node) const {
    return node->json->schema().options.escapes == Escapes::All ? Encoding::AllEscapes : Encoding::Canonical;
  }
  ObjectView view(const Node *object) const { return {object->bits, object->count, object->last_rank}; }
  std::string key_text(const Node *key_node) const;
  // The text of the item that is being read in `array`, as far as the trace goes.
  static std::string item_text(const TextLink *trace, const Node *array);
  // A value directly in an array whose items must differ, which the array's control tells apart.
  static bool told_apart(const Node *node) {
    return node->traced && node->parent->kind == Node::Array && node->parent->control.array->unique &&
           !(node->kind == Node::String && JsonControl::free_strings(node->control.value));
  }
  // Items that are containers (automaton/unique_items.cpp). The state from which the item that is being read becomes none of those
  // that are there, in all arrays whose items must differ; null: there is no such way. `n` itself where nothing is in the way.
  enum class Avoid : uint8_t { DeadEnds, All };  // where nothing else is left; all that are there
  const Node *differing(Reader &r, const Node *n, Avoid avoid = Avoid::DeadEnds);
  static bool has_containers(const Node *array);
  // The items of each array around `n`, from the outermost on and below a depth, that what has been read may become, where the
  // item may not become enough others: now, or as long as neither a bracket nor two quotes are read. `before`: the same for
  // the text without its last byte. `rests`: of the string or key that is being read.
  using SeenItems = std::vector<const SeenItem *>;
  using ItemsAhead = std::vector<std::pair<const Node *, SeenItems>>;
  enum class Until : uint8_t { Now, Closed, Never };  // Never: all of them, however free the item is
  ItemsAhead items_ahead(const Node *n, int32_t above, Until until, const ItemsAhead *before = nullptr,
                         std::set<std::string> *rests = nullptr);
  // Is the key that is being read there already, as an extra one?
  bool extra_seen(const Node *key_node) const;
  // Is there a key that may come and is not there yet?
  bool key_left(Reader &r, const Node *object);
  // Are so few extra keys left that one token might hold them all?
  bool keys_run_out(const Node *object);
  // May this byte, in a key, lead along or close one that is there already?
  bool meets_seen_key(const Node *key_node, uint8_t byte) const;

  // Parts with `max_tokens` (automaton/token_counts.cpp).
  bool counts_tokens() const { return counts_tokens_; }
  bool cuts() const { return cuts_; }
  // The state where a token ends, `tokens` having been read: parts that have used up their tokens end where they can.
  // `in_character`: the text ends inside a character, where no part is cut.
  const Node *end_token(Reader &r, const Node *n, uint64_t tokens, bool in_character);
  // The next byte of a text of which no tokens are known: it counts as a token.
  static void reads_byte(Reader &r, uint64_t before) {
    r.token = before;
    r.is_last_byte = true;
  }
  // All states that tokens of any lengths may lead to here, each byte that was read counting as a token.
  const Node *with_cuts(Reader &r, const Node *n, uint64_t bytes);
  // May a part be cut here, if so many tokens have been read?
  bool may_be_cut(const Node *n, uint64_t tokens) const;

  // Grammars (automaton/grammar_frames.cpp). A *place* is an entry in which nothing of a lexeme has been read.
  // The place where terminal `t` leads, which ends in `entry`; false: nowhere.
  bool after_terminal(Reader &r, GrammarControl &g, const GrammarEntry &entry, uint32_t t, GrammarEntry *out);
  // The same for another constraint, wherever it began.
  bool after_constraint(Reader &r, const Node *frame, GrammarEntry *out);
  // Where a grammar's text stands if nothing more is read into its lexeme: one place, or several where readings differ.
  struct Place {
    GrammarEntry at;
    Re after;  // no text of it may begin what follows
  };
  std::vector<Place> places(Reader &r, const Node *n);
  // The same state with the parser past lexemes that are over. Masks are remembered by the state, and places that many
  // lexemes lead to are one so.
  const Node *past_lexemes(Reader &r, const Node *n);
  enum class Beginning { All, Touched };  // of the grammar's lexemes: see Lexer::begin_touched
  // What begins with `byte` at a place, in a grammar's node whose parent is `parent`; `earlier` must not match.
  const Node *begin_at(Reader &r, GrammarControl &g, const GrammarEntry &place, Re earlier, uint8_t byte, const Node *parent,
                       Beginning which = Beginning::All);
  // Of that, other constraints and what follows the grammar's text.
  const Node *begin_others_at(Reader &r, GrammarControl &g, const GrammarEntry &place, uint8_t byte, const Node *parent);
  // The other constraint that is terminal `t`, at a place.
  const Node *begin_constraint(Reader &r, GrammarControl &g, const GrammarEntry &place, uint32_t t, const Node *parent);
  const Node *grammar_node(Reader &r, GrammarControl &g, std::span<const GrammarEntry> entries, const Node *parent);
  // The frame of terminal `t`, another constraint that began at some places, which differ in their sets alone.
  const Node *symbol_node(Reader &r, GrammarControl &g, std::span<const GrammarEntry> places, uint32_t t, const Node *parent);
  // Can the same follow two states, as far as that shows?
  bool same(Reader &r, const Node *a, const Node *b);
  // One state that goes on as either of two does, which differ in the readings of one grammar at most: in their entries, or in
  // the places of a grammar where the same constraint began. It is `b` if they are the same, null if they differ in more.
  const Node *joined(Reader &r, const Node *a, const Node *b);
  // Either of two states; null stands for none.
  const Node *joined_with(Reader &r, const Node *a, const Node *b) { return alternatives(r, a, b); }
  // States of one grammar with the same frame, as one.
  const Node *merged(Reader &r, std::span<const Node *const> states);
  // Is the text of the grammar on top complete?
  bool grammar_ends(Reader &r, const Node *node);
  const Node *start_of(Reader &r, const Plan &plan) { return begin(r, plan, nullptr); }
  // Sets of tokens that may be named anywhere in the plan, by their numbers.
  const std::map<uint32_t, const TokenSet *> &token_sets() const { return token_sets_; }
  // Those of which a token may come, whatever its bytes are; sorted.
  std::vector<uint32_t> expected_sets(Reader &r, const Node *node);

  TextSpace &text() { return text_; }
  bool writes_lines() const { return writes_lines_; }
  const Plan &plan() const { return *plan_; }
  uint64_t unproven() const;
  size_t memory() const;
  // The requirement is empty from the start; says which part when it can.
  bool empty(Reader &r) { return start(r) == nullptr; }

  // Work in grammars is counted in units of about 20 ns of CPU time; `UNITS` of them are one of the limit `mask_steps`.
  static constexpr uint64_t UNITS = 10;
  // Bounds the work of one mask, and of the bytes of one token that are read from here on.
  void bound_mask(Reader &r) const;
  void bound_token(Reader &r) const;
  // A step in `g`, with what its parser has done since the last one. Throws `LimitError` past the bound.
  void count_step(Reader &r, GrammarControl &g);
  void count_work(Reader &r, uint64_t units);
  uint64_t work() const { return work_; }  // counted so far

 private:
  const Node *begin(Reader &r, const Plan &plan, const Node *parent);
  const Node *value(Reader &r, const Node *parent, JsonControl *json, ValueControl *v, uint16_t space);
  const Node *read(Reader &r, const Node *n, uint8_t b);
  // Takes the item of `array` that ends here into account; false when it may not be.
  bool take_item(Reader &r, const Node *array, ArrayControl **control, const SeenItem **items);
  bool scalar_has_many(const Node *n, uint64_t many);
  bool frames_have_many(const Node *n, const Node *array, uint64_t many, Until until);
  bool has_many(const Node *n, const Node *array, uint64_t many, Until until);
  // The arrays around a state, from the outermost on and below a depth, in which what is being read must differ.
  static std::vector<const Node *> arrays_to_differ(const Node *n, int32_t above);
  static SeenItems items_alike(const Node *n, const Node *array, const SeenItems *among, std::set<std::string> *rests);
  // The state in the item of `array` that is being read, without the values that it may become.
  const Node *read_again(Reader &r, const Node *n, const Node *array, const SeenItems &alike);
  const Node *step_space(Reader &r, const Node *n, uint8_t b);
  // Can the white space that has begun lead to a token? It may have settled which kind of token that is.
  bool leads_on(Reader &r, const Node *n, uint16_t space);
  bool too_deep(const Node *value) const;
  const Node *step_value(Reader &r, const Node *n, uint8_t b);
  const Node *step_string(Reader &r, const Node *n, uint8_t b);
  const Node *step_scalar(Reader &r, const Node *n, uint8_t b);
  const Node *step_object(Reader &r, const Node *n, uint8_t b);
  const Node *step_key(Reader &r, const Node *n, uint8_t b);
  const Node *step_array(Reader &r, const Node *n, uint8_t b);
  const Node *step_grammar(Reader &r, const Node *n, uint8_t b);
  template <class Read>
  const Node *read_first(Reader &r, const Node *child, const Read &read);
  const Node *tokens_in_grammar(Reader &r, const Node *n, uint32_t set);
  void add_expected_sets(Reader &r, const Node *n, std::vector<uint32_t> &out);
  std::bitset<256> grammar_candidates(const Node *n);
  bool newline_leads_on(Reader &r, GrammarControl &g, const GrammarEntry &entry);
  bool settle(Reader &r, GrammarControl &g, GrammarEntry &entry, uint8_t byte);
  template <class Visit>
  void each_place(Reader &r, const Node *n, const Visit &visit);
  // Leaves out readings that are there already.
  void drop_equal(Reader &r, GrammarControl &g, GrammarEntries &entries);
  // Are these two readings one, as far as it matters?
  Hash128 lexeme_outcome(Reader &r, GrammarControl &g, const GrammarEntry &entry);
  bool same_entry(Reader &r, GrammarControl &g, const GrammarEntry &a, const GrammarEntry &b);
  const Node *close_key(Reader &r, const Node *n);
  TextState without_seen(Reader &r, const Node *object, TextState text, size_t length, const KeyTree **seen);
  const Node *open_key(Reader &r, const Node *object);
  const Node *alternatives(Reader &r, const Node *a, const Node *b);
  const Node *either(Reader &r, const Node *a, const Node *b);
  // After the text of `frame`, if it is complete.
  const Node *after_part(Reader &r, const Node *n, const Node *frame);
  const Node *without(Reader &r, const Node *all, const Node *one);
  bool have_same_entries(Reader &r, const Node *a, const Node *b);
  const Node *object_after_key(Reader &r, const Node *object, KeyControl *key, int64_t index, const Node *key_node);

  std::unique_ptr<Plan> plan_;
  TextSpace &text_;
  std::map<uint32_t, const TokenSet *> token_sets_;
  uint64_t work_ = 0;
  bool counts_tokens_ = false, cuts_ = false;  // some part has `max_tokens`; some such part is cut
  bool writes_lines_ = false;  // some value is written with an indentation
};

}  // namespace structgen
