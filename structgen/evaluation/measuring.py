"""One engine on one schema: is it taken, are its instances told right, what do compiling and masks cost.

What is valid is decided by jsonschema-rs with formats asserted where it is installed and can read the schema, by the
data's own label otherwise, as some labels are wrong.
Invariant: a mask is timed apart from moving on, and every engine is read by the same loop. What an engine raises
becomes a status; crashes and hangs are not contained here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .datasets import Item
from .engines import Engine, Session, accepts
from .metrics import Outcome

__all__ = ["Measured", "measure"]


@dataclass
class Measured:
    """The outcome with thread CPU time in nanoseconds."""

    outcome: Outcome
    compile_ns: int = 0
    mask_ns: list[int] = field(default_factory=list)
    """Of every mask, in order; the first one belongs to a schema that was never asked before."""
    error: str | None = None
    overruled: int = 0
    """Labels of the data that the judge has otherwise."""


def measure(engine: Engine, item: Item, encode: Callable[[str], Sequence[int]], end: int) -> Measured:
    """Compile the schema and read every instance as JSON text, in the tokens of `encode`, to the token `end`."""
    judge = _judge(item.schema)
    before = time.thread_time_ns()
    try:
        program = engine.compile(json.dumps(item.schema, ensure_ascii=False))
    except Exception as error:
        return Measured(Outcome("refused", _all_refused(item)), error=_told(error))
    told = Measured(Outcome("ok"), compile_ns=time.thread_time_ns() - before)
    verdicts = []
    for label, value in item.tests or ():
        text = json.dumps(value, ensure_ascii=False)
        if not _is_text(text):
            continue  # half a surrogate pair has no bytes
        valid = judge(value, label)
        told.overruled += valid != label
        try:
            accepted = accepts(_Timed(engine.start(program), told.mask_ns), encode(text), end)
        except Exception as error:
            told.outcome, told.error = Outcome("error", _all_refused(item)), _told(error)
            return told
        verdicts.append((valid, accepted))
    told.outcome = Outcome("ok", tuple(verdicts) or None)
    return told


class _Timed:
    def __init__(self, session: Session, spent: list[int]) -> None:
        self._session = session
        self._spent = spent
        self.accept = session.accept

    def mask(self) -> Any:
        before = time.thread_time_ns()
        words = self._session.mask()
        self._spent.append(time.thread_time_ns() - before)
        return words


def _all_refused(item: Item) -> tuple[tuple[bool, bool], ...] | None:
    """What an undeclared schema is asked: it counts for true coverage, and fails it."""
    return None if item.tests is None else tuple((label, False) for label, _ in item.tests)


def _judge(schema: Any) -> Callable[[Any, bool], bool]:
    try:
        import jsonschema_rs

        validator = jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_no_network)
    except Exception:
        return lambda value, label: label

    def verdict(value: Any, label: bool) -> bool:
        try:
            return bool(validator.is_valid(value))
        except Exception:  # a number beyond its range, a reference missing
            return label

    return verdict


def _no_network(uri: str) -> Any:
    raise ValueError(f"{uri} was not supplied")


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
