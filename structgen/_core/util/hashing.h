// Hashes: a fast mixer for interning tables and a keyed 128-bit hash for identities.
//
// Identities (the set of keys seen, the signature of a frame) are compared by 128-bit
// hash only; the key is random per process, so that a schema or a text cannot be made
// to collide.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "util/work.h"

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

// Both halves of the 128-bit product, folded: every bit of `x` reaches every bit.
inline uint64_t folded(uint64_t x, uint64_t factor) {
  const __uint128_t product = static_cast<__uint128_t>(x) * factor;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Order-dependent combination, keyed. Two rounds of a Feistel network, so for each value it is a permutation of the
// hashes: a difference of two hashes is never lost, unless a value undoes it, and the key that this takes is secret.
inline Hash128 extend(Hash128 h, uint64_t value) {
  const HashKey &k = process_hash_key();
  h.a ^= value;
  h.b ^= folded(h.a ^ k.k0, 0x9e3779b97f4a7c15ULL);
  h.a ^= folded(h.b ^ k.k1, 0xd6e8feb86659fd93ULL);
  return h;
}

// The hash of these words. Everything that distinguishes identities goes in as a word. `kind` is a small constant for
// the meaning of the words.
template <class... Words>
Hash128 hash_words(uint64_t kind, Words... words) {
  Hash128 h{0, kind};
  ((h = extend(h, static_cast<uint64_t>(words))), ...);
  return h;
}

inline Hash128 extend(Hash128 h, const Hash128 &other) { return extend(extend(h, other.a), other.b); }

// Each character takes two multiplications, one after the other. Long texts are charged in pieces, so that a limit can
// end a hash in the middle.
template <class Text>
Hash128 hash_characters(Text text) {
  constexpr size_t PIECE = 4096, CHARACTERS_PER_UNIT = 6;
  Hash128 h = hash_words(1);
  for (size_t from = 0;; from += PIECE) {
    const Text piece = text.substr(from, PIECE);
    charge(1 + piece.size() / CHARACTERS_PER_UNIT);
    for (auto c : piece) h = extend(h, sizeof c == 1 ? static_cast<unsigned char>(c) : static_cast<uint64_t>(c));
    if (text.size() - from <= PIECE) return h;
  }
}

inline Hash128 hash_text(std::string_view text) { return hash_characters(text); }

// The contribution of a member to a set's hash: mixed once more, so that sums of similar members do not cancel out.
inline Hash128 member(const Hash128 &h) { return extend(h, 0); }

struct HashOf128 {
  size_t operator()(const Hash128 &h) const { return h.a ^ (h.b * 0x9e3779b97f4a7c15ULL); }
};

// For tables whose keys come from untrusted input.
struct KeyedTextHash {
  size_t operator()(std::string_view text) const { return HashOf128{}(hash_text(text)); }
  size_t operator()(std::u32string_view text) const { return HashOf128{}(hash_characters(text)); }
};

}  // namespace structgen
