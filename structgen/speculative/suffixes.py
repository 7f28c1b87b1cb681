"""An index of token sequences that finds where the end of a text occurred before.

What: tokens are kept in one list, with a table from each pair (and each single token) to the last positions after it.
The longest match is found by comparing backwards from those positions. A suffix tree would find the same; this takes a
tenth of its memory, and the positions are bounded, which bounds the time.
Source: Oliaro et al. 2024 (SuffixDecoding), who keep suffix trees of the outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["SuffixIndex"]

Key = TypeVar("Key")

_COMPARED_POSITIONS = 24
"""The number of positions of a pair that are compared, the last ones."""
BREAK = -1
"""Separates two texts."""


class SuffixIndex:
    """Finds matches of up to `longest` tokens."""

    def __init__(self, longest: int = 16) -> None:
        self._longest = longest
        self._tokens: list[int] = []
        self._pairs: dict[tuple[int, int], list[int]] = {}
        self._single: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        before = self._tokens[-1] if self._tokens else BREAK
        for token in tokens:
            self._tokens.append(token)
            position = len(self._tokens)
            self._single.setdefault(token, []).append(position)
            self._pairs.setdefault((before, token), []).append(position)
            before = token

    def cut(self, size: int) -> None:
        """Keep the first `size` tokens."""
        while len(self._tokens) > size:
            position = len(self._tokens)
            token = self._tokens.pop()
            before = self._tokens[-1] if self._tokens else BREAK
            _take(self._single, token, position)
            _take(self._pairs, (before, token), position)

    def latest(self, tokens: Sequence[int]) -> tuple[int, int] | None:
        """Return the length of the longest continued match of the end of `tokens`, and the last position after one."""
        best, positions = self._matches(tokens)
        return (best, positions[0]) if positions else None

    def following(self, tokens: Sequence[int]) -> tuple[int, Counter[int]]:
        """Return the length of the longest continued matches of the end of `tokens`, and the counts of what follows."""
        best, positions = self._matches(tokens)
        return best, Counter(self._tokens[position] for position in positions)

    def after(self, position: int, most: int) -> list[int]:
        """Return up to `most` tokens from a position on, to the end of their text."""
        run = self._tokens[position : position + most]
        return run[: run.index(BREAK)] if BREAK in run else run

    def _matches(self, tokens: Sequence[int]) -> tuple[int, list[int]]:
        """Return the length of the longest continued matches, and the positions after them, the latest first."""
        best, matches = 0, list[int]()
        if not tokens:
            return best, matches
        for positions in (
            self._pairs.get((tokens[-2], tokens[-1]), ()) if len(tokens) > 1 else (),
            self._single.get(tokens[-1], ()),
        ):
            for position in positions[: -_COMPARED_POSITIONS - 1 : -1]:
                if position == len(self._tokens) or self._tokens[position] == BREAK:
                    continue
                length = self._length(tokens, position)
                if length > best:
                    best = length
                    matches.clear()
                if length == best:
                    matches.append(position)
            if matches:
                break
        return best, matches

    def _length(self, tokens: Sequence[int], position: int) -> int:
        mine, length, most = self._tokens, 1, min(self._longest, position, len(tokens))
        while length < most and mine[position - 1 - length] == tokens[-1 - length]:
            length += 1
        return length


def _take(table: dict[Key, list[int]], key: Key, position: int) -> None:
    positions = table[key]
    assert positions[-1] == position
    positions.pop()
    if not positions:
        del table[key]
