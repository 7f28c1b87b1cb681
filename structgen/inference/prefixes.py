"""A model's next-token distribution after any prefix, for samplers that jump between prefixes.

Why: samplers that draw again and again from one prompt (`walks`, particles, Metropolis-Hastings) mostly return to
prefixes whose KV cache exists. It is kept, and only new tokens are read.
What: a *slot* is one row of a session. `read` crops and extends slots to prefixes (tokens after the prompt) and returns
the next-token distribution of each, at the sampling temperature.
With drafts (`PrefixDrafting`) and the matchers of the prefixes, sessions that score runs also read draft tokens.
Invariant: a result is a function of the prefix alone (as far as the session's logits are).
Cost: at most one forward pass for all slots of a request. `calls` counts the distributions that were requested and not
kept from before, whether this pass or an earlier draft read them; so it is the same with and without drafts. `passes`
counts forward passes.
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
from structgen.generation.distributions import scaled_logits
from structgen.generation.drafting import PrefixDrafting
from structgen.generation.prefix_logits import PrefixLogits, can_draft, query_of_row, rewind_row

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, TextMatcher

__all__ = [
    "MAX_DISTRIBUTION_BYTES",
    "Distribution",
    "Prefix",
    "PrefixBatch",
    "PrefixReader",
    "distribution_of",
]

Prefix = tuple[int, ...]
Array = NDArray[Any]

MAX_DISTRIBUTION_BYTES = 64 << 20
"""The size of the cache of distributions that samplers may return to, in bytes."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A next-token distribution.

    Attributes:
        log_p: Log probabilities, float32 ``[vocabulary.size]``.
        masses: Probabilities, float32 ``[vocabulary.size]``; they sum to 1.
    """

    log_p: Array
    masses: Array

    @classmethod
    def of(cls, scores: Array) -> Distribution:
        """Return softmax(scores). Log probabilities and probabilities share one pass of exponentials."""
        peak = float(scores.max())
        if math.isnan(peak) or peak == math.inf:
            raise ModelError("the model returned logits that are not a number", hint="Try float32 weights.")
        if peak == -math.inf:
            return cls(scores, np.zeros_like(scores))
        masses = np.exp(scores - scores.dtype.type(peak))
        total = float(masses.sum(dtype=np.float64))
        masses *= masses.dtype.type(1 / total)
        return cls(scores - scores.dtype.type(peak + math.log(total)), masses)


def distribution_of(logits: Array, temperature: float) -> Distribution:
    """Return softmax(logits / temperature); `temperature` must be above 0."""
    with np.errstate(over="ignore"):  # at a low temperature the others have a probability of 0
        return Distribution.of(scaled_logits(logits, temperature).astype(logits.dtype, copy=False))


class PrefixReader:
    """Reads several prefixes after one prompt, one per slot.

    Args:
        model: The language model.
        prompt: The tokens of the prompt.
        parallel: The number of slots.
        temperature: The sampling temperature.
        keep: The size of the cache of distributions, in bytes.
        drafting: Proposes draft tokens.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        parallel: int = 1,
        temperature: float = 1.0,
        keep: int = 0,
        drafting: PrefixDrafting | None = None,
    ) -> None:
        if not prompt:
            raise ModelError(
                "the prompt has no tokens", hint="A model needs at least one token to start from."
            )
        self._model = model
        self._prompt = list(prompt)
        self._temperature = temperature
        self._slots = parallel
        self._session: Any = None
        self._held: list[list[int]] = []
        self._keep = keep
        self._known: OrderedDict[Prefix, Distribution] = OrderedDict()
        self._drafting = drafting
        self._cache: PrefixLogits | None = None
        self.calls = 0
        """Distributions that were requested and not in the cache: each is one evaluation, here or as a draft."""
        self.passes = 0
        """Forward passes. The slots of a request share one; it is saved if drafts have read them all."""

    def read(
        self, wanted: Mapping[int, Prefix], matchers: Mapping[int, TextMatcher] | None = None
    ) -> dict[int, Distribution]:
        """Return the distribution after each slot's prefix. `matchers`, one for each, allow draft tokens."""
        known = {slot: self._known[prefix] for slot, prefix in wanted.items() if prefix in self._known}
        new = {slot: prefix for slot, prefix in wanted.items() if slot not in known}
        if new:
            known.update(self._read(new, matchers))
        if self._keep:
            for slot, prefix in wanted.items():
                self._known[prefix] = known[slot]
                self._known.move_to_end(prefix)
            while 2 * len(self._known) * known[next(iter(wanted))].log_p.nbytes > self._keep:
                self._known.popitem(last=False)
        return known

    def _read(
        self, wanted: Mapping[int, Prefix], matchers: Mapping[int, TextMatcher] | None
    ) -> dict[int, Distribution]:
        self.calls += len(wanted)
        known: dict[int, Distribution] = {}
        if self._session is None:
            logits = self._start()
            known = {
                slot: distribution_of(logits[slot], self._temperature)
                for slot, prefix in wanted.items()
                if not prefix
            }
        if self._cache is not None:
            cached = self._cache.answer(wanted.values())
            for slot, prefix in wanted.items():
                if prefix in cached and slot not in known:
                    known[slot] = distribution_of(cached[prefix], self._temperature)
        if len(known) < len(wanted):
            for slot, scores in self._pass(wanted, known, matchers).items():
                known[slot] = distribution_of(scores, self._temperature)
        return known

    def _start(self) -> Array:
        """Prefill the prompt; return the logits of all slots after it."""
        self._check_room(0)
        self._session = self._model.start([self._prompt])
        self._session.select([0] * self._slots)
        self._held = [[] for _ in range(self._slots)]
        self.passes += 1
        if self._drafting is not None:
            if can_draft(self._session, anywhere=True):
                self._cache = PrefixLogits(self._drafting, self._prompt)
            else:
                self._drafting.on_unsupported()
        logits: Array = self._session.logits()
        return logits

    def _pass(
        self,
        wanted: Mapping[int, Prefix],
        known: Mapping[int, Distribution],
        matchers: Mapping[int, TextMatcher] | None,
    ) -> dict[int, Array]:
        """Make one forward pass; return the logits that are not found yet."""
        unknown = {slot: prefix for slot, prefix in wanted.items() if slot not in known}
        for prefix in unknown.values():
            self._check_room(len(prefix))
        self.passes += 1
        if self._cache is not None and matchers is not None:
            queries = [
                query_of_row(slot, prefix, self._held[slot], matchers[slot], is_known=slot in known)
                for slot, prefix in wanted.items()
            ]
            return self._cache.read(self._session, self._held, queries)
        pending: list[list[int]] = [[] for _ in range(self._slots)]
        for slot, prefix in unknown.items():
            held, most, before = self._held[slot], len(prefix) - 1, self._prompt[-1]
            pending[slot] = rewind_row(self._session, slot, held, prefix, most, before)
        self._session.append(pending)
        logits = self._session.logits()
        return {slot: logits[slot] for slot in unknown}

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
    """Distinct prefixes that grow in parallel: each request extends the prefixes of the one before.

    A prefix that several sequences share is one row, so particles share its KV cache. With drafts a row may hold more
    tokens than its prefix.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        temperature: float = 1.0,
        drafting: PrefixDrafting | None = None,
    ) -> None:
        self._model = model
        self._temperature = temperature
        self._prompt = list(prompt)
        self._session: Any = model.start([self._prompt])
        self._rows: dict[Prefix, int] = {(): 0}
        """The prefixes of the session's rows, as of the last forward pass."""
        self._held: list[list[int]] = [[]]
        self._requested: set[Prefix] = {()}
        self._cache: PrefixLogits | None = None
        if drafting is not None:
            if can_draft(self._session, anywhere=True):
                self._cache = PrefixLogits(drafting, self._prompt)
                self._cache.keep((), self._session.logits()[0])
            else:
                drafting.on_unsupported()
        self.calls = 1
        """Distributions that were requested: each is one evaluation, of this pass or of a draft."""
        self.passes = 1
        """The number of forward passes."""

    def read(
        self, prefixes: Sequence[Prefix], matchers: Mapping[Prefix, TextMatcher] | None = None
    ) -> dict[Prefix, Distribution]:
        """Return the distribution after each prefix; the prefixes of earlier requests are evicted.

        Args:
            prefixes: Each is a prefix of the last request, or extends one.
            matchers: The matcher after each prefix, which allows draft tokens.
        """
        distinct = list(dict.fromkeys(prefixes))
        self.calls += sum(prefix not in self._requested for prefix in distinct)
        self._requested = set(distinct)
        cached: dict[Prefix, Array] = {} if self._cache is None else self._cache.answer(distinct)
        if len(cached) < len(distinct):
            self._go_to(distinct)
            cached |= self._pass(distinct, cached, matchers)
        return {prefix: distribution_of(cached[prefix], self._temperature) for prefix in distinct}

    def _go_to(self, prefixes: Sequence[Prefix]) -> None:
        """Select the session's rows that these prefixes extend."""
        rows = [self._source(prefix) for prefix in prefixes]
        # subtle: `select` is not free, and an unchanged session may return cached logits.
        if rows != list(range(len(self._rows))):
            self._session.select(rows)
        self._held = [list(self._held[row]) for row in rows]
        self._rows = {prefix: row for row, prefix in enumerate(prefixes)}

    def _pass(
        self,
        prefixes: Sequence[Prefix],
        cached: Mapping[Prefix, Array],
        matchers: Mapping[Prefix, TextMatcher] | None,
    ) -> dict[Prefix, Array]:
        """Make one forward pass; return the logits that are not known yet."""
        if self._cache is not None and matchers is not None:
            self._check_room(max(map(len, prefixes)))
            queries = [
                query_of_row(row, prefix, self._held[row], matchers[prefix], is_known=prefix in cached)
                for row, prefix in enumerate(prefixes)
            ]
            self.passes += 1
            by_slot = self._cache.read(self._session, self._held, queries)
            return {prefixes[row]: logits for row, logits in by_slot.items()}
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
        raise LookupError(f"no row is a prefix of {prefix}")
