"""Masked diffusion decoding without a constraint, the baseline of constrained decoding.

The schedule is that of `fill`: of all open cells it fills those whose drawn token is the most likely. It excludes only
tokens without a text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from structgen.diffusion import Canvas, Filling, fill
from structgen.diffusion.model import DiffusionModel, read_logits

__all__ = ["Pair", "fill_freely", "timed_pair"]


def fill_freely(
    model: DiffusionModel,
    cells: Sequence[int | None],
    *,
    tokens_per_step: int = 1,
    temperature: float = 0.0,
    seed: int = 0,
    prompt: Any = None,
) -> tuple[list[int], float]:
    """The tokens of all cells, and the seconds that it took. None: an open cell."""
    started = time.perf_counter()
    before, after = model.frame(prompt)
    chance = np.random.default_rng(seed)
    filled = list(cells)
    vocabulary = model.vocabulary
    spoken = [
        vocabulary.token_bytes(token) is not None or token in model.closing
        for token in range(vocabulary.size)
    ]
    silent = np.flatnonzero(~np.array(spoken))
    open_cells = [cell for cell, token in enumerate(filled) if token is None]
    while open_cells:
        row = [model.mask_id if token is None else token for token in filled]
        logits = read_logits(model, before, [row], after)[0][open_cells].astype(np.float64)
        logits[:, silent] = -np.inf
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        if temperature:
            warm = np.where(p > 0, p, 1.0) ** (1 / temperature) * (p > 0)
            sums = np.cumsum(warm / warm.sum(axis=1, keepdims=True), axis=1)
            tokens = np.minimum((sums < chance.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)
        else:
            tokens = p.argmax(axis=1)
        sure = p[np.arange(len(p)), tokens]
        for index in np.argsort(-sure, kind="stable")[:tokens_per_step]:
            filled[open_cells[index]] = int(tokens[index])
        open_cells = [cell for cell in open_cells if filled[cell] is None]
    return [token for token in filled if token is not None], time.perf_counter() - started


class Pair(NamedTuple):
    """A filling at temperature 0, in seconds without the constraint and with it."""

    free: float
    constrained: float
    filling: Filling


def timed_pair(model: DiffusionModel, canvas: Canvas, tokens_per_step: int, rounds: int = 4) -> Pair:
    """Both ways in turn, the quickest of each counts: other work on the machine only ever adds."""
    free, constrained = [], []
    for _ in range(rounds):
        free.append(fill_freely(model, canvas.tokens, tokens_per_step=tokens_per_step)[1])
        started = time.perf_counter()
        filling = fill(model, canvas, tokens_per_step=tokens_per_step)
        constrained.append(time.perf_counter() - started)
    return Pair(min(free), min(constrained), filling)
