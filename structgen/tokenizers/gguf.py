"""GGUF files: the vocabulary that llama.cpp reads from their metadata.

What: ``tokenizer.ggml.model`` defines how tokens are written ("gpt2": the byte alphabet; "llama", "t5": U+2581 and
byte pieces), and ``tokenizer.ggml.token_type`` which of them are text. Such a vocabulary has no encoder.

Source: the GGUF specification, and ``token_to_piece`` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from structgen.errors import VocabularyError

from .gguf_metadata import read_metadata
from .table import TokenTable, byte_level, fallback_byte

__all__ = ["read_file"]

_PREFIX = "tokenizer.ggml."
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")


def read_file(path: Path) -> TokenTable:
    """Return the tokenizer of a GGUF file; its tensors are not read.

    Raises:
        VocabularyError: The file has no tokenizer, or one of an unknown kind.
    """
    pairs = read_metadata(path)
    kind = pairs.get(f"{_PREFIX}model")
    texts = pairs.get(f"{_PREFIX}tokens")
    if not isinstance(kind, bytes) or not isinstance(texts, list):
        raise VocabularyError(f"{path} contains no tokenizer", hint="Use a GGUF file of a language model.")
    name = kind.decode("utf-8", "replace")
    spell = _SPELLINGS.get(name)
    if spell is None:
        raise VocabularyError(
            f"the tokens of {path.name} have no exact bytes: its tokenizer is {name!r}",
            hint=f"Supported kinds are {', '.join(_SPELLINGS)}.",
        )
    if not all(isinstance(text, bytes) for text in texts):
        raise _invalid_metadata(path, "tokens", "a list of texts")
    types = pairs.get(f"{_PREFIX}token_type")
    if types is None:
        types = [_NORMAL] * len(texts)
    elif isinstance(types, np.ndarray) and types.dtype.kind in "iu":
        types = types.tolist()
    else:
        raise _invalid_metadata(path, "token_type", "a list of integers")
    if len(types) != len(texts):
        raise VocabularyError(f"{path} has {len(texts)} tokens, but {len(types)} token types")
    tokens = [
        spell(text.decode("utf-8", "surrogateescape"), type_)
        for text, type_ in zip(texts, types, strict=True)
    ]
    ends = [_end(path, name, pairs[_PREFIX + name]) for name in _ENDS if _PREFIX + name in pairs]
    specials = {text.decode("utf-8", "replace"): i for i, text in enumerate(texts) if types[i] == _CONTROL}
    return TokenTable(tokens, tuple(dict.fromkeys(ends)), specials=specials)


def _end(path: Path, name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _invalid_metadata(path, name, "an integer")
    return value


def _invalid_metadata(path: Path, name: str, wanted: str) -> VocabularyError:
    return VocabularyError(
        f"{path}: the metadata {_PREFIX}{name} is not {wanted}", hint="Convert the model to GGUF again."
    )


def _byte_level_token(text: str, type_: int) -> bytes | None:
    if type_ in (_UNKNOWN, _CONTROL, _UNUSED):
        return None
    data = None if type_ == _USER_DEFINED else byte_level(text)
    return _utf8(text) if data is None else data


def _sentencepiece_token(text: str, type_: int) -> bytes | None:
    if type_ in (_UNKNOWN, _CONTROL, _UNUSED):
        return None
    if type_ == _BYTE:
        return fallback_byte(text)
    return _utf8(text.replace("\u2581", " "))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_SPELLINGS: dict[str, Callable[[str, int], bytes | None]] = {
    "gpt2": _byte_level_token,
    "llama": _sentencepiece_token,
    "t5": _sentencepiece_token,
}
