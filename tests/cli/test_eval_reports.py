"""``structgen eval report`` and ``structgen eval compare`` on small runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from structgen.cli import main
from tests.evaluation.runs import masks, read, worked, write_run


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    first = write_run(
        tmp_path / "one",
        [
            read("a", "1", verdicts="=", masks_us=masks(2)),
            read("a", "2", status="refused", message="bad\x1b[31m"),
            read("b", "1", verdicts=">", compile_s=0.004, masks_us=masks(20)),
            read("b", "2"),
            worked("a", "t", 0.5),
            worked("b", "t", 0),
        ],
    )
    second = write_run(
        tmp_path / "two",
        [read("a", "1", verdicts="<"), read("a", "2", verdicts="="), worked("a", "t", 1)],
        engines={"a": "1.1"},
    )
    return str(first), str(second)


def test_a_report(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "report", runs[0]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "d; schemas that all handled, which times are of: 1"
    output = [
        "engine declared true empirical compile p50 mask p50 mask p99",
        "a 50.0 % of 2 100.0 % of 1 - 1.00 ms 2.00 µs 2.00 µs",
        "b 100.0 % of 2 0.0 % of 1 - 4.00 ms 19.9 µs 19.9 µs",
    ]
    assert [" ".join(line.split()) for line in lines[1:4]] == output
    page = Path(runs[0]) / "report.html"
    assert lines[-1] == f"wrote {page}" and "<svg" in page.read_text("utf-8")


def test_a_report_somewhere_else_and_as_json(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "report", runs[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engines"] == ["a", "b"]
    assert not (Path(runs[0]) / "report.html").exists()
    assert main(["eval", "report", runs[0], "--output", str(tmp_path / "x.html")]) == 0
    assert (tmp_path / "x.html").exists()


def test_a_comparison(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "compare", *runs]) == 0
    out = capsys.readouterr().out
    assert "differs: engines.a: 1.0, 1.1" in out
    assert "declared coverage: 50.0 % to 100.0 % of 2, +50.0 points" in out
    assert "newly failed: 1\n  a, d, 1: true coverage: right -> too strict" in out
    assert "a, d, 2: declared coverage: refused: bad\\x1b[31m -> ok" in out
    assert "a, calling, t: correct answers: wrong, score 0.50 -> correct" in out
    assert main(["eval", "compare", *runs, "--strict"]) == 1
    assert main(["eval", "compare", runs[0], runs[0], "--strict"]) == 0


def test_a_comparison_of_two_engines(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "compare", runs[0], runs[0], "--engine", "a=b", "--items", "0"]) == 0
    out = capsys.readouterr().out
    assert "compile time: 4.00 times as long on 1 (4.00 to 4.00; 1 slower, 0 faster, p 1.000)" in out
    assert "mean mask time of a schema: 10.00 times as long" in out
    assert "... and 1 more (--items, or --json)" in out
    assert main(["eval", "compare", runs[0], runs[0], "--engine", "a=b", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert {one["engine"] for one in output["compared"]} == {"a -> b"}


def test_mistakes_are_reported(
    runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, output in (
        (["report", str(tmp_path)], "holds no run"),
        (["report", runs[0], "--output", str(tmp_path)], "cannot write the report"),
        (["compare", *runs, "--engine", "=b"], "names no engine"),
        (["compare", *runs, "--engine", "c"], "has no engine 'c'"),
        (["compare", *runs, "--items", "-1"], "--items is -1"),
    ):
        assert main(["eval", *arguments]) == 2
        assert output in capsys.readouterr().err
