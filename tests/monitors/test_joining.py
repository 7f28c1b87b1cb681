"""What stands between an unfinished text and the rest of the document."""

from __future__ import annotations

import ast

import pytest

from structgen.monitors import Context
from structgen.monitors.joining import joint
from structgen.monitors.languages import language_of


@pytest.mark.parametrize(
    ("text", "after", "between"),
    [
        ("    self.", "    return x\n", "\n"),
        ("    self.", "\n    return x\n", ""),
        ("    x = f(a, g(self.", "    y = 2\n", "))\n"),
        ("    x = f(a, g(self.", "        y), 2)\n    z\n", ",\n"),
        ("    x = f(a, g(self.", "    )\n    z\n", "),\n"),
        ("    x = f(a, g(self.", "        b(1),\n    )\n    z\n", "),\n"),
        ('    x = f"{self.', "    return 1\n", '}"\n'),
        ('    f("(", (a.', "    return 1\n", "))\n"),
        ("    d = {'a': request.", "      'b': [2],\n    }\n    e=(1)\n", ",\n"),
        ("    self.", "", ""),
    ],
)
def test_statements_of_python_end_before_what_follows(text: str, after: str, between: str) -> None:
    start = len(text) - len(text.lstrip())
    assert joint(text, start, after, language_of("python")) == between


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("if a:\n    b = f(a, [self.", "    return_ = 2\n"),
        ("f(\n    a.", "    b=2,\n)\n"),
        ("x = f(g(a.", ")\ny = 1\n"),
        ("x = [f(a) for a in b.", "y = {1: (2, 3)}\n"),
    ],
)
def test_a_name_makes_a_program_of_it(text: str, after: str) -> None:
    statement = text.rfind("    ", 0, text.rfind("\n") + 5) + 4 if text.startswith("if") else 0
    ast.parse(text + "name" + joint(text, statement, after, language_of("python")) + after)


def test_other_languages_end_in_their_way() -> None:
    assert joint("f(this.", 0, "  return 1\n", language_of("typescript")) == ";\n"
    assert joint("f(this.", 0, "  return 1\n", language_of("text")) == ""


def test_a_finished_text_is_joined_as_it_is() -> None:
    python = language_of("python")
    assert Context("member", "a.", "b\n", language=python).document == "a.\nb\n"
    whole = Context("end", "a.b", "\n", generated=1, language=python)
    assert whole.document == "a.b\n"
    assert whole.document_at(2) == "a.\n"
