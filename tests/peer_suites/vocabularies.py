"""The vocabularies in which the cases are read."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import structgen as sg

from ..real_tokenizers import tokenizer_path
from .cases import Case, cases

__all__ = ["BYTES", "data", "of_case", "real", "special_names", "tokens_of"]

# Thousands of constraints are compiled for each: caches are emptied sooner than by default.
_SPACE = {"space_bytes": 32 << 20, "fragment_cache_bytes": 16 << 20}
BYTES = sg.Vocabulary.of_bytes().with_limits(**_SPACE)

# The tokenizer that llguidance's traces are of: its special tokens, the words that its tests name by number, where its
# bytes begin, and how wide it is padded.
_PHI = {"<|assistant|>": 32001, "<|system|>": 32006, "<|end|>": 32007, "<|user|>": 32010}
_PHI_WORDS = {
    b"foo": 5431,
    b" calling": 5432,
    b"long": 5426,
    b"asta": 5427,
    b"reh": 9000,
    b"zott": 29730,
    b"que": 29842,
}
_PHI_END, _PHI_BYTES, _PHI_SIZE = 32000, 3, 35_000
_PHI_TOKEN = re.compile(r"(<\|[^|>]+\|>|<\[\d+\]>)")
# Texts of llguidance's tests of max_tokens, cut as these tests cut them.
_CUT = [
    "Name|:| Em|ily| Carter| Height|:| |5|'|6",
    "Name|:| Em|ily| Height|:| |5|'|6",
    "Name|:| Em|ily| Carter| is| great|;| Height|:| |5|'|6",
    "JSON|[|1|,|2|END",
    "JSON|[|1|,|2",
    " x| x| x| q| q| q| q| x| a| a| b| y",
    " x| x| x| q| q| q| q| a| a| b| y",
    " x| x| x| q| q| q| q| x| a| a| a| y",
    " x| x| x| q| q| q| q| a| a| a| y",
    " x| x| x| a| a| a| y",
    " a| a| a| y",
    " x| a| a| a| y",
]
_PIECES = {text.replace("|", ""): text.split("|") for text in _CUT}
# llama.cpp's tests of tokens name those below this number, and give text between them.
_BY_NUMBER = 64


@functools.cache
def real() -> sg.Vocabulary:
    """SmolLM2's, of 49,152 tokens."""
    return sg.Vocabulary.from_tokenizer(str(tokenizer_path("smollm2") / "tokenizer.json")).with_limits(
        **_SPACE
    )


@functools.cache
def _phi() -> sg.Vocabulary:
    tokens: list[bytes | None] = [f"{{token {number}}}".encode() for number in range(_PHI_SIZE)]
    tokens[:_PHI_BYTES] = [None] * _PHI_BYTES
    tokens[_PHI_BYTES : _PHI_BYTES + 256] = [bytes([byte]) for byte in range(256)]
    for word, token in _PHI_WORDS.items():
        tokens[token] = word
    for token in (*_PHI.values(), _PHI_END):
        tokens[token] = None
    return sg.Vocabulary.from_tokens(tokens, [_PHI_END], specials=_PHI).with_limits(**_SPACE)


@functools.cache
def _wide() -> sg.Vocabulary:
    """Bytes, the end, and tokens of other texts, for grammars that name tokens by larger numbers."""
    tokens = (
        [bytes([byte]) for byte in range(256)]
        + [None]
        + [f"{{token {n}}}".encode() for n in range(257, 4096)]
    )
    return sg.Vocabulary.from_tokens(tokens, [256])


@functools.cache
def _numbered() -> sg.Vocabulary:
    """Tokens without text, which are named by number, then all bytes, then the end."""
    tokens = [None] * _BY_NUMBER + [bytes([byte]) for byte in range(256)] + [None]
    specials = {f"<{number}>": number for number in range(_BY_NUMBER)}
    return sg.Vocabulary.from_tokens(tokens, [len(tokens) - 1], specials=specials)


@functools.cache
def _pieces() -> list[bytes]:
    """The pieces of the texts that are cut, each once."""
    return sorted({piece.encode() for pieces in _PIECES.values() for piece in pieces})


@functools.cache
def _pieced() -> sg.Vocabulary:
    """Bytes, the pieces, the end."""
    return sg.Vocabulary.from_tokens(
        [*(bytes([byte]) for byte in range(256)), *_pieces(), None], [256 + len(_pieces())]
    )


def of_case(case: Case, text: Any = None) -> sg.Vocabulary:
    """The vocabulary that a case brings along, that which its verdicts are about, or that of bytes."""
    if "vocab" in case.options:
        return _own(json.dumps(case.options["vocab"]), special_names(case))
    if "token_accept" in case.record:
        return _numbered()
    by_number = case.kind in ("gbnf", "lark") and "<[" in case.written
    if case.record.get("special") or (case.peer == "llguidance" and by_number):
        return _phi()
    if by_number:
        return _wide()
    if isinstance(text, str) and text in _PIECES and case.peer == "llguidance":
        return _pieced()
    # The verdicts of one test are about one vocabulary, which only some of its records carry.
    if case.kind in ("ebnf", "structural_tag") and "oken" in case.written:
        twin = _twins(case.peer).get(case.written)
        return BYTES if twin is None else _own(twin, ())
    return BYTES


@functools.cache
def _twins(peer: str) -> Mapping[str, str]:
    """The vocabularies of those specifications with a case that has one."""
    return {one.written: json.dumps(one.options["vocab"]) for one in cases(peer) if "vocab" in one.options}


@functools.cache
def _own(written: str, names: tuple[str, ...]) -> sg.Vocabulary:
    given = json.loads(written)
    texts = given["vocab"]
    stop = [token for token in given["stop"] if token < len(texts)]
    specials = {text: token for token, text in enumerate(texts) if text in names and token not in stop}
    tokens = [
        text.encode("latin-1") if text and text not in specials and token not in stop else None
        for token, text in enumerate(texts)
    ]
    return sg.Vocabulary.from_tokens(tokens, stop, specials=specials)


def special_names(case: Case) -> tuple[str, ...]:
    """Tokens of the case's own vocabulary that its grammar names by text: the recorded vocabularies mark none."""
    if "vocab" not in case.options:
        return ()
    names = set(case.options.get("specials", ()))
    if case.kind == "lark":
        names.update(re.findall(r"<\|[^|>]+\|>", case.written))
    return tuple(sorted(names))


def data(text: Any) -> bytes:
    """The bytes of a text of a case; texts that are not UTF-8 are recorded as latin-1."""
    if isinstance(text, dict):
        return str(text["bytes"]).encode("latin-1")
    return str(text).encode("utf-8", "surrogateescape")


def tokens_of(text: Any, vocabulary: sg.Vocabulary) -> list[int] | None:
    """The tokens of a text; `None` where the vocabulary cannot spell it."""
    if isinstance(text, list):  # numbers and texts
        return [token for part in text for token in ([part] if isinstance(part, int) else _numbers(part))]
    if vocabulary is BYTES or vocabulary is _wide():
        return list(data(text))
    if isinstance(text, str) and vocabulary is _phi():
        return [token for part in _PHI_TOKEN.split(text) for token in _phi_tokens(part)]
    if isinstance(text, str) and vocabulary is _pieced():
        return [256 + _pieces().index(piece.encode()) for piece in _PIECES[text]]
    return vocabulary.encode(data(text))


def _phi_tokens(part: str) -> list[int]:
    if part in _PHI:
        return [_PHI[part]]
    if part.startswith("<[") and _PHI_TOKEN.fullmatch(part):
        return [int(part[2:-2])]
    content, tokens, place = part.encode(), [], 0
    while place < len(content):
        word = next(
            (word for word in sorted(_PHI_WORDS, key=len, reverse=True) if content.startswith(word, place)),
            None,
        )
        tokens.append(_PHI_BYTES + content[place] if word is None else _PHI_WORDS[word])
        place += 1 if word is None else len(word)
    return tokens


def _numbers(text: str) -> list[int]:
    return [_BY_NUMBER + byte for byte in text.encode()]
