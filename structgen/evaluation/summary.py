"""The figures of a run: coverage, efficiency and quality, by engine and data set or part.

Why: a report, a comparison and a reader of the JSON must find the same figures, so they are computed in one place.
Invariants: shares are of all items that the run posed, so that refusing or failing never pays. Times of engines stand
side by side only over *shared* schemas, those that every engine with times there handled, as an engine that refuses
what is hard would look fast otherwise. Times over all schemas that an engine handled are marked as such.
Masks and compiling are CPU time of one thread, texts are wall-clock time. docs/evaluation.md defines the figures.
Cost: linear in the records and the parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .durations import Spread, added, spread, spread_of_bins
from .engines import is_endpoint
from .handling import SHARES, TIMES, Handled, Those, handled_items, shares_of, times_of
from .items import part_order
from .json_values import as_json
from .metrics import Coverage, Share, coverage
from .pairing import PairedRatio, PairedShare, paired_ratio, paired_share
from .records import CoverageRecord, Run, TaskRecord
from .tasks import TASKS, load_tasks

__all__ = [
    "WHOLE",
    "CoverageRow",
    "PairRow",
    "Summary",
    "TaskRow",
    "TimesRow",
    "summarise",
]

WHOLE = ""
"""The part of a row over all parts."""


@dataclass(frozen=True)
class CoverageRow:
    """An engine on the schemas of a part."""

    engine: str
    dataset: str
    part: str
    """`WHOLE` for all parts together."""
    coverage: Coverage


@dataclass(frozen=True)
class TimesRow:
    """What an engine took on schemas of a part that it handled; None where nothing of the kind was timed."""

    engine: str
    dataset: str
    part: str
    shared: bool
    """Only schemas that all engines with such times handled."""
    compile_ms: Spread | None
    masks_us: Spread | None
    """Single masks."""
    ttft_ms: Spread | None
    tpot_ms: Spread | None
    mask_share: float | None
    """Of the time of all texts that went into masks."""


@dataclass(frozen=True)
class TaskRow:
    """An engine at a task."""

    engine: str
    task: str
    """`WHOLE` for all tasks together."""
    valid: Share
    correct: Share
    score: float
    """Mean."""
    seconds: Spread | None
    """Of texts that ended by themselves or not, wall-clock."""
    statuses: dict[str, int]


@dataclass(frozen=True)
class PairRow:
    """Two engines on the same items of a data set or task."""

    first: str
    second: str
    dataset: str
    """Or the name of a task."""
    figure: str
    """declared, true, empirical, correct; compile, mask (the mean of a schema), ttft, tpot."""
    estimate: PairedShare | PairedRatio


@dataclass(frozen=True)
class Summary:
    """Everything that a report shows but for single items."""

    settings: dict[str, Any]
    engines: tuple[str, ...]
    datasets: tuple[str, ...]
    coverage: tuple[CoverageRow, ...]
    times: tuple[TimesRow, ...]
    tasks: tuple[TaskRow, ...]
    pairs: tuple[PairRow, ...]
    shared: dict[str, dict[str, int]]
    """For each data set, how many schemas the times of each kind are shared over."""
    notes: tuple[str, ...]
    """What keeps the figures from being what they seem, in sentences."""

    def to_json(self) -> dict[str, Any]:
        """JSON values; a share has its interval."""
        record: dict[str, Any] = as_json(self)
        return record


def summarise(run: Run) -> Summary:
    """Return the figures of a run, finished or not."""
    all_ = handled_items(run)
    asked = [*(run.settings.get("engines") or {}), *(record.engine for record in run.records)]
    engines = tuple(dict.fromkeys(asked))
    tasks = _Tasks(run)
    return Summary(
        settings=run.settings,
        engines=engines,
        datasets=tuple(all_),
        coverage=tuple(row for dataset in all_.values() for row in _coverage(dataset, engines)),
        times=tuple(row for dataset in all_.values() for row in _times(dataset, engines)),
        tasks=tuple(tasks.rows(engines)),
        pairs=(*_pairs(all_, engines), *tasks.pairs(engines)),
        shared={
            name: {figure: len(items) for figure, items in _shared(dataset).items()}
            for name, dataset in all_.items()
        },
        notes=tuple(_notes(run, engines)),
    )


def _coverage(dataset: Mapping[str, Those], engines: Sequence[str]) -> Iterator[CoverageRow]:
    for engine, name, part, items in _scopes(dataset, engines):
        yield CoverageRow(engine, name, part, coverage(handled.outcome for handled in items))


def _scopes(
    dataset: Mapping[str, Those], engines: Sequence[str]
) -> Iterator[tuple[str, str, str, list[Handled]]]:
    """Engine, data set, part and schemas; the whole first."""
    for engine in engines:
        items = list(dataset.get(engine, {}).values())
        if not items:
            continue
        yield engine, items[0].dataset, WHOLE, items
        parts = defaultdict(list)
        for handled in items:
            parts[handled.part].append(handled)
        for part in sorted(parts, key=part_order):
            yield engine, items[0].dataset, part, parts[part]


def _shared(dataset: Mapping[str, Those]) -> dict[str, frozenset[str]]:
    """For each kind of time, the items that every engine which has such times at all has one of."""
    columns = {}
    for figure, time in TIMES.items():
        timed = [
            {item for item, handled in by_item.items() if time(handled) is not None}
            for by_item in dataset.values()
        ]
        timed = [items for items in timed if items]
        columns[figure] = frozenset(set.intersection(*timed)) if timed else frozenset()
    return columns


def _times(dataset: Mapping[str, Those], engines: Sequence[str]) -> Iterator[TimesRow]:
    common = _shared(dataset)
    for engine, name, part, items in _scopes(dataset, engines):
        for shared in (True, False):
            kept = {
                figure: [handled for handled in items if not shared or handled.item in common[figure]]
                for figure in TIMES
            }
            row = TimesRow(
                engine,
                name,
                part,
                shared,
                _spread(kept["compile"], TIMES["compile"], 1e3),
                _single_masks(kept["mask"]),
                _spread(kept["ttft"], TIMES["ttft"], 1e3),
                _spread(kept["tpot"], TIMES["tpot"], 1e3),
                _mask_share(kept["tpot"]),
            )
            if any((row.compile_ms, row.masks_us, row.ttft_ms, row.tpot_ms)):
                yield row


def _spread(items: Iterable[Handled], time: Callable[[Handled], float | None], scale: float) -> Spread | None:
    return spread([taken * scale for handled in items if (taken := time(handled)) is not None])


def _single_masks(items: Iterable[Handled]) -> Spread | None:
    masks = [
        handled.read.masks_us
        for handled in items
        if TIMES["mask"](handled) is not None
        and handled.read is not None
        and handled.read.masks_us is not None
    ]
    most = max((mask.max for mask in masks), default=0.0)
    return spread_of_bins(added(mask.bins for mask in masks), sum(mask.sum for mask in masks), most)


def _mask_share(items: Iterable[Handled]) -> float | None:
    spent, whole = 0.0, 0.0
    for handled in items:
        text = handled.written
        if text is None or text.mask_s is None or text.tpot_s is None or text.ttft_s is None:
            continue
        spent += text.mask_s
        whole += text.ttft_s + text.tpot_s * max(text.tokens - 1, 0)
    return spent / whole if whole else None


class _Tasks:
    """The records of tasks."""

    def __init__(self, run: Run) -> None:
        self._all: dict[str, dict[str, dict[str, TaskRecord]]] = {}
        for record in run.records:
            if isinstance(record, TaskRecord):
                of_task = self._all.setdefault(record.task, {})
                of_task.setdefault(record.engine, {})[record.item] = record

    def rows(self, engines: Sequence[str]) -> Iterator[TaskRow]:
        for engine in engines:
            of_engine = {
                task: list(by_engine.get(engine, {}).values()) for task, by_engine in self._all.items()
            }
            if len(self._all) > 1:
                of_engine = {
                    WHOLE: [record for records in of_engine.values() for record in records]
                } | of_engine
            for task, records in of_engine.items():
                if records:
                    yield _task_row(engine, task, records)

    def pairs(self, engines: Sequence[str]) -> Iterator[PairRow]:
        for task, by_engine in self._all.items():
            for first, second in combinations([engine for engine in engines if engine in by_engine], 2):
                first_results, second_results = (
                    {item: record.correct for item, record in by_engine[engine].items()}
                    for engine in (first, second)
                )
                yield PairRow(first, second, task, "correct", paired_share(first_results, second_results))


def _task_row(engine: str, task: str, records: Sequence[TaskRecord]) -> TaskRow:
    statuses: dict[str, int] = {}
    for record in records:
        statuses[record.status] = statuses.get(record.status, 0) + 1
    return TaskRow(
        engine,
        task,
        Share(sum(record.valid for record in records), len(records)),
        Share(sum(record.correct for record in records), len(records)),
        sum(record.score for record in records) / len(records),
        spread([record.seconds for record in records if record.status == "ok"]),
        statuses,
    )


def _pairs(all_: Mapping[str, Mapping[str, Those]], engines: Sequence[str]) -> Iterator[PairRow]:
    for name, dataset in all_.items():
        there = [engine for engine in engines if engine in dataset]
        shares = {
            (engine, figure): shares_of(dataset[engine], share)
            for engine in there
            for figure, share in SHARES.items()
        }
        times = {
            (engine, figure): times_of(dataset[engine], time)
            for engine in there
            for figure, time in TIMES.items()
        }
        for first, second in combinations(there, 2):
            for figure in SHARES:
                estimate = paired_share(shares[first, figure], shares[second, figure])
                if estimate.total:
                    yield PairRow(first, second, name, figure, estimate)
            for figure in TIMES:
                ratio = paired_ratio(times[first, figure], times[second, figure])
                if ratio is not None:
                    yield PairRow(first, second, name, figure, ratio)


def _notes(run: Run, engines: Sequence[str]) -> Iterator[str]:
    if not run.records:
        yield "The run holds no answer yet."
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for record in run.records:
        what = record.task if isinstance(record, TaskRecord) else record.dataset
        counts[_ASKED[record.kind], what][record.engine] += 1
    expected = _expected(run.settings)
    for kind, what in dict.fromkeys((*counts, *expected)):
        answered = counts[kind, what]
        most = max([*answered.values(), expected.get((kind, what), 0)])
        asked = [engine for engine in engines if kind != "schemas" or not is_endpoint(engine)]
        short = [f"{engine} {answered[engine]:,}" for engine in asked if answered[engine] < most]
        if short:
            yield (
                f"The run is not finished. Of {most:,} {kind} of {what} there are answers of: "
                f"{', '.join(short)}. Shares are of what is answered."
            )
    overruled = sum(record.overruled for record in run.records if isinstance(record, CoverageRecord))
    if overruled:
        yield (
            f"In {overruled:,} verdicts jsonschema-rs had an instance otherwise than the label of the data; "
            "its word counts."
        )


_ASKED = {"coverage": "schemas", "generation": "texts", "task": "items"}


def _expected(settings: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return how many questions each engine gets, as far as the settings say."""
    options = settings.get("options") or {}
    found: dict[tuple[str, str], int] = {}
    for dataset in settings.get("datasets") or ():
        name, schemas = str(dataset.get("name")), int(dataset.get("schemas") or 0)
        if options.get("coverage"):
            found["schemas", name] = schemas
        if texts := min(schemas, int(options.get("generate") or 0)):
            found["texts", name] = texts
    most = options.get("task_items")
    for task in TASKS.keys() & set(options.get("tasks") or ()):
        items = len(load_tasks([task]))
        found["items", task] = items if most is None else min(items, int(most))
    return found
