"""A session for models without a usable cache: each forward pass reads whole texts.

Why: RWKV keeps states of its own, GPT-1 nothing at all. A pass over the last token alone would be a pass over a text of
one token.
Invariant: that of all sessions, for causal models (see `caches`): padding after shorter rows is not seen by them, and
needs no mask.
Cost: a pass over the whole text of each row that continues. More new tokens cost no more, so drafts pay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from structgen.errors import ModelError
from structgen.protocols import SessionCapabilities

from .cached_session import CachedSession, Tokens, chosen_states
from .caches import parameters_of

__all__ = ["RereadingSession"]


class RereadingSession(CachedSession):
    """Keeps nothing but the rows' tokens and the results of the last pass."""

    def __init__(self, model: object, size: int, prompts: Tokens, layers: Sequence[int] = ()) -> None:
        super().__init__(model, size, len(prompts), layers)
        self._capabilities = SessionCapabilities(scores_runs=True, crops_cheaply=True, joins=True)
        self._options = {"use_cache": False} if "use_cache" in parameters_of(model) else {}
        self.append(prompts)

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        self._tokens = [list(self._tokens[row]) for row in rows]
        if self._hidden is not None:
            self._hidden = self._hidden.select(rows)
        self._stale = {index for index, row in enumerate(rows) if row in self._stale}
        self._last, self._array = self._last[list(rows)], None

    def join(self, other: RereadingSession) -> None:
        """See `Session.join`."""
        held = len(self._tokens)
        self._tokens += other._tokens
        if self._hidden is not None and other._hidden is not None:
            self._hidden.join(other._hidden)
        self._stale |= {held + row for row in other._stale}
        self._last, self._array = torch.cat([self._last, other._last]), None

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`."""
        self._check_length(row, n)
        if n:
            del self._tokens[row][len(self._tokens[row]) - n :]
            self._stale.add(row)
            if self._hidden is not None:
                self._hidden.crop(row, n)

    def _read(self, tokens: Tokens, *, every: bool) -> list[torch.Tensor]:
        self._check_rows(tokens)
        texts = {row: [*self._tokens[row], *new] for row, new in enumerate(tokens) if new}
        scores = self._pass(texts, [len(new) if every else 1 for new in tokens])
        return [scores.get(row, self._last.new_empty((0, self._size))) for row in range(len(tokens))]

    def _read_again(self) -> None:
        if not all(self._tokens[row] for row in self._stale):
            raise ModelError(
                "a row without tokens has no logits", hint="Append tokens after a rollback to nothing."
            )
        self._pass({row: self._tokens[row] for row in sorted(self._stale)}, [1] * len(self._tokens))

    def _pass(self, texts: Mapping[int, list[int]], wanted: Sequence[int]) -> dict[int, torch.Tensor]:
        """Read these rows; return the logits after the last tokens of each, as many as are `wanted`."""
        if not texts:
            return {}
        longest = max(map(len, texts.values()))
        first = min(len(text) - wanted[row] for row, text in texts.items())
        ids = torch.tensor([[*text, *[text[-1]] * (longest - len(text))] for text in texts.values()])
        options: dict[str, Any] = dict(self._options)
        if self._keeps_last:
            options["logits_to_keep"] = longest - first
        if self._hidden is not None:
            options["output_hidden_states"] = list(self._hidden.layers)
        with torch.inference_mode():
            output = self._model(input_ids=ids.to(self._model.device), **options)
            logits = output.logits[:, first - longest :, : self._size]
        last = list(self._last)
        states = None if self._hidden is None else chosen_states(output, self._hidden.layers)
        scores = {}
        for index, (row, text) in enumerate(texts.items()):
            end = len(text) - first
            scores[row] = logits[index, end - wanted[row] : end]
            last[row] = scores[row][-1]
            if self._hidden is not None and states is not None:
                self._hidden.append(row, states[index, len(self._tokens[row]) : len(text)])
            self._tokens[row] = list(text)
        self._stale -= set(texts)
        self._last, self._array = torch.stack(last), None
        return scores
