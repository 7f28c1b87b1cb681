"""A JavaScript program answers line by line, and says when it cannot."""

from __future__ import annotations

import shutil

import pytest

from bench.node import NodeProgram

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def test_answers_come_in_order() -> None:
    program = NodeProgram("let asked = 0; return question => [asked++, question];")
    questions = ["a\nb", "é\u2028", {"c": [1, None]}]
    # Starting it asks one question.
    assert [program.ask(one) for one in questions] == [[i + 1, one] for i, one in enumerate(questions)]


def test_a_program_that_ends_is_an_error_and_starts_again() -> None:
    program = NodeProgram("return question => question === 'end' ? process.exit(1) : question;")
    assert program.ask("a") == "a"
    with pytest.raises(RuntimeError, match="ended without an answer"):
        program.ask("end")
    assert program.ask("b") == "b"


def test_a_system_without_node_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="node is not installed"):
        NodeProgram("return question => question;").ask("a")
