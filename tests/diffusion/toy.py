"""A masked diffusion model whose distribution is a fixed function of the text, and a small world for it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

import structgen as sg

__all__ = ["CLOSE", "MASK", "VOCABULARY", "Toy", "texts_of"]

TOKENS = [None, None, b"a", b"b", b"(", b")", b"ab", b"()", b"b)"]
CLOSE, MASK = 0, 1
VOCABULARY = sg.Vocabulary.from_tokens(TOKENS, [CLOSE])


class Toy:
    """Logits are a hash of the whole row and the place, so every commit changes all of them."""

    def __init__(self, *, closes: bool = False, sharpness: float = 3.0) -> None:
        self.vocabulary = VOCABULARY
        self.mask_id: int = MASK
        self.closing = (CLOSE,) if closes else ()
        self.sharpness = sharpness
        self.passes = 0
        self.rows = 0

    def frame(self, prompt: Any) -> tuple[list[int], list[int]]:
        return list(prompt or ()), []

    def logits(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        self.passes += 1
        self.rows += len(rows)
        out = np.empty((*rows.shape, VOCABULARY.size), dtype=np.float32)
        for number, row in enumerate(rows):
            seed = int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "little")
            out[number] = (
                np.random.default_rng(seed).normal(size=(len(row), VOCABULARY.size)) * self.sharpness
            )
        out[..., MASK] = -30.0
        return out


def texts_of(
    constraint: sg.Constraint, cells: list[int | None], closing: tuple[int, ...] = ()
) -> set[tuple[int, ...]]:
    """All ways to fill the open cells, by the matcher; closing tokens at the end."""
    matcher = sg.Matcher(constraint, VOCABULARY)
    found: set[tuple[int, ...]] = set()

    def go(place: int, so_far: tuple[int, ...]) -> None:
        rest = cells[place:]
        closes = (not rest or closing) and all(cell is None or cell in closing for cell in rest)
        if closes and matcher.is_complete():
            found.add(so_far + closing[:1] * len(rest))
        if place == len(cells):
            return
        for token in range(2, VOCABULARY.size) if cells[place] is None else [cells[place]]:
            assert token is not None
            if token != CLOSE and matcher.advance(token):
                go(place + 1, (*so_far, token))
                matcher.rollback(1)

    go(0, ())
    return found
