"""Small vocabularies that are hard for masks, and helpers that tests use on masks.

Every byte is a token, unless a test removes some. In addition there are tokens as real tokenizers have them, and worse:
tokens that close a value and its object and open the next key, escapes and halves of escapes, halves of characters,
equal bytes under two ids, tokens with many quotes. Ids 0 and 1 end a text; some ids have no text.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary import Vocabulary

__all__ = ["EOS", "PADDING", "allowed", "byte_vocabulary", "json_vocabulary", "renewed", "spell", "text_ids"]

EOS = (0, 1)
PADDING = 13  # ids of the model that the tokenizer does not have

_CLOSERS: tuple[str, ...] = (
    '"',
    '",',
    '","',
    '":',
    '":"',
    '":{"',
    '"}',
    '"}]',
    '"}],',
    '"]',
    '"],"',
    '":[',
    '":[{"',
)
_CLOSERS += ('"}}', '":1', '": ', '": "', '", "', '" :', '",\n', '"}\n', '":{}', '":[]', '":null')
_CLOSERS += ('":true,"', '""', '"":', '"","')
_PUNCTUATION: tuple[str, ...] = (
    "{}",
    "{}}",
    "[]",
    "[],",
    "[[",
    "]]",
    "}}",
    "},",
    '},{"',
    '{"',
    '{ "',
    "{\n",
    '[{"',
    "[1",
)
_PUNCTUATION += ("1]", ",1", '["', "],[", ", ", ": ", ":  ", "  ", "    ", "\n  ", " {", " [", ' "', "0,")
_PUNCTUATION += ("1}", "1,2", "1},")
_WORDS: tuple[str, ...] = (
    "null",
    "true",
    "false",
    "nul",
    "l",
    "rue",
    "als",
    "null,",
    "true}",
    "false]",
    "abc",
    "ab",
)
_WORDS += ("aab", "bc", "x y", "aa", "ba", "b", "aaa", "abab", "é", "éa", "\U0001f600", "\U0001f600a", "日本")
_WORDS += ("0a", "a\n", " a", "xy")
_NUMBERS: tuple[str, ...] = (
    "0",
    "10",
    "12",
    "123",
    "0.5",
    ".5",
    ".0",
    "-1",
    "-0",
    "-",
    "e1",
    "1e2",
    "E+0",
    "00",
    "1.",
)
_NUMBERS += ("1.5", "e", "7", "2.0", "-0.5", "0.1", "99", "100", "1e", "+1", "0.", "5e-1")
_ESCAPES: tuple[str, ...] = (
    "\\n",
    '\\"',
    "\\\\",
    "\\u",
    "\\u00",
    "\\u006",
    "\\u0061",
    "\\ud83d",
    "\\ude00",
    "\\u00e9",
)
_ESCAPES += ("\\/", "\\b", "\\", '\\""', '\\","', '\\n"', "a\\", '\\\\"', '\\\\",', 'q\\"', "\\u000")
_ESCAPES += ("\\u0000", "\\t", "\\nb", "u00", '\\"":')
_HALVES: tuple[bytes, ...] = (
    b"\xc3",
    b"\xa9",
    b"\xc3\xa9\xc3",
    b'\xa9"',
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xf0\x9f\x98",
)
_HALVES += (b"a\xc3", b"\x80", b"\xf0")


def _tokens() -> list[bytes]:
    """Every byte, then the fragments above; some twice."""
    texts = (*_CLOSERS, *_PUNCTUATION, *_WORDS, *_NUMBERS, *_ESCAPES)
    single = [bytes([byte]) for byte in range(256)]
    pieces = [text.encode() for text in texts] + list(_HALVES)
    return single + pieces + [b'","', b"ab", b"\\n", b"{", b"1"]


@functools.cache
def json_vocabulary(more: int = 0, seed: int = 0) -> Vocabulary:
    """The fragments above and `more` concatenations of two or three of them."""
    source = random.Random(seed)
    tokens = _tokens()
    pieces = tokens[256:]
    tokens += [b"".join(source.choices(pieces, k=source.choice((2, 2, 3)))) for _ in range(more)]
    listed: list[bytes | None] = [None, None, *tokens]
    listed[7:7] = [None, b""]  # ids in the middle that are no text
    return Vocabulary.from_tokens(listed, EOS, size=len(listed) + PADDING)


@functools.cache
def byte_vocabulary(alphabet: bytes | None = None) -> Vocabulary:
    """One token a byte, of all bytes or of `alphabet`."""
    symbols = bytes(range(256)) if alphabet is None else alphabet
    return Vocabulary.from_tokens([None, None, *(bytes([symbol]) for symbol in symbols)], EOS)


def allowed(mask: NDArray[np.int32]) -> set[int]:
    """The ids whose bit is set."""
    return set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())


def spell(vocabulary: Vocabulary, text: bytes, source: random.Random) -> list[int]:
    """A random tokenisation of `text`."""
    by_bytes = _index(vocabulary)
    longest = max(map(len, by_bytes))
    ids: list[int] = []
    at = 0
    while at < len(text):
        fitting = [text[at : at + n] for n in range(1, longest + 1) if text[at : at + n] in by_bytes]
        piece = source.choice(fitting)
        ids.append(source.choice(by_bytes[piece]))
        at += len(piece)
    return ids


def text_ids(vocabulary: Vocabulary) -> Iterable[int]:
    """The ids that are text."""
    return [token for token in range(vocabulary.size) if vocabulary.token_bytes(token)]


@functools.cache
def _index(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for token in text_ids(vocabulary):
        found.setdefault(vocabulary.token_bytes(token) or b"", []).append(token)
    return found


def renewed(vocabulary: Vocabulary, **limits: int) -> Vocabulary:
    """An equal vocabulary with an engine of its own, which has seen nothing yet."""
    return vocabulary.with_limits(**limits)
