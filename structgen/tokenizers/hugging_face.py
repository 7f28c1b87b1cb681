"""Hugging Face tokenizers: `transformers` wrappers, the `tokenizers` library, and their files.

Why: these have the exact bytes of most models' tokens. ``decode`` is never called: it strips, cleans up, and cannot
return bytes that are not UTF-8.

Cost: about 1 µs per token; the tokenizer's JSON is not written out or parsed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from structgen.errors import VocabularyError

from .components import ByteRule, Component, byte_rule
from .table import Encoder, TokenTable, byte_level

__all__ = ["read_backend", "read_byte_decoder", "read_folder", "read_wrapper"]

# Allowed fraction of texts outside the byte alphabet although the decoder is ByteLevel: a few are common.
_MAX_FOREIGN_FRACTION = 0.02


def read_wrapper(tokenizer: Any) -> TokenTable:
    """Return the tokens of a fast tokenizer of `transformers`."""
    eos = tokenizer.eos_token_id
    eos_ids = [] if eos is None else [eos] if isinstance(eos, int) else list(eos)
    return read_backend(tokenizer.backend_tokenizer, eos_ids, tokenizer.all_special_ids)


def read_backend(backend: Any, eos_ids: Iterable[int] = (), special_ids: Iterable[int] = ()) -> TokenTable:
    """Return the tokens of a ``tokenizers.Tokenizer``. Its special tokens and its unknown token are not text."""
    model = backend.model
    for mark in ("end_of_word_suffix", "continuing_subword_prefix"):
        if getattr(model, mark, None):
            raise VocabularyError(
                f"the tokens of this tokenizer have no exact bytes: it marks words by {getattr(model, mark)!r}",
                hint="Use a model whose tokenizer is byte-level BPE, SentencePiece or tiktoken.",
            )
    rule = byte_rule(*(_component(backend, name) for name in ("decoder", "pre_tokenizer", "normalizer")))
    added = backend.get_added_tokens_decoder()
    vocab: dict[str, int] = backend.get_vocab(with_added_tokens=True)
    control = {i for i, token in added.items() if token.special} | set(special_ids)
    skipped = set(control)
    unknown = getattr(model, "unk_token", None)
    if isinstance(unknown, str) and unknown in vocab:
        skipped.add(vocab[unknown])
    elif isinstance(unknown_id := getattr(model, "unk_id", None), int):
        skipped.add(unknown_id)
    tokens = _token_bytes(vocab, rule, skipped, set(added))
    return TokenTable(
        tokens,
        tuple(eos_ids),
        Encoder(backend, {"add_special_tokens": False}),
        rule.strips_first_space,
        {text: i for text, i in vocab.items() if i in control},
    )


def _token_bytes(
    vocab: dict[str, int], rule: ByteRule, skipped: set[int], added: set[int]
) -> Sequence[bytes | None]:
    tokens: list[bytes | None] = [None] * (max(vocab.values(), default=-1) + 1)
    foreign = []
    for text, i in vocab.items():
        if i in skipped:
            continue
        is_added = i in added
        if rule.is_byte_level and not is_added:
            data = byte_level(text)
            if data is None:
                foreign.append((i, text))
                data = text.encode()
            tokens[i] = data
        else:
            tokens[i] = rule.token_bytes(text, is_added=is_added)
    if len(foreign) > _MAX_FOREIGN_FRACTION * len(vocab):
        i, text = foreign[0]
        raise VocabularyError(
            f"{len(foreign)} tokens are not written in the byte alphabet that the decoder uses, "
            f"among them {i}: {text!r}",
            hint="The decoder and the vocabulary of this tokenizer do not match.",
        )
    return tokens


def _component(backend: object, name: str) -> Component | None:
    """Return a component as its part of ``tokenizer.json``."""
    component = getattr(backend, name)
    return None if component is None else json.loads(component.__getstate__())


def read_byte_decoder(tokenizer: Any) -> TokenTable:
    """Return the tokens of a slow Python tokenizer with GPT-2's ``byte_decoder``."""
    table = {ord(letter): byte for letter, byte in tokenizer.byte_decoder.items()}
    special = set(tokenizer.all_special_ids)
    added = {i: token.content for i, token in tokenizer.added_tokens_decoder.items()}
    vocab: dict[str, int] = tokenizer.get_vocab()
    tokens: list[bytes | None] = [None] * (max(vocab.values(), default=-1) + 1)
    for text, i in vocab.items():
        if i in special:
            continue
        if i in added:
            tokens[i] = text.encode()
            continue
        try:
            tokens[i] = bytes(table[ord(letter)] for letter in text)
        except KeyError:
            raise VocabularyError(
                f"token {i} ({text!r}) is not written in the tokenizer's byte alphabet"
            ) from None
    eos = tokenizer.eos_token_id
    return TokenTable(
        tokens,
        () if eos is None else (eos,),
        Encoder(tokenizer, {"add_special_tokens": False}),
        specials={text: i for text, i in vocab.items() if i in special},
    )


def read_folder(path: Path) -> TokenTable:
    """Return the tokens of a ``tokenizer.json``, given by its path or folder.

    A ``tokenizer_config.json`` in the same folder names the end of text.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise VocabularyError(f"there is no {file.name} in {path}", hint="Pass the path of a tokenizer.json.")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise VocabularyError(
            f"reading {file} needs the package tokenizers", hint="Install it with: pip install tokenizers"
        ) from None
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no narrower exception
        raise VocabularyError(f"{file} is not a valid tokenizer: {error}") from error
    eos_ids: list[int] = []
    config = file.with_name("tokenizer_config.json")
    if config.is_file():
        try:
            eos = json.loads(config.read_text(encoding="utf-8")).get("eos_token")
        except (ValueError, AttributeError) as error:
            raise VocabularyError(f"{config} cannot be read: {error}") from error
        text = eos.get("content") if isinstance(eos, dict) else eos
        i = backend.token_to_id(text) if isinstance(text, str) else None
        eos_ids = [] if i is None else [i]
    return read_backend(backend, eos_ids)
