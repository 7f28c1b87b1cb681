"""Grammars on the command line: named in four ways, checked, explained, masked, shown by examples."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import structgen as sg
from structgen.cli import main
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

CALLS = """
start: call
call: NAME "(" (value ("," value)*)? ")"
value: call | NUMBER
old: "old"
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore " "
"""


@pytest.fixture
def calls(tmp_path: Path) -> str:
    file = tmp_path / "calls.lark"
    file.write_text(CALLS)
    return str(file)


def test_check_of_a_grammar_for_one_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens.gbnf"
    file.write_text('root ::= <[7000]> "a"')
    assert main(["check", "--gbnf", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  note: it names tokens of a tokenizer, so it was not compiled"


def test_check(calls: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--lark", calls]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"! {calls}:5:1: rule `old` is not used"
    assert (
        lines[-1]
        == "the Lark grammar of `start`: can be used; 3 rules, 0 regular rules, 6 terminals, 1 warning"
    )
    assert main(["check", "--lark", calls, "--strict"]) == 1
    capsys.readouterr()
    assert main(["check", "--lark", calls, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["rules", "terminals", "findings", "regular", "skipped", "failure"]
    assert report["findings"][0] == {
        "kind": "unused",
        "subject": "old",
        "message": "rule `old` is not used",
        "position": [5, 1],
        "example": None,
        "warning": True,
    }
    assert report["failure"] is None


def test_the_keys_of_a_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("start: NAME NAME\nNAME: /[a-z]+/\n"))
    assert main(["check", "--lark", "-", "--lexer", "longest", "--json"]) == 1
    failure = json.loads(capsys.readouterr().out)["failure"]
    assert list(failure) == ["message", "hint"]


def test_check_of_grammars_without_a_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("start: NAME NAME\nNAME: /[a-z]+/\n"))
    assert main(["check", "--lark", "-", "--lexer", "longest"]) == 1
    out = capsys.readouterr().out
    assert "! empty: no text" in out and "the lexer reads as something else" in out
    monkeypatch.setattr("sys.stdin", io.StringIO('root ::= "a" root'))
    assert main(["check", "--gbnf", "-"]) == 1
    out = capsys.readouterr().out
    assert "! -:1:1: rule `root` has no text" in out and "see the rules above" in out


@pytest.mark.parametrize("name", sorted(sg.grammars()))
def test_the_shelf_can_be_used(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--grammar", name]) == 0
    out = capsys.readouterr().out
    assert "can be used" in out and "is not used" not in out.replace("rule `expressions` is not used", "")


def test_explain(calls: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--lark", calls, "f(1 2)"]) == 1
    assert "expected: ')', ','" in capsys.readouterr().out
    assert main(["explain", "--lark", calls, "f(1, g())"]) == 0
    assert main(["explain", "--lark", calls, "--start", "value", "12"]) == 0
    assert main(["explain", "--ebnf", str(Path(calls).with_name("none")), "x"]) == 2
    assert "cannot read --ebnf" in capsys.readouterr().err


def test_another_notation(calls: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--gbnf", calls]) == 2
    assert "Use --lark." in capsys.readouterr().err


def test_mask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", "--grammar", "json", "--prefix", '{"a"', "--tokenizer", "bytes"]) == 0
    assert "5 of 257 tokens may come next" in capsys.readouterr().out


def test_names_of_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--grammar", "sql", "--start", "select", "--tables", "users, orders", "--columns", "id"]
    named += ["--columns", "name", "--functions", "count", "--aliases", "u", "--schemas", "main"]
    for text, status in (
        ("SELECT u.id, count(*) FROM main.users AS u JOIN orders", 0),
        ("SELECT name FROM customers", 1),
        ("SELECT password FROM users", 1),
        ("SELECT v.id FROM users AS v", 1),
    ):
        assert main(["explain", *named, text]) == status, text
    assert main(["check", *named]) == 0 and main(["example", *named, "--minimal"]) == 0
    capsys.readouterr()
    assert (
        main(["explain", "--grammar", "sql", "--tables", "users", "--aliases", "", "SELECT a.b FROM users"])
        == 1
    )


@pytest.mark.parametrize("name", ["arithmetic", "graphql", "json", "smiles", "sql", "toml", "xml"])
def test_examples_are_texts_of_the_grammar(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["example", "--grammar", name]
    vocabulary = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], [256], size=257)
    shown = set()
    for seed in range(5):
        assert main([*arguments, "--seed", str(seed)]) == 0
        text = capsys.readouterr().out.removesuffix("\n")
        assert Matcher(sg.grammar(name), vocabulary).explain(text).ok, text
        shown.add(text)
    assert len(shown) > 2
    assert main([*arguments, "--minimal"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "there is nothing to check"),
        (["check", "{}", "--grammar", "json"], "a schema and --grammar cannot be given together"),
        (["check", "--grammar", "json", "--ordered"], "--ordered can only be given with a JSON Schema"),
        (["check", "--grammar", "jsom"], "did you mean 'json'?"),
        (["check", "--grammar", "json", "--lexer", "lark"], "--lexer can only be given with --lark"),
        (["example"], "there is nothing to show"),
        (["example", "--grammar", "json", "--indent", "2"], "can only be given with a JSON Schema"),
        (["explain", "--regex", "a", "--start", "x", "a"], "--start can only be given with --lark or --gbnf"),
        (["explain", "--grammar", "json", "--tables", "a", "x"], "has no parameter 'tables'"),
        (["explain", "--lark", "x", "--columns", "a", "x"], "--columns can only be given with --grammar"),
        (["explain", "--grammar", "sql", "--tables", " ", "x"], "--tables names nothing"),
        (
            ["explain", "--grammar", "sql", "--tables", "a,,b", "x"],
            "tables contains '', a str, which is not a name",
        ),
        (
            ["explain", "--grammar", "json", "--gbnf", "x", "a"],
            "--gbnf and --grammar cannot be given together",
        ),
    ],
)
def test_invalid_arguments_are_usage_errors(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "text", "status"),
    [
        (["--start", "select"], "SELECT ?1", 1),
        (["--start", "select", "--parameters"], "SELECT ?1", 0),
        (["--start", "select", "--comments"], "SELECT 1 -- one", 0),
        (["--start", "select"], "SELECT 1 -- one", 1),
        (["--start", "select", "--functions", ""], "SELECT abs(1)", 1),
        (["--start", "select", "--functions", "abs"], "SELECT abs(1)", 0),
    ],
)
def test_switches_of_the_shelf(flags: list[str], text: str, status: int) -> None:
    assert main(["explain", "--grammar", "sql", *flags, text]) == status
