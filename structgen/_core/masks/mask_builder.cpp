#include "masks/mask_builder.h"

#include <utility>

#include "automaton/token_steps.h"
#include "masks/text_tokens.h"
#include "text/json_space.h"
#include "util/stack.h"

namespace structgen {
namespace {

// Below a trie node with fewer nodes than this, a walk costs less than looking up a fragment.
constexpr uint32_t SMALL_SUBTREE = 12;

// Can white space of a flexible layout begin here, between JSON tokens?
bool begins_flexible_gap(const Frame *state) {
  if (!is<ValueFrame>(state) && !is<ContainerFrame>(state)) return false;
  const auto *json = as<JsonFrame>(state);
  return json->space == 0 && json->options().whitespace == Whitespace::Flexible;
}

}  // namespace

MaskBuilder::MaskBuilder(Automaton &a, ContextFragments &fragments, Arena &arena)
    : automaton(a),
      text(a.text()),
      vocabulary(text.vocabulary()),
      context_fragments(fragments),
      ctx{arena},
      grammar(*this) {
  automaton.limit_mask_work(ctx);
}

MaskBuilder::MaskBuilder(Automaton &a, ContextFragments &fragments, Arena &arena, uint64_t work_left)
    : MaskBuilder(a, fragments, arena) {
  ctx.work_left = work_left;
}

void MaskBuilder::allow_end(Mask &mask, bool is_complete) {
  mask.complete = is_complete;
  if (is_complete) set_all(vocabulary.eos_ids());
}

void MaskBuilder::add_below(Vocabulary::Node at, const Frame *state) {
  check_stack("a token is too long");
  // subtle: also at a small root, since only these functions check that tokens can complete the text.
  if (at == Vocabulary::ROOT || vocabulary.end(at) - at > SMALL_SUBTREE) switch (state->kind) {
      case FrameKind::String: return add_string_tokens(*this, at, as<StringFrame>(state));
      case FrameKind::Key: return add_key_tokens(*this, at, as<KeyFrame>(state));
      case FrameKind::Scalar: return add_scalar_tokens(*this, at, as<ScalarFrame>(state));
      case FrameKind::Grammar: return grammar.add_tokens(at, as<GrammarFrame>(state));
      default: break;
    }
  add_by_bytes(at, state);
}

void MaskBuilder::add_blanks(const JsonFrame *state) {
  const GapTokens &gap = text.gap_tokens(state->options());
  charge(gap.blank.size() / 4);
  set_all(gap.blank);
  read_rests(gap.rests, 0, state, [&](uint32_t n) {
    for (uint32_t i = gap.rests.first_item[n]; i < gap.rests.first_item[n + 1]; ++i) set(gap.rests.items[i].id);
  });
}

void MaskBuilder::add_by_bytes(Vocabulary::Node at, const Frame *state) {
  const std::bitset<256> candidates = automaton.candidates(state);
  const auto add_child = [&](Vocabulary::Node n) {
    Branch branch(*this);
    if (const Frame *next = automaton.step(ctx, state, vocabulary.byte(n))) add_from(n, next);
  };
  if (at == Vocabulary::ROOT) {
    const bool gap = begins_flexible_gap(state);
    if (gap) add_blanks(as<JsonFrame>(state));
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      if (candidates.test(byte) && !(gap && is_space(byte)) && vocabulary.root_child(byte) != Vocabulary::NONE)
        add_child(vocabulary.root_child(byte));
    }
    return;
  }
  for (const Vocabulary::Child *c = vocabulary.children(at); !c->is_end; ++c)
    if (candidates.test(c->byte)) add_child(c->node);
}

void MaskBuilder::add_from(Vocabulary::Node at, const Frame *state) {
  set_all(vocabulary.ids(at));
  if (vocabulary.end(at) > at + 1) add_below(at, state);
}

void MaskBuilder::add_rests(const RestTrie &trie, const Frame *state, uint64_t least, uint64_t most) {
  const auto emit = [&](uint32_t n) {
    for (uint32_t i = trie.first_item[n]; i < trie.first_item[n + 1]; ++i)
      if (trie.items[i].characters >= least && trie.items[i].characters <= most) set(trie.items[i].id);
  };
  emit(0);
  read_rests(trie, 0, state, emit);
}

void MaskBuilder::add_named_tokens(const Frame *state) {
  if (automaton.token_sets().empty()) return;
  const ArenaScope scope(ctx.arena);
  for (const uint32_t set : expected_token_sets(automaton, ctx, state)) {
    const TokenSet &tokens = *automaton.token_sets().at(set);
    charge(1 + std::min<size_t>(tokens.size(), vocabulary.words()) / 16);
    tokens.add_to(words_);
  }
}

bool MaskBuilder::can_read(const Frame *state, uint32_t id, size_t skip) {
  charge();
  const ArenaScope scope(ctx.arena);
  const std::string_view bytes = vocabulary.token(id);
  for (size_t i = skip; i < bytes.size() && state; ++i)
    state = automaton.step(ctx, state, static_cast<uint8_t>(bytes[i]));
  return state != nullptr;
}

SeparateMask::SeparateMask(MaskBuilder &m)
    : m_(m), agenda_(m.grammar.exchange_agenda(nullptr)), words_(m.words_), own_(m.vocabulary.words()) {
  m.words_ = own_.data();
}

SeparateMask::~SeparateMask() {
  add_bits(words_, own_.data(), own_.size());
  m_.words_ = words_;
  m_.grammar.exchange_agenda(agenda_);
}

}  // namespace structgen
