"""Bundled tasks with real answers: what the benchmark calls quality, for people without its data.

Three of our own making, 60 items each: *extraction* of facts from short texts, *calling* one of some functions,
*arithmetic* word problems with the calculation before the number. Written in ``data/tasks/NAME.json``; every prompt
has the schema (or the functions) and a worked example of its group in it, so that an engine without constraints can
answer, too.
Invariant: an item's own answer satisfies its schema and is judged correct; what does not satisfy the schema, as a
whole and without anything around it, scores 0. Judging needs no model and gives the same for the same text.
Cost: some hundred kB read once a call; judging takes about as long as reading the text.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from structgen.errors import OptionError

from .judging import Judge

__all__ = ["TASKS", "Judgement", "Task", "judge", "load_tasks"]

TASKS = {
    "extraction": "facts out of short texts",
    "calling": "one call of a function",
    "arithmetic": "word problems, calculation first",
}
"""Names, and how they read."""

_FOLDER = Path(__file__).parent / "data" / "tasks"


@dataclass(frozen=True)
class Task:
    """One item."""

    name: str
    """Of `TASKS`."""
    id: str
    """Distinct within the name, as ``order-3``."""
    part: str
    """The group of items with the same schema."""
    messages: list[dict[str, str]]
    """A chat that ends with the question: ``role`` and ``content`` of each."""
    schema: dict[str, Any]
    answer: Any
    """The whole JSON value that is right; of arithmetic, ``reasoning`` is one calculation among many."""


class Judgement(NamedTuple):
    """What a text is worth."""

    valid: bool
    """All of it is JSON that satisfies the schema."""
    correct: bool
    """Valid, and everything that the task requires is right: the score is 1."""
    score: float
    """From 0 to 1."""


def load_tasks(names: Iterable[str] = tuple(TASKS)) -> list[Task]:
    """Return the items of these tasks, one task after the other.

    Within a task the groups take turns, so that the first few items are of many kinds.

    Raises:
        OptionError: There is no task of such a name.
    """
    return list(chain.from_iterable(_read(name) for name in dict.fromkeys(names)))


def judge(task: Task, text: str) -> Judgement:
    """Return whether `text` satisfies the task's schema, whether it is right, and how much of it is.

    - arithmetic: the number is the answer's, exactly (``0.9``, ``0.90`` and ``9e-1`` are one); score 0 or 1.
    - extraction: of the fields that the answer or the text has (leaves of the value, elements of lists by their
      place), the share that both have with the same value.
    - calling: as extraction, the name being a field; 0 if it is another function's.

    Texts are compared without regard to case and to how much space is between words, after Unicode's NFKC.
    """
    if not _satisfies(task.schema, text):
        return Judgement(False, False, 0.0)
    score = _SCORES[task.name](_value(text), _value(json.dumps(task.answer)))
    return Judgement(True, score == 1, score)


def _read(name: str) -> list[Task]:
    if name not in TASKS:
        raise OptionError(f"there is no task {name!r}", hint=f"Choose of {', '.join(TASKS)}.")
    content = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    groups = [
        list(_tasks(name, part, content["instruction"], group)) for part, group in content["groups"].items()
    ]
    return [task for turn in zip_longest(*groups) for task in turn if task is not None]


def _tasks(name: str, part: str, instruction: str, group: dict[str, Any]) -> Iterator[Task]:
    functions = group.get("functions")
    schema = group["schema"] if functions is None else _of_calls(functions)
    shown = ("JSON Schema", schema) if functions is None else ("Functions", functions)
    messages = [{"role": "system", "content": f"{instruction}\n\n{shown[0]}: {_json(shown[1])}"}]
    for example in group["examples"]:
        messages.append({"role": "user", "content": example["text"]})
        messages.append({"role": "assistant", "content": _json(example["answer"])})
    for number, item in enumerate(group["items"], 1):
        asked = [*messages, {"role": "user", "content": item["text"]}]
        yield Task(name, f"{part}-{number}", part, asked, schema, item["answer"])


def _of_calls(functions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of one call of one of the functions."""
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {"name": {"const": function["name"]}, "arguments": function["parameters"]},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for function in functions
        ]
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _satisfies(schema: dict[str, Any], text: str) -> bool:
    is_valid = Judge(schema).text(text)
    if is_valid is None:  # without jsonschema-rs, or with a number beyond its range
        import jsonschema  # type: ignore[import-untyped]

        kind = jsonschema.Draft202012Validator
        is_valid = bool(kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(json.loads(text)))
    return is_valid


def _value(text: str) -> Any:
    return json.loads(text, parse_float=_number, parse_int=_number)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:  # an exponent of twenty digits: no answer has one
        return Decimal("NaN")


def _right_number(given: Any, answer: Any) -> float:
    return float(given["answer"] == answer["answer"])


def _right_call(given: Any, answer: Any) -> float:
    return _right_fields(given, answer) if given["name"] == answer["name"] else 0.0


def _right_fields(given: object, answer: object) -> float:
    got, expected = dict(_fields(given)), dict(_fields(answer))
    agreed = sum(path in got and bool(got[path] == value) for path, value in expected.items())
    return float(agreed / len(got.keys() | expected.keys()))


def _fields(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the leaves; an empty list or object is one. Booleans and numbers differ by their type."""
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    if inner and value:
        for key, inner_value in inner:
            yield from _fields(inner_value, (*path, key))
    else:
        yield path, (type(value), _folded(value) if isinstance(value, str) else value)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_SCORES: dict[str, Callable[[Any, Any], float]] = {
    "extraction": _right_fields,
    "calling": _right_call,
    "arithmetic": _right_number,
}
