"""Drafters that learn from the model's earlier logits and texts.

    TokenRecycling    after each token, the tokens that were most probable the last time it was read
    LogitNGrams       the same after the last two or three tokens, averaged over the times they were read
    TriGrams          counts of what followed the last two tokens, the last one, and of tokens at all
    ForcedSplits      the tokens with which the model wrote what a constraint forced
    SuffixStore       the texts of earlier requests with the same constraint: what followed the same tokens there

Logits cost nothing: the model computes them for every token that it reads, rejected draft tokens included.
Each holds a bounded number of entries and evicts the least recently used ones.
Source: Luo et al. 2024 (Token Recycling); Song et al. 2025 (STAND); Liu et al. 2025 (ADED); Oliaro et al. 2024
(SuffixDecoding); Quan et al. 2025 (RASD).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError

from .checks import check_whole
from .drafters import CONTEXT, Context, Proposal, RowDrafter, SilentRow, Start
from .suffixes import BREAK, SuffixIndex

__all__ = ["ForcedSplits", "LogitNGrams", "SuffixStore", "TokenRecycling", "TriGrams", "most_probable"]

Array = NDArray[Any]

_BLOCK = 256
_DEFAULT_WIDTH = 4
_MAX_CONSTRAINTS = 256
"""The largest number of constraints whose texts are kept."""
_MAX_SPLIT_BYTES = 16
"""The largest number of bytes of a forced text that are split."""


def most_probable(scores: Array, count: int = _DEFAULT_WIDTH) -> Array:
    """Return the ids of the `count` greatest scores, the greatest first. Blocks come first, for one fast pass."""
    size = len(scores) // _BLOCK * _BLOCK
    if len(scores) <= 4 * _BLOCK * count:
        ids = np.argpartition(-scores, min(count, len(scores)) - 1)[:count]
    else:
        peaks = scores[:size].reshape(-1, _BLOCK).max(axis=1)
        blocks = np.argpartition(-peaks, count - 1)[:count]
        inside = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        ids = np.concatenate((inside, np.arange(size, len(scores))))
        ids = ids[np.argpartition(-scores[ids], count - 1)[:count]]
    tokens: Array = ids[np.argsort(-scores[ids], kind="stable")]
    return tokens


class LogitNGrams:
    """Tables from the last tokens to the most probable next ones, for several lengths; the longest known one counts.

    A distribution that was read more than once is averaged; the last one counts half.

    Args:
        orders: The numbers of last tokens, at most `CONTEXT` each.
        width: The number of next tokens of an entry.
        entries: The largest number of entries.
    """

    name = "n-gram"
    gives_distributions = True

    def __init__(
        self, orders: Sequence[int] = (3, 2, 1), width: int = _DEFAULT_WIDTH, entries: int = 50_000
    ) -> None:
        if not isinstance(orders, Sequence) or isinstance(orders, str) or not orders:
            raise OptionError(f"orders is {orders!r:.40}; it must be a list of numbers of tokens")
        for order in orders:
            check_whole("each order", order, high=CONTEXT)
        check_whole("width", width)
        check_whole("entries", entries, high=100_000_000)
        self.orders = tuple(sorted(orders, reverse=True))
        self._width = width
        self._entries = entries
        self._known: OrderedDict[tuple[int, ...], dict[int, float]] = OrderedDict()

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        return _LearnedRow(self, start.vocabulary.size)

    def learn(self, contexts: Sequence[Sequence[int]], logits: Array) -> None:
        """Learn the logits after some contexts; see `Drafter`."""
        for tokens, scores in zip(contexts, logits, strict=True):
            best = most_probable(scores, self._width)
            masses = np.exp(scores[best] - scores[best[0]])
            self.note(tokens, dict(zip(best.tolist(), (masses / masses.sum()).tolist(), strict=True)))

    def note(self, tokens: Sequence[int], masses: dict[int, float]) -> None:
        """Record the most probable tokens after `tokens`, the first one first."""
        for order in self.orders:
            if order > len(tokens):
                continue
            key = tuple(tokens[-order:])
            before = self._known.get(key)
            if before is None or order == 1:
                self._known[key] = masses
            else:
                mixed = {token: 0.5 * mass for token, mass in before.items()}
                for token, mass in masses.items():
                    mixed[token] = mixed.get(token, 0.0) + 0.5 * mass
                self._known[key] = dict(sorted(mixed.items(), key=lambda item: -item[1])[: self._width])
            self._known.move_to_end(key)
        while len(self._known) > self._entries:
            self._known.popitem(last=False)

    def guesses(self, tokens: Sequence[int]) -> Iterable[Proposal]:
        """Return proposals from the entry of these tokens."""
        for order in self.orders:
            best = self._known.get(tuple(tokens[-order:]))
            if best is not None:
                return [
                    Proposal((token,), f"{self.name} {order}, {rank}", 0.5 / (rank + 1))
                    for rank, token in enumerate(best)
                ]
        return ()

    def masses(self, tokens: Sequence[int]) -> dict[int, float] | None:
        """Return the probabilities of the entry of these tokens; None if there is no entry."""
        return next(
            (best for order in self.orders if (best := self._known.get(tuple(tokens[-order:])))), None
        )


class TokenRecycling(LogitNGrams):
    """The adjacency table alone: `LogitNGrams` of order 1.

    Args:
        width: The number of next tokens of an entry.
        entries: The largest number of entries.
    """

    name = "recycled"

    def __init__(self, width: int = _DEFAULT_WIDTH, entries: int = 50_000) -> None:
        super().__init__((1,), width, entries)


class TriGrams:
    """Counts, over all drawn texts, of what followed two tokens, one token, and of tokens at all.

    Args:
        width: The number of proposals at a node.
        entries: The largest number of entries.
    """

    gives_distributions = True

    def __init__(self, width: int = 2, entries: int = 20_000) -> None:
        check_whole("width", width)
        check_whole("entries", entries, high=100_000_000)
        self._width = width
        self._entries = entries
        self._known: OrderedDict[tuple[int, ...], Counter[int]] = OrderedDict()

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        return _TriGramRow(self, start.vocabulary.size, len(start.prompt))

    def count(self, tokens: Sequence[int], token: int) -> None:
        """Count `token` after `tokens`."""
        for order in (2, 1, 0):
            key = tuple(tokens[len(tokens) - order :])
            counts = self._known.setdefault(key, Counter())
            counts[token] += 1
            self._known.move_to_end(key)
            if len(counts) > 64:
                for rare, _ in counts.most_common()[32:]:
                    del counts[rare]
        while len(self._known) > self._entries:
            self._known.popitem(last=False)

    def masses(self, tokens: Sequence[int]) -> dict[int, float] | None:
        """Return the relative frequencies of the entry of these tokens; None if there is no entry."""
        for order in (2, 1, 0):
            counts = self._known.get(tuple(tokens[len(tokens) - order :]))
            if counts:
                total = counts.total()
                return {token: count / total for token, count in counts.items()}
        return None

    def guesses(self, tokens: Sequence[int]) -> Iterable[Proposal]:
        """Return proposals from the entry of these tokens."""
        for order in (2, 1, 0):
            counts = self._known.get(tuple(tokens[len(tokens) - order :]))
            if counts:
                return [
                    Proposal((token,), f"tri-gram {order}, {rank}", 0.3 / (rank + 1))
                    for rank, (token, _) in enumerate(counts.most_common(self._width))
                ]
        return ()


@dataclass
class _LearnedRow(RowDrafter):
    table: LogitNGrams | TriGrams
    size: int

    @property
    def name(self) -> str:
        return type(self.table).__name__

    def propose(self, context: Context) -> Iterable[Proposal]:
        return self.table.guesses(context.tokens)

    def distribution(self, context: Context) -> Array | None:
        """Return the entry of the last tokens as a distribution, ``[vocabulary.size]``; None if there is no entry."""
        masses = self.table.masses(context.tokens)
        if not masses:
            return None
        distribution = np.zeros(self.size)
        distribution[list(masses)] = list(masses.values())
        return distribution

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Do nothing: the table learns from logits."""


@dataclass
class _TriGramRow(_LearnedRow):
    table: TriGrams
    counted: int = 0

    def observe(self, tokens: Sequence[int], start: int) -> None:
        for position in range(max(start, self.counted), len(tokens)):
            self.table.count(tokens[max(0, position - 2) : position], tokens[position])
        self.counted = max(self.counted, len(tokens))


class ForcedSplits:
    """Proposes the token with which the model started the same forced text before, under any constraint.

    Why: a model that does not expect a forced text does not write it as its tokenizer splits it. Of the tokens that the
    text starts with it draws those that are likely after any text, such as single letters.

    Args:
        longest: The largest number of bytes of a forced text that are compared, from its start.
        entries: The largest number of different starts; the least recently used ones are evicted.
    """

    def __init__(self, longest: int = 3, entries: int = 20_000) -> None:
        check_whole("longest", longest)
        check_whole("entries", entries, high=100_000_000)
        self._longest = longest
        self._entries = entries
        self._known: OrderedDict[bytes, Counter[int]] = OrderedDict()

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        return SilentRow() if start.constraint is None else _SplitRow(self, start.vocabulary)

    def count(self, forced: bytes, token: int) -> None:
        """Count a token that was drawn where this text was forced."""
        for length in range(1, min(self._longest, len(forced)) + 1):
            key = forced[:length]
            self._known.setdefault(key, Counter())[token] += 1
            self._known.move_to_end(key)
        while len(self._known) > self._entries:
            self._known.popitem(last=False)

    def guesses(self, forced: bytes) -> Iterable[Proposal]:
        """Return the most frequent token where the same text was forced, or one with the longest common start."""
        for length in range(min(self._longest, len(forced)), 0, -1):
            counts = self._known.get(forced[:length])
            if counts:
                token, count = counts.most_common(1)[0]
                share = count / (counts.total() + 1)
                return [Proposal((token,), f"split {length}, {int(5 * share)}", share)]
        return ()


@dataclass
class _SplitRow(RowDrafter):
    name = "ForcedSplits"
    splits: ForcedSplits
    vocabulary: Any
    forced: bytes = b""
    """The text that was forced at the end of the row."""
    forced_at: int = 0
    """The number of tokens before it."""

    def propose(self, context: Context) -> Iterable[Proposal]:
        forced = bytes(context.matcher.forced_bytes(_MAX_SPLIT_BYTES))
        if not context.drafted:
            self.forced, self.forced_at = forced, len(context.tokens)
        return self.splits.guesses(forced) if forced else ()

    def observe(self, tokens: Sequence[int], start: int) -> None:
        if start <= self.forced_at:
            rest = self.forced
            for token in tokens[self.forced_at :]:
                if not rest:
                    break
                self.splits.count(rest, token)
                rest = rest[len(self.vocabulary.token_bytes(token) or b"") :]
        self.forced = b""


class SuffixStore:
    """Earlier texts under the same constraint; texts of unconstrained rows are not kept.

    Args:
        longest: The largest number of tokens that are compared with the end of a text.
        width: The number of alternatives where earlier texts differ.
        most: The largest number of tokens that are kept, at about 200 bytes each. Beyond it the least recently used
            constraints are evicted, then the older texts of the last one. A longer text is not kept.
    """

    grows_without_lock = True  # rows read the texts, and change them in `finish` only

    def __init__(self, longest: int = 16, width: int = 2, most: int = 200_000) -> None:
        check_whole("longest", longest)
        check_whole("width", width)
        check_whole("most", most, high=1_000_000_000)
        self._longest = longest
        self._width = width
        self._most = most
        self._texts: OrderedDict[Any, Texts] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        if start.constraint is None:
            return SilentRow()
        texts = self._texts.get(start.constraint)
        if texts is None:
            texts = Texts(self._longest, self._width, self._most)
        return _StoredRow(self, start.constraint, texts, len(start.prompt))

    def keep(self, constraint: object, texts: Texts, text: Sequence[int]) -> None:
        """Add a drawn text, and evict what exceeds the limits."""
        # The constraint may have been evicted, or added by others, since the row started.
        is_kept = constraint in self._texts
        texts = self._texts.setdefault(constraint, texts)
        self._texts.move_to_end(constraint)
        self._size -= len(texts) if is_kept else 0
        texts.add(text)
        self._size += len(texts)
        while len(self._texts) > 1 and (self._size > self._most or len(self._texts) > _MAX_CONSTRAINTS):
            self._size -= len(self._texts.popitem(last=False)[1])


class Texts:
    """The texts of one constraint."""

    def __init__(self, longest: int, width: int, most: int) -> None:
        self._longest = longest
        self._width = width
        self._most = most
        self._index = SuffixIndex(longest)
        self._texts: list[list[int]] = []

    def __len__(self) -> int:
        return len(self._index)

    def add(self, text: Sequence[int]) -> None:
        """Add a drawn text. If there is no room for it, about half of the others are evicted."""
        if not text or len(text) >= self._most:
            return
        self._texts.append(list(text))
        if len(self._index) + len(text) < self._most:
            self._index.extend([BREAK, *text])
            return
        room, kept = self._most // 2, 1
        size = len(text) + 1
        while kept < len(self._texts) and size + len(self._texts[-kept - 1]) < room:
            kept += 1
            size += len(self._texts[-kept]) + 1
        self._texts = self._texts[-kept:]
        self._index = SuffixIndex(self._longest)
        for known_text in self._texts:
            self._index.extend([BREAK, *known_text])

    def guesses(self, tokens: Sequence[int], text: int) -> Iterable[Proposal]:
        """Return proposals after the longest match; the last `text` tokens do not belong to the prompt."""
        length, counts = self._index.following([BREAK, *tokens[len(tokens) - min(text, self._longest) :]])
        total = counts.total()
        proposals = []
        for token, count in counts.most_common(self._width):
            share = count / total
            certain = "always" if share == 1 else "mostly" if share >= 0.6 else "at times"
            length_class = min(length, 4) if length < 8 else 8
            chance = 0.9 * share * length / (length + 1)
            proposals.append(Proposal((token,), f"store {length_class}, {certain}", chance))
        return proposals


@dataclass
class _StoredRow(RowDrafter):
    name = "SuffixStore"
    store: SuffixStore
    constraint: Any
    texts: Texts
    prompt: int

    def propose(self, context: Context) -> Iterable[Proposal]:
        return self.texts.guesses(context.tokens, len(context.tokens) - self.prompt)

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Do nothing: texts are added when they have ended."""

    def finish(self, tokens: Sequence[int]) -> None:
        """See `RowDrafter.finish`."""
        if len(tokens) > self.prompt:
            self.store.keep(self.constraint, self.texts, tokens[self.prompt :])
