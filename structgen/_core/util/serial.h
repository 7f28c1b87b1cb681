// Serial numbers, each given once. An address identifies an object only while the object lives. A record that outlives
// the object identifies it by a serial number.
#pragma once

#include <atomic>
#include <cstdint>

namespace structgen {

inline uint64_t next_serial() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace structgen
