"""Compare two runs: which items changed, and whether shares and times differ by more than chance.

What: engines of the same name are compared (or those that are named), on items that both runs answered. Proportions
get McNemar's exact test and the interval of a paired difference. Times get the median of the ratios item by item,
with its interval and the sign test.
Invariant: settings that differ (versions, model, limits, machine) are reported with the figures, since times of two
machines say nothing about engines. Cost: linear in the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from structgen.errors import OptionError

from .handling import SHARES, TIMES, Those, handled_items, shares_of, times_of
from .json_values import as_json
from .pairing import PairedRatio, PairedShare, paired_ratio, paired_share
from .records import Run, TaskRecord

__all__ = ["Change", "Compared", "Comparison", "Difference", "compare"]


@dataclass(frozen=True)
class Difference:
    """Of the settings."""

    name: str
    first: Any
    second: Any


@dataclass(frozen=True)
class Compared:
    """A figure of an engine over the items that both runs have."""

    engine: str
    """``a -> b`` where two names are compared."""
    dataset: str
    """Or the name of a task."""
    figure: str
    """declared, true, empirical, correct; compile, mask (the mean of a schema), ttft, tpot."""
    estimate: PairedShare | PairedRatio


@dataclass(frozen=True)
class Change:
    """An item that counts in one run and not in the other."""

    engine: str
    dataset: str
    item: str
    figure: str
    ok: bool
    """It is newly ok; otherwise newly failed."""
    before: str
    after: str


@dataclass(frozen=True)
class Comparison:
    """What two runs tell together."""

    differences: tuple[Difference, ...]
    compared: tuple[Compared, ...]
    changes: tuple[Change, ...]
    alone: tuple[str, ...]
    """What only one of the runs has, in sentences."""

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        record: dict[str, Any] = as_json(self)
        return record


def compare(first: Run, second: Run, engines: Sequence[tuple[str, str]] | None = None) -> Comparison:
    """Return what changed from the first run to the second.

    `engines`: names in the first and in the second run; None: those that have the same name, or the only ones.
    Raises `OptionError` where the runs have no engine, or nothing at all, in common.
    """
    pairs = _pairs(first, second) if engines is None else list(engines)
    for name, run, at in [(pair[at], (first, second)[at], at) for pair in pairs for at in (0, 1)]:
        if name not in _engines(run):
            raise OptionError(
                f"the {('first', 'second')[at]} run has no engine {name!r}",
                hint=f"It has {', '.join(_engines(run)) or 'none'}.",
            )
    compared: list[Compared] = []
    changes: list[Change] = []
    alone: list[str] = []
    schemas, tasks = (handled_items(first), handled_items(second)), (_tasks(first), _tasks(second))
    for old, new in pairs:
        name = old if old == new else f"{old} -> {new}"
        for dataset in sorted(schemas[0].keys() | schemas[1].keys()):
            before, after = schemas[0].get(dataset, {}).get(old, {}), schemas[1].get(dataset, {}).get(new, {})
            alone += _alone(f"{name}, {dataset}", before, after)
            compared += _compared(name, dataset, before, after)
            changes += _changes(name, dataset, before, after)
        for task in sorted(tasks[0].keys() | tasks[1].keys()):
            was, is_ = tasks[0].get(task, {}).get(old, {}), tasks[1].get(task, {}).get(new, {})
            alone += _alone(f"{name}, {task}", was, is_)
            estimate = paired_share(
                *({item: r.correct for item, r in records.items()} for records in (was, is_))
            )
            if estimate.total:
                compared.append(Compared(name, task, "correct", estimate))
            changes += _task_changes(name, task, was, is_)
    if not compared:
        raise OptionError("the two runs have no item in common")
    return Comparison(tuple(_differences(first, second)), tuple(compared), tuple(changes), tuple(alone))


def _engines(run: Run) -> list[str]:
    return list(
        dict.fromkeys([*(run.settings.get("engines") or {}), *(record.engine for record in run.records)])
    )


def _pairs(first: Run, second: Run) -> list[tuple[str, str]]:
    old, new = _engines(first), _engines(second)
    if common := [name for name in old if name in new]:
        return [(name, name) for name in common]
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    raise OptionError(
        f"the runs have no engine in common: {', '.join(old) or 'none'}, and {', '.join(new) or 'none'}",
        hint="Say which to compare with which.",
    )


def _compared(engine: str, dataset: str, before: Those, after: Those) -> Iterator[Compared]:
    for figure, share in SHARES.items():
        estimate = paired_share(shares_of(before, share), shares_of(after, share))
        if estimate.total:
            yield Compared(engine, dataset, figure, estimate)
    for figure, time in TIMES.items():
        ratio = paired_ratio(times_of(before, time), times_of(after, time))
        if ratio is not None:
            yield Compared(engine, dataset, figure, ratio)


def _changes(engine: str, dataset: str, before: Those, after: Those) -> Iterator[Change]:
    for figure, share in SHARES.items():
        was, is_ = shares_of(before, share), shares_of(after, share)
        for item in sorted(was.keys() & is_.keys()):
            if was[item] != is_[item]:
                states = before[item].state(figure), after[item].state(figure)
                yield Change(engine, dataset, item, figure, is_[item], *states)


Tasks = Mapping[str, TaskRecord]


def _task_changes(engine: str, task: str, before: Tasks, after: Tasks) -> Iterator[Change]:
    for item in sorted(before.keys() & after.keys()):
        was, is_ = before[item], after[item]
        if was.correct != is_.correct:
            yield Change(engine, task, item, "correct", is_.correct, _state(was), _state(is_))


def _state(record: TaskRecord) -> str:
    if record.status != "ok":
        return f"{record.status}: {record.message}" if record.message else record.status
    if record.correct:
        return "correct"
    return f"wrong, score {record.score:.2f}" if record.valid else "breaks the schema"


def _tasks(run: Run) -> dict[str, dict[str, dict[str, TaskRecord]]]:
    """Task, engine, item."""
    records: dict[str, dict[str, dict[str, TaskRecord]]] = {}
    for record in run.records:
        if isinstance(record, TaskRecord):
            records.setdefault(record.task, {}).setdefault(record.engine, {})[record.item] = record
    return records


def _alone(where: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for which, those, others in (("first", before, after), ("second", after, before)):
        if count := len(those.keys() - others.keys()):
            yield f"{where}: {count:,} only in the {which} run, not compared"


_NOT_COMPARED = frozenset({"started", "options"})


def _differences(first: Run, second: Run) -> Iterator[Difference]:
    old, new = _flat(first.settings), _flat(second.settings)
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield Difference(name, old.get(name), new.get(name))


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with names of one level, ``versions.numpy``; options appear as the settings that they make."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _NOT_COMPARED:
            continue
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": setting for inner, setting in value.items()}
        else:
            flat[name] = value
    return flat
