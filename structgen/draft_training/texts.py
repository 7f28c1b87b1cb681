"""Texts to train on: answers that the model itself writes, with or without a constraint, in one file.

Why: a drafter has to guess what the model writes, not what people write. And such texts may be used by anyone who may
use the model.
What: each line of the file is a JSON object with the tokens of a prompt and of the answer, the kind of request, and the
constraint that the answer obeys. Prompts are those of a file, or the model writes them itself (`requests`).
Invariant: the file grows by whole lines, or, if the disk is full, stays as it is. What an interruption left of a line
is removed when the collection resumes, which then goes on after the last whole one.
Source: Kim and Rush 2016 (training on a teacher's own texts).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.errors import ModelError, OptionError, VocabularyMismatch
from structgen.generation import Generation, SamplingOptions, generate_steps
from structgen.progress import ProgressBar
from structgen.speculative.whole_files import replacing, unwritable

if TYPE_CHECKING:
    from structgen.constraints.base import Constraint
    from structgen.protocols import LanguageModel

__all__ = ["Request", "Text", "check_vocabulary", "collect_texts", "read_texts"]

_TEMPERATURES = (0.0, 0.0, 0.7)
"""The temperatures of answers, in turn: most drafts are for likely text."""


@dataclass(frozen=True)
class Request:
    """What the model is to answer."""

    prompt: Sequence[int]
    """Its tokens, in the form that `LanguageModel.encode` returns."""
    kind: str = "free text"
    """The name under which evaluations report it."""
    constraint: Constraint | None = None
    source: dict[str, Any] | None = None
    """The constraint as JSON, from which `constraint_of` makes it again."""
    most: int = 160
    """The largest number of tokens of the answer."""


@dataclass(frozen=True)
class Text:
    """A line of the file."""

    prompt: list[int]
    answer: list[int]
    kind: str
    temperature: float
    constraint: dict[str, Any] | None = None

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps(self.__dict__, separators=(",", ":")) + "\n"


def read_texts(path: str | Path) -> list[Text]:
    """Read the texts of a file; what follows the last whole line is left out.

    Raises:
        ModelError: The file cannot be read, or a line is not such a text.
    """
    try:
        whole, _, _ = Path(path).read_text("utf-8").rpartition("\n")
        lines = whole.split("\n") if whole else []  # a text may contain other ends of lines
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"the texts cannot be read: {path}: {error}") from error
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            given = json.loads(line)
            text = Text(**given)
            is_valid = all(
                isinstance(token, int) and token >= 0
                for tokens in (text.prompt, text.answer)
                for token in tokens
            )
        except (ValueError, TypeError, RecursionError) as error:
            raise ModelError(f"{path}: line {number} is not a text to train on: {error}") from error
        if not is_valid or not text.prompt:
            raise ModelError(f"{path}: line {number} has no prompt, or tokens that are not numbers")
        texts.append(text)
    return texts


def check_vocabulary(path: Path, vocabulary: str) -> None:
    """Check that the texts of a file consist of the tokens of a vocabulary.

    Args:
        path: The file. Its origin is next to it.
        vocabulary: `Vocabulary.fingerprint`.

    Raises:
        ModelError: It is not known whose tokens they are: their origin is missing, or cannot be read.
        VocabularyMismatch: They are those of another tokenizer.
    """
    beside = _origin_file(path)
    try:
        known = _read_origin(beside)
    except FileNotFoundError:
        raise ModelError(
            f"it is not known which tokenizer the texts of {path} have: there is no file {beside}",
            hint="Keep it next to the texts. `structgen draft train` with the same directory writes it again.",
        ) from None
    if not isinstance(known, dict) or not isinstance(known.get("vocabulary"), str):
        raise ModelError(f"the origin of the texts does not name their tokenizer: {beside}")
    if known["vocabulary"] != vocabulary:
        raise VocabularyMismatch(
            f"the texts of {path} have another tokenizer: some token is not the same",
            hint="Use texts that the drafter's model has written.",
        )


def collect_texts(
    model: LanguageModel,
    requests: Callable[[int], Iterator[Request]],
    path: Path,
    *,
    tokens: int,
    origin: Mapping[str, Any] | None = None,
    batch: int = 32,
    seed: int = 0,
    progress: bool = False,
) -> list[Text]:
    """Let the model answer requests until the file holds answers of so many tokens; return all of its texts.

    Args:
        model: The model.
        requests: From the number of texts that the file has already to the requests after those.
        path: The file.
        tokens: The number of tokens of all answers together.
        origin: What the requests are from, as JSON. A collection goes on only with the same model, seed and origin.
        batch: The number of requests that are answered at a time.
        seed: The seed of all draws.
        progress: Whether to show a progress bar.

    Raises:
        ModelError: The file cannot be written, and holds the texts before; or it has texts of another model, seed or
            origin.
    """
    if tokens < 1:
        raise OptionError(f"tokens is {tokens}; it must be at least 1")
    whole_origin = {"vocabulary": model.vocabulary.fingerprint, "seed": seed, **(origin or {})}
    _check_origin(path, whole_origin)
    texts = read_texts(path)
    done = sum(len(text.answer) for text in texts)
    with ProgressBar(tokens, "texts", progress) as bar:
        bar.advance(min(done, tokens))
        _drop_broken_line(path)
        others = requests(len(texts))
        while done < tokens:
            asked = list(islice(others, batch))
            if not asked:
                break
            answered = _answers(model, asked, len(texts), seed, bar)
            if not texts:
                _write_origin(path, whole_origin)
            _append(path, "".join(text.line() for text in answered))
            texts += answered
            done += sum(len(text.answer) for text in answered)
    return texts


def _answers(
    model: LanguageModel, asked: Sequence[Request], first: int, seed: int, bar: ProgressBar
) -> list[Text]:
    """Let the model answer requests side by side; the bar moves with each token."""
    from structgen.matcher import Matcher

    prompts = [list(request.prompt) for request in asked]
    temperatures = [_TEMPERATURES[(first + index) % len(_TEMPERATURES)] for index in range(len(asked))]
    steps = generate_steps(
        model,
        prompts,
        [
            None if request.constraint is None else Matcher(request.constraint, model.vocabulary)
            for request in asked
        ],
        [
            SamplingOptions(
                temperature=temperature,
                seed=(seed, first + index),
                max_tokens=request.most,
                exact_weight=False,
            )
            for index, (request, temperature) in enumerate(zip(asked, temperatures, strict=True))
        ],
    )
    answers: dict[int, Generation] = {}
    shown = [0] * len(asked)
    for step in steps:
        count = len(step.tokens)
        if step.generation is not None:
            answers[step.row] = step.generation
            count = len(step.generation.tokens) + (step.generation.end_token is not None)
        bar.advance(count - shown[step.row])  # less after a step back from a dead end
        shown[step.row] = count
    texts = []
    for row, (request, prompt, temperature) in enumerate(zip(asked, prompts, temperatures, strict=True)):
        answer = answers[row]
        ended = [] if answer.end_token is None else [answer.end_token]
        texts.append(Text(prompt, [*answer.tokens, *ended], request.kind, temperature, request.source))
    return texts


def _check_origin(path: Path, origin: dict[str, Any]) -> None:
    """Raise `ModelError` if there are texts from elsewhere. Texts without an origin get this one."""
    beside = _origin_file(path)
    try:
        if not path.exists():
            return
        known = _read_origin(beside)
    except FileNotFoundError:
        _write_origin(path, origin)
        return
    except OSError as error:  # of the texts themselves
        raise ModelError(f"the texts cannot be read: {path}: {error}") from error
    if known != origin:
        before = known if isinstance(known, dict) else {}
        differing = [name for name in sorted({*before, *origin}) if before.get(name) != origin.get(name)]
        raise ModelError(
            f"{path} has texts of another model, seed or list of prompts, or of another version "
            f"(different: {', '.join(differing)})",
            hint="Name another directory, or remove the file.",
        )


def _read_origin(beside: Path) -> Any:  # noqa: ANN401 — it may be any JSON
    """Return the content of an origin's file. Raises `FileNotFoundError` if it is missing."""
    try:
        return json.loads(beside.read_text("utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"the origin of the texts cannot be read: {beside}: {error}") from error


def _write_origin(path: Path, origin: dict[str, Any]) -> None:
    """Write where the texts of a file are from next to it."""
    content = json.dumps(origin).encode()
    with replacing(_origin_file(path), "the origin of the texts") as file:
        file.write(content)


def _origin_file(path: Path) -> Path:
    return path.with_name(path.stem + ".origin.json")


def _append(path: Path, lines: str) -> None:
    """Write lines after those of a file: all of them, or none with an error."""
    before = path.stat().st_size if path.exists() else None
    try:
        with path.open("ab") as file:
            file.write(lines.encode())
    except OSError as error:
        with contextlib.suppress(OSError):
            if before is not None:
                os.truncate(path, before)
            else:
                path.unlink(missing_ok=True)
                _origin_file(path).unlink(missing_ok=True)
        raise unwritable(path, "the texts", error) from error


def _drop_broken_line(path: Path) -> None:
    """Remove what an interruption left of the last line."""
    if not path.exists():
        return
    try:
        with path.open("r+b") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)
    except OSError as error:
        raise ModelError(f"the texts cannot be read or written: {path}: {error}") from error
