"""A model's law after any prefix, for samplers that jump between prefixes.

Why: samplers that draw again and again from one prompt (`walks`, particles, Metropolis-Hastings) come back to prefixes
that the model holds for the most part; what it holds stays, and only what is new is read.
What: a *lane* is one row of a session. `read` moves lanes to prefixes (tokens after the prompt) and gives the law of
each one's next token, at the sampling temperature.
With drafts (`ReadingAhead`) and the matchers of the prefixes, sessions that can read tokens ahead do (`ahead`).
Invariant: what is returned is a function of the prefix alone (as far as the session's logits are).
Cost: at most one forward pass for all lanes that are asked together. `calls` counts the laws that were asked for and
had to be read, in this pass or ahead, so that it is the same with drafts and without; `passes` counts forward passes.
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
from structgen.generation.drafting import ReadingAhead
from structgen.generation.lookahead import LawsAhead, can_read_ahead, place_of_row, turn

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, TextMatcher

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
        drafting: ReadingAhead | None = None,
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
        self._drafting = drafting
        self._ahead: LawsAhead | None = None
        self.calls = 0
        """Laws that were asked for and are not held: each is one evaluation, made when it was asked for or ahead."""
        self.passes = 0
        """Forward passes; the lanes of one `read` share one, and need none where all was read ahead."""

    def read(
        self, wanted: Mapping[int, Prefix], matchers: Mapping[int, TextMatcher] | None = None
    ) -> dict[int, Law]:
        """The law after each lane's prefix; where the constraint stands there, so that tokens can be read ahead."""
        known = {lane: self._known[prefix] for lane, prefix in wanted.items() if prefix in self._known}
        new = {lane: prefix for lane, prefix in wanted.items() if lane not in known}
        if new:
            known.update(self._read(new, matchers))
        if self._keep:
            for lane, prefix in wanted.items():
                self._known[prefix] = known[lane]
                self._known.move_to_end(prefix)
            while 2 * len(self._known) * known[next(iter(wanted))].log_p.nbytes > self._keep:
                self._known.popitem(last=False)
        return known

    def _read(
        self, wanted: Mapping[int, Prefix], matchers: Mapping[int, TextMatcher] | None
    ) -> dict[int, Law]:
        self.calls += len(wanted)
        found: dict[int, Law] = {}
        if self._session is None:
            logits = self._start()
            found = {
                lane: law_of(logits[lane], self._temperature) for lane, prefix in wanted.items() if not prefix
            }
        if self._ahead is not None:
            told = self._ahead.answer(wanted.values())
            for lane, prefix in wanted.items():
                if prefix in told and lane not in found:
                    found[lane] = law_of(told[prefix], self._temperature)
        if len(found) < len(wanted):
            for lane, scores in self._pass(wanted, found, matchers).items():
                found[lane] = law_of(scores, self._temperature)
        return found

    def _start(self) -> Array:
        """Reads the prompt; the logits of all lanes behind it."""
        self._check_room(0)
        self._session = self._model.start([self._prompt])
        self._session.select([0] * self._lanes)
        self._held = [[] for _ in range(self._lanes)]
        self.passes += 1
        if self._drafting is not None:
            if can_read_ahead(self._session, anywhere=True):
                self._ahead = LawsAhead(self._drafting, self._prompt)
            else:
                self._drafting.declined()
        logits: Array = self._session.logits()
        return logits

    def _pass(
        self,
        wanted: Mapping[int, Prefix],
        found: Mapping[int, Law],
        matchers: Mapping[int, TextMatcher] | None,
    ) -> dict[int, Array]:
        """The logits of those that are not found yet."""
        unknown = {lane: prefix for lane, prefix in wanted.items() if lane not in found}
        for prefix in unknown.values():
            self._check_room(len(prefix))
        self.passes += 1
        if self._ahead is not None and matchers is not None:
            places = [
                place_of_row(lane, prefix, self._held[lane], matchers[lane], is_known=lane in found)
                for lane, prefix in wanted.items()
            ]
            return self._ahead.read(self._session, self._held, places)
        pending: list[list[int]] = [[] for _ in range(self._lanes)]
        for lane, prefix in unknown.items():
            held, most, before = self._held[lane], len(prefix) - 1, self._prompt[-1]
            pending[lane] = turn(self._session, lane, held, prefix, most, before)
        self._session.append(pending)
        logits = self._session.logits()
        return {lane: logits[lane] for lane in unknown}

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
    With drafts a row may hold some tokens more than its prefix.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        temperature: float = 1.0,
        drafting: ReadingAhead | None = None,
    ) -> None:
        self._model = model
        self._temperature = temperature
        self._prompt = list(prompt)
        self._session: Any = model.start([self._prompt])
        self._rows: dict[Prefix, int] = {(): 0}
        """The prefixes that the session's rows stand at, or stood at before what was read ahead was enough."""
        self._held: list[list[int]] = [[]]
        self._asked: set[Prefix] = {()}
        self._ahead: LawsAhead | None = None
        if drafting is not None:
            if can_read_ahead(self._session, anywhere=True):
                self._ahead = LawsAhead(drafting, self._prompt)
                self._ahead.keep((), self._session.logits()[0])
            else:
                drafting.declined()
        self.calls = 1
        """Laws that were asked for: each is one evaluation, made when it was asked for or ahead."""
        self.passes = 1
        """Forward passes."""

    def read(
        self, prefixes: Sequence[Prefix], matchers: Mapping[Prefix, TextMatcher] | None = None
    ) -> dict[Prefix, Law]:
        """The law after each of these, which were read the last time or are such a one and some tokens more.

        Others are let go. `matchers`: where the constraint stands at each, so that tokens can be read ahead.
        """
        distinct = list(dict.fromkeys(prefixes))
        self.calls += sum(prefix not in self._asked for prefix in distinct)
        self._asked = set(distinct)
        told: dict[Prefix, Array] = {} if self._ahead is None else self._ahead.answer(distinct)
        if len(told) < len(distinct):
            self._go_to(distinct)
            told |= self._pass(distinct, told, matchers)
        return {prefix: law_of(told[prefix], self._temperature) for prefix in distinct}

    def _go_to(self, prefixes: Sequence[Prefix]) -> None:
        """Makes the session's rows those that these go on from."""
        rows = [self._source(prefix) for prefix in prefixes]
        # subtle: a session that goes on as it is may hand out what it has; `select` is not free.
        if rows != list(range(len(self._rows))):
            self._session.select(rows)
        self._held = [list(self._held[row]) for row in rows]
        self._rows = {prefix: row for row, prefix in enumerate(prefixes)}

    def _pass(
        self,
        prefixes: Sequence[Prefix],
        told: Mapping[Prefix, Array],
        matchers: Mapping[Prefix, TextMatcher] | None,
    ) -> dict[Prefix, Array]:
        """The logits of those that nobody was told of."""
        if self._ahead is not None and matchers is not None:
            self._check_room(max(map(len, prefixes)))
            places = [
                place_of_row(row, prefix, self._held[row], matchers[prefix], is_known=prefix in told)
                for row, prefix in enumerate(prefixes)
            ]
            self.passes += 1
            found = self._ahead.read(self._session, self._held, places)
            return {prefixes[row]: logits for row, logits in found.items()}
        pending = [list(prefix[len(held) :]) for prefix, held in zip(prefixes, self._held, strict=True)]
        if any(pending):
            self._check_room(max(map(len, prefixes)))
            self._session.append(pending)
            self.passes += 1
            self._held = [list(prefix) for prefix in prefixes]
        return dict(zip(prefixes, self._session.logits(), strict=True))

    def _check_room(self, tokens: int) -> None:
        length = self._model.context_length
        if length is not None and tokens + len(self._prompt) > length:
            raise LimitExceeded(
                f"a text grew beyond the model's context of {length} tokens",
                limit="context_length",
                hint="Shorten the prompt, or set max_tokens.",
            )

    def _source(self, prefix: Prefix) -> int:
        for length in range(len(prefix), -1, -1):
            row = self._rows.get(prefix[:length])
            if row is not None:
                return row
        raise LookupError(f"nothing that is held goes on to {prefix}")
