"""How far a run is, with and without a terminal."""

from __future__ import annotations

import io

import pytest

from structgen.cli.eval_progress import Progress
from structgen.evaluation.items import Item
from structgen.evaluation.measuring import failed
from structgen.evaluation.running import Phase


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _advanced() -> Progress:
    phases = [Phase("coverage", "x", 5, done=2), Phase("coverage", "y", 1)]
    with Progress(phases) as progress:
        for status in ("ok", "refused", "ok"):
            progress.advance(failed(Item("a", "p", {}, None), status, "", name="x"))
    return progress


def test_without_a_terminal_progress_is_a_single_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = _advanced()
    assert capsys.readouterr().err == "structgen: coverage x: 5 of 5 (2 ok, 1 refused)\n"
    assert progress.lines() == ["coverage x: 5 of 5 (2 ok, 1 refused)", "coverage y: 0 of 1"]


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    _advanced()
    shown = terminal.getvalue()
    assert "coverage x" in shown and "5/5" in shown and "2 ok, 1 refused" in shown and "0/1" in shown
