"""Uniform numbers from seeds: each row, walk or particle has a stream of its own.

Invariant: a stream is a function of the seed and of its branch alone, so that what one row draws does not depend on the
others, nor on how many share a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

__all__ = ["UniformRows", "uniform_stream"]

_ROWS = 64
_LENGTH = 32


def uniform_stream(seed: Sequence[int], *branch: int) -> np.random.Generator:
    """The generator of one row; `branch` names a side stream (a redraw) that leaves the main one alone."""
    key = (*seed[1:], len(branch), *branch)  # the count keeps a branch apart from a longer seed
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed[0], spawn_key=key)))


class UniformRows:
    """Endless rows of uniform numbers in [0, 1), for short walks: a generator is made for 64 of them."""

    def __init__(self, seed: Sequence[int]) -> None:
        self._seed = seed
        self._block = -1
        self._rows: list[list[float]] = []

    def __call__(self, row: int) -> Iterator[float]:
        """Row `row`, from its beginning."""
        block, place = divmod(row, _ROWS)
        if block != self._block:
            self._block = block
            self._rows = uniform_stream(self._seed, block).random((_ROWS, _LENGTH)).tolist()
        return chain(self._rows[place], self._rest(row))

    def _rest(self, row: int) -> Iterator[float]:
        random = uniform_stream(self._seed, row, _LENGTH)
        while True:
            yield float(random.random())
