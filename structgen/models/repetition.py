"""RPG: a penalty on repeating the same structure, with whichever names.

Why: a model that has written ``elif x == 1: ...`` a few times may go on for ever, each time with another number. A
penalty on tokens sees no repetition there. A grammar does: the terminals recur.
What: a text is the sequence of its terminals. A *run* is a unit of terminals that comes twice or more in a row at the
end, and perhaps a prefix of one more copy. The probability of the tokens that start the terminal which continues the
run is multiplied by decay ** copies, where copies counts the whole units of the run. Runs are found by the lengths of
common suffixes of the sequence with itself (its Z array, backwards), which has the information of the paper's suffix
and LCP arrays about the end.
Invariant: a token gains probability only by the loss of others, and none becomes impossible.
Source: Dong et al., "Rethinking Repetition Problems of LLMs in Code Generation", ACL 2025. There a unit consists of
rules of the grammar; the terminals determine the rules, and are known without lookahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from structgen.argument_names import checks_names_of_init
from structgen.constraints.base import constraint_of
from structgen.errors import OptionError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

__all__ = ["RPG", "continued_runs"]


def continued_runs(sequence: Sequence[int], least_period: int = 1) -> dict[int, int]:
    """Return the symbols that would continue a run at the end of `sequence`, each with the largest number of copies.

    A run is a unit, not itself made of copies, that comes at least twice in a row up to the end, or up to a prefix of
    one more copy. Units of fewer than `least_period` symbols do not count.
    """
    backwards = sequence[::-1]
    n = len(backwards)
    lengths = [0] * n  # of the common prefix of the reversed sequence and its rest from each position
    left = right = 0
    for i in range(1, n):
        length = min(right - i, lengths[i - left]) if i < right else 0
        while i + length < n and backwards[length] == backwards[i + length]:
            length += 1
        lengths[i] = length
        if i + length > right:
            left, right = i, i + length
    runs: dict[int, int] = {}
    periods: list[int] = []
    for period in range(1, n // 2 + 1):
        copies = lengths[period] // period + 1
        if copies == 1 or any(
            period % shorter == 0 for shorter in periods if lengths[shorter] >= period - shorter
        ):
            continue
        periods.append(period)
        if period >= least_period:
            symbol = backwards[period - 1]
            runs[symbol] = max(copies, runs.get(symbol, 0))
    return runs


@checks_names_of_init
class RPG:
    """A grammar-based repetition penalty, for `with_processors`.

    Args:
        constraint: A grammar (`lark`, `gbnf`, `ebnf` or one of the shelf) that parses the texts. It need not be the
            constraint of the generation. There is no penalty while a text is not in its language.
        decay: The factor for the probability of continuing a run, for each copy: above 0, at most 1.
        least_period: Shorter units are no repetition: in a list of numbers, a number and a comma recur.
        window: The number of last terminals that are searched for runs.

    Raises:
        OptionError: An argument is not valid.
    """

    def __init__(
        self, constraint: object, *, decay: float = 0.9, least_period: int = 3, window: int = 400
    ) -> None:
        if not isinstance(decay, int | float) or not 0 < decay <= 1:
            raise OptionError(f"decay is {decay!r:.40}; it must be above 0 and at most 1")
        for name, value in (("least_period", least_period), ("window", window)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{name} is {value!r:.40}; it must be a whole number of 1 or more")
        if isinstance(constraint, str):
            raise OptionError("RPG needs a grammar; this is a str", hint="structgen.lark(...)")
        self.constraint = constraint_of(constraint)
        self.decay = float(decay)
        self.least_period = least_period
        self.window = window

    def start(self, vocabulary: Vocabulary) -> RowPenalty:
        """Return the state of one row."""
        matcher = Matcher(self.constraint, vocabulary)
        if not matcher.lexemes():
            raise OptionError(
                f"RPG needs a grammar; this is {self.constraint.describe()}",
                hint="Give it a grammar of the same texts, such as structgen.grammar('json').",
            )
        return RowPenalty(self, matcher)


class RowPenalty:
    """The state of `RPG` in one row: the text so far, as its grammar parses it."""

    def __init__(self, options: RPG, matcher: Matcher, beyond: int = 0) -> None:
        self._options = options
        self._matcher = matcher
        self._beyond = beyond
        """The number of tokens since the text left the language of the grammar."""

    def advance(self, tokens: Sequence[int]) -> None:
        """See `RowProcessor.advance`."""
        for token in tokens:
            if self._beyond or not self._matcher.advance(token):
                self._beyond += 1

    def rollback(self, n: int) -> None:
        """See `RowProcessor.rollback`."""
        read = max(0, n - self._beyond)
        self._beyond = max(0, self._beyond - n)
        if read:
            self._matcher.rollback(read)

    def fork(self) -> RowPenalty:
        """See `RowProcessor.fork`."""
        return RowPenalty(self._options, self._matcher.fork(), self._beyond)

    def penalties(self) -> list[tuple[NDArray[np.bool_], int]]:
        """Return the tokens that continue a run, as flags ``[vocabulary.size]``, each with the copies of the run."""
        if self._beyond or self._matcher.is_finished:
            return []
        size = self._matcher.vocabulary.size
        penalties = []
        for index, terminals in enumerate(self._matcher.lexemes()):
            runs = continued_runs(terminals[-self._options.window :], self._options.least_period)
            for terminal, copies in runs.items():
                words = self._matcher.beginning(index, terminal)
                bits = np.unpackbits(words.view(np.uint8), count=size, bitorder="little")
                penalties.append((bits.view(np.bool_), copies))
        return penalties

    def process(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `RowProcessor.process`."""
        penalties = self.penalties()
        if not penalties:
            return logits
        copies = np.zeros(logits.shape, dtype=np.int64)
        for tokens, count in penalties:
            np.maximum(copies, np.where(tokens, count, 0), out=copies)
        return logits + (copies * math.log(self._options.decay)).astype(np.float32)
