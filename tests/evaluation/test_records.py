"""The records of a run can be read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.evaluation.records import (
    STATUSES,
    CoverageRecord,
    GenerationRecord,
    Masks,
    Record,
    TaskRecord,
    Verdict,
    read_run,
    record_of,
)

_TIMES = st.none() | st.floats(0, 1e6)
_COMMON = {
    "engine": st.sampled_from(["structgen", "x"]),
    "dataset": st.just("bundled"),
    "part": st.just("p"),
    "item": st.text(max_size=5),
    "status": st.sampled_from(STATUSES),
    "message": st.none() | st.text(max_size=9),
}
_RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        CoverageRecord,
        **_COMMON,
        compile_s=_TIMES,
        masks_us=st.none() | st.builds(Masks, st.integers(1), *[st.floats(0, 1e9)] * 5),
        verdicts=st.none() | st.lists(st.builds(Verdict, st.booleans(), st.booleans())).map(tuple),
        overruled=st.integers(0, 9),
    ),
    st.builds(
        GenerationRecord, **_COMMON, **dict.fromkeys(("compile_s", "ttft_s", "tpot_s", "mask_s"), _TIMES)
    ),
    st.builds(TaskRecord, **_COMMON, score=st.floats(0, 1), seconds=st.floats(0, 1e6)),
)


@given(_RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert record_of(json.loads(json.dumps(record.to_json()))) == record


def _task(item: str, score: float = 1) -> TaskRecord:
    return TaskRecord(
        "structgen", "tasks", "p", item, "ok", None, "extraction", "{}", True, True, score, 2, 0.1
    )


def _written(folder: Path, *lines: str) -> Path:
    (folder / "run.json").write_text('{"format": 1}')
    (folder / "results.jsonl").write_text("".join(lines))
    return folder


def test_a_torn_line_is_dropped_and_the_later_record_counts(tmp_path: Path) -> None:
    lines = [
        json.dumps(_task(item, score).to_json()) + "\n" for item, score in (("a", 0), ("b", 1), ("a", 1))
    ]
    run = read_run(_written(tmp_path, *lines, lines[0][:40]))
    assert run.records == (_task("a", 1), _task("b", 1)) and run.of("coverage") == []


def test_a_folder_that_is_not_a_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"holds no run: cannot read run.json"):
        read_run(tmp_path)
    with pytest.raises(OptionError, match=r"line 1 is no record: JSONDecodeError"):
        read_run(_written(tmp_path, "{\n", "{}\n"))
    for wrong, said in (
        ({"kind": "x"}, "no kind 'x'"),
        ({"status": "x"}, "no status 'x'"),
        ({"task": ...}, "'task'"),
    ):
        report = _task("a").to_json() | wrong
        report = {name: value for name, value in report.items() if value is not ...}
        with pytest.raises(OptionError, match=said):
            read_run(_written(tmp_path, json.dumps(report) + "\n"))
    (tmp_path / "run.json").write_text('{"format": 2}')
    with pytest.raises(OptionError, match="newer version"):
        read_run(tmp_path)
