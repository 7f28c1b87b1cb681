// A JSON string after its opening quote.
#include "automaton/frame_operations.h"
#include "automaton/text_frames.h"

namespace structgen {

const TextState *step_root_states(TextSpace &text, Arena &arena, const TextState *states, size_t count, uint8_t byte) {
  auto *after = static_cast<TextState *>(arena.allocate(count * sizeof(TextState)));
  for (size_t i = 0; i < count; ++i) {
    const TextState next = states[i] ? text.row(states[i])[byte] : TextSpace::DEAD;
    after[i] = next == TextSpace::LEAVE ? TextSpace::DEAD : next;
  }
  return after;
}

const Frame *finish_text(Automaton &automaton, StepContext &ctx, const TextFrame &frame) {
  if (!frame.root_states) return automaton.finish(ctx, frame.parent);
  TextSpace &text = automaton.text();
  return automaton.finish(ctx, frame.parent, [&](uint32_t i) { return text.complete(frame.root_states[i]); });
}

namespace {

const Frame *close(Automaton &automaton, StepContext &ctx, const StringFrame &string) {
  if (string.length < string.control->string.min) return nullptr;
  const AfterByte after(ctx);
  return finish_text(automaton, ctx, string);
}

// Has the language a text from `state` on that keeps `length` characters within the bounds?
bool fits_bounds(TextSpace &text, const StringLanguage &language, TextState state, uint32_t length) {
  const Re re = text.re(state);
  if ((language.max == UNBOUNDED && length >= language.min) || re == RegexSpace::ANY_TEXT) return true;
  const int64_t least = language.min > length ? static_cast<int64_t>(language.min - length) : 0;
  const int64_t most = language.max == UNBOUNDED ? -1 : static_cast<int64_t>(language.max - length);
  const auto fits = [&](Re rest) { return text.regex().has_length(rest, least, most); };
  return text.escape(state) == 0 ? fits(re) : text.escape_viable(state, fits);
}

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  const auto &string = *as<StringFrame>(frame);
  TextSpace &text = automaton.text();
  const TextState state = text.row(string.text)[byte];
  if (state == TextSpace::DEAD) return nullptr;
  if (state == TextSpace::LEAVE) return close(automaton, ctx, string);
  const StringLanguage &language = string.control->string;
  // A character counts when it begins: at its first byte, or at its backslash.
  uint32_t length = string.length;
  if (text.escape(string.text) == 0 && (byte & 0xc0) != 0x80) {
    if (length >= language.max) return nullptr;
    ++length;
  }
  if (!fits_bounds(text, language, state, length)) return nullptr;
  auto *next = ctx.arena.make<StringFrame>(string);
  next->text = state;
  next->length = length;
  if (string.root_states)
    next->root_states = step_root_states(text, ctx.arena, string.root_states, language.roots.size(), byte);
  return next;
}

// A text is identified by its state alone, unless the parent needs verdicts on it.
Hash128 signature(Automaton &automaton, const Frame *frame) {
  constexpr uint64_t AT_LEAST = uint64_t{1} << 40;
  const auto &string = *as<StringFrame>(frame);
  TextSpace &text = automaton.text();
  const StringLanguage &language = string.control->string;
  Hash128 h = extend(begin_signature(automaton, frame, nullptr), string.text);
  if (language.min > string.length) h = extend(h, language.min - string.length + AT_LEAST);
  if (language.max != UNBOUNDED) {
    const int64_t reach = text.reach(text.re(string.text));
    const uint64_t left = language.max - string.length;
    if (reach < 0 || left < text.longest_characters() + static_cast<uint64_t>(reach)) h = extend(h, left);
  }
  if (!string.root_states) return h;
  h = extend(h, reinterpret_cast<uint64_t>(string.control));
  for (size_t i = 0; i < language.roots.size(); ++i) h = extend(h, string.root_states[i]);
  return h;
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) {
  const auto &string = *as<StringFrame>(frame);
  StringFrame *copy = copier.clone_json(string);
  copy->root_states = copier.copy_array(string.root_states, string.control->string.roots.size());
  return copy;
}

bool equals(const Frame *a, const Frame *b) {
  const auto &x = *as<StringFrame>(a), &y = *as<StringFrame>(b);
  return x.control == y.control && x.text == y.text && x.length == y.length && !x.root_states && !y.root_states;
}

}  // namespace

const FrameOperations STRING_FRAME{step, never_completes, has_no_child, any_byte, signature, copy_into, equals};

}  // namespace structgen
