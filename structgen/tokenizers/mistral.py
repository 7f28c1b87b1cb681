"""Tokenizers of `mistral-common`: Tekken (byte-level BPE) and SentencePiece, alone or inside other tokenizers.

`transformers` and vLLM have wrappers of their own around them; all are read by the tokenizer inside.
Source: mistral_common.tokens.tokenizers (`Tekkenizer`, `SentencePieceTokenizer`) and the format of its ``tekken.json``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from structgen.errors import VocabularyError

from .sentencepiece import read_processor
from .table import Encoder, TokenTable

__all__ = ["find_mistral", "read_mistral", "read_tekken_file"]

_INNER = ("tokenizer", "instruct_tokenizer")
"""The attributes under which a wrapper has another tokenizer."""
_DEEPEST = 4
_PLAIN = {"bos": False, "eos": False}


def find_mistral(tokenizer: object) -> Any:
    """Return the tokenizer of `mistral-common` that this is or has inside; None if it has none."""
    for _ in range(_DEEPEST):
        if type(tokenizer).__module__.startswith("mistral_common.") and hasattr(tokenizer, "eos_id"):
            return tokenizer
        inner = next(
            (found for name in _INNER if (found := getattr(tokenizer, name, None)) is not None), None
        )
        if inner is None:
            return None
        tokenizer = inner
    return None


def read_mistral(tokenizer: Any) -> TokenTable:
    """Return the tokens of a tokenizer of `mistral-common`. Control tokens are named as it shows them."""
    special = {int(i) for i in tokenizer.special_ids}
    names = {tokenizer.id_to_piece(i): i for i in sorted(special)}
    if hasattr(tokenizer, "id_to_byte_piece"):
        return TokenTable(
            [None if i in special else tokenizer.id_to_byte_piece(i) for i in range(tokenizer.n_words)],
            (tokenizer.eos_id,),
            Encoder(tokenizer, _PLAIN),
            specials=names,
        )
    processor = getattr(tokenizer, "_model", None)
    if processor is None:
        raise VocabularyError(
            f"the bytes of the tokens of {type(tokenizer).__name__} cannot be determined",
            hint="Pass the path of its .model or tekken.json file.",
        )
    table = read_processor(processor)
    return replace(
        table,
        tokens=[None if i in special else data for i, data in enumerate(table.tokens)],
        eos_ids=(tokenizer.eos_id,),
        encode=Encoder(tokenizer, _PLAIN),
        specials=names,
    )


def read_tekken_file(path: Path) -> TokenTable:
    """Return the tokens of a ``tekken.json`` file."""
    try:
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    except ImportError:
        raise VocabularyError(
            f"reading {path} needs the package mistral-common",
            hint="Install it with: pip install mistral-common",
        ) from None
    try:
        tokenizer = Tekkenizer.from_file(path)
    except Exception as error:  # the library raises no narrower exception
        raise VocabularyError(f"{path} is not a valid Tekken tokenizer: {error}") from error
    return read_mistral(tokenizer)
