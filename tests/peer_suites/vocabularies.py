"""The vocabularies in which the cases are read."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import structgen as sg

from ..real_tokenizers import tokenizer_path
from .cases import Case

__all__ = ["BYTES", "of_case", "real", "special_names", "tokens_of"]

BYTES = sg.Vocabulary.of_bytes()

# The special tokens of the tokenizer that llguidance's traces are of.
_PHI = {"<|assistant|>": 32001, "<|system|>": 32006, "<|end|>": 32007, "<|user|>": 32010}
_PHI_TOKEN = re.compile(r"(<\|[^|>]+\|>)")
# llama.cpp's token tests name tokens below this number, and give text between them.
_BY_NUMBER = 64


@functools.cache
def real() -> sg.Vocabulary:
    """SmolLM2's, of 49,152 tokens."""
    return sg.Vocabulary.from_tokenizer(str(tokenizer_path("smollm2") / "tokenizer.json"))


@functools.cache
def _phi() -> sg.Vocabulary:
    tokens = [bytes([byte]) for byte in range(256)] + [None] * (32_064 - 256)
    return sg.Vocabulary.from_tokens(tokens, [32_000], specials=_PHI)


@functools.cache
def _numbered() -> sg.Vocabulary:
    """Tokens without text, which are named by number, then all bytes, then the end."""
    tokens = [None] * _BY_NUMBER + [bytes([byte]) for byte in range(256)] + [None]
    specials = {f"<{number}>": number for number in range(_BY_NUMBER)}
    return sg.Vocabulary.from_tokens(tokens, [len(tokens) - 1], specials=specials)


def of_case(case: Case) -> sg.Vocabulary:
    """The vocabulary that a case brings along, or that of bytes."""
    if "vocab" in case.options:
        return _own(json.dumps(case.options["vocab"]), special_names(case))
    if "token_accept" in case.record:
        return _numbered()
    return _phi() if case.record.get("special") else BYTES


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
    if case.kind == "structural_tag":
        names.update(_token_texts(case.spec))
    return tuple(sorted(names))


def _token_texts(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for one in node:
            yield from _token_texts(one)
    elif isinstance(node, dict):
        if node.get("type") == "token" and isinstance(node.get("token"), str):
            yield node["token"]
        for one in node.values():
            yield from _token_texts(one)


def data(text: Any) -> bytes:
    """The bytes of a text of a case; texts that are not UTF-8 are recorded as latin-1."""
    if isinstance(text, dict):
        return str(text["bytes"]).encode("latin-1")
    return str(text).encode("utf-8", "surrogateescape")


def tokens_of(text: Any, vocabulary: sg.Vocabulary) -> list[int] | None:
    """The tokens of a text; `None` where the vocabulary cannot spell it."""
    if isinstance(text, list):  # numbers and texts
        return [token for part in text for token in ([part] if isinstance(part, int) else _numbers(part))]
    if vocabulary is BYTES:
        return list(data(text))
    if isinstance(text, str) and vocabulary is _phi():
        parts = _PHI_TOKEN.split(text)
        return [token for part in parts for token in ([_PHI[part]] if part in _PHI else part.encode())]
    return vocabulary.encode(data(text))


def _numbers(text: str) -> list[int]:
    return [_BY_NUMBER + byte for byte in text.encode()]
