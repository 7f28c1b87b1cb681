"""What a run wrote: its settings and one record for each answer, as JSON lines in a folder.

Why: the runner, the report and a comparison agree on this file alone. Records are kept as they arrive, so a run that
was cut off can be resumed, and its figures can be computed from them again.
What: ``run.json`` (the settings, as `Run.settings` has them) and ``results.jsonl``, a record a line, in any order.
Invariant: ``record_of(record.to_json()) == record``; a last line that is incomplete is dropped, any other line that is
not a record is an `OptionError` that names it. Where a record was written twice, the later one counts.
Cost: all records in memory, about 1 kB each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from structgen.errors import OptionError

from .durations import Bins

__all__ = [
    "RESULTS",
    "SETTINGS",
    "STATUSES",
    "CoverageRecord",
    "GenerationRecord",
    "Key",
    "Masks",
    "Record",
    "Run",
    "TaskRecord",
    "Verdict",
    "latest",
    "read_records",
    "read_run",
    "record_of",
]

SETTINGS, RESULTS = "run.json", "results.jsonl"
STATUSES = ("ok", "refused", "error", "timeout", "memory", "crash")
"""ok; the engine refused the schema; it failed later; time ran out; memory ran out; its process died."""

Key = tuple[str, str, str, str]
"""kind, engine, dataset, item: what a record answers."""


class Verdict(NamedTuple):
    """Of one instance."""

    valid: bool
    accepted: bool


@dataclass(frozen=True)
class Masks:
    """Times of the masks of one schema, microseconds of CPU."""

    count: int
    p50: float
    p90: float
    p99: float
    max: float
    sum: float
    bins: Bins = ()
    """How many took how long, by `structgen.evaluation.durations`."""


@dataclass(frozen=True)
class _Common:
    kind: ClassVar[str]

    engine: str
    dataset: str
    part: str
    item: str
    status: str
    """One of `STATUSES`."""
    message: str | None
    """What the engine said, where the status is not ok."""

    @property
    def key(self) -> Key:
        return (self.kind, self.engine, self.dataset, self.item)

    def to_json(self) -> dict[str, Any]:
        """Return what a line holds."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class CoverageRecord(_Common):
    """An engine read the instances of a schema."""

    kind: ClassVar[str] = "coverage"

    compile_s: float | None
    """CPU seconds; None where there is no program."""
    masks_us: Masks | None
    """None where no mask was made."""
    verdicts: tuple[Verdict, ...] | None
    """None: there was no instance to read. All refused, by the data's labels, where the status is not ok."""
    overruled: int
    """Labels of the data that the judge has otherwise."""

    def to_json(self) -> dict[str, Any]:
        """Return what a line holds, with each verdict as an object."""
        record = super().to_json()
        record["verdicts"] = (
            None if self.verdicts is None else [verdict._asdict() for verdict in self.verdicts]
        )
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CoverageRecord:
        """Return the record of a line."""
        masks, verdicts = record["masks_us"], record["verdicts"]
        return cls(
            **_taken(cls, record)
            | {
                "masks_us": None if masks is None else Masks(**masks | {"bins": _bins(masks)}),
                "verdicts": None
                if verdicts is None
                else tuple(
                    Verdict(bool(verdict["valid"]), bool(verdict["accepted"])) for verdict in verdicts
                ),
            }
        )


@dataclass(frozen=True)
class GenerationRecord(_Common):
    """A model wrote a text under a schema. Times are seconds of the wall clock, None where nothing was timed."""

    kind: ClassVar[str] = "generation"

    compile_s: float | None
    ttft_s: float | None
    """From the schema to the first token: compiling, reading the prompt, the first mask and the draw."""
    tpot_s: float | None
    """Per token after the first."""
    mask_s: float | None
    """All masks, and telling the engine its tokens."""
    tokens: int
    ended: bool
    """The text ended by itself, not by the bound on tokens."""
    text: str
    valid: bool | None
    """Of the text, an unended one included: False where the status is not ok, None where nothing can judge it."""

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> GenerationRecord:
        """Return the record of a line."""
        return cls(**_taken(cls, record))


@dataclass(frozen=True)
class TaskRecord(_Common):
    """A model worked at a task that has an answer."""

    kind: ClassVar[str] = "task"

    task: str
    """extraction, calling or arithmetic."""
    text: str
    valid: bool
    correct: bool
    score: float
    """From 0 to 1."""
    tokens: int
    seconds: float

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> TaskRecord:
        """Return the record of a line."""
        return cls(**_taken(cls, record))


Record = CoverageRecord | GenerationRecord | TaskRecord


def _bins(masks: Mapping[str, Any]) -> Bins:
    return tuple((int(at), int(count)) for at, count in masks.get("bins", ()))


_KINDS: dict[str, type[CoverageRecord] | type[GenerationRecord] | type[TaskRecord]] = {
    kind.kind: kind for kind in (CoverageRecord, GenerationRecord, TaskRecord)
}


def _taken(cls: type[_Common], record: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: record[field.name] for field in fields(cls)}


def record_of(record: Mapping[str, Any]) -> Record:
    """Return the record of a line. Raise `ValueError`, `KeyError` or `TypeError` if it is not a record."""
    if record["kind"] not in _KINDS:
        raise ValueError(f"there is no kind {record['kind']!r:.40}")
    if record["status"] not in STATUSES:
        raise ValueError(f"there is no status {record['status']!r:.40}")
    return _KINDS[record["kind"]].from_json(record)


@dataclass(frozen=True)
class Run:
    """What a folder holds."""

    settings: dict[str, Any]
    """Of ``run.json``:

    format     1
    started    when, in ISO 8601
    options    its options, as `RunOptions`; enough to repeat it
    engines    names to versions
    model      name, path, "embedded" or "bytes"; None: no text was written, and the tokenizer is the embedded model's
    datasets   a list of {"name", "spec", "parts": {part: schemas}, "schemas"}
    generate   schemas of each data set that texts were written on
    tasks      their names
    seed, max_tokens
    workers    processes at a time, when it was started; `threads` of a model in each
    limits     {"seconds", "memory_mb"} of one schema
    versions   of packages
    machine    {"cpus", "system", "python"}
    """
    records: tuple[Record, ...]

    def of(self, kind: str) -> list[Record]:
        """Return the records of a kind."""
        return [record for record in self.records if record.kind == kind]


def read_run(folder: str | Path) -> Run:
    """Return the run that this folder holds; an `OptionError` where it holds none."""
    path = Path(folder) / SETTINGS
    try:
        settings = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise OptionError(
            f"{str(folder)!r} holds no run: cannot read {SETTINGS}: {error.strerror or error}",
            hint="Give the folder that `structgen eval run --output` wrote.",
        ) from None
    except ValueError as error:
        raise OptionError(f"{path} is not JSON: {error}") from None
    if not isinstance(settings, dict) or settings.get("format") != 1:
        raise OptionError(f"{path} is not the settings of a run, or of a newer version's")
    results = Path(folder) / RESULTS
    return Run(settings, tuple(latest(read_records(results)) if results.exists() else ()))


def latest(records: Iterable[Record]) -> list[Record]:
    """Return one record a key, the later one."""
    return list({record.key: record for record in records}.values())


def read_records(path: Path) -> list[Record]:
    """Return the records of a file of lines, without a last one that was torn off."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise OptionError(f"cannot read the results {str(path)!r}: {error.strerror or error}") from None
    records = []
    for number, line in enumerate(
        lines[:-1], 1
    ):  # what follows the last line end was torn off, or is nothing
        if line.strip():
            try:
                records.append(record_of(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise OptionError(
                    f"{path}, line {number} is no record: {type(error).__name__}: {str(error)[:200]}"
                ) from None
    return records
