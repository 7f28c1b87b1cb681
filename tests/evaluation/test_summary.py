"""Figures of small runs, counted by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.evaluation.metrics import Share
from structgen.evaluation.pairing import PairedRatio, PairedShare, paired_ratio, paired_share
from structgen.evaluation.summary import WHOLE, Summary, summarise

from .runs import masks, read, run_of, worked, written


def row(rows: Any, **named: Any) -> Any:
    [found] = [one for one in rows if all(getattr(one, name) == value for name, value in named.items())]
    return found


def test_coverage_joins_what_was_read_and_written() -> None:
    report = summarise(
        run_of(
            read("a", "1", verdicts="=="),
            read("a", "2", verdicts="=<"),
            read("a", "3", status="refused", verdicts="<", part="q"),
            written("a", "1"),
            written("a", "2", ended=False),
            written("a", "3", status="refused", valid=False, part="q"),
        )
    )
    whole = row(report.coverage, engine="a", part=WHOLE).coverage
    assert (whole.declared, whole.true) == (Share(2, 3), Share(1, 3))
    assert (whole.empirical, whole.compliance) == (Share(1, 3), Share(1, 2))
    assert (whole.too_strict, whole.too_loose) == (1, 0)
    assert row(report.coverage, part="p").coverage.declared == Share(2, 2)
    assert row(report.coverage, part="q").coverage.declared == Share(0, 1)
    assert whole.statuses == {"ok": 2, "refused": 1}


def test_a_schema_that_failed_when_it_was_written_on_is_not_declared() -> None:
    report = summarise(run_of(read("a", "1", verdicts="="), written("a", "1", status="timeout", valid=False)))
    whole = row(report.coverage, part=WHOLE).coverage
    assert whole.declared == whole.true == whole.empirical == Share(0, 1)
    assert whole.statuses == {"timeout": 1}


def test_a_text_that_nothing_can_judge_is_not_counted() -> None:
    report = summarise(run_of(read("a", "1"), written("a", "1", valid=None), written("a", "2")))
    assert row(report.coverage, part=WHOLE).coverage.empirical == Share(1, 1)
    report = summarise(run_of(written("a", "1", valid=None, ended=False)))
    assert row(report.coverage, part=WHOLE).coverage.empirical == Share(0, 1)


def test_times_stand_side_by_side_only_over_what_all_handled() -> None:
    report = summarise(
        run_of(
            read("a", "1", compile_s=0.001, masks_us=masks(1, 3)),
            read("a", "2", compile_s=0.100, masks_us=masks(100)),
            read("b", "1", compile_s=0.004, masks_us=masks(8, 24)),
            read("b", "2", status="refused"),
            read("c", "1", status="error"),  # has no times, so it does not shrink the common set
            read("c", "2", status="error"),
        )
    )
    shared = row(report.times, engine="a", part=WHOLE, shared=True)
    assert shared.compile_ms.max == 1 and shared.compile_ms.count == 1
    assert (shared.masks_us.count, shared.masks_us.mean, shared.masks_us.max) == (2, 2, 3)
    alone = row(report.times, engine="a", part=WHOLE, shared=False)
    assert alone.compile_ms.max == 100 and alone.masks_us.count == 3
    assert not [one for one in report.times if one.engine == "c"]
    assert report.shared == {"d": {"compile": 1, "mask": 1, "ttft": 0, "tpot": 0}}
    pair = row(report.pairs, first="a", second="b", figure="compile").estimate
    assert (pair.count, pair.median, pair.slower) == (1, 4, 1)
    assert row(report.pairs, first="a", second="b", figure="mask").estimate.median == 8
    declared = row(report.pairs, first="a", second="b", figure="declared").estimate
    assert (declared.both, declared.first, declared.second, declared.neither) == (1, 1, 0, 0)


def test_percentiles_of_masks_are_of_all_masks_together() -> None:
    report = summarise(
        run_of(
            read("a", "1", masks_us=masks(*[1.0] * 98)),
            read("a", "2", masks_us=masks(1000.0, 2000.0)),
        )
    )
    spent = row(report.times, part=WHOLE, shared=False).masks_us
    assert spent.p50 == pytest.approx(1, rel=0.05) and spent.p99 == pytest.approx(1000, rel=0.05)
    assert (spent.max, spent.count, spent.mean) == (2000, 100, 30.98)


def test_records_without_bins_have_no_percentiles_of_masks() -> None:
    from dataclasses import replace

    report = summarise(run_of(read("a", "1", masks_us=replace(masks(1.0), bins=()))))
    assert row(report.times, part=WHOLE, shared=True).masks_us is None


def test_times_of_texts() -> None:
    report = summarise(run_of(written("a", "1"), written("a", "2", status="timeout", valid=False)))
    times = row(report.times, part=WHOLE, shared=True)
    assert (times.ttft_ms.count, times.ttft_ms.p50, times.tpot_ms.p50) == (1, 100, 50)
    assert times.mask_share == pytest.approx(0.02 / 0.2)
    assert times.compile_ms is None  # CPU time of reading; the text's was wall-clock


def test_tasks() -> None:
    report = summarise(
        run_of(
            worked("a", "1", 1.0),
            worked("a", "2", 0.5),
            worked("a", "3", 0.0, status="timeout", valid=False),
            worked("a", "1", 1.0, task="arithmetic"),
            worked("b", "1", 0.0),
            worked("b", "2", 1.0),
        )
    )
    calling = row(report.tasks, engine="a", task="calling")
    assert (calling.valid, calling.correct, calling.score) == (Share(2, 3), Share(1, 3), 0.5)
    assert calling.seconds.count == 2 and calling.statuses == {"ok": 2, "timeout": 1}
    assert row(report.tasks, engine="a", task=WHOLE).correct == Share(2, 4)
    pair = row(report.pairs, dataset="calling", figure="correct").estimate
    assert (pair.first, pair.second, pair.p) == (1, 1, 1)


def test_an_unfinished_run_says_so() -> None:
    [note] = summarise(run_of(read("a", "1"), read("a", "2"), read("b", "1"))).notes
    assert "Of 2 schemas of d there are answers of: b 1." in note
    [note] = summarise(run_of(read("a", "1"), options={"coverage": True}, engines={"a": "1"})).notes
    assert "Of 3 schemas of d there are answers of: a 1." in note
    asked = {"coverage": False, "generate": 2, "tasks": ["calling"], "task_items": 5}
    report = summarise(run_of(worked("a", "1", 1), options=asked, engines={"a": "1"})).notes
    assert any("Of 2 texts of d there are answers of: a 0." in note for note in report)
    assert any("Of 5 items of calling there are answers of: a 1." in note for note in report)
    assert summarise(run_of()).notes == ("The run holds no answer yet.",)
    [note] = summarise(run_of(read("a", "1", overruled=3), engines={"a": "1"})).notes
    assert note.startswith("In 3 verdicts jsonschema-rs")


def test_json_has_intervals() -> None:
    report: Summary = summarise(
        run_of(read("a", "1", verdicts="="), read("b", "1", verdicts=">"), worked("a", "1", 1))
    )
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    share = document["coverage"][0]["coverage"]["true"]
    assert (share["hits"], share["total"], share["value"]) == (1, 1, 1) and len(share["interval"]) == 2
    assert document["pairs"][1]["estimate"]["p"] == 1


def test_paired_share() -> None:
    report = paired_share(
        {"1": True, "2": True, "3": False, "4": True}, {"1": True, "2": False, "3": True, "5": True}
    )
    assert report == PairedShare(1, 1, 1, 0) and report.total == 3
    less = PairedShare(both=10, first=8, second=0, neither=2)
    difference, low, high = less.difference
    assert difference == pytest.approx(-0.4) and low < difference < high < 0
    assert less.p == pytest.approx(2 / 256)


def test_paired_ratio() -> None:
    report = paired_ratio({"1": 1, "2": 2, "3": 0, "4": 5}, {"1": 2, "2": 1, "3": 7, "5": 1})
    assert report == PairedRatio(2, 1.25, 0.5, 2, 1, 1)
    assert paired_ratio({"1": 1}, {"2": 1}) is None
