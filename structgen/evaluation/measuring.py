"""Measure one engine on one schema: does it compile, does it judge instances correctly, what do masks cost.

`judging` decides what is valid where it can; otherwise the data's own label does.
Invariant: a mask is timed apart from advancing, and every engine is read by the same loop. What an engine raises
becomes a status; crashes and hangs are not contained here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from .durations import binned
from .engines import Engine, Session, accepts
from .items import Item
from .judging import Judge
from .records import CoverageRecord, Masks, Verdict
from .statistics import percentile

__all__ = ["NOT_THE_ENGINES", "error_text", "failed", "measure"]

NOT_THE_ENGINES = (KeyboardInterrupt, SystemExit, MemoryError)
"""What says nothing about a schema, or is reported apart."""

Encode = Callable[[str], Sequence[int]]
_LONGEST_MESSAGE = 500


def measure(
    engine: Engine, item: Item, encode: Encode, end: int, *, name: str = "", dataset: str = ""
) -> CoverageRecord:
    """Compile the schema and read every instance as JSON text, in the tokens of `encode`, to the token `end`.

    Times are of the thread's CPU.
    """
    before = time.thread_time()
    try:
        program = engine.compile(json.dumps(item.schema, ensure_ascii=False))
    except NOT_THE_ENGINES:
        raise
    except BaseException as error:  # noqa: BLE001 — a panic of Rust is a BaseException
        return failed(item, "refused", error_text(error), name=name, dataset=dataset)
    compile_s = round(time.thread_time() - before, 6)
    spent: list[int] = []
    verdicts, overruled = [], 0
    judge = None if item.settled or not item.tests else Judge(item.schema)
    for label, value in item.tests or ():
        text = json.dumps(value, ensure_ascii=False)
        if not _is_text(text):
            continue  # half a surrogate pair has no bytes
        judged = None if judge is None else judge.value(value)
        valid = label if judged is None else judged
        overruled += valid != label
        try:
            accepted = accepts(_Timed(engine.start(program), spent), encode(text), end)
        except NOT_THE_ENGINES:
            raise
        except BaseException as error:  # noqa: BLE001 — a panic of Rust is a BaseException
            return failed(item, "error", error_text(error), name=name, dataset=dataset)
        verdicts.append(Verdict(valid, accepted))
    return CoverageRecord(
        engine=name,
        dataset=dataset,
        part=item.part,
        item=item.name,
        status="ok",
        message=None,
        compile_s=compile_s,
        masks_us=_masks(spent),
        verdicts=tuple(verdicts) or None,
        overruled=overruled,
    )


def failed(item: Item, status: str, message: str, *, name: str = "", dataset: str = "") -> CoverageRecord:
    """Return the record of a schema that was not declared: it counts for true coverage, and fails it."""
    verdicts = None if item.tests is None else tuple(Verdict(label, False) for label, _ in item.tests)
    return CoverageRecord(
        engine=name,
        dataset=dataset,
        part=item.part,
        item=item.name,
        status=status,
        message=message,
        compile_s=None,
        masks_us=None,
        verdicts=verdicts,
        overruled=0,
    )


def error_text(error: BaseException) -> str:
    """Return an error in a line or two."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]


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


def _masks(spent: Sequence[int]) -> Masks | None:
    if not spent:
        return None
    p50, p90, p99, most = (round((percentile(spent, at) or 0) / 1000, 3) for at in (50, 90, 99, 100))
    total = round(sum(spent) / 1000, 3)
    return Masks(len(spent), p50, p90, p99, most, total, binned(ns / 1000 for ns in spent))


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
