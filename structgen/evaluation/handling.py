"""Schemas as an engine handled them: instances and generated texts together, and what is timed on each.

Invariant: a schema has one outcome for all figures; a time is reported only for a schema that was handled. Times are
seconds, but for masks: the mean of the schema's, in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .metrics import Outcome
from .records import CoverageRecord, GenerationRecord, Run

__all__ = ["FIGURES", "SHARES", "TIMES", "Handled", "Those", "handled_items", "shares_of", "times_of"]


@dataclass(frozen=True)
class Handled:
    """An engine on one schema: its records, one of which may lack, and the outcome."""

    engine: str
    dataset: str
    part: str
    item: str
    read: CoverageRecord | None
    written: GenerationRecord | None

    @property
    def outcome(self) -> Outcome:
        """See `structgen.evaluation.metrics`. A schema that either record failed on is not declared."""
        statuses = [record.status for record in (self.read, self.written) if record is not None]
        status = next((status for status in statuses if status != "ok"), "ok")
        instances = None if self.read is None else self.read.verdicts
        return Outcome(status, instances, self._texts())

    def state(self, figure: str) -> str:
        """Return in words what came of it for a figure of `SHARES`."""
        outcome = self.outcome
        if outcome.status != "ok":
            messages = [
                record.message
                for record in (self.read, self.written)
                if record is not None and record.message
            ]
            return f"{outcome.status}: {messages[0]}" if messages else outcome.status
        if figure == "true":
            wrong = {"too strict": outcome.too_strict, "too loose": outcome.too_loose}
            return " and ".join(name for name, it_is in wrong.items() if it_is) or "right"
        if figure == "empirical" and self.written is not None:
            if not self.written.ended:
                return "cut off"
            return "valid" if self.written.valid else "invalid text"
        return "ok"

    def _texts(self) -> tuple[bool, ...] | None:
        if self.written is None:
            return None
        if self.written.status != "ok":
            return ()
        if not self.written.ended:
            return (False,)
        return None if self.written.valid is None else (self.written.valid,)  # None: nothing can judge it


def handled_items(run: Run) -> dict[str, dict[str, dict[str, Handled]]]:
    """Return the handled schemas by data set, engine and item."""
    read: dict[tuple[str, str, str], CoverageRecord] = {}
    written: dict[tuple[str, str, str], GenerationRecord] = {}
    for record in run.records:
        key = (record.dataset, record.engine, record.item)
        if isinstance(record, CoverageRecord):
            read[key] = record
        elif isinstance(record, GenerationRecord):
            written[key] = record
    by_dataset: dict[str, dict[str, dict[str, Handled]]] = {}
    for key in dict.fromkeys([*read, *written]):
        dataset, engine, item = key
        coverage, generation = read.get(key), written.get(key)
        either = generation if coverage is None else coverage
        part = "" if either is None else either.part
        by_dataset.setdefault(dataset, {}).setdefault(engine, {})[item] = Handled(
            engine, dataset, part, item, coverage, generation
        )
    return by_dataset


Those = Mapping[str, Handled]
"""Schemas by the names of their items."""


def _compile(handled: Handled) -> float | None:
    return handled.read.compile_s if handled.read is not None and handled.read.status == "ok" else None


def _mask(handled: Handled) -> float | None:
    masks = handled.read.masks_us if handled.read is not None and handled.read.status == "ok" else None
    return None if masks is None or not masks.count else masks.sum / masks.count


def _ttft(handled: Handled) -> float | None:
    return handled.written.ttft_s if handled.written is not None and handled.written.status == "ok" else None


def _tpot(handled: Handled) -> float | None:
    return handled.written.tpot_s if handled.written is not None and handled.written.status == "ok" else None


TIMES: dict[str, Callable[[Handled], float | None]] = {
    "compile": _compile,
    "mask": _mask,
    "ttft": _ttft,
    "tpot": _tpot,
}
"""What is timed on a schema, in seconds (masks: the mean, in microseconds); None where it was not, or not handled."""

SHARES: dict[str, Callable[[Outcome], bool | None]] = {
    "declared": lambda outcome: outcome.declared,
    "true": lambda outcome: outcome.true,
    "empirical": lambda outcome: outcome.empirical,
}
"""What a schema counts for; None where it was not asked."""

FIGURES = {
    "declared": "declared coverage",
    "true": "true coverage",
    "empirical": "empirical coverage",
    "correct": "correct answers",
    "compile": "compile time",
    "mask": "mean mask time of a schema",
    "ttft": "time to the first token",
    "tpot": "time per further token",
}
"""How they read, and one of tasks."""


def times_of(items: Mapping[str, Handled], time: Callable[[Handled], float | None]) -> dict[str, float]:
    """Item to time, where there is one."""
    return {item: value for item, handled in items.items() if (value := time(handled)) is not None}


def shares_of(items: Those, share: Callable[[Outcome], bool | None]) -> dict[str, bool]:
    """Map each item that has an answer to whether it counts."""
    return {item: value for item, handled in items.items() if (value := share(handled.outcome)) is not None}
