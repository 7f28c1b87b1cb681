"""Drafters: guesses at the tokens to come, from what costs nothing beside a forward pass.

What: a drafter starts a reader for each row, which sees the tokens so far and the constraint's state, at the row's end
or behind what has been drafted, and proposes runs of tokens. Rubbish is no harm but time: what the constraint refuses
is left out, and the model has the last word about the rest.

    ForcedBytes    bytes that the constraint leaves no choice about, as the tokenizer splits them
    Copying        what followed the same words, in the prompt or in the text, however they are split into tokens
    TokenLookup    what followed the same tokens there

Source: Saxena 2023 (prompt look-up); Dumitru et al. 2025 (CopySpec).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .checks import check_whole
from .suffixes import SuffixIndex

__all__ = [
    "CONTEXT",
    "Context",
    "Copying",
    "Drafter",
    "ForcedBytes",
    "Guessed",
    "RowDrafter",
    "Start",
    "TokenLookup",
]


CONTEXT = 3
"""So many of the last tokens are told with a law."""


@dataclass
class Context:
    """Where a reader stands: at the end of a row, or behind some of its draft."""

    tokens: list[int]
    """Prompt, text and draft; not to be changed."""
    matcher: Any
    """The constraint there; whoever advances it takes the tokens back."""
    vocabulary: Any
    drafted: int = 0
    """How many of the last tokens are drafted."""
    reach: float = 1.0
    """The chance that the text goes through here, as far as it is known."""
    is_constrained: bool = True
    noise: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None = None
    """The Gumbel noise of token ids, where the next token is drawn with it."""
    hidden: NDArray[np.float32] | None = None
    """The model's last hidden state at the end of the row, where a drafter has `wants_hidden`; None right behind the
    prompt, and where the last pass did not read it."""

    def tail(self, tokens: int) -> bytes:
        """The bytes of the last tokens."""
        return bytes(self.vocabulary.decode(self.tokens[-tokens:]))


@dataclass(frozen=True)
class Start:
    """A row before anything is drawn."""

    prompt: Sequence[int]
    vocabulary: Any
    constraint: Any = None
    """None where the row is free."""
    temperature: float = 0.0
    model: Any = None


@dataclass(frozen=True, slots=True)
class Guessed:
    """Tokens that may come next, one after another."""

    tokens: Sequence[int]
    kind: str
    """Guesses of one kind are right about as often; that is counted."""
    chance: float = 0.5
    """How often such guesses are right, as long as nothing has been counted."""


class RowDrafter(Protocol):
    """Guesses at what comes next in one row."""

    def propose(self, context: Context) -> Iterable[Guessed]:
        """Runs that may follow, each beginning otherwise than the others or not."""
        ...

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """The row, prompt included, is now what it was up to `start` and then goes on as `tokens` do there."""
        ...

    # Optional: `law(context)`, the law of the next token as an array over the vocabulary, or None; `finish(tokens)`,
    # told when the row has ended; `sampled(context)`, a `Sampled` with tokens that it has drawn itself, or None.


class Drafter(Protocol):
    """Makes readers; what they learn in common is kept here.

    Optional: `tells_laws = True` where readers have `law`; `wants_hidden = True` for `Context.hidden`; `learn(contexts,
    logits)`, told the laws that were read (``[contexts, vocabulary]``, not to be changed) with up to `CONTEXT` tokens
    before each.
    """

    def start(self, start: Start) -> RowDrafter:
        """A reader of a row that begins so."""
        ...


@dataclass
class _Encoder:
    """Texts as tokens, the last ones kept: what is forced, or copied, comes again."""

    vocabulary: Any
    _known: dict[bytes, list[int]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"vocabulary": None, "_known": {}}  # a tokenizer need not be able to travel

    def __call__(self, text: bytes) -> list[int]:
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= 2048:
                self._known.clear()
            try:
                found = self.vocabulary.encode(text) or []
            except Exception:  # a tokenizer's own; what it cannot split is not drafted
                found = []
            self._known[text] = found
        return found


def _from_each(tokens: Sequence[int], vocabulary: Any) -> dict[int, list[int]]:
    """The tokens from each of them on, by the bytes before."""
    found, place = {}, 0
    for number, token in enumerate(tokens):
        found[place] = list(tokens[number:])
        place += len(vocabulary.token_bytes(token) or b"")
    return found


def _encoder(vocabulary: Any, before: _Encoder | None) -> _Encoder:
    """That of the vocabulary; from one request to the next it keeps what it knows."""
    return before if before is not None and before.vocabulary is vocabulary else _Encoder(vocabulary)


class ForcedBytes:
    """The text that has no alternative."""

    def __init__(self, most: int = 64) -> None:
        """`most` bytes are looked at."""
        check_whole("most", most, high=4096)
        self._most = most
        self._encoder: _Encoder | None = None

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        self._encoder = _encoder(start.vocabulary, self._encoder)
        return _ForcedRow(self._encoder, self._most)


@dataclass
class _ForcedRow:
    encode: _Encoder
    most: int
    known: bytes = b""
    """What was forced the last time that it was asked for."""
    place: int = 0
    """And behind how many tokens."""
    ahead: dict[int, list[int]] = field(default_factory=dict)
    """Its tokens from some of its bytes on."""

    def propose(self, context: Context) -> Iterable[Guessed]:
        forced = self._rest(context)
        if not forced:
            forced = self.known = context.matcher.forced_bytes(self.most)
            self.place = len(context.tokens)
            self.ahead = _from_each(self.encode(forced), self.encode.vocabulary) if forced else {}
        tokens = self.ahead.get(len(self.known) - len(forced)) or (self.encode(forced) if forced else None)
        return (Guessed(tokens, "forced", 0.8),) if tokens else ()

    def _rest(self, context: Context) -> bytes:
        """What is left of it: drafted tokens are on the way through it, mostly."""
        ahead = len(context.tokens) - self.place
        if not 0 < ahead <= context.drafted:
            return b""
        text = context.tail(ahead)
        return self.known[len(text) :] if self.known.startswith(text) else b""

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Nothing: the constraint knows."""


class TokenLookup:
    """What followed the longest run of tokens, up to `longest`, that the text ends in and that came before."""

    def __init__(self, longest: int = 8, most: int = 10) -> None:
        """`most`: the tokens of a run that is proposed."""
        check_whole("longest", longest)
        check_whole("most", most)
        self._longest = longest
        self._most = most

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        row = _LookupRow(SuffixIndex(self._longest), self._most)
        row.observe(start.prompt, 0)
        return row


@dataclass
class _LookupRow:
    index: SuffixIndex
    most: int

    def propose(self, context: Context) -> Iterable[Guessed]:
        found = self.index.latest(context.tokens)
        if found is None:
            return ()
        length, place = found
        near = min(length, 4)
        return (Guessed(self.index.after(place, self.most), f"look-up {near}", 0.2 + 0.15 * near),)

    def observe(self, tokens: Sequence[int], start: int) -> None:
        self.index.cut(start)
        self.index.extend(tokens[start:])


_FOLDED = bytes(
    byte + 32 if 65 <= byte <= 90 else byte if byte >= 128 or chr(byte).isalnum() else 32
    for byte in range(256)
)
"""Letters in lower case, and a space for everything that is part of no word."""
_NEAR, _AHEAD = 24, 28
_SHORTEST = 3


class Copying:
    """What followed the same words before, in the prompt or in the text, whatever their case and their punctuation.

    A word that has begun is enough. Bytes are compared, not tokens: "Swed" is followed by "ish" where the prompt has
    one token " Swedish". Where a word ends, what is copied may end there: the shortest way on that the constraint
    leaves is proposed as well, such as a closing quote.
    """

    def __init__(self) -> None:
        self._encoder: _Encoder | None = None

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        self._encoder = _encoder(start.vocabulary, self._encoder)
        row = _CopyingRow(self._encoder)
        row.observe(start.prompt, 0)
        row.prompt = len(row.text)
        return row


class _CopyingRow:
    def __init__(self, encode: _Encoder) -> None:
        self.prompt = 0
        """Its bytes."""
        self.text = bytearray()
        self._folded = bytearray()
        self._encode = encode
        self._ends: list[int] = []
        """Where each token ends in the text."""
        self._ahead: dict[int, list[int]] = {}
        """What was proposed from some place of the text on: it is proposed again behind each token of it."""

    def propose(self, context: Context) -> Iterable[Guessed]:
        if context.is_constrained and context.matcher.forced_bytes(1):
            return ()  # what is forced need not be copied
        tail = context.tail(12)[-_NEAR:]
        folded = tail.translate(_FOLDED)
        word = len(folded) - (folded.rfind(b" ") + 1)
        kind, start = self._before(folded, word, drafted=bool(context.drafted))
        guesses = []
        if start >= 0:
            tokens = self._tokens(context, word, start)
            if tokens:
                guesses.append(Guessed(tokens, kind, 0.5))
        if word and (start < 0 or bytes(self._folded[start : start + 1]) in (b" ", b"")):
            guesses += self._close(context, "end of no copy" if start < 0 else "end of a copy")
        return guesses

    def observe(self, tokens: Sequence[int], start: int) -> None:
        kept = self._ends[start - 1] if start else 0
        self._ahead.clear()
        del self._ends[start:], self.text[kept:], self._folded[kept:]
        for token in tokens[start:]:
            self.text += self._encode.vocabulary.token_bytes(token) or b""
            self._ends.append(len(self.text))
        self._folded += self.text[kept:].translate(_FOLDED)

    def _before(self, folded: bytes, word: int, *, drafted: bool) -> tuple[str, int]:
        """The place behind what is like the end of the text, and how much of it is; -1 where nothing is."""
        end = len(self._folded) if drafted else len(self._folded) - 1
        for length in (_NEAR, 12, 6, word + 1):
            if length > len(folded) or length < word or (not word and length <= _SHORTEST):
                continue
            place = -1
            if length == word + 1:  # a word of the prompt is seldom copied twice
                place = self._folded.rfind(folded[-length:], 0, min(end, self.prompt))
            if place < 0:
                place = self._folded.rfind(folded[-length:], 0, end)
            if place >= 0:
                return f"copy word {min(word, 3)}" if length == word + 1 else f"copy {length}", place + length
        return "", -1

    def _tokens(self, context: Context, word: int, start: int) -> list[int]:
        """What is there from `start` on, as tokens that go on from the word that has begun."""
        known = self._ahead.get(start, ())
        if len(known) > 1:
            return list(known)
        tokens = self._split(context, word, start)
        for place, rest in _from_each(tokens, self._encode.vocabulary).items():
            self._ahead.setdefault(start + place, rest)
        return tokens

    def _split(self, context: Context, word: int, start: int) -> list[int]:
        text = bytes(self.text[start : start + _AHEAD])
        if len(text) == _AHEAD:  # the last word may be cut off
            text = text[: max(1, text.translate(_FOLDED).rfind(b" "))]
        if not word or text[:1].translate(_FOLDED) == b" ":
            return self._encode(text)
        # The tokenizer splits whole words; the rest of one by itself it might split otherwise.
        head, begun = b"", list[int]()
        for token in reversed(context.tokens[-8:]):
            begun.insert(0, token)
            head = (self._encode.vocabulary.token_bytes(token) or b"") + head
            if len(head) >= word:
                break
        whole = self._encode(head + text)
        return whole[len(begun) :] if whole[: len(begun)] == begun else self._encode(text)

    def _close(self, context: Context, kind: str) -> list[Guessed]:
        if not context.is_constrained:
            return []
        ahead = context.matcher.witness_text()
        tokens = self._encode(ahead[:12]) if ahead else None
        return [Guessed(tokens[:1], kind, 0.3)] if tokens else []
