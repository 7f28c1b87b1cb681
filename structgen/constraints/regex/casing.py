"""Find the characters that are equal when case is ignored, in each dialect.

Why: case-insensitive matching turns each character into a small class. The dialects differ in a few characters (in
Python, dotless i is an i; ECMA-262 has Unicode simple case folding), and each is followed exactly.

Invariant: `variants(c)` contains `c`, and is the same set for every character in it; a class is closed under it.

Cost: ASCII is a constant table. The first call with a non-ASCII character reads the blocks of cased characters,
which takes about 5 ms.

Source: Unicode CaseFolding (simple); CPython's `re`, which joins the characters with a common upper case.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, lru_cache

from structgen.constraints.expressions import Ranges, normalise_ranges

__all__ = ["CASED_BLOCKS", "close_ranges", "variants"]

# All characters with case variants are in these blocks; a test checks this for all of Unicode.
CASED_BLOCKS = (
    (0x41, 0x5FF), (0x10A0, 0x10FF), (0x13A0, 0x13FF), (0x1C80, 0x1CBF), (0x1D79, 0x1D8E), (0x1E00, 0x1FFF),
    (0x2126, 0x2184), (0x24B6, 0x24E9), (0x2C00, 0x2D2D), (0xA640, 0xABBF), (0xFB00, 0xFB06),
    (0xFF21, 0xFF5A), (0x10400, 0x105BC), (0x10C80, 0x10CF2), (0x10D50, 0x10D85), (0x118A0, 0x118DF),
    (0x16E40, 0x16E7F), (0x16EA0, 0x16ED3), (0x1E900, 0x1E943),
)  # fmt: skip

_EXTRA_ASCII = {
    "python": {"i": "\u0130\u0131", "s": "\u017f", "k": "\u212a"},
    "ecma": {"s": "\u017f", "k": "\u212a"},
    "rust": {"s": "\u017f", "k": "\u212a"},
}


@cache
def variants(character: str, dialect: str, ascii_only: bool = False) -> str:
    """Return the characters that match `character`, including itself, in order."""
    if ascii_only or character.isascii():
        if not character.isascii() or not character.isalpha():
            return character
        lower = character.lower()
        extra = "" if ascii_only else _EXTRA_ASCII[dialect].get(lower, "")
        return lower.upper() + lower + extra
    return _groups(dialect).get(character, character)


@lru_cache(maxsize=64)
def close_ranges(ranges: Ranges, dialect: str, ascii_only: bool = False) -> Ranges:
    """Return the ranges with the case variants of all their characters."""
    result = list(ranges)
    if ascii_only or all(high < 0x80 for _, high in ranges):
        for point in range(0x41, 0x5B):
            same = variants(chr(point), dialect, ascii_only)
            if any(low <= ord(character) <= high for low, high in ranges for character in same):
                result.extend((ord(character), ord(character)) for character in same)
        return normalise_ranges(result)
    points, variants_of = _cased_points(dialect)
    added: set[int] = set()
    for low, high in ranges:
        for index in range(bisect_left(points, low), bisect_left(points, high + 1)):
            added.update(variants_of[index])
    result.extend((point, point) for point in added)
    return normalise_ranges(result)


@cache
def _cased_points(dialect: str) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the characters that have variants, in order, and the variants of each."""
    groups = sorted(_groups(dialect).items())
    return [ord(character) for character, _ in groups], [tuple(map(ord, same)) for _, same in groups]


@cache
def _groups(dialect: str) -> dict[str, str]:
    """Return the group of each character that has variants."""
    key = _python_keys if dialect == "python" else _ecma_keys
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    cased = [chr(point) for low, high in CASED_BLOCKS for point in range(low, high + 1)]
    for character in cased:
        root = find(character)
        for other in key(character):
            parent[find("=" + other)] = root = find(root)
    members: dict[str, str] = {}
    for character in cased:
        root = find(character)
        members[root] = members.get(root, "") + character
    return {character: group for group in members.values() if len(group) > 1 for character in group}


def _ecma_keys(character: str) -> tuple[str, ...]:
    """Return the simple case folding; a full folding, which is a longer text, does not count."""
    folded = character.casefold()
    if len(folded) > 1:
        folded = character.lower()
    return (folded if len(folded) == 1 else character,)


def _python_keys(character: str) -> tuple[str, ...]:
    """Return the simple lower case, and the full upper case; characters that share either are equal."""
    return (character.lower()[:1], "^" + character.upper())
