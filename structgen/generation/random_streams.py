"""Random streams from seeds: each row, walk or particle has a stream of its own.

Invariant: a stream is a function of the seed and of its branch alone. So the draws of one row depend neither on other
rows nor on the size of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GumbelNoise", "RowRandom", "UniformRows", "uniform_stream"]

_ROWS = 64
_LENGTH = 32
_CHUNK = 128


def uniform_stream(seed: Sequence[int], *branch: int) -> np.random.Generator:
    """Return the generator of a row. `branch` names a side stream, which leaves the main one alone."""
    key = (*seed[1:], len(branch), *branch)  # the length keeps a branch apart from a longer seed
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed[0], spawn_key=key)))


class GumbelNoise:
    """Gumbel noise as a function of a seed, a position and a token.

    The token with the greatest log p + noise is a draw from p. Two similar distributions mostly have it at the same
    token. So a draft that is drawn with the noise of its position is accepted more often than one drawn independently.
    Source: Salmon et al. 2011 (counter-based random numbers); Steele et al. 2014 (SplitMix64); Maddison et al. 2014
    (Gumbel-max).
    """

    def __init__(self, seed: Sequence[int]) -> None:
        self._key = int(
            np.random.SeedSequence(seed[0], spawn_key=tuple(seed[1:])).generate_state(1, np.uint64)[0]
        )

    def __call__(self, ids: NDArray[np.int64], position: int, branch: int = 0) -> NDArray[np.float64]:
        """Return the noise of these tokens; `branch` distinguishes several draws at one position."""
        return _gumbel(self._bits(ids, position, branch))

    def best(self, scores: NDArray[Any], ids: NDArray[np.int64], position: int, branch: int = 0) -> int:
        """Return the index of the greatest score + noise. Logarithms are taken of the few candidates only."""
        bits = self._bits(ids, position, branch)
        top = float(scores.max())
        candidates = np.flatnonzero(scores > top - _CANDIDATE_GAP)
        values = scores[candidates] + _gumbel(bits[candidates])
        index, value = int(candidates[values.argmax()]), float(values.max())
        # Lower scores need noise above this to win.
        needed = math.exp(-math.exp(min(700.0, top - _CANDIDATE_GAP - value)))
        lucky = np.flatnonzero((bits >= np.uint64(int(needed * 2.0**53))) & (scores <= top - _CANDIDATE_GAP))
        if lucky.size:
            values = scores[lucky] + _gumbel(bits[lucky])
            if float(values.max()) > value:
                index = int(lucky[values.argmax()])
        return index

    def _bits(self, ids: NDArray[np.int64], position: int, branch: int) -> NDArray[np.uint64]:
        """Return 53 random bits for each token."""
        key = _mixed(
            np.array([self._key ^ _mixed_int((position + (branch << 40)) & _UINT64_MASK)], dtype=np.uint64)
        )
        return _mixed(key + ids.astype(np.uint64) * _GOLDEN) >> np.uint64(11)


def _gumbel(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    noise: NDArray[np.float64] = -np.log(-np.log((bits.astype(np.float64) + 0.5) * 2.0**-53))
    return noise


_UINT64_MASK = (1 << 64) - 1
_CANDIDATE_GAP = 6.0
"""Candidates that are always computed have a score less than this below the top one."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply SplitMix64's finaliser: every output bit depends on every input bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _mixed_int(value: int) -> int:
    return int(_mixed(np.array([value], dtype=np.uint64) * _GOLDEN)[0])


class RowRandom:
    """The random numbers of one row of a generation."""

    def __init__(self, seed: Sequence[int]) -> None:
        self.noise = GumbelNoise(seed)
        self._seed = seed
        self._stream: np.random.Generator | None = None
        self._uniforms: NDArray[np.float64] = np.empty(0)

    def uniform(self, position: int, attempt: int, retries: int, redrawn: int = 0) -> float:
        """Return the uniform number of a position; a draw after a rejected one has a stream of its own."""
        if redrawn:
            return float(uniform_stream(self._seed, position, attempt, retries, redrawn).random())
        if attempt or retries:
            return float(uniform_stream(self._seed, position, attempt, retries).random())
        if self._stream is None:
            self._stream = uniform_stream(self._seed)
        while position >= len(self._uniforms):
            self._uniforms = np.concatenate((self._uniforms, self._stream.random(_CHUNK)))
        return float(self._uniforms[position])


class UniformRows:
    """Endless rows of uniform numbers in [0, 1), for short walks: one generator serves 64 rows."""

    def __init__(self, seed: Sequence[int]) -> None:
        self._seed = seed
        self._block = -1
        self._rows: list[list[float]] = []

    def __call__(self, row: int) -> Iterator[float]:
        """Return row `row` from its start."""
        block, index = divmod(row, _ROWS)
        if block != self._block:
            self._block = block
            self._rows = uniform_stream(self._seed, block).random((_ROWS, _LENGTH)).tolist()
        return chain(self._rows[index], self._rest(row))

    def _rest(self, row: int) -> Iterator[float]:
        random = uniform_stream(self._seed, row, _LENGTH)
        while True:
            yield float(random.random())
