// Hashes: a fast mixer for interning tables and a keyed 128-bit hash for identities.
//
// Identities (the set of keys seen, the signature of a frame) are compared by 128-bit
// hash only; the key is random per process, so that a schema or a text cannot be made
// to collide.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace structgen {

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t h = a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2));
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93ULL;
  h ^= h >> 29;
  return h;
}

struct Hash128 {
  uint64_t a = 0, b = 0;
  bool operator==(const Hash128 &) const = default;
  // Order-independent combination, for sets.
  Hash128 &operator^=(const Hash128 &o) {
    a ^= o.a;
    b ^= o.b;
    return *this;
  }
};

struct HashKey {
  uint64_t k0, k1;
};
const HashKey &process_hash_key();

// Order-dependent combination, keyed.
inline Hash128 extend(Hash128 h, uint64_t value) {
  const HashKey &k = process_hash_key();
  __uint128_t x = static_cast<__uint128_t>((h.a ^ value ^ k.k0) | 1) * ((h.b + k.k1) | 1);
  auto lo = static_cast<uint64_t>(x), hi = static_cast<uint64_t>(x >> 64);
  return {mix(lo ^ h.b, value + k.k1), mix(hi + h.a, value ^ k.k0)};
}

inline Hash128 hash_text(std::string_view text) {
  Hash128 h{1, 2};
  for (unsigned char c : text) h = extend(h, c);
  return h;
}

struct HashOf128 {
  size_t operator()(const Hash128 &h) const { return h.a ^ (h.b * 0x9e3779b97f4a7c15ULL); }
};

}  // namespace structgen
