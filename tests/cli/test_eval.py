"""``structgen eval run`` with real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from structgen.cli import main
from structgen.evaluation.records import read_run

_RUN = ["eval", "run", "--model", "bytes", "--sample", "10"]


def test_a_run_and_its_resumption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    assert main([*_RUN, "--engine", "structgen", "--engine", "unconstrained", "--output", folder]) == 0
    output = capsys.readouterr()
    assert output.out == (
        "coverage structgen: 10 of 10 (10 ok)\ncoverage unconstrained: 10 of 10 (10 ok)\n\n"
        f"structgen eval report {folder}\n"
    )
    whole = read_run(folder)
    assert len(whole.records) == 20 and whole.settings["options"]["sample"] == 10
    results = tmp_path / "run" / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-30])
    assert main(["eval", "run", "--output", folder, "--resume", "--workers", "2"]) == 0
    assert "coverage unconstrained: 10 of 10 (1 ok)" in capsys.readouterr().out
    again = read_run(folder)
    assert {record.key for record in again.records} == {record.key for record in whole.records}
    assert results.read_bytes().count(b"\n") == 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "x"], "no engine 'x'"),
        (["--engine", "no_such_module:Engine"], "cannot be imported"),
        (["--dataset", "none.jsonl"], "no data set 'none.jsonl'"),
        (["--part", "x"], "no part 'x'"),
        (["--sample", "0"], "sample is 0"),
        (["--seconds", "nan"], "seconds is nan"),
        (["--workers", "0"], "workers is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--no-coverage"], "there is nothing to measure"),
        (["--generate", "1"], "texts need a model"),
        (["--tasks", "x", "--model", "tiny"], "no task 'x'"),
        (["--resume"], "--resume needs the folder"),
    ],
)
def test_mistakes_are_reported_by_name(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*_RUN, *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_overwritten_and_not_resumed_with_other_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--output", str(tmp_path)]
    assert main(["eval", "run", *output, "--resume"]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert main([*_RUN, *output, "--sample", "1"]) == 0
    capsys.readouterr()
    for arguments, said in (
        ([*_RUN, *output], "holds a run already"),
        (["eval", "run", *output, "--resume", "--seed", "3"], "--seed is not what the run was started with"),
        (
            ["eval", "run", *output, "--resume", "--engine", "x"],
            "--engine is not what the run was started with",
        ),
    ):
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
    settings = tmp_path / "run.json"
    record = json.loads(settings.read_text())
    settings.write_text(json.dumps(record | {"engines": {"structgen": "0.0.1"}}))
    assert main(["eval", "run", *output, "--resume"]) == 2
    assert "started with structgen 0.0.1" in capsys.readouterr().err
