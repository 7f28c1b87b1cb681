"""A corpus: texts of people to train a draft model on, cut to pieces.

Why: a draft model of few layers first learns the language itself, from more text than the model can write in time.
What: a file of UTF-8 text; or of JSON lines, each with a document as its `text`, if the name ends with ``.jsonl``.
Documents are tokenized and cut to pieces of at most `LONGEST` tokens. A piece has no prompt, except the tokens that the
tokenizer puts before each text. It has no hidden states: cross-entropy compares with its tokens alone.
Invariant: the pieces of a document, joined, are its tokens. An end that is too short to learn from is left out.
Cost: 4 bytes for each token, at most `most_tokens` of them; one document, or a block of a text file, at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError, a_kind

from .features import LONGEST, Features

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["Corpus", "check_corpus", "documents", "pieces", "read_corpus"]

_BLOCK = 1 << 20
"""A file of text is tokenized in blocks of about so many bytes, which end with a line."""
_LONGEST_LINE = 1 << 26
"""In bytes."""


@dataclass(frozen=True)
class Corpus:
    """The pieces of a file."""

    path: Path
    features: Features
    """Without layers: `states` is empty."""
    is_whole: bool
    """Whether the file has no more tokens."""


def documents(path: Path) -> Iterator[str]:
    """Yield the documents of a file: the texts of JSON lines, or blocks of a text. Blank ones are left out.

    Args:
        path: A file of UTF-8. One whose name ends with ``.jsonl`` has an object with a text, ``text``, in each line.

    Raises:
        ModelError: The file cannot be read.
        OptionError: A line is not UTF-8, is too long, or is not such an object. The message has its number.
    """
    found: Iterator[str]
    if path.suffix.lower() == ".jsonl":
        found = (_text_of(path, number, line) for number, line in _lines(path) if line.strip())
    else:
        found = _blocks(path)
    return (text for text in found if text.strip())


def check_corpus(path: Path) -> None:
    """Read a file to its end, and raise an error if it cannot be trained on; see `documents`.

    Raises:
        OptionError: It has no text.
    """
    count = sum(1 for _ in documents(path))
    if not count:
        raise OptionError(f"the corpus {path} contains no text")


def read_corpus(model: HuggingFaceModel, path: Path, *, most_tokens: int, shortest: int) -> Corpus:
    """Return the first pieces of a file.

    Args:
        model: The model, whose tokenizer is used.
        path: The file, see `documents`.
        most_tokens: The largest number of tokens; the text beyond it is left out.
        shortest: The smallest number of tokens of a piece.

    Raises:
        ModelError: The file cannot be read.
        OptionError: It is not one of texts, or there are not two pieces: one to learn from, and one to set apart.
    """
    if most_tokens < 1:
        raise OptionError(f"a corpus of {most_tokens} tokens has no text; the number must be at least 1")
    tokenizer = model.tokenizer

    def tokenize(text: str) -> Sequence[int]:
        ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids

    first = _before_texts(tokenizer.encode("a"), tokenize("a"))
    found: list[NDArray[np.int32]] = []
    count, is_whole = 0, True
    for piece in pieces(documents(path), tokenize, first, shortest=shortest):
        if count + len(piece) > most_tokens:
            is_whole = False
            break
        found.append(piece)
        count += len(piece)
    if len(found) < 2:
        raise OptionError(
            f"the corpus {path} has too little text to train on: {len(found)} of the two pieces of {shortest} to "
            f"{LONGEST} tokens that are needed at least, within {most_tokens} tokens",
            hint="Give a longer text, or join several files into one.",
        )
    return Corpus(path, _features(found, len(first)), is_whole)


def pieces(
    texts: Iterator[str],
    tokenize: Callable[[str], Sequence[int]],
    first: Sequence[int],
    *,
    shortest: int,
    longest: int = LONGEST,
) -> Iterator[NDArray[np.int32]]:
    """Yield documents as pieces of tokens.

    Args:
        texts: The documents.
        tokenize: Returns the tokens of a text.
        first: The tokens at the start of each piece, before those of the text.
        shortest: The smallest number of tokens of a piece, with the first ones. A shorter end of a document is left
            out.
        longest: The largest number.
    """
    start, most = np.array(first, dtype=np.int32), longest - len(first)
    for text in texts:
        ids = np.array(tokenize(text), dtype=np.int32)
        for place in range(0, len(ids), most):
            piece = np.concatenate([start, ids[place : place + most]])
            if len(piece) >= shortest:
                yield piece


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, with the ends of lines."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise OptionError(
                        f"the corpus {path}: line {number} has more than {_LONGEST_LINE >> 20} MiB"
                    )
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise OptionError(
                        f"the corpus {path} is not UTF-8 text: byte {error.start + 1} of line {number} is wrong",
                        hint="Is it the right file? If so, save it as UTF-8.",
                    ) from None
    except OSError as error:
        raise ModelError(f"the corpus cannot be read: {path}: {error.strerror or error}") from error


def _blocks(path: Path) -> Iterator[str]:
    """Yield the text of a file in blocks of whole lines."""
    block: list[str] = []
    size = 0
    for _, line in _lines(path):
        block.append(line)
        size += len(line)
        if size >= _BLOCK:
            yield "".join(block)
            block, size = [], 0
    yield "".join(block)


def _text_of(path: Path, number: int, line: str) -> str:
    """Return the text of a JSON line."""
    try:
        given = json.loads(line)
        if not isinstance(given, dict):
            raise ValueError(f"it is {a_kind(given)}, not an object")
        if "text" not in given:
            raise ValueError("it has no member 'text'")
        text = given["text"]
        if not isinstance(text, str):
            raise ValueError(f"its member 'text' is {a_kind(text)}, not a text")
        text.encode()  # lone surrogates cannot be tokenized
    except (ValueError, RecursionError) as error:
        fault = (
            f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        )
        raise OptionError(
            f"the corpus {path}: line {number} is not a document: {fault}",
            hint='Write {"text": "..."} in each line. A file of plain text has another suffix than .jsonl.',
        ) from None
    return text


def _before_texts(whole: Sequence[int], text: Sequence[int]) -> list[int]:
    """Return the tokens that stand before those of a text, as one for its beginning."""
    for start in range(len(whole) - len(text) + 1):
        if list(whole[start : start + len(text)]) == list(text):
            return list(whole[:start])
    return []


def _features(found: Sequence[NDArray[np.int32]], prompt: int) -> Features:
    """Return pieces as features without layers."""
    tokens, count = np.concatenate(found), len(found)
    return Features(
        layers=(),
        states=np.zeros((len(tokens), 0, 0), dtype=np.float16),
        tokens=tokens,
        offsets=np.concatenate([[0], np.cumsum([len(piece) for piece in found])]).astype(np.int64),
        answers=np.full(count, prompt, dtype=np.int64),
        kinds=np.full(count, "corpus"),
        temperatures=np.zeros(count),
        constraints=np.full(count, ""),
    )
