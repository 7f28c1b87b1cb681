"""A model's law after any prefix, for samplers that jump between prefixes.

Why: samplers that draw again and again from one prompt (`walks`, particles, Metropolis-Hastings) come back to prefixes
that the model holds for the most part; what it holds stays, and only what is new is read.
What: a *lane* is one row of a session. `read` moves lanes to prefixes (tokens after the prompt) and gives the law of
each one's next token, at the sampling temperature.
Invariant: what is returned is a function of the prefix alone (as far as the session's logits are).
Cost: one forward pass for all lanes that are asked together; `calls` counts rows that the model read for it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import LimitExceeded, ModelError

if TYPE_CHECKING:
    from structgen.models.base import LanguageModel

__all__ = ["LAWS_KEPT", "Law", "Prefix", "PrefixBatch", "PrefixReader", "law_of"]

Prefix = tuple[int, ...]
Array = NDArray[Any]

LAWS_KEPT = 64 << 20
"""Bytes of whole laws that samplers keep, for what they come back to."""


@dataclass(frozen=True, slots=True)
class Law:
    """A model's law of the next token, over all ids: log probabilities, and probabilities; float32, normalised."""

    log_p: Array
    masses: Array

    @classmethod
    def of(cls, scores: Array) -> Law:
        """softmax(scores): the two share one pass of exponentials."""
        peak = float(scores.max())
        if math.isnan(peak) or peak == math.inf:
            raise ModelError("the model returned logits that are not a number", hint="Try float32 weights.")
        if peak == -math.inf:
            return cls(scores, np.zeros_like(scores))
        masses = np.exp(scores - scores.dtype.type(peak))
        total = float(masses.sum(dtype=np.float64))
        masses *= masses.dtype.type(1 / total)
        return cls(scores - scores.dtype.type(peak + math.log(total)), masses)


def law_of(logits: Array, temperature: float) -> Law:
    """The law softmax(logits / temperature); `temperature` is above 0."""
    return Law.of(logits if temperature == 1 else logits / logits.dtype.type(temperature))


class PrefixReader:
    """`lanes` rows that start after one prompt."""

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        lanes: int = 1,
        temperature: float = 1.0,
        keep: int = 0,
    ) -> None:
        """`keep`: bytes of laws that are held for prefixes that are asked for again."""
        if not prompt:
            raise ModelError(
                "the prompt has no tokens", hint="A model needs at least one token to start from."
            )
        self._model = model
        self._prompt = list(prompt)
        self._temperature = temperature
        self._lanes = lanes
        self._session: Any = None
        self._held: list[list[int]] = []
        self._keep = keep
        self._known: OrderedDict[Prefix, Law] = OrderedDict()
        self.calls = 0
        """Rows that the model read: each is one evaluation of its law."""
        self.passes = 0
        """Forward passes; the lanes of one `read` share one."""

    def read(self, wanted: Mapping[int, Prefix]) -> dict[int, Law]:
        """The law after each lane's prefix."""
        known = {lane: self._known[prefix] for lane, prefix in wanted.items() if prefix in self._known}
        new = {lane: prefix for lane, prefix in wanted.items() if lane not in known}
        if new:
            known.update(self._read(new))
        if self._keep:
            for lane, prefix in wanted.items():
                self._known[prefix] = known[lane]
                self._known.move_to_end(prefix)
            while 2 * len(self._known) * known[next(iter(wanted))].log_p.nbytes > self._keep:
                self._known.popitem(last=False)
        return known

    def _read(self, wanted: Mapping[int, Prefix]) -> dict[int, Law]:
        fresh = self._session is None
        if fresh:
            self._check_room(0)
            self._session = self._model.start([self._prompt])
            self._session.select([0] * self._lanes)
            self._held = [[] for _ in range(self._lanes)]
            self.passes += 1
        pending: list[list[int]] = [[] for _ in range(self._lanes)]
        for lane, prefix in wanted.items():
            if not (fresh and not prefix):
                pending[lane] = self._go_back(lane, prefix)
        if any(pending):
            self._session.append(pending)
            self.passes += 1
        self.calls += len(wanted)
        logits = self._session.logits()
        return {lane: law_of(logits[lane], self._temperature) for lane in wanted}

    def _go_back(self, lane: int, prefix: Prefix) -> list[int]:
        """Takes back what is not the prefix; what the lane has to read then."""
        self._check_room(len(prefix))
        held = self._held[lane]
        common = 0
        for mine, theirs in zip(held, prefix, strict=False):
            if mine != theirs:
                break
            common += 1
        # subtle: the law after what is held already is asked for by reading its last token again.
        if common == len(prefix):
            self._session.rollback(lane, len(held) - common + 1)
            pending = [prefix[-1] if prefix else self._prompt[-1]]
        else:
            if common < len(held):
                self._session.rollback(lane, len(held) - common)
            pending = list(prefix[common:])
        self._held[lane] = list(prefix)
        return pending

    def _check_room(self, tokens: int) -> None:
        length = self._model.context_length
        if length is not None and len(self._prompt) + tokens > length:
            raise LimitExceeded(
                f"the prompt and the text are {len(self._prompt) + tokens} tokens, more than the model's "
                f"context of {length}",
                limit="context_length",
                hint="Shorten the prompt, or set max_tokens.",
            )


class PrefixBatch:
    """Distinct prefixes that grow side by side: each step goes on from those that are held.

    Prefixes that several sequences have in common are one row, so that particles share what the model keeps of them.
    """

    def __init__(self, model: LanguageModel, prompt: Sequence[int], temperature: float = 1.0) -> None:
        self._model = model
        self._temperature = temperature
        self._prompt = len(prompt)
        self._session: Any = model.start([list(prompt)])
        self._rows: dict[Prefix, int] = {(): 0}
        self.calls = 1
        self.passes = 1

    def read(self, prefixes: Sequence[Prefix]) -> dict[Prefix, Law]:
        """The law after each of these, which are held or are a held one and some tokens more.

        Others are let go.
        """
        distinct = list(dict.fromkeys(prefixes))
        sources = [self._source(prefix) for prefix in distinct]
        pending = [list(prefix[length:]) for prefix, (_, length) in zip(distinct, sources, strict=True)]
        rows = [row for row, _ in sources]
        # subtle: a session that goes on as it is may hand out what it has; `select` is not free.
        if rows != list(range(len(self._rows))):
            self._session.select(rows)
        self._rows = {prefix: row for row, prefix in enumerate(distinct)}
        if any(pending):
            length = self._model.context_length
            longest = max(map(len, distinct)) + self._prompt
            if length is not None and longest > length:
                raise LimitExceeded(
                    f"a text grew beyond the model's context of {length} tokens",
                    limit="context_length",
                    hint="Shorten the prompt, or set max_tokens.",
                )
            self._session.append(pending)
            self.passes += 1
            self.calls += sum(map(bool, pending))
        logits = self._session.logits()
        return {prefix: law_of(logits[row], self._temperature) for prefix, row in self._rows.items()}

    def _source(self, prefix: Prefix) -> tuple[int, int]:
        for length in range(len(prefix), -1, -1):
            row = self._rows.get(prefix[:length])
            if row is not None:
                return row, length
        raise LookupError(f"nothing that is held goes on to {prefix}")
