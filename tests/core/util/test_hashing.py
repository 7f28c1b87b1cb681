"""Hashes that alone identify frames: hashes of different words differ, however little the words differ.

Masks and verdicts are cached under such hashes and nothing else, so one collision is a wrong mask. The hash has a new
key in each process; 10^5 pairs in each run leave a chance of 10^-33 for an accidental collision.
"""

from __future__ import annotations

import itertools
import random

from structgen._core import identity_hash

Words = tuple[int, ...]


def of(words: Words) -> tuple[int, int]:
    return identity_hash(1, words)


def small_words(source: random.Random) -> Words:
    """Like those of frames: small numbers, addresses, and numbers packed into one word."""
    kinds = (
        lambda: source.randrange(4),
        lambda: source.randrange(1 << 16),
        lambda: 0x7F00_0000_0000 + 16 * source.randrange(1 << 28),
        lambda: source.randrange(8) << 32 | source.randrange(4) << 16 | source.randrange(100),
        lambda: source.getrandbits(64),
    )
    return tuple(source.choice(kinds)() for _ in range(source.randrange(1, 9)))


def test_no_bit_of_any_word_is_lost() -> None:
    source = random.Random(1)
    for _ in range(2_000):
        words = small_words(source)
        at = of(words)
        for place in range(len(words)):
            for bit in (0, 1, source.randrange(64), 63):
                other = (*words[:place], words[place] ^ 1 << bit, *words[place + 1 :])
                assert of(other) != at, (words, other)


def test_all_short_words_differ() -> None:
    values = (0, 1, 2, 3, 4, 8, 1 << 16, 1 << 32, 1 << 63)
    seen: dict[tuple[int, int], Words] = {}
    for length in range(5):
        for words in itertools.product(values, repeat=length):
            assert seen.setdefault(of(words), words) == words


def test_sets_of_texts_differ() -> None:
    """Sets are hashed by the sum (exclusive or) of their members' hashes."""
    texts = [identity_hash(1, [ord(x), ord(y), 0]) for x in "abcdefgh" for y in "0123456789"]
    sums: dict[tuple[int, int], tuple[int, ...]] = {}
    for i, first in enumerate(texts):
        for j in range(i):
            for k in range(j):
                total = tuple(x ^ y ^ z for x, y, z in zip(first, texts[j], texts[k], strict=True))
                assert sums.setdefault(total, (i, j, k)) == (i, j, k)  # type: ignore[arg-type]


def test_each_half_has_every_bit_from_every_bit() -> None:
    """A bit of the words turns each bit of the hash in about half of all cases: 100 turns in 200, give or take 60."""
    source = random.Random(2)
    for bit in (0, 1, 31, 32, 62, 63):
        turned = [0] * 128
        for _ in range(200):
            word = source.getrandbits(64)
            one, two = identity_hash(1, [word, 0]), identity_hash(1, [word ^ 1 << bit, 0])
            for half in (0, 1):
                difference = one[half] ^ two[half]
                for i in range(64):
                    turned[64 * half + i] += difference >> i & 1
        assert all(40 < count < 160 for count in turned), (bit, turned)
