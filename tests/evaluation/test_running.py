"""Whole runs, with engines that crash in between."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from structgen.errors import ModelError, OptionError
from structgen.evaluation.records import GenerationRecord, Record, read_run
from structgen.evaluation.running import begin, resume, run
from structgen.evaluation.settings import RunOptions

from .test_contained import BAD


def _schemas(path: Path, titles: list[str]) -> str:
    lines = [
        {"_file": title, "schema": {"type": "integer", "title": title}, "tests": [{"valid": True, "data": 1}]}
        for title in titles
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def _options(path: Path, titles: list[str], **changes: Any) -> RunOptions:
    given: dict[str, Any] = {"engines": (BAD,), "model": "bytes", "seconds": 0.5, "memory": 200}
    return RunOptions(datasets=(_schemas(path, titles),), **given | changes)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_question_has_one_record_despite_failures(tmp_path: Path, workers: int) -> None:
    titles = ["a", "crash", "b", "spin", "c", "memory", "d", "wrong", "e"]
    report: list[Record] = []
    run(begin(_options(tmp_path / "data.jsonl", titles), tmp_path / "run", workers=workers), report.append)
    found = read_run(tmp_path / "run")
    assert sorted(report, key=lambda one: one.item) == sorted(found.records, key=lambda one: one.item)
    statuses = {record.item: record.status for record in found.records}
    assert statuses == {
        **dict.fromkeys("abcde", "ok"),
        "crash": "crash",
        "spin": "timeout",
        "memory": "memory",
        "wrong": "error",
    }
    assert found.settings["datasets"][0]["schemas"] == 9 and found.settings["workers"] == workers


def test_a_stopped_run_resumes_with_the_remaining_questions(tmp_path: Path) -> None:
    titles = [f"slow {i}" for i in range(4)]
    options = _options(tmp_path / "data.jsonl", titles)
    seen: list[str] = []

    def stop(record: Record) -> None:
        seen.append(record.item)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(begin(options, tmp_path / "run"), stop)
    assert len(read_run(tmp_path / "run").records) == 2
    plan = resume(tmp_path / "run")
    (phase,) = plan.phases()
    assert (phase.kind, phase.engine, phase.total, phase.done) == ("coverage", BAD, 4, 2)
    again: list[Record] = []
    run(plan, again.append)
    assert sorted(seen + [record.item for record in again]) == titles


def test_one_run_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    plan = begin(_options(tmp_path / "data.jsonl", ["a"]), tmp_path / "run")
    with pytest.raises(OptionError, match="another run writes to"):
        resume(tmp_path / "run")
    run(plan)
    resume(tmp_path / "run").folder.close()


def test_a_run_goes_on_only_with_the_same_data(tmp_path: Path) -> None:
    run(begin(_options(tmp_path / "data.jsonl", ["a"]), tmp_path / "run"))
    text = (tmp_path / "data.jsonl").read_text()
    (tmp_path / "data.jsonl").write_text(text.replace('"schema": {', '"schema": {"minLength": 1, ', 1))
    with pytest.raises(OptionError, match="data sets are not what they were"):  # one schema differs
        resume(tmp_path / "run")
    _schemas(tmp_path / "data.jsonl", ["a", "b"])
    with pytest.raises(OptionError, match="data sets are not what they were"):
        resume(tmp_path / "run")
    _schemas(tmp_path / "data.jsonl", ["a"])
    resume(tmp_path / "run").folder.close()  # the error has released its lock


def test_an_engine_that_cannot_start_ends_the_run(tmp_path: Path) -> None:
    options = _options(tmp_path / "data.jsonl", ["a"], model=str(tmp_path))
    with pytest.raises(ModelError):
        run(begin(options, tmp_path / "run"))
    assert threading.active_count() < 20
    assert read_run(tmp_path / "run").records == ()


def test_data_sets_of_one_name_are_reported_apart(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        _schemas(tmp_path / folder / "data.jsonl", ["a"])
    specs = tuple(str(tmp_path / folder / "data.jsonl") for folder in ("x", "y"))
    options = RunOptions(datasets=specs, model="bytes")
    plan = begin(options, tmp_path / "run")
    assert [one.name for one in plan.datasets] == ["data.jsonl", specs[1]]
    run(plan)
    assert len(read_run(tmp_path / "run").records) == 2


def test_a_model_writes_in_its_process(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.models.tiny import tiny_model, tiny_tokenizer

    model = tmp_path / "model"  # random weights, no chat template
    tiny_model("llama").save_pretrained(model)
    tiny_tokenizer().save_pretrained(model)
    data = tmp_path / "data.jsonl"
    lines = [{"_file": "a", "schema": {"enum": ["ab", "ba"]}}, {"_file": "b", "schema": {"type": "nothing"}}]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = RunOptions(
        datasets=(str(data),),
        coverage=False,
        generate=2,
        model=str(model),
        max_tokens=30,
    )
    run(begin(options, tmp_path / "run", threads=1))
    found = {(one.engine, one.item): one for one in read_run(tmp_path / "run").records}
    written = found["structgen", "a"]
    assert isinstance(written, GenerationRecord)
    assert written.text.strip() in ('"ab"', '"ba"') and written.ended and written.valid is not False
    refused = found["structgen", "b"]
    assert isinstance(refused, GenerationRecord) and (refused.status, refused.valid) == ("refused", False)


def test_threads_are_those_of_the_environment_and_a_run_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = RunOptions(coverage=False, generate=1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    plan = begin(options, tmp_path / "run")
    plan.folder.close()
    assert plan.threads == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    for given, wanted in ((None, 3), (1, 1)):
        plan = resume(tmp_path / "run", threads=given)
        plan.folder.close()
        assert plan.threads == wanted


def test_all_engines_generate_texts_for_the_same_sample(tmp_path: Path) -> None:
    options = RunOptions(engines=("structgen", "unconstrained"), generate=3, tasks=("calling",), task_items=2)
    plan = begin(options, tmp_path / "run")
    plan.folder.close()
    asked: dict[tuple[str, str], list[str]] = {}
    for question in plan.questions():
        asked.setdefault((question.kind, question.engine), []).append(question.item)
    assert [len(items) for items in asked.values()] == [63, 63, 3, 2, 3, 2]
    assert asked["generation", "structgen"] == asked["generation", "unconstrained"]
    assert set(asked["generation", "structgen"]) < set(asked["coverage", "structgen"])
    assert all(item.startswith("calling/") for item in asked["task", "structgen"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    plan = begin(_options(tmp_path / "data.jsonl", ["a"]), tmp_path / "run")
    plan.folder._file.close()
    plan.folder._file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115  (closed with the folder)
    with pytest.raises(OptionError, match=r"(?s)cannot write to.*No space left.*--resume"):
        run(plan)
