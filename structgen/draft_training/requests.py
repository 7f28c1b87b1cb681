"""Requests for texts to train on: prompts of a file, or prompts that the model writes itself.

Why: a chat model that continues the beginning of a user's turn writes what users request from such models. So a
drafter can be trained without any data.
What: lines of a file are JSON objects with a prompt (a text, or messages) and, for an answer with structure, one
constraint: `schema`, `regex`, `choice`, `grammar` (a name of the shelf) or `lark` (the text of a grammar).
Source: Xu et al. 2024 (Magpie), for prompts that a chat model writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.errors import ModelError, OptionError, StructgenError
from structgen.generation import SamplingOptions, generate_tokens
from structgen.models.messages import plain_messages
from structgen.speculative.checks import check_number

from .records import record_requests
from .texts import Request

if TYPE_CHECKING:
    from structgen.constraints.base import Constraint
    from structgen.protocols import LanguageModel

__all__ = [
    "RECORDS",
    "WRITTEN_ORDER",
    "check_requests",
    "constraint_of",
    "requests_of_file",
    "written_requests",
]

_KEYS = ("schema", "regex", "choice", "grammar", "lark")
_NAMES = {
    "schema": "JSON",
    "regex": "regular expression",
    "choice": "choice",
    "grammar": "grammar",
    "lark": "grammar",
    None: "free text",
}


def constraint_of(source: dict[str, Any] | None) -> Constraint | None:
    """Return the constraint of an object with one key of a request's line; None of None."""
    from structgen.constraints.choice import choice
    from structgen.constraints.grammar.builders import lark
    from structgen.constraints.json_schema import json_schema
    from structgen.constraints.regex import regex
    from structgen.shelf import grammar

    if source is None:
        return None
    makers = {"schema": json_schema, "regex": regex, "choice": choice, "grammar": grammar, "lark": lark}
    ((name, given),) = source.items()
    constraint: Constraint = makers[name](given)  # type: ignore[operator]
    return constraint


def requests_of_file(model: LanguageModel, path: Path) -> list[Request]:
    """Return the requests of a file of JSON lines.

    Each line has ``prompt`` (a text, or messages) and may have one of ``schema``, ``regex``, ``choice``, ``grammar``
    and ``lark``, ``kind`` (the name under which reports show it) and ``max_tokens``.

    Raises:
        OptionError: A line is not such a request; the message has its number.
        ModelError: The file cannot be read.
    """
    return list(_requests(path, lambda prompt: list(model.encode(prompt))))


def check_requests(path: Path) -> None:
    """Check a file of requests as far as that needs no model: all but the model's chat template.

    Raises:
        OptionError: A line is not a request, or there is no request.
        ModelError: The file cannot be read.
    """
    if not sum(1 for _ in _requests(path, _unread)):
        raise OptionError(f"{path} has no request: each line is a JSON object with a prompt")


def _unread(prompt: object) -> list[int]:
    """Raise an error if a prompt is not a text or messages; return no tokens."""
    if isinstance(prompt, str):
        prompt.encode()  # no tokenizer reads lone surrogates
    elif isinstance(prompt, list) and prompt:
        json.dumps(plain_messages(prompt), ensure_ascii=False).encode()
    else:
        raise ValueError("its prompt is not a text or a list of messages")
    return []


def _requests(path: Path, encode: Callable[[Any], list[int]]) -> Iterator[Request]:
    """Yield the requests of a file. `encode` returns the tokens of a prompt."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"the prompts cannot be read: {path}: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
            if not isinstance(given, dict) or "prompt" not in given:
                raise ValueError("it has no prompt")
            unknown = sorted(set(given) - {"prompt", "kind", "max_tokens", *_KEYS})
            named = [key for key in _KEYS if key in given]
            if unknown or len(named) > 1:
                raise ValueError(
                    f"unknown key {unknown[0]!r}" if unknown else f"it has both {named[0]} and {named[1]}"
                )
            source = {named[0]: given[named[0]]} if named else None
            most = given.get("max_tokens", 160)
            if not isinstance(most, int) or isinstance(most, bool) or most < 1:
                raise ValueError(f"max_tokens is {most!r:.40}; it is a whole number above 0")
            request = Request(
                encode(given["prompt"]),
                str(given.get("kind", _NAMES[named[0] if named else None])),
                constraint_of(source),
                source,
                most,
            )
        except (StructgenError, ValueError, TypeError, RecursionError) as error:
            raise OptionError(f"{path}: line {number} is not a request: {error}") from error
        yield request


_STARTS = (
    "", "", "", "", "What", "How", "Why", "Can you", "Explain", "Write", "Describe", "Give me", "I", "Tell me",
    "List", "Please", "Is", "Summarize", "Compare", "What are", "How do", "Write a short story",
    "Write a paragraph about", "Explain how", "Explain why", "Name", "Suggest", "Write a letter", "Which",
    "Explain the difference between", "What would", "Explain in a few sentences", "Describe a",
)  # fmt: skip
_CODE_STARTS = (
    "Write a Python function that", "Write a Python function to", "Write a Python program that", "Implement",
    "Write a function that takes", "Create a Python class", "How do I write a Python function",
    "Write a short Python function that",
)  # fmt: skip
_ONLY_CODE = " Answer with code only."
_CODE_EVERY = 4
"""Of so many batches that are not for records, the last is for code."""
RECORDS = 0.2
"""The share of requests that request a record as JSON, if nothing else is said."""
WRITTEN_ORDER = 2
"""Counts up whenever the requests of `written_requests` change for the same arguments. A collection that started with
other requests does not go on with these."""
_PLACE = "\N{MIDDLE DOT}"
_MOST_ASKED = 48
"""The largest number of tokens of a prompt."""
_MOST_FRUITLESS = 10
"""After so many batches without a new prompt there is an error."""


def written_requests(
    model: LanguageModel, *, seed: int = 0, first: int = 0, batch: int = 32, records: float = RECORDS
) -> Iterator[Request]:
    """Yield requests that the model writes itself: it continues the beginning of a user's turn.

    A batch of requests for records comes whenever the share of records, counted over the requests and not over the
    batches, is not above `records` with it. It gives `batch` requests, while other batches lose prompts that do not
    end. Of the other batches each fourth begins like requests for code, so code has less than a quarter of the other
    requests where such prompts end less often. A model without a chat template continues the beginnings as texts.
    Another `first` gives other requests: a collection that goes on gives the number of texts that it has. These are
    then counted as if the shares had held until there.

    Args:
        model: The model.
        seed: The seed of all draws.
        first: The number of the first request.
        batch: The number of requests that are written at a time.
        records: The share of requests for a record as JSON, see `record_requests`.

    Raises:
        ModelError: The model writes no prompts. With a share of records below 1 there are then no more records either.
    """
    check_number("records", records)
    head, tail = _turn(model)
    beginnings = _STARTS if head else [start for start in _STARTS if start]
    seen: set[tuple[int, ...]] = set()
    rng = np.random.default_rng((seed, first))
    number, fruitless = first, 0
    recorded = int(records * first / batch) * batch
    others = first - recorded
    plain = others // batch
    while fruitless < _MOST_FRUITLESS:
        if recorded + batch <= records * (recorded + others + batch):
            recorded += batch
            yield from record_requests(model, batch, (seed, number, 2))
            number += 1
            continue
        is_code = plain % _CODE_EVERY == _CODE_EVERY - 1
        plain += 1
        starts = [str(rng.choice(_CODE_STARTS if is_code else beginnings)) for _ in range(batch)]
        openings = [
            [*head, *(model.vocabulary.encode(start.encode()) or [])] if start else list(head)
            for start in starts
        ]
        options = [
            SamplingOptions(temperature=1.0, top_k=80, seed=(seed, number, row, 1), max_tokens=_MOST_ASKED)
            for row in range(batch)
        ]
        asked = generate_tokens(model, openings, [None] * batch, options)
        fruitless += 1
        for opening, answer in zip(openings, asked, strict=True):
            question = (*opening[len(head) :], *answer.tokens)
            if not question or (tail and answer.end_token is None) or question in seen:
                continue
            seen.add(question)
            fruitless = 0
            others += 1
            more: list[int] = []
            if is_code and rng.random() < 0.6:
                more = list(model.vocabulary.encode(_ONLY_CODE.encode()) or [])
            yield Request([*head, *question, *more, *tail], "code" if is_code else "free text")
        number += 1
    raise ModelError(
        f"the model has written no prompt of at most {_MOST_ASKED} tokens in {_MOST_FRUITLESS * batch} attempts",
        hint="Give prompts: structgen draft train --prompts FILE.",
    )


def _turn(model: LanguageModel) -> tuple[list[int], list[int]]:
    """Return the tokens before and after the text of a user's turn."""
    marked = list(model.encode(_PLACE))
    place = list(model.vocabulary.encode(_PLACE.encode()) or [])
    for start in range(len(marked) - len(place), -1, -1):
        if place and marked[start : start + len(place)] == place:
            return marked[:start], marked[start + len(place) :]
    raise ModelError(
        "the model's tokenizer does not show where a user's text stands in a prompt",
        hint="Give prompts: structgen draft train --prompts FILE.",
    )
