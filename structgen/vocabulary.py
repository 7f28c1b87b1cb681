"""A tokenizer's tokens as the bytes that they add to a text.

Why: constraints are automata over bytes, so every token must be known as exactly the bytes it joins into the
output, never as what ``decode()`` shows (it strips and cleans).
Invariant: special, unused and padding ids have no bytes and are never text; ids up to `size` exist for masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from structgen import _core
from structgen.errors import VocabularyError

__all__ = ["Vocabulary"]


class Vocabulary:
    """Token id to bytes, end-of-sequence ids, and the native engine built on them."""

    def __init__(
        self, tokens: Sequence[bytes | None], eos_ids: Sequence[int], *, size: int | None = None, tokenizer: Any = None
    ) -> None:
        self._tokens = list(tokens)
        self.eos_ids = tuple(eos_ids)
        self.size = size if size is not None else len(self._tokens)
        self.words = (self.size + 31) // 32
        self._tokenizer = tokenizer

    @classmethod
    def from_tokens(cls, tokens: Sequence[bytes | None], eos_ids: Sequence[int], *, size: int | None = None) -> Vocabulary:
        return cls(tokens, eos_ids, size=size)

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, *, size: int | None = None, eos_ids: Sequence[int] | None = None) -> Vocabulary:
        vocab: Mapping[str, int] = tokenizer.get_vocab()
        special = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        added = {i: t.content for i, t in tokenizer.added_tokens_decoder.items()}
        table = _byte_alphabet()
        tokens: list[bytes | None] = [None] * (max(vocab.values()) + 1)
        for text, i in vocab.items():
            if i in special:
                continue
            if i in added:
                tokens[i] = added[i].encode()
                continue
            try:
                tokens[i] = bytes([table[c] for c in text])
            except KeyError:
                raise VocabularyError(f"token {i} ({text!r}) is no byte-level token") from None
        return cls(tokens, eos_ids if eos_ids is not None else [tokenizer.eos_token_id], size=size, tokenizer=tokenizer)

    def token_bytes(self, token: int) -> bytes | None:
        return self._tokens[token] if token < len(self._tokens) else None

    def decode(self, ids: Iterable[int]) -> bytes:
        return b"".join(self.token_bytes(i) or b"" for i in ids)

    @cached_property
    def native(self) -> _core.Vocabulary:
        return _core.Vocabulary(self._tokens, list(self.eos_ids), self.size)

    @cached_property
    def engine(self) -> _core.Engine:
        return _core.Engine(self.native, {})


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's byte alphabet: printable bytes stand for themselves, the others are moved up."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in keep}
    moved = 256
    for b in range(256):
        if b not in keep:
            table[chr(moved)] = b
            moved += 1
    return table
