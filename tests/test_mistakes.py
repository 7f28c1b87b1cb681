"""Mistakes of the first hour: one sentence that says what is wrong, and one that says what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import StructgenError
from tests.oracles.scripted_model import ScriptedModel

BYTES = sg.Vocabulary.of_bytes()
MODEL = ScriptedModel("x")


class Party(BaseModel):
    host: str
    guests: list[str] = []


def closed() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.close()
    return connection


@pytest.mark.parametrize(
    ("make", "what", "hint"),
    [
        (lambda: sg.monitors.sqlite_schema(__file__), "cannot be read as an SQLite database", "SQLite file"),
        (lambda: sg.monitors.sqlite_schema(closed()), "closed database", "open connection"),
        (lambda: sg.monitors.sqlite_schema("/nope/x.sqlite"), "there is no database", "path"),
        (lambda: sg.Matcher(int, BYTES).advance("a"), "'a' is not a token", "whole numbers"),  # type: ignore[arg-type]
        (lambda: sg.Matcher(int, BYTES).advance(-1), "-1 is not a token", "whole numbers"),
        (lambda: sg.lark("rules/recipe.lark"), "is a path, not a grammar", "read_text"),
        (lambda: sg.gbnf("recipe.gbnf"), "is a path, not a grammar", "structgen.gbnf"),
        (lambda: sg.ebnf(Path("recipe.ebnf")), "is a path, not a grammar", "structgen.ebnf"),  # type: ignore[arg-type]
        (lambda: sg.generate(MODEL, "?", str, temperature="hot"), "it must be a number", None),
        (lambda: sg.generate(MODEL, "?", str, max_token=3), "unknown sampling option", "max_tokens"),
        (lambda: sg.run_tools(MODEL, "?", print), "tools must be a list", "[print]"),  # type: ignore[arg-type]
        (lambda: sg.infill(MODEL, "a {{b"), "{{ without }}", "{{name}}"),
        (lambda: sg.infill(MODEL, "a {{b}}", b=int, temperature=0), "no hole 'temperature'", "options="),
        (lambda: sg.stream_items(MODEL, "?", Party, path="guest"), "no list at 'guest'", "guests"),
        (lambda: sg.load(3), "is an int", "path"),
        (lambda: sg.regex("a", flags="i"), "flags is 'i', a str", "re.IGNORECASE"),  # type: ignore[arg-type]
        (lambda: sg.lark("start: @x", constraints=5), "constraints is an int", "structgen.regex"),  # type: ignore[arg-type]
        (lambda: sg.lark("start: /a/", contextual="x"), "contextual is 'x'", None),  # type: ignore[arg-type]
        (lambda: sg.lark("start: /a/", import_paths="."), "import_paths is '.'", None),
        (lambda: sg.lark("start: /a/", import_paths=5), "import_paths is 5", None),  # type: ignore[arg-type]
        (lambda: sg.Vocabulary.of_bytes(5), "specials is 5", None),  # type: ignore[arg-type]
        (lambda: sg.Vocabulary.from_tokens(5, [1]), "tokens is an int", None),  # type: ignore[arg-type]
        (lambda: sg.Vocabulary.from_tokens([b"a"], 5), "eos_ids is 5", "[5]"),  # type: ignore[arg-type]
        (lambda: sg.Whitespace(indent="x"), "an indentation must be", None),
        (lambda: sg.Whitespace(indent=99), "an indentation must be", None),  # type: ignore[arg-type]
        (lambda: sg.Whitespace(separators=5), "separators=5", "json.dumps"),  # type: ignore[arg-type]
        (lambda: sg.Whitespace(separators=("a", "b")), "separators=('a', 'b')", "json.dumps"),
        (lambda: sg.Whitespace(blanks="x"), "blanks='x'", None),  # type: ignore[arg-type]
        (lambda: sg.plan(["a"], format=sg.ltl.PlanFormat(write=5)), "write is an int", None),  # type: ignore[arg-type]
        (lambda: sg.load(__file__), "is a file", "folder"),
    ],
)  # fmt: skip
def test_a_mistake_says_what_is_wrong_and_what_to_do(
    make: Callable[[], Any], what: str, hint: str | None
) -> None:
    with pytest.raises(StructgenError) as caught:
        make()
    assert what in caught.value.message
    if hint is not None:
        assert hint in str(caught.value.hint)
