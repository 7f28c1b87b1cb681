"""`SeparateSession`: one cache and one forward pass for each row.

It is for models whose memory has no slots that could be empty: sliding windows, recurrent layers, biases by distance.
Invariant: a row's logits are those of one forward pass over its own tokens, up to the rounding of the kernels.
Cost: a forward pass per row and `append`; a memory that cannot be cropped is rebuilt by a pass over the row's tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from structgen.errors import ModelError
from structgen.protocols import SessionCapabilities

from .cached_session import CachedSession, Tokens
from .caches import kinds_of_layers, memory_of, positions

__all__ = ["SeparateSession"]


class SeparateSession(CachedSession):
    """One cache per row, one forward pass per row."""

    def __init__(self, model: object, size: int, prompts: Tokens, layers: Sequence[int] = ()) -> None:
        super().__init__(model, size, len(prompts), layers)
        kinds = kinds_of_layers(model)
        self._memory = memory_of(model, size)
        crops_cheaply = kinds <= {"DynamicLayer", "DynamicSlidingWindowLayer"}  # others are rebuilt
        self._capabilities = SessionCapabilities(
            scores_runs=True, crops_cheaply=crops_cheaply, joins=True, draft_limit=self._memory.same_up_to
        )
        self._slides = crops_cheaply and kinds != {"DynamicLayer"}
        self._caches: list[Any] = [self._cache() for _ in prompts]
        self._owed = [0 for _ in prompts]
        """Tokens that the cache still has and the row has not. With sliding windows they are cropped before the next
        pass, because only until then does the cache hold what slid out of the window."""
        self._fresh = [0 for _ in prompts]
        """The number of tokens of each row in the last pass."""
        self.append(prompts)

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        taken: set[int] = set()
        caches = []
        for row in rows:
            caches.append(copy.deepcopy(self._caches[row]) if row in taken else self._caches[row])
            taken.add(row)
        self._caches = caches
        self._owed = [self._owed[row] for row in rows]
        self._fresh = [self._fresh[row] for row in rows]
        self._tokens = [list(self._tokens[row]) for row in rows]
        self._stale = {index for index, row in enumerate(rows) if row in self._stale}
        self._last, self._array = self._last[list(rows)], None
        if self._hidden is not None:
            self._hidden = self._hidden.select(rows)

    def join(self, other: SeparateSession) -> None:
        """See `Session.join`."""
        held = len(self._tokens)
        if self._hidden is not None and other._hidden is not None:
            self._hidden.join(other._hidden)
        self._caches += other._caches
        self._owed += other._owed
        self._fresh += other._fresh
        self._tokens += other._tokens
        self._stale |= {held + row for row in other._stale}
        self._last, self._array = torch.cat([self._last, other._last]), None

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`. A memory that cannot be cropped so far is rebuilt from the tokens."""
        self._check_length(row, n)
        if n:
            self._forget(row, n)
            self._stale.add(row)

    def _cache(self) -> Any:
        cache = DynamicCache(config=self._model.config)
        if self._slides:
            cache.activate_past_recording()
        return cache

    def _forget(self, row: int, n: int) -> None:
        self._take_back(row, n)
        if self._hidden is not None:
            self._hidden.crop(row, n)

    def _take_back(self, row: int, n: int) -> None:
        """Remove the last `n` tokens of a row from its tokens and its cache."""
        del self._tokens[row][len(self._tokens[row]) - n :]
        if self._slides:
            self._owed[row] += n
            if self._owed[row] > self._fresh[row]:
                self._rebuild(row)
            return
        try:
            self._caches[row].crop(-n)
        except RuntimeError:
            self._rebuild(row)

    def _rebuild(self, row: int) -> None:
        self._caches[row] = self._cache()
        self._owed[row], self._fresh[row] = 0, len(self._tokens[row])
        if self._tokens[row]:
            self._forward(torch.tensor([self._tokens[row]]), self._caches[row], 1)

    def _crop_owed(self, row: int, new: int) -> None:
        """Before a pass, crop the owed tokens and drop what slid out of the window."""
        if self._slides and self._fresh[row]:
            self._caches[row].crop(-self._owed[row])
        self._owed[row], self._fresh[row] = 0, new

    def _read_again(self) -> None:
        for row in sorted(self._stale):
            if not self._tokens[row]:
                raise ModelError(
                    "a row without tokens has no logits", hint="Append tokens after a rollback to nothing."
                )
            last = self._tokens[row][-1]
            self._forget(row, 1)
            self._read([[last] if index == row else [] for index in range(len(self._tokens))], every=False)

    def _read(self, tokens: Tokens, *, every: bool) -> list[torch.Tensor]:
        self._check_rows(tokens)
        scores = []
        last = list(self._last)
        for row, new in enumerate(tokens):
            if not new:
                scores.append(self._last.new_empty((0, self._size)))
                continue
            self._crop_owed(row, len(new))
            logits = self._read_row(row, new, every)
            self._keep_states(row, len(new))
            self._tokens[row].extend(new)
            self._stale.discard(row)
            last[row] = logits[-1]
            scores.append(logits)
        self._last, self._array = torch.stack(last), None
        return scores if every else []

    def _read_row(self, row: int, new: Sequence[int], every: bool) -> torch.Tensor:
        """Read tokens of a row. `_read_states` then ends with the hidden states of them, if they are kept."""
        start = len(self._tokens[row])
        runs = [list(new)] if self._memory.reads_runs or not start else [[token] for token in new]
        logits, states = [], list[Any]()
        for run in runs:
            inputs = {}
            if self._memory.wants_positions:
                inputs["position_ids"] = positions(start, len(run)).to(self._model.device)
            keep = len(run) if every else 1
            logits.append(self._forward(torch.tensor([run]), self._caches[row], keep, **inputs)[0])
            states.append(self._read_states)
            start += len(run)
        if self._hidden is not None:
            self._read_states = torch.cat(states, dim=1)
        return torch.cat(logits)

    def _keep_states(self, row: int, new: int) -> None:
        """Keep the hidden states of the last `new` positions that were read."""
        if self._hidden is not None and self._read_states is not None:
            self._hidden.append(row, self._read_states[0, -new:])
