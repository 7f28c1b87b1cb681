"""SentencePiece models: pieces in which U+2581 is a space, byte pieces, control and unknown pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structgen.errors import VocabularyError

from .table import Encoder, TokenTable, fallback_byte

__all__ = ["SPACE", "read_model_file", "read_processor", "read_slow_tokenizer"]

SPACE = "\u2581"


def read_model_file(path: Path) -> TokenTable:
    """Return the tokens of a SentencePiece ``.model`` file."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise VocabularyError(
            f"reading {path} needs the package sentencepiece",
            hint="Install it with: pip install sentencepiece",
        ) from None
    try:
        processor = SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise VocabularyError(f"{path} is not a valid SentencePiece model: {error}") from error
    return read_processor(processor)


def read_processor(processor: Any) -> TokenTable:
    """Return the tokens of a ``SentencePieceProcessor``."""
    tokens = [_piece_bytes(processor, i) for i in range(processor.get_piece_size())]
    eos = processor.eos_id()
    return TokenTable(
        tokens,
        () if eos < 0 else (eos,),
        Encoder(processor, {"out_type": int, "add_bos": False, "add_eos": False}),
        strips_first_space=True,
        specials={processor.id_to_piece(i): i for i in range(len(tokens)) if processor.is_control(i)},
    )


def read_slow_tokenizer(tokenizer: Any) -> TokenTable:
    """Return the tokens of a slow tokenizer of `transformers` with a SentencePiece model, and its added tokens."""
    table = read_processor(tokenizer.sp_model)
    tokens = list(table.tokens)
    special = set(tokenizer.all_special_ids)
    specials = dict(table.specials)
    for i, token in tokenizer.added_tokens_decoder.items():
        tokens.extend([None] * (i + 1 - len(tokens)))
        if token.special or i in special:
            tokens[i], specials[token.content] = None, i
        else:
            tokens[i] = token.content.encode()
    eos = tokenizer.eos_token_id
    return TokenTable(
        tokens,
        table.eos_ids if eos is None else (eos,),
        Encoder(tokenizer, {"add_special_tokens": False}),
        strips_first_space=True,
        specials={text: i for text, i in specials.items() if tokens[i] is None},
    )


def _piece_bytes(processor: Any, i: int) -> bytes | None:
    if processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i):
        return None
    piece: str = processor.id_to_piece(i)
    if processor.is_byte(i):
        return fallback_byte(piece)
    return piece.replace(SPACE, " ").encode()
