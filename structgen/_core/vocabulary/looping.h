// Which kinds of characters lead a deterministic state back to itself.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "vocabulary/byte_kinds.h"

namespace structgen {

// `step(state, byte)`; 0 is dead. Only bytes that are `spellable` count.
template <class State, class Step>
Kinds looping_kinds(State s, const std::bitset<256> &spellable, const Step &step) {
  Kinds all = 0, leaving = 0;
  for (uint8_t b = 0; b < 128; ++b) (step(s, b) == s ? all : leaving) |= kind_of(b);
  Kinds out = all & ~leaving;
  if (out == 0) return 0;
  // Do `more` + 1 bytes, the first of them from `low` to `high`, always lead from `from` to `s`?
  auto returns = [&](auto &self, State from, int low, int high, int more) -> bool {
    State checked = 0;
    for (int b = low; b <= high; ++b) {
      if (!spellable.test(static_cast<size_t>(b))) continue;
      const State to = step(from, static_cast<uint8_t>(b));
      if (to != 0 && to == checked) continue;
      if (to == 0 || (more == 0 ? to != s : !self(self, to, 0x80, 0xbf, more - 1))) return false;
      checked = to;
    }
    return true;
  };
  for (size_t i = 0; i < std::size(kinds::BEYOND_ASCII); ++i) {
    const kinds::Led &led = kinds::BEYOND_ASCII[i];
    State checked = 0;
    bool every = true;
    for (int b = led.from; b <= led.to && every; ++b) {
      if (!spellable.test(static_cast<size_t>(b))) continue;
      const State to = step(s, static_cast<uint8_t>(b));
      if (to != 0 && to == checked) continue;
      every = to != 0 && returns(returns, to, led.low, led.high, led.more);
      checked = to;
    }
    if (every) out |= kinds::of_led(i);
  }
  return out;
}

}  // namespace structgen
