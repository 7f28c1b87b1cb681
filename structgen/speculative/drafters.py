"""Drafters that cost nothing compared with a forward pass: forced bytes, copies, look-ups.

What: a drafter starts a `RowDrafter` for each row. It sees the tokens so far and the matcher, at the end of the row or
after some draft tokens, and proposes runs of tokens. Bad proposals cost time only: what the constraint refuses is left
out, and the verifier decides about the rest.

    ForcedBytes    bytes that the constraint forces, as the tokenizer splits them
    Copying        what followed the same words in the prompt or in the text, in any tokenization
    TokenLookup    what followed the same tokens there

Source: Saxena 2023 (prompt look-up); Dumitru et al. 2025 (CopySpec).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .checks import check_whole
from .suffixes import SuffixIndex

if TYPE_CHECKING:
    from structgen.generation.drafting import Probed, RowStates
    from structgen.vocabulary import Vocabulary

__all__ = [
    "CONTEXT",
    "Context",
    "Copying",
    "Drafter",
    "ForcedBytes",
    "Proposal",
    "RowDrafter",
    "SilentRow",
    "Start",
    "TokenLookup",
]


CONTEXT = 3
"""The number of tokens before each distribution that `Drafter.learn` receives."""


@dataclass
class Context:
    """The position of a row drafter: the end of a row, or a node of its draft."""

    tokens: list[int]
    """Prompt, text and draft tokens; read-only."""
    matcher: Any
    """The matcher there. Anyone who advances it must roll it back."""
    vocabulary: Any
    drafted: int = 0
    """How many of the last tokens are draft tokens."""
    reach: float = 1.0
    """The estimated probability that the text passes through here."""
    is_constrained: bool = True
    noise: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None = None
    """From token ids to their Gumbel noise, if the next token is drawn with it."""
    hidden: RowStates | None = None
    """The model's hidden states after the tokens of the row that it has read. None if no drafter declares
    `hidden_layers`, or the session keeps none."""
    probed: Probed | None = None
    """The logits after the drafter's own embeddings. None if no drafter has `probe_embeddings`, or none were read."""

    def tail(self, tokens: int) -> bytes:
        """Return the bytes of the last `tokens` tokens."""
        return bytes(self.vocabulary.decode(self.tokens[-tokens:]))


@dataclass(frozen=True)
class Start:
    """A row before its first draw."""

    prompt: Sequence[int]
    vocabulary: Any
    constraint: Any = None
    """None if the row is not constrained."""
    temperature: float = 0.0
    model: Any = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A run of tokens that may come next."""

    tokens: Sequence[int]
    kind: str
    """The name under which acceptance is counted. Proposals of one kind should be right about equally often."""
    chance: float = 0.5
    """The prior probability that such a proposal is right."""
    is_probability: bool = False
    """Whether `chance` was computed for this proposal. Guesses count half in free text, until there are counts."""


class RowDrafter(Protocol):
    """Proposes what comes next in one row.

    Only `propose` and `observe` are required of a user's own class.
    """

    computes: bool = False
    """Whether proposals take time. Then it is not called where a drafter before it in the list is almost sure."""
    predicts_acceptance: bool = False
    """Whether it has `acceptances`. Otherwise they are never requested."""

    @property
    def name(self) -> str:
        """The name under which reports count its proposals: that of the drafter's class."""
        return type(self).__name__

    def propose(self, context: Context) -> Iterable[Proposal]:
        """Yield runs that may follow. Several may start with the same token."""
        ...

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Called when the row changed: tokens before `start` are as before, the others are those of `tokens`.

        Args:
            tokens: All tokens of the row, prompt included.
            start: The number of unchanged tokens.
        """
        ...

    def distribution(self, context: Context) -> NDArray[Any] | None:
        """Return the distribution of the next token, ``[vocabulary.size]``, not necessarily normalised; or None."""
        return None

    def sampled(self, context: Context) -> Any:
        """Return a `Sampled` with tokens that the drafter drew itself, or None."""
        return None

    def acceptances(self, context: Context, tokens: Sequence[int]) -> Mapping[int, float]:
        """Return the probabilities that draft tokens are accepted, for those of `tokens` for which it predicts one.

        They decide how much is drafted, and nothing else.

        Args:
            context: The node after which one of the tokens may come.
            tokens: Different tokens that the drafter's distribution gave there.
        """
        return {}

    def on_mask(self, tokens: Sequence[int], allowed: NDArray[np.int64]) -> None:
        """Called before a token is drawn under a constraint, if the drafter has ``reads_masks``.

        Not for forced tokens, which need no draw, nor for tokens that are drawn before the drafter starts on the row.

        Args:
            tokens: The tokens of the text before it, without the prompt. The row may have stepped back.
            allowed: The tokens that may come next, increasing; read-only.
        """
        return

    def finish(self, tokens: Sequence[int]) -> None:
        """Called when the row has ended, with all its tokens, prompt included."""
        return


class SilentRow(RowDrafter):
    """Proposes nothing, for a row that its drafter cannot help."""

    def propose(self, context: Context) -> Iterable[Proposal]:
        """Return no proposals."""
        return ()

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Do nothing."""


class Drafter(Protocol):
    """Makes one `RowDrafter` for each row, and holds what they learn together.

    A drafter may also have:

    - ``gives_distributions = True`` if its row drafters have `RowDrafter.distribution`;
    - ``hidden_layers``, the layers whose hidden states they read from `Context.hidden`, as in
      `HiddenStatesModel.start_with_hidden_states`: numbers, or a method from the number of layers to them;
    - ``probe_embeddings(model)``, which returns embeddings that the model reads after the row and after nodes of its
      draft without keeping them (a torch tensor ``[embeddings, hidden size]``), and ``probe_ends``, the number of these
      nodes; the logits are in the next `Context.probed`. One drafter of a `Speculation` may have them;
    - ``grows_without_lock = True``, if several threads may call `start`, and `observe`, `propose`, `distribution` and
      `sampled` of different rows, while another one calls `finish`. The rows of a running batch then do not wait for
      one another where a constraint is slow. Otherwise one row at a time finds its draft, and the model waits for it.
      Subclasses do not inherit it: they declare it again;
    - ``reads_masks = True`` if its row drafters have `RowDrafter.on_mask`. Rows of a running batch call it on several
      threads at a time, also without ``grows_without_lock``;
    - ``learn(contexts, logits)``, called with the logits of each forward pass (``[contexts, vocabulary.size]``,
      read-only) and with up to `CONTEXT` tokens before each of them.
    """

    def start(self, start: Start) -> RowDrafter:
        """Return the drafter of a row that starts so."""
        ...


@dataclass
class _Encoder:
    """Tokenizes texts; caches the last ones, because forced and copied texts recur."""

    vocabulary: Any
    _known: dict[bytes, list[int]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"vocabulary": None, "_known": {}}  # a tokenizer may not be picklable

    def __call__(self, text: bytes) -> list[int]:
        tokens = self._known.get(text)
        if tokens is None:
            if len(self._known) >= 2048:
                self._known.clear()
            try:
                tokens = self.vocabulary.encode(text) or []
            except Exception:  # noqa: BLE001 — a tokenizer may raise anything; such texts are not drafted
                tokens = []
            self._known[text] = tokens
        return tokens


def _from_each(tokens: Sequence[int], vocabulary: Vocabulary) -> dict[int, list[int]]:
    """Return the rest of the tokens after each token border, by the number of bytes before it."""
    rests, offset = {}, 0
    for number, token in enumerate(tokens):
        rests[offset] = list(tokens[number:])
        offset += len(vocabulary.token_bytes(token) or b"")
    return rests


def _encoder(vocabulary: Vocabulary, before: _Encoder | None) -> _Encoder:
    """Return the encoder of the vocabulary: the one of the last request, if it has the same."""
    return before if before is not None and before.vocabulary is vocabulary else _Encoder(vocabulary)


class ForcedBytes:
    """Proposes the text that the constraint forces.

    Args:
        most: The largest number of bytes.
    """

    grows_without_lock = True

    def __init__(self, most: int = 64) -> None:
        check_whole("most", most, high=4096)
        self._most = most
        self._encoder: _Encoder | None = None

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        self._encoder = _encoder(start.vocabulary, self._encoder)
        return _ForcedRow(self._encoder, self._most)


@dataclass
class _ForcedRow(RowDrafter):
    name = "ForcedBytes"
    encode: _Encoder
    most: int
    known: bytes = b""
    """The forced bytes that were computed last."""
    known_at: int = 0
    """The number of tokens before them."""
    rests: dict[int, list[int]] = field(default_factory=dict)
    """Their tokens from each token border on."""

    def propose(self, context: Context) -> Iterable[Proposal]:
        forced = self._rest(context)
        if not forced:
            forced = self.known = context.matcher.forced_bytes(self.most)
            self.known_at = len(context.tokens)
            self.rests = _from_each(self.encode(forced), self.encode.vocabulary) if forced else {}
        tokens = self.rests.get(len(self.known) - len(forced)) or (self.encode(forced) if forced else None)
        return (Proposal(tokens, "forced", 0.8),) if tokens else ()

    def _rest(self, context: Context) -> bytes:
        """Return the rest of the known bytes; draft tokens mostly follow them."""
        added = len(context.tokens) - self.known_at
        if not 0 < added <= context.drafted:
            return b""
        text = context.tail(added)
        return self.known[len(text) :] if self.known.startswith(text) else b""

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """Do nothing: the matcher knows what is forced."""


class TokenLookup:
    """Proposes what followed the longest run of tokens that the text ends with and that occurred before.

    Args:
        longest: The largest number of tokens to compare.
        most: The largest number of tokens to propose.
    """

    grows_without_lock = True

    def __init__(self, longest: int = 8, most: int = 10) -> None:
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
class _LookupRow(RowDrafter):
    name = "TokenLookup"
    index: SuffixIndex
    most: int

    def propose(self, context: Context) -> Iterable[Proposal]:
        match = self.index.latest(context.tokens)
        if match is None:
            return ()
        length, position = match
        length_class = min(length, 4)
        return (
            Proposal(
                self.index.after(position, self.most), f"look-up {length_class}", 0.2 + 0.15 * length_class
            ),
        )

    def observe(self, tokens: Sequence[int], start: int) -> None:
        self.index.cut(start)
        self.index.extend(tokens[start:])


_FOLDED = bytes(
    byte + 32 if 65 <= byte <= 90 else byte if byte >= 128 or chr(byte).isalnum() else 32
    for byte in range(256)
)
"""Maps letters to lower case, and bytes outside words to a space."""
_LONGEST_MATCH, _LONGEST_COPY = 24, 28
"""In bytes."""
_SHORTEST_COPY = 3
"""Copies at the start of a word need a match of more bytes than this."""


class Copying:
    """Proposes what followed the same words in the prompt or in the text, ignoring case and punctuation.

    A started word is enough. Bytes are compared, not tokens: "Swed" is followed by "ish" where the prompt has one token
    " Swedish". At the end of a word the copy may end, too: then the constraint's shortest completion is also proposed,
    such as a closing quote.
    """

    grows_without_lock = True

    def __init__(self) -> None:
        self._encoder: _Encoder | None = None

    def start(self, start: Start) -> RowDrafter:
        """See `Drafter`."""
        self._encoder = _encoder(start.vocabulary, self._encoder)
        row = _CopyingRow(self._encoder)
        row.observe(start.prompt, 0)
        row.prompt = len(row.text)
        return row


class _CopyingRow(RowDrafter):
    name = "Copying"

    def __init__(self, encode: _Encoder) -> None:
        self.prompt = 0
        """The length of the prompt in bytes."""
        self.text = bytearray()
        self._folded = bytearray()
        self._encode = encode
        self._ends: list[int] = []
        """Where each token ends in the text, in bytes."""
        self._rests: dict[int, list[int]] = {}
        """Proposed tokens by their start in the text; they are proposed again after each of them."""

    def propose(self, context: Context) -> Iterable[Proposal]:
        if context.is_constrained and context.matcher.forced_bytes(1):
            return ()  # forced text need not be copied
        tail = context.tail(12)[-_LONGEST_MATCH:]
        folded = tail.translate(_FOLDED)
        word = len(folded) - (folded.rfind(b" ") + 1)
        kind, start = self._before(folded, word, drafted=bool(context.drafted))
        guesses = []
        if start >= 0:
            tokens = self._tokens(context, word, start)
            if tokens:
                guesses.append(Proposal(tokens, kind, 0.5))
        if word and (start < 0 or bytes(self._folded[start : start + 1]) in (b" ", b"")):
            guesses += self._close(context, "end without copy" if start < 0 else "end of a copy")
        return guesses

    def observe(self, tokens: Sequence[int], start: int) -> None:
        kept = self._ends[start - 1] if start else 0
        self._rests.clear()
        del self._ends[start:], self.text[kept:], self._folded[kept:]
        for token in tokens[start:]:
            self.text += self._encode.vocabulary.token_bytes(token) or b""
            self._ends.append(len(self.text))
        self._folded += self.text[kept:].translate(_FOLDED)

    def _before(self, folded: bytes, word: int, *, drafted: bool) -> tuple[str, int]:
        """Return the kind of copy and the end of the last match of the text's end, or -1."""
        end = len(self._folded) if drafted else len(self._folded) - 1
        for length in (_LONGEST_MATCH, 12, 6, word + 1):
            if length > len(folded) or length < word or (not word and length <= _SHORTEST_COPY):
                continue
            start = -1
            if length == word + 1:  # a word of the prompt is rarely copied twice
                start = self._folded.rfind(folded[-length:], 0, min(end, self.prompt))
            if start < 0:
                start = self._folded.rfind(folded[-length:], 0, end)
            if start >= 0:
                return f"copy word {min(word, 3)}" if length == word + 1 else f"copy {length}", start + length
        return "", -1

    def _tokens(self, context: Context, word: int, start: int) -> list[int]:
        """Return the tokens of the text from `start` on, as a continuation of the started word."""
        known = self._rests.get(start, ())
        if len(known) > 1:
            return list(known)
        tokens = self._split(context, word, start)
        for offset, rest in _from_each(tokens, self._encode.vocabulary).items():
            self._rests.setdefault(start + offset, rest)
        return tokens

    def _split(self, context: Context, word: int, start: int) -> list[int]:
        text = bytes(self.text[start : start + _LONGEST_COPY])
        if len(text) == _LONGEST_COPY:  # the last word may be incomplete
            text = text[: max(1, text.translate(_FOLDED).rfind(b" "))]
        if not word or text[:1].translate(_FOLDED) == b" ":
            return self._encode(text)
        # The tokenizer splits whole words; it may split the rest of a word differently.
        head, started = b"", list[int]()
        for token in reversed(context.tokens[-8:]):
            started.insert(0, token)
            head = (self._encode.vocabulary.token_bytes(token) or b"") + head
            if len(head) >= word:
                break
        whole = self._encode(head + text)
        return whole[len(started) :] if whole[: len(started)] == started else self._encode(text)

    def _close(self, context: Context, kind: str) -> list[Proposal]:
        if not context.is_constrained:
            return []
        witness = context.matcher.witness_text()
        tokens = self._encode(witness[:12]) if witness else None
        return [Proposal(tokens[:1], kind, 0.3)] if tokens else []
