// Numbers that are given once. What is told apart by its address may be taken for something that has come to lie there
// later; what is remembered for longer than its owner lives is told apart by one of these.
#pragma once

#include <atomic>
#include <cstdint>

namespace structgen {

inline uint64_t next_serial() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace structgen
