"""A tokenizer's tokens as the bytes that they add to a text.

Why: constraints are automata over bytes, so every token must be known as exactly the bytes it joins into the
output, never as what ``decode()`` shows (it strips, cleans up and cannot show half a character).
Invariant: special, unused and padding ids have no bytes and are never text; ends of text are never text. Special
tokens have a name, their text in the tokenizer, by which a constraint refers to them. Ids up to `size`, the
width of the model's logits, exist for masks.
Where SentencePiece drops a space at the start of a text, here it does not: constrained text begins in the
middle of one, after a prompt, and a token that begins with a space spells that space.
Cost: about 1 µs a token to read a tokenizer, and as much again for the native trie, which is built when it is
first used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen import _core
from structgen.argument_names import checks_names
from structgen.errors import OptionError, VocabularyError, VocabularyMismatch, a_kind, did_you_mean, with_kind

__all__ = ["Vocabulary"]

# Texts that no token joins to what follows, for most tokenizers; tried in this order.
_SENTINELS = ("\x02", "\x00", "\n", "}", "a")
_LONGEST_TOKEN = 4096
_SURROGATE = re.compile("[\ud800-\udfff]")
_LIMITS = {
    **dict.fromkeys(
        (
            "regex_nodes",
            "emptiness_budget",
            "oracle_budget",
            "automaton_states",
            "mask_cache_bytes",
            "fragment_cache_bytes",
            "space_bytes",
            "max_alternatives",
            "listed_containers",
            "earley_items",
            "mask_steps",
            "call_steps",
            "program_bytes",
        ),
        2**63 - 1,
    ),
    "max_depth": 2**31 - 1,
}
"""The core's limits (docs/core.md), each with its largest value."""


class Vocabulary:
    """A model's tokens as bytes, its end-of-sequence tokens, and the native engine that compiles constraints for them.

    Args:
        tokens: The bytes of each token by id; None for a token that is not text.
        eos_ids: Ids of the end-of-sequence tokens.
        size: The width of the model's logits, if it is more than the number of tokens.
        encoder: Splits a text into token ids; without it `encode` returns None.
        limits: Limits of the core by name (docs/core.md).
        specials: Ids of special tokens by the text that constraints use for them (`structgen.special`).

    Raises:
        VocabularyError: No token has bytes, a token is too long, or a special token is text.
        VocabularyMismatch: There are more tokens than `size`, or an id is out of range.
        OptionError: An argument has the wrong type, or a limit is unknown.
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[int],
        *,
        size: int | None = None,
        encoder: Callable[[str], Sequence[int]] | None = None,
        limits: Mapping[str, int] | None = None,
        specials: Mapping[str, int] | None = None,
    ) -> None:
        self.limits = _checked_limits(limits or {})
        if not isinstance(tokens, Sequence) or isinstance(tokens, str | bytes):
            raise OptionError(f"tokens is {a_kind(tokens)}; it is a list of the bytes of each token")
        if not isinstance(eos_ids, Iterable) or isinstance(eos_ids, str | bytes):
            raise OptionError(
                f"eos_ids is {with_kind(eos_ids)}; it is a list of ids",
                hint=f"Write [{eos_ids}]." if isinstance(eos_ids, int) else None,
            )
        self.eos_ids = tuple(dict.fromkeys(eos_ids))
        self.size = len(tokens) if size is None else size
        self.words = (self.size + 31) // 32
        self._tokens = _checked(tokens, self.eos_ids, self.size)
        self.specials: Mapping[str, int] = _checked_specials(specials or {}, self._tokens, self.size)
        self._special_texts = {i: text for text, i in self.specials.items()}
        self._encoder = encoder

    @classmethod
    @checks_names
    def from_tokens(
        cls,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[int],
        *,
        size: int | None = None,
        specials: Mapping[str, int] | None = None,
    ) -> Vocabulary:
        """Make a vocabulary from the bytes of each token.

        Args:
            tokens: The bytes of each token by id; None for a token that is not text.
            eos_ids: Ids of the end-of-sequence tokens.
            size: The width of the model's logits, if it is more than the number of tokens.
            specials: Ids of special tokens by the text that constraints use for them (`structgen.special`).
        """
        return cls(tokens, eos_ids, size=size, specials=specials)

    @classmethod
    @checks_names
    def of_bytes(cls, specials: Iterable[str] = ()) -> Vocabulary:
        """Make a vocabulary in which each byte is a token and 256 ends a text: a way to test constraints.

        ``Matcher(constraint, Vocabulary.of_bytes()).explain(text)`` needs neither a tokenizer nor a model. `specials`
        become the tokens from 257 on.
        """
        if not isinstance(specials, Iterable):
            raise OptionError(f"specials is {with_kind(specials)}; it is a list of texts")
        names = (specials,) if isinstance(specials, str) else tuple(specials)
        tokens = [*(bytes([byte]) for byte in range(256)), *[None] * (1 + len(names))]
        ids = {name: 257 + number for number, name in enumerate(names)}
        return cls(tokens, [256], encoder=_bytes_of, specials=ids)

    @classmethod
    @checks_names
    def from_tokenizer(
        cls, tokenizer: object, *, size: int | None = None, eos_ids: Iterable[int] | None = None
    ) -> Vocabulary:
        """Make a vocabulary from a tokenizer.

        Args:
            tokenizer: One of transformers, tokenizers, tiktoken, sentencepiece or mistral-common, or the path of a
                file: ``tokenizer.json`` (or its folder), ``tekken.json``, ``.gguf``, or SentencePiece's ``.model``.
            size: The width of the model's logits, if it is more than the tokenizer has.
            eos_ids: Replaces the end-of-sequence tokens that the tokenizer declares.

        Raises:
            VocabularyError: The tokens have no exact bytes, or the tokenizer declares no end of sequence.
        """
        from structgen.tokenizers import read_tokenizer

        table = read_tokenizer(tokenizer)
        ends = table.eos_ids if eos_ids is None else tuple(eos_ids)
        if not ends and eos_ids is None:
            raise VocabularyError(
                "this tokenizer does not say which token ends a text",
                hint="Pass eos_ids=[...] with the ids of its end-of-text tokens.",
            )
        specials = dict(table.specials)
        for i in ends:  # an end that is text to the tokenizer is a control token all the same
            data = table.tokens[i] if 0 <= i < len(table.tokens) else None
            if data:
                specials.setdefault(data.decode("utf-8", "replace"), i)
        most = len(table.tokens) if size is None else size
        specials = {text: i for text, i in specials.items() if text and i < most}
        return cls(table.tokens, ends, size=size, encoder=table.encode, specials=specials)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.size} tokens, ends of text {list(self.eos_ids)}>"

    # It never changes, so copies are the same object, which keeps the engine and its caches shared.

    def __copy__(self) -> Vocabulary:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Vocabulary:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments; the engine is built again when it is first used."""
        return _restored, (
            self._tokens,
            self.eos_ids,
            self.size,
            self._encoder,
            self.limits,
            dict(self.specials),
        )

    def token_bytes(self, token: int) -> bytes | None:
        """Return the bytes that a token adds to a text; None for a token that is not text."""
        return self._tokens[token] if 0 <= token < len(self._tokens) else None

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of tokens, joined; a token that is not text adds nothing."""
        return b"".join([self.token_bytes(i) or b"" for i in ids])

    def spelled(self, ids: Iterable[int]) -> str:
        """Return the text of tokens, with special tokens as the texts that name them."""
        return self.spelled_bytes(ids).decode("utf-8", "replace")

    def spelled_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the same as `spelled`, as bytes."""
        names = self._special_texts
        return b"".join(names[i].encode() if i in names else self.token_bytes(i) or b"" for i in ids)

    def encode(self, text: str | bytes) -> list[int] | None:
        """Return tokens that spell exactly `text`, as the tokenizer splits it in the middle of a text.

        Return None where there is no tokenizer, where it does not give these bytes back (it normalises, lacks a
        character, reads a marker), or where `text` is not UTF-8.
        """
        if self._encoder is None:
            return None
        try:
            wanted = text.encode() if isinstance(text, str) else bytes(text)
            words = text if isinstance(text, str) else wanted.decode()
        except UnicodeError:
            return None
        if not wanted:
            return []
        for sentinel in _SENTINELS:
            ids = list(self._encoder(sentinel + words))
            start = self._after_sentinel(ids, sentinel.encode())
            if start is not None and self._spells(ids[start:], wanted):
                return ids[start:]
        return None

    def _after_sentinel(self, ids: Sequence[int], sentinel: bytes) -> int | None:
        """Return how many tokens spell the sentinel alone; a tokenizer may put a space before it."""
        data = b""
        for count, i in enumerate(ids):
            data += self.token_bytes(i) or b""
            if data.lstrip(b" ") == sentinel:
                return count + 1
            if len(data) > len(sentinel) + 1:
                return None
        return None

    def _spells(self, ids: Sequence[int], text: bytes) -> bool:
        parts = [self.token_bytes(i) for i in ids]
        return None not in parts and b"".join(part for part in parts if part) == text

    @cached_property
    def fingerprint(self) -> str:
        """A hash of its tokens, which is the same in every process."""
        digest = hashlib.sha256(repr((self.size, self.eos_ids, sorted(self.specials.items()))).encode())
        for token in self._tokens:
            digest.update(b"-" if token is None else b"%d:%b" % (len(token), token))
        return digest.hexdigest()

    @cached_property
    def spells_all_bytes(self) -> bool:
        """Whether each byte is a token of its own, so that tokens spell every text."""
        return len({token for token in self._tokens if token is not None and len(token) == 1}) == 256

    @cached_property
    def eos_mask(self) -> NDArray[np.int32]:
        """The mask of the ends of text, shape ``[words]``; not to be written to."""
        bits = np.zeros(32 * self.words, np.uint8)
        bits[list(self.eos_ids)] = 1
        words = np.packbits(bits, bitorder="little").view(np.int32)
        words.flags.writeable = False
        return words

    @cached_property
    def native(self) -> _core.Vocabulary:
        """The core's vocabulary trie."""
        return _core.Vocabulary(self._tokens, list(self.eos_ids), self.size, self.specials)

    @cached_property
    def engine(self) -> _core.Engine:
        """The core's engine, which owns the caches that all constraints on this vocabulary share."""
        try:
            return _core.Engine(self.native, self.limits)
        except ValueError as error:
            raise OptionError(str(error)) from None

    def with_limits(self, **limits: int) -> Vocabulary:
        """Return an equal vocabulary with an engine of its own, under other limits of the core (docs/core.md)."""
        return Vocabulary(
            self._tokens,
            self.eos_ids,
            size=self.size,
            encoder=self._encoder,
            limits={**self.limits, **limits},
            specials=self.specials,
        )


def _restored(
    tokens: Sequence[bytes | None],
    eos_ids: tuple[int, ...],
    size: int,
    encoder: Callable[[str], Sequence[int]] | None,
    limits: Mapping[str, int],
    specials: Mapping[str, int],
) -> Vocabulary:
    return Vocabulary(tokens, eos_ids, size=size, encoder=encoder, limits=limits, specials=specials)


def _bytes_of(text: str) -> Sequence[int]:
    return text.encode()


def _checked_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """Return a copy of the limits; raise if one is unknown or out of range."""
    for name, value in limits.items():
        if name not in _LIMITS:
            raise OptionError(
                f"unknown limit {name!r}; the limits are {', '.join(_LIMITS)}",
                hint=did_you_mean(name, _LIMITS),
            )
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _LIMITS[name]:
            raise OptionError(
                f"the limit {name} is {value!r:.60}; it must be an int from 1 to {_LIMITS[name]:,}"
            )
    return dict(limits)


def _checked_specials(
    specials: Mapping[str, int], tokens: Sequence[bytes | None], size: int
) -> dict[str, int]:
    """Return a copy of the special tokens; raise if one is text, empty, or out of range."""
    for text, i in specials.items():
        if not isinstance(text, str) or not text or not isinstance(i, int) or _SURROGATE.search(text):
            raise VocabularyError(
                f"the special token {text!r:.40}: {i!r:.40} is not a text and an id",
                hint='Write, for example, specials={"<|im_end|>": 2}.',
            )
        if not 0 <= i < size:
            raise VocabularyMismatch(f"the special token {text!r:.40}, {i}, is outside of the {size} tokens")
        if i < len(tokens) and tokens[i]:
            raise VocabularyError(
                f"the special token {text!r:.40} is text, the bytes {tokens[i]!r:.40}",
                hint="Give None for its bytes: a special token is never read as text.",
            )
    return dict(specials)


def _checked(tokens: Sequence[bytes | None], eos_ids: Sequence[int], size: int) -> list[bytes | None]:
    """Return a copy of the tokens in which ends of text are not text; raise if they cannot be used."""
    listed = list(tokens)
    if not {type(token) for token in listed} <= {bytes, type(None)}:
        strange = next(i for i, token in enumerate(listed) if type(token) not in (bytes, type(None)))
        raise VocabularyError(
            f"token {strange} is {listed[strange]!r:.40}; tokens are bytes, or None for what is not text",
            hint="Encode texts, or use Vocabulary.from_tokenizer.",
        )
    while len(listed) > size and not listed[-1]:
        del listed[-1]  # markers that the model was never given
    if len(listed) > size:
        raise VocabularyMismatch(
            f"the tokenizer has {len(listed)} tokens, the model {size}",
            hint="Use the tokenizer that the model was trained with.",
        )
    for i in eos_ids:
        if not 0 <= i < size:
            raise VocabularyMismatch(f"the end-of-text token {i} is outside of the {size} tokens")
        if i < len(listed):
            listed[i] = None
    if not any(listed):
        raise VocabularyError(
            "no token of this vocabulary has bytes, so it spells no text",
            hint="Pass the bytes of each token, or use Vocabulary.from_tokenizer.",
        )
    longest = max(range(len(listed)), key=lambda i: len(listed[i] or b""))
    if len(listed[longest] or b"") > _LONGEST_TOKEN:
        raise VocabularyError(f"token {longest} is longer than {_LONGEST_TOKEN} bytes")
    return listed
