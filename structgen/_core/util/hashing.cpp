#include "util/hashing.h"

#include <random>

namespace structgen {

const HashKey &process_hash_key() {
  static const HashKey key = [] {
    std::random_device device;
    auto word = [&] { return (static_cast<uint64_t>(device()) << 32) | device(); };
    uint64_t k0 = word();
    return HashKey{k0, word()};
  }();
  return key;
}

}  // namespace structgen
