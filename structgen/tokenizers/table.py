"""The common form of every tokenizer: the bytes of each token, the ends of text, and an encoder.

Invariant: ``tokens[i]`` are the bytes that token i adds to a text, at any position; None if it adds none (control
tokens, unused ids).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BYTE_ALPHABET", "Encoder", "TokenTable", "byte_level", "fallback_byte"]


@dataclass(frozen=True)
class TokenTable:
    """A tokenizer as the vocabulary needs it."""

    tokens: Sequence[bytes | None]
    eos_ids: tuple[int, ...] = ()
    encode: Callable[[str], Sequence[int]] | None = None
    """The tokenizer's own encoding, without markers of beginning and end; it may lose or add text."""
    strips_first_space: bool = False
    """Whether the tokenizer's ``decode`` removes a space at the start of a text."""
    specials: Mapping[str, int] = field(default_factory=dict)
    """The control tokens (ends of text, turns, channels, tool calls) by their names; they add no text."""


@dataclass(frozen=True)
class Encoder:
    """``tokenizer.encode`` with options, as a function that can be pickled if the tokenizer can."""

    tokenizer: Any
    options: Mapping[str, Any]

    def __call__(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        encoded = self.tokenizer.encode(text, **self.options)
        return list(getattr(encoded, "ids", encoded))


def _byte_alphabet() -> dict[int, int]:
    """Return GPT-2's alphabet, code point to byte: printable bytes stand for themselves, others are shifted up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in set(printable)]
    return {byte: byte for byte in printable} | {256 + offset: byte for offset, byte in enumerate(moved)}


BYTE_ALPHABET = _byte_alphabet()
# Code points that are not in the alphabet, but would pass the translation as bytes, are mapped to U+FFFF.
_TRANSLATION: dict[int, int | str] = dict.fromkeys(range(256), "\uffff") | BYTE_ALPHABET


def byte_level(token: str) -> bytes | None:
    """Return the bytes that a token spells in GPT-2's byte alphabet; None if it uses other characters."""
    try:
        return token.translate(_TRANSLATION).encode("latin-1")
    except UnicodeEncodeError:
        return None


def fallback_byte(token: str) -> bytes | None:
    """Return the byte of a token such as ``<0x0A>``."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            return None
    return None
