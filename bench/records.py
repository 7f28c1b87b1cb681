"""MaskBench records, tokenizers by folder, and random tokenisations: what several benchmarks share."""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from structgen.vocabulary import Vocabulary

__all__ = ["Tokeniser", "progress", "records", "vocabulary_of"]

Item = TypeVar("Item")


def records(path: str, limit: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """The records of a ``.jsonl`` or ``.jsonl.gz``, or `limit` of them drawn with `seed`, in their order."""
    opener: Callable[..., Any] = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        listed = [json.loads(line) for line in file]
    if limit is None or limit >= len(listed):
        return listed
    return [listed[i] for i in sorted(random.Random(seed).sample(range(len(listed)), limit))]


def vocabulary_of(directory: str | None) -> Vocabulary:
    """The vocabulary of a Hugging Face tokenizer's folder; without one, of the embedded model."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if directory is None:
        from structgen.models.embedded import embedded_directory

        directory = str(embedded_directory())
    from transformers import AutoTokenizer

    return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(directory))


def progress(items: Sequence[Item], label: str) -> Iterable[Item]:
    """The items, with a tqdm bar where tqdm is installed."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return items
    bar: Iterable[Item] = tqdm(items, desc=label, smoothing=0.05)
    return bar


class Tokeniser:
    """Texts as tokens of a vocabulary, in three ways: its tokenizer's own, at random, byte by byte."""

    SPLITS = ("own", "random", "bytes")

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def splits(self, text: str, source: random.Random) -> Iterator[tuple[str, list[int]]]:
        """Each way that can spell the text, with its tokens."""
        data = text.encode()
        for way, ids in (
            ("own", self.vocabulary.encode(text)),
            ("random", self.at_random(data, source)),
            ("bytes", self.by_bytes(data)),
        ):
            if ids is not None:
                yield way, ids

    def at_random(self, text: bytes, source: random.Random) -> list[int] | None:
        """Each token drawn from those that fit."""
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
        """One token a byte; None where the vocabulary lacks one."""
        index, _ = self._index
        try:
            return [index[text[at : at + 1]][0] for at in range(len(text))]
        except KeyError:
            return None

    @functools.cached_property
    def _index(self) -> tuple[dict[bytes, list[int]], int]:
        """The tokens of at most 16 bytes by their bytes; longer ones fit seldom and cost a look-up everywhere."""
        tokens: dict[bytes, list[int]] = {}
        for token in range(self.vocabulary.size):
            spelled = self.vocabulary.token_bytes(token)
            if spelled and len(spelled) <= 16:
                tokens.setdefault(spelled, []).append(token)
        return tokens, max(map(len, tokens))
