// Frames: what a state remembers of each open value, container, grammar and part of a sequence.
//
// A state is a stack of frames and is named by its top frame; `parent` is the frame below. A step makes new frames for
// what changes and shares all frames below. Each kind of frame has a type of its own, allocated with its own size, and
// a row of functions in a table (automaton/frame_operations.h). There are no virtual functions: a table lookup by
// `kind` costs less memory than a pointer in each frame.
//
// Invariant: a frame does not change after the step that made it, is trivially destructible, and points only to memory
// that lives as long as the frame.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>

#include "automaton/plan.h"
#include "json/key_tree.h"
#include "text/text_space.h"

namespace structgen {

// An item of an array with `uniqueItems`.
struct SeenItem {
  const SeenItem *previous;
  const char *text;  // of a string its characters, of a container its JSON text; else null
  uint32_t length;
  bool is_container;
  bool has_containers;  // this item or an earlier one is a container
  Hash128 hash;
};

// A text as a list of bytes, the last one first.
struct TextLink {
  const TextLink *previous;
  const char *base;  // if not null: the whole text up to here, in memory that outlives the link
  uint32_t length;   // of the text up to and including this link
  uint8_t byte;
  // In all arrays down to this depth, the item that is being read is known to differ from the earlier ones.
  // A cache, guarded by the lock of the program: it is also written where the link is shared.
  mutable int16_t known_distinct_depth = -1;
};

enum class FrameKind : uint8_t {
  End,  // the text has ended
  // JSON
  Value,
  String,
  Scalar,  // also regular expressions, which have no delimiters either
  Object,
  Key,
  Array,
  // Compositions
  Sequence,
  Alternatives,
  Grammar,
  Symbol,
};
constexpr size_t FRAME_KINDS = 11;

struct Frame {
  const Frame *parent;
  int32_t depth;
  FrameKind kind;
  bool is_traced = false;  // inside an array with `uniqueItems`: the text of its item is kept (JsonFrame::item_text)

 protected:
  Frame(FrameKind own, const Frame *below) : parent(below), depth(below ? below->depth + 1 : 0), kind(own) {}
};

// Is it a frame of type `T`, or of a type derived from `T`?
template <class T>
bool is(const Frame *frame) {
  return T::includes(frame->kind);
}

template <class T>
const T *as(const Frame *frame) {
  assert(is<T>(frame));
  return static_cast<const T *>(frame);
}

// Null for null, and for a frame of another type.
template <class T>
const T *as_if(const Frame *frame) {
  return frame && is<T>(frame) ? static_cast<const T *>(frame) : nullptr;
}

struct EndFrame : Frame {
  EndFrame() : Frame(FrameKind::End, nullptr) {}
  static bool includes(FrameKind kind) { return kind == FrameKind::End; }
};

// ---------------------------------------------------------------- JSON

struct JsonFrame : Frame {
  uint16_t space = 0;                   // the white space read in the current gap (text/json_space.h)
  JsonControl *json;                    // null: a regular expression
  const TextLink *item_text = nullptr;  // `is_traced`: the text since the innermost item began

  const JsonOptions &options() const { return json->schema().options; }
  Encoding encoding() const { return options().escapes == Escapes::All ? Encoding::AllEscapes : Encoding::Canonical; }
  static bool includes(FrameKind kind) { return kind >= FrameKind::Value && kind <= FrameKind::Array; }

 protected:
  JsonFrame(FrameKind own, const Frame *below, JsonControl *control) : Frame(own, below), json(control) {}
};

// A value that has not started.
struct ValueFrame : JsonFrame {
  ValueFrame(const Frame *below, JsonControl *json, ValueControl *value)
      : JsonFrame(FrameKind::Value, below, json), control(value) {}
  ValueControl *control;
  static bool includes(FrameKind kind) { return kind == FrameKind::Value; }
};

// A string without its quotes, or a scalar.
struct TextFrame : JsonFrame {
  ValueControl *control;
  // The text state under each root formula of the value's obligation, where the parent needs verdicts on them; else
  // null.
  const TextState *root_states = nullptr;
  TextState text = TextSpace::DEAD;
  static bool includes(FrameKind kind) { return kind == FrameKind::String || kind == FrameKind::Scalar; }

 protected:
  TextFrame(FrameKind own, const Frame *below, JsonControl *json, ValueControl *value)
      : JsonFrame(own, below, json), control(value) {}
};

struct StringFrame : TextFrame {
  StringFrame(const Frame *below, JsonControl *json, ValueControl *value)
      : TextFrame(FrameKind::String, below, json, value) {}
  uint32_t length = 0;  // characters
  static bool includes(FrameKind kind) { return kind == FrameKind::String; }
};

// A text without delimiters: a JSON number or literal, or a text of a regular expression.
struct ScalarFrame : TextFrame {
  ScalarFrame(const Frame *below, JsonControl *json, ValueControl *value)
      : TextFrame(FrameKind::Scalar, below, json, value) {}
  static bool includes(FrameKind kind) { return kind == FrameKind::Scalar; }
};

enum class Phase : uint8_t { Open, AfterKey, InValue, AfterValue, AfterComma };

struct ContainerFrame : JsonFrame {
  Phase phase = Phase::Open;
  static bool includes(FrameKind kind) { return kind == FrameKind::Object || kind == FrameKind::Array; }

 protected:
  using JsonFrame::JsonFrame;
};

struct ObjectFrame : ContainerFrame {
  ObjectFrame(const Frame *below, JsonControl *json, ObjectControl *object)
      : ContainerFrame(FrameKind::Object, below, json), control(object) {}
  uint32_t key_count = 0;
  ObjectControl *control;
  KeyControl *member = nullptr;             // of the latest key
  const uint64_t *seen_declared = nullptr;  // a bit for each key of the universe
  const KeyTree *seen_extra = nullptr;      // keys outside the universe
  int64_t last_rank = -1;                   // of the latest key, where keys come in declared order; else it stays -1
  Hash128 keys_hash;                        // of the set of keys

  ObjectView view() const { return {seen_declared, key_count, last_rank}; }
  static bool includes(FrameKind kind) { return kind == FrameKind::Object; }
};

// A key that is being read; its parent is the object.
struct KeyFrame : JsonFrame {
  KeyFrame(const ObjectFrame *object, const uint64_t *allowed_keys)
      : JsonFrame(FrameKind::Key, object, object->json), allowed(allowed_keys) {}
  TextState text = TextSpace::DEAD;         // of a key outside the universe
  uint32_t escape = 0;                      // the state of an escape that has started (text/json_text.h)
  uint32_t length = 0;                      // bytes
  uint32_t match_begin = 0, match_end = 0;  // the keys of the universe that begin with the text so far
  const uint64_t *allowed;                  // a bit for each key of the universe
  const TextLink *bytes = nullptr;          // the text, once no key of the universe begins with it
  const KeyTree *seen_extra = nullptr;      // extra keys of the object that begin with the text, where that may matter
  Hash128 hash;                             // of the text

  const ObjectFrame *object() const { return as<ObjectFrame>(parent); }
  static bool includes(FrameKind kind) { return kind == FrameKind::Key; }
};

struct ArrayFrame : ContainerFrame {
  ArrayFrame(const Frame *below, JsonControl *json, ArrayControl *array)
      : ContainerFrame(FrameKind::Array, below, json), control(array) {}
  uint32_t item_begin = 0;  // where the text of the latest item begins in `item_text`
  ArrayControl *control;
  ItemControl *item = nullptr;           // the latest one
  uint64_t count = 0;                    // items, the latest one included
  const SeenItem *seen_items = nullptr;  // of an array with `uniqueItems`
  static bool includes(FrameKind kind) { return kind == FrameKind::Array; }
};

// ---------------------------------------------------------------- compositions

// A sequence of plans. Its child is the frame of the part that is being read.
struct SequenceFrame : Frame {
  SequenceFrame(const Frame *below, const Plan *sequence) : Frame(FrameKind::Sequence, below), plan(sequence) {}
  uint32_t part = 0;
  const Plan *plan;
  uint64_t first_token = 0;  // if the plan has `max_tokens`: the number of the token in which its text began
  static bool includes(FrameKind kind) { return kind == FrameKind::Sequence; }
};

// Several parses of one text, as a list: the first one here, the others in `parent`.
struct AlternativesFrame : Frame {
  AlternativesFrame(const Frame *one, const Frame *others) : Frame(FrameKind::Alternatives, others), first(one) {
    depth = one->depth > others->depth ? one->depth : others->depth;
  }
  const Frame *first;
  const Frame *rest() const { return parent; }
  static bool includes(FrameKind kind) { return kind == FrameKind::Alternatives; }
};

// Calls `visit` with each parse of a state: the state itself if it is no list of alternatives.
template <class Visit>
void each_alternative(const Frame *state, const Visit &visit) {
  for (; const auto *list = as_if<AlternativesFrame>(state); state = list->rest()) {
    charge();
    visit(list->first);
  }
  if (state) visit(state);
}

// Positions of a grammar's parser.
struct ParserFrame : Frame {
  GrammarControl *grammar;
  const GrammarEntry *first_entry;
  uint32_t entry_count;
  std::span<const GrammarEntry> entries() const { return {first_entry, entry_count}; }
  static bool includes(FrameKind kind) { return kind == FrameKind::Grammar || kind == FrameKind::Symbol; }

 protected:
  ParserFrame(FrameKind own, const Frame *below, GrammarControl *control, std::span<const GrammarEntry> kept)
      : Frame(own, below),
        grammar(control),
        first_entry(kept.data()),
        entry_count(static_cast<uint32_t>(kept.size())) {}
};

// A text of a grammar: each entry is one way to parse it so far.
struct GrammarFrame : ParserFrame {
  GrammarFrame(const Frame *below, GrammarControl *control, std::span<const GrammarEntry> kept)
      : ParserFrame(FrameKind::Grammar, below, control, kept) {}
  static bool includes(FrameKind kind) { return kind == FrameKind::Grammar; }
};

// A grammar in which a text of another constraint stands: its child. The entries are the positions where that began.
struct SymbolFrame : ParserFrame {
  SymbolFrame(const Frame *below, GrammarControl *control, std::span<const GrammarEntry> kept, uint32_t constraint)
      : ParserFrame(FrameKind::Symbol, below, control, kept), terminal(constraint) {}
  uint32_t terminal;  // the one that the other constraint is
  static bool includes(FrameKind kind) { return kind == FrameKind::Symbol; }
};

// A scalar that its parent does not end by a byte of its own, so that what follows may begin at any byte.
inline bool is_open_ended(const Frame *scalar) {
  return scalar->parent && (is<SequenceFrame>(scalar->parent) || is<SymbolFrame>(scalar->parent));
}

// A matcher keeps about one frame for each token, so their size is most of its memory.
static_assert(sizeof(JsonFrame) <= 32 && sizeof(TextFrame) <= 56 && sizeof(ObjectFrame) <= 96 &&
              sizeof(KeyFrame) <= 96 && sizeof(ArrayFrame) <= 72 && sizeof(ParserFrame) <= 40);

}  // namespace structgen
