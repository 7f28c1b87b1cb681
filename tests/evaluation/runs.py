"""Records and runs for tests, with ordinary values for all that a test does not set."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from structgen.evaluation.durations import binned
from structgen.evaluation.records import (
    RESULTS,
    SETTINGS,
    CoverageRecord,
    GenerationRecord,
    Masks,
    Record,
    Run,
    TaskRecord,
    Verdict,
)
from structgen.evaluation.statistics import percentile

SETTINGS_OF_TESTS: dict[str, Any] = {
    "format": 1,
    "started": "2026-11-24T12:00:00+00:00",
    "engines": {"a": "1.0", "b": "2.0"},
    "model": "embedded",
    "datasets": [{"name": "d", "spec": "d.jsonl", "parts": {"p": 2, "q": 1}, "schemas": 3}],
    "seed": 0,
    "tasks": [],
    "limits": {"seconds": 60.0, "memory_mb": 2048},
    "versions": {"numpy": "2.0"},
    "machine": {"cpus": 2, "system": "Linux x86_64", "python": "3.11"},
}


def masks(*spent: float) -> Masks:
    """Return the statistics of masks that took these numbers of microseconds."""
    p50, p90, p99, most = (percentile(spent, at) or 0.0 for at in (50, 90, 99, 100))
    return Masks(len(spent), p50, p90, p99, most, sum(spent), binned(spent))


def read(engine: str, item: str, status: str = "ok", verdicts: str = "", **given: Any) -> CoverageRecord:
    """Return a coverage record; `verdicts` has ``=`` for a right verdict, ``<`` for too strict, ``>`` for too loose."""
    pairs = {"=": Verdict(True, True), "<": Verdict(True, False), ">": Verdict(False, True)}
    ordinary: dict[str, Any] = {
        "dataset": "d",
        "part": "p",
        "message": None if status == "ok" else "no",
        "compile_s": 0.001 if status == "ok" else None,
        "masks_us": None,
        "verdicts": tuple(pairs[one] for one in verdicts) or None,
        "overruled": 0,
    }
    return CoverageRecord(engine=engine, item=item, status=status, **ordinary | given)


def written(engine: str, item: str, valid: bool | None = True, **given: Any) -> GenerationRecord:
    """Return the record of a generated text of three tokens."""
    ordinary: dict[str, Any] = {
        "dataset": "d",
        "part": "p",
        "status": "ok",
        "message": None,
        "compile_s": 0.001,
        "ttft_s": 0.1,
        "tpot_s": 0.05,
        "mask_s": 0.02,
        "tokens": 3,
        "ended": True,
        "text": "{}",
    }
    return GenerationRecord(engine=engine, item=item, valid=valid, **ordinary | given)


def worked(engine: str, item: str, score: float, task: str = "calling", **given: Any) -> TaskRecord:
    """Return the record of an answer to a task."""
    ordinary: dict[str, Any] = {
        "dataset": "tasks",
        "part": task,
        "status": "ok",
        "message": None,
        "task": task,
        "text": "{}",
        "valid": True,
        "correct": score == 1,
        "tokens": 9,
        "seconds": 0.5,
    }
    return TaskRecord(engine=engine, item=item, score=score, **ordinary | given)


def run_of(*records: Record, **settings: Any) -> Run:
    return Run(SETTINGS_OF_TESTS | settings, records)


def write_run(folder: Path, records: Iterable[Record], **settings: Any) -> Path:
    """Write a run as the runner does."""
    folder.mkdir()
    (folder / SETTINGS).write_text(json.dumps(SETTINGS_OF_TESTS | settings), "utf-8")
    lines = [json.dumps(record.to_json()) for record in records]
    (folder / RESULTS).write_text("".join(line + "\n" for line in lines), "utf-8")
    return folder
