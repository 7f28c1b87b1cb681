"""The reader of Lark grammars: definitions, imports, options, and messages of errors."""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path
from typing import Any

import lark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lark.indenter import Indenter, PythonIndenter
from lark.load_grammar import FromPackageLoader, load_grammar

import structgen as sg
from structgen.constraints.grammar.lark.dialect import rewrite
from structgen.constraints.grammar.lark.lark_loader import load
from structgen.constraints.grammar.lark.reader import read_lark
from structgen.constraints.grammar.lark.source import Source
from structgen.errors import (
    GrammarError,
    GrammarSyntaxError,
    GrammarUnsupported,
    LimitExceeded,
    OptionError,
    StructgenError,
)
from structgen.ir.grammar import Grammar, Rule

BUNDLED = Path(lark.__file__).parent / "grammars"

TOML = r"""
// Near to TOML.
start: _NL? (pair _NL)* (table _NL (pair _NL)*)*
table: "[" key "]" | "[[" key "]]"
pair: key "=" _value
key: (BARE | STRING) ("." (BARE | STRING))*
_value: STRING | INTEGER | FLOAT | BOOL | DATE | array | inline
array: "[" [_value ("," _value)* ","?] "]"
inline: "{" [pair ("," pair)*] "}"
BOOL.1: "true" | "false"
DATE.2: /\d{4}-\d{2}-\d{2}/
FLOAT.1: INTEGER ("." DIGIT+ [EXP] | EXP)
EXP: "e"i ["+" | "-"] DIGIT+
INTEGER: ["+" | "-"] DIGIT+
DIGIT: "0".."9"
BARE: /[A-Za-z0-9_-]+/
STRING: /"(?:[^"\\\n]|\\.)*"/ | /'[^'\n]*'/
_NL: (/\r?\n/ | COMMENT)+
COMMENT: /#[^\n]*/
%ignore /[ \t]+/
"""


def read(source: str, **options: object) -> Grammar:
    return read_lark(source, **{"lexer": "ordered", **options})  # type: ignore[arg-type]


# -- what is loaded


@pytest.mark.parametrize(
    ("source", "start", "keep"),
    [
        ((BUNDLED / "python.lark").read_text(encoding="utf-8"), "file_input", ("_NEWLINE",)),
        ((BUNDLED / "python.lark").read_text(encoding="utf-8"), "eval_input", ()),
        ((BUNDLED / "lark.lark").read_text(encoding="utf-8"), "start", ()),
        (TOML, "start", ()),
        (
            'start: x\nx: "a"\ny: "b" y | "c"\nz: ("d" z)*\nu: v "e"\nv: u "f"\nw: w~50 "g"\nt: t~2 "h"',
            "start",
            (),
        ),
        ('start: (a "b")~0 "c"\na: "d"', "start", ()),
        ('start: a{"x"} a{b{Y}}\na{p}: p "z"\nb{q}: q\nY: "y"\nZ: "unused"', "start", ()),
        ('!start: "if"i "if" /if/ /if/i IF\nIF: "iff"', "start", ()),
    ],
)
def test_terminals_and_rules_are_those_of_lark(source: str, start: str, keep: tuple[str, ...]) -> None:
    terminals, rules, ignore = load_grammar(source, "<string>", [], False)[0].compile([start], set(keep))
    ours = load(rewrite(Source(source)), start, keep, [])
    assert [(one.name, one.pattern, one.priority) for one in ours.terminals] == [
        (one.name, one.pattern, one.priority) for one in terminals
    ]
    assert ours.ignore == list(dict.fromkeys(ignore))
    made = {str(rule.origin.name) for rule in rules}
    assert set(ours.rules) <= made
    assert all(name.startswith("__") for name in made - set(ours.rules))  # lark's helpers


def test_common_terminals_load() -> None:
    names = [name for name in vars_of(BUNDLED / "common.lark") if not name.startswith("_")]
    assert len(names) > 20
    for rule in ("ordered", "longest"):
        source = f"start: ({' | '.join(names)})*\n%import common ({', '.join(names)})"
        grammar = read_lark(source, lexer=rule)  # type: ignore[arg-type]
        assert grammar.lexer is not None
        assert {one.name for one in grammar.lexer.terminals} == set(names)


def vars_of(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line.split(":")[0].strip() for line in lines if line[:1].isupper() and ":" in line]


def test_bodies() -> None:
    grammar = read('start: (a | "b"~2..3)* [c] -> name\n?a: "x"+\nc: | A B?\nA: "1"\nB: "2"')
    assert grammar.rules == (
        Rule(
            "start",
            (
                "sequence",
                (
                    (
                        "repeat",
                        ("choice", (("rule", "a"), ("repeat", ("terminal", "__ANON_0"), 2, 3))),
                        0,
                        None,
                    ),
                    ("repeat", ("rule", "c"), 0, 1),
                ),
            ),
        ),
        Rule("a", ("repeat", ("terminal", "X"), 1, None)),
        Rule(
            "c",
            (
                "choice",
                (("sequence", ()), ("sequence", (("terminal", "A"), ("repeat", ("terminal", "B"), 0, 1)))),
            ),
        ),
    )
    assert grammar.source.startswith("start:")
    assert [grammar.position(rule) for rule in grammar.rules] == [
        (1, 1),
        (2, 2),
        (3, 1),
    ]


def test_repetitions_are_not_written_out() -> None:
    start = time.process_time()
    grammar = read('start: ("a" | "b" "c" | x)~0..1000 ([x] [x] [x] [x] [x] [x] [x] [x])~3\nx: "y"~900')
    assert time.process_time() - start < 20
    assert grammar.rules[1].body == ("repeat", ("terminal", "Y"), 900, 900)


def test_ignored_terminals_reach_no_rule_of_lark() -> None:
    assert read('start: "a" WS "b" | "c"\nWS: " "\n%ignore WS').rules[0].body == (
        "choice",
        (("sequence", (("terminal", "A"), ("choice", ()), ("terminal", "B"))), ("terminal", "C")),
    )


# -- imports


def test_imports(tmp_path: Path) -> None:
    (tmp_path / "base.lark").write_text(
        'pair{x}: x "," x\n_item: NAME\nNAME: /[a-z]+/\n%import .more.DIGIT\n'
    )
    (tmp_path / "more.lark").write_text("DIGIT: /[0-9]/\n")
    source = (
        "%import base (pair, NAME)\n%import base._item -> _thing\n%import more.DIGIT -> D\n"
        '%extend NAME: "!"\n%override pair{x}: x ";" x\nstart: pair{_thing} D'
    )
    for paths in ([tmp_path], [str(tmp_path)]):
        grammar = read(source, import_paths=paths)
        assert {rule.name for rule in grammar.rules} == {"start", "_thing", "pair{_thing}"}
        assert grammar.lexer is not None
        assert [one.name for one in grammar.lexer.terminals] == ["NAME", "D", "SEMICOLON"]


@pytest.mark.parametrize("lexer", ["ordered", "longest"])
def test_a_text_reads_no_files_that_are_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lexer: Any
) -> None:
    """Lark would search the folder of the program, or the current one."""
    (tmp_path / "secret.lark").write_text('A: "a"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    source = "%import .secret.A\nstart: A"
    with pytest.raises(GrammarSyntaxError, match="secret"):
        read(source, lexer=lexer)
    with pytest.raises(GrammarSyntaxError, match="secret"):
        sg.lark(source, lexer="longest")
    assert read(source, lexer=lexer, import_paths=[tmp_path]).lexer is not None


def test_import_through_a_loader_of_lark() -> None:
    loader = FromPackageLoader("lark", ("grammars",))
    grammar = read("%import python (STRING)\nstart: STRING", import_paths=[loader])
    assert grammar.lexer is not None
    assert [one.name for one in grammar.lexer.terminals] == ["STRING"]


def test_mistakes_in_imported_files_show_that_file(tmp_path: Path) -> None:
    (tmp_path / "broken.lark").write_text('a: "x"\nb: ( "y"\n')
    with pytest.raises(GrammarSyntaxError) as caught:
        read("%import broken.a\nstart: a", import_paths=[tmp_path])
    assert caught.value.where == "broken.lark"
    assert caught.value.line == 2
    assert 'b: ( "y"' in str(caught.value)


# -- options


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="unknown lexer rule 'basic'"):
        read('start: "a"', lexer="basic")
    with pytest.raises(OptionError, match="a grammar must be a str"):
        read(b'start: "a"')  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="indenter must be"):
        read('start: "a"', indenter="python")
    with pytest.raises(
        GrammarSyntaxError, match="newline terminal _NEWLINE of the indenter is not in the grammar"
    ):
        read('start: "a"', indenter=PythonIndenter)


def test_an_indenter_that_overrides_methods_is_refused() -> None:
    class Special(PythonIndenter):
        def handle_NL(self, token):  # type: ignore[no-untyped-def]
            yield token

    assert issubclass(Special, Indenter)
    with pytest.raises(OptionError, match="overrides handle_NL"):
        read('start: "a"', indenter=Special)


def test_contextual_is_handed_on() -> None:
    assert read('start: "a"', contextual=True).lexer != read('start: "a"').lexer
    source = (BUNDLED / "python.lark").read_text(encoding="utf-8")
    lexer = read(source, start="file_input", indenter=PythonIndenter, contextual=True).lexer
    assert lexer is not None and lexer.contextual
    with pytest.raises(GrammarUnsupported, match="contextual=True"):
        read(source, start="file_input", indenter=PythonIndenter, contextual=True, lexer="longest")


# -- mistakes

MISTAKES = [
    ("start: a\n", "there is no rule a", "Define it (a: ...)", (1, 8)),
    ("start: A\n", "there is no terminal A", "Define it (A: ...)", (1, 8)),
    ('start: "x" numbr\nnumber: "1"', "there is no rule numbr", "Did you mean number?", (1, 12)),
    ('start: "a\n', "this text is not closed", 'Add the missing "', (1, 8)),
    ("start: /a", "this pattern is not closed", "Add the missing /", (1, 8)),
    ('start "a"', "a ':' is missing after the name", "In Lark a rule is written", (1, 7)),
    ('start: ("a"', "unexpected the end of the line; expected: ')'", "In Lark a rule", (1, 12)),
    ('start: "a" ++', "this operator needs an operand", "In Lark a rule", (1, 13)),
    ('Start: "a"', "Start is not a valid name", "lower case", (1, 1)),
    ('__start: "a"', "starts with two underscores", "lower case", (1, 1)),
    ('start: "a"\nstart: "b"', "the rule start is defined more than once", "%extend", (2, 1)),
    ('start: A\nA: "b"\n\nA: "c"', "the terminal A is defined more than once", "%override", (4, 1)),
    ('start: A\nA: A "x"', "the terminal A is defined by itself", "make it a rule", (2, 1)),
    ('start: A\nA: b\nb: "x"', "a terminal cannot contain the rule b", "upper-case name", (2, 4)),
    ('start: A\nA: "x"*', "the terminal A matches the empty text", "Use + instead of *", (2, 1)),
    ("start: /a*/", "this terminal matches the empty text", "Use + instead of *", (1, 8)),
    ("start: /(?:)/", "this terminal matches the empty text", "Use + instead of *", (1, 8)),
    ("start: A\nA:", "the terminal A is empty", "Give it a text", (2, 1)),
    ('start: foo{"a"}', "there is no template foo", "Define it", (1, 8)),
    ('foo{x}: x\nstart: foo{"a", "b"}', "the wrong number of arguments", "each parameter", (2, 8)),
    ("start: foo\nfoo{x}: x", "there is no rule foo", "pass arguments", (1, 8)),
    ('start: A -> "b"', "", "In Lark a rule", (1, 13)),
    ("%declare X\nstart: X", "X is declared, but never defined", "indenter", (1, 10)),
    ("%declare x\nstart: x", "the rule x is declared, but never defined", "Define it", (1, 10)),
    ('start: A\n%ignore WS\nA: "a"', "there is no terminal WS to ignore", "%import common.WS", (2, 9)),
    ('%override foo: "a"\nstart: "b"', "there is no rule foo to override", "remove %override", (1, 11)),
    ('%extend A: "a"\nstart: A', "there is no terminal A to extend", "remove %extend", (1, 9)),
    ('%ingore "x"\nstart: "a"', "unknown directive %ingore", "%ignore", (1, 1)),
    ("%import nothing.X\nstart: X", "there is no grammar 'nothing' to import", "import_paths", (1, 9)),
    ('%import common\nstart: "a"', "this imports nothing from common", "%import common.NAME", (1, 9)),
    ('a: "x"', "there is no rule 'start' to start from", "start=", None),
    ('start: A\nA: "a" -> b', "a terminal cannot contain '->'", "rules", (2, 8)),
    ('start: "a".."bc"', "lark cannot read this", "single characters", (1, 13)),
    ('start: "\\x4"', "lark cannot read this", "Use the escapes of Python", (1, 8)),
    (
        "start: /[z-a]/",
        "Python cannot compile the pattern of this terminal: bad character range z-a",
        "re",
        (1, 8),
    ),
    ('start: X\nX: /(?i)a/ "b"', "global flags not at the start", "flags after", (2, 1)),
    ("start: /(a)\\1/", "back-references are not supported", "alternatives out", (1, 8)),
    ("start: X\nX: /\\bfoo/", "depends on the character before the lexeme", "State in the rules", (2, 1)),
    ("start: /a(?=b)/", "the text after the lexeme decides", "exclude the next character", (1, 8)),
    ("start: X /b/\nX: /(a|ab)(?!b)/", "a longer match may be preferred", "Remove the look-ahead", (2, 1)),
    ("start: X /b/\nX: /xa?(ab)?(?!c)/", "the order of its alternatives matters", "Remove the look", (2, 1)),
    ("start: (X | /a/ | /b/)*\nX.1: /a(?!b)/", "may match instead", "Remove the look-ahead", (2, 1)),
    (
        "start: (X | /b/)*\nX: /[ac]+(?!b)/",
        "a shorter match is possible",
        "Remove the look-ahead",
        (2, 1),
    ),
]


@pytest.mark.parametrize(("source", "message", "hint", "place"), MISTAKES)
def test_mistakes(source: str, message: str, hint: str, place: tuple[int, int] | None) -> None:
    with pytest.raises(GrammarError) as caught:
        read(source)
    error = caught.value
    assert message in error.message
    assert hint in (error.hint or "")
    if place is not None:
        assert (error.line, error.column) == place
        assert source.split("\n")[place[0] - 1] in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# -- limits

BOMBS = [
    'A0: "xyxyxy"\n' + "".join(f"A{n + 1}: A{n} A{n}\n" for n in range(60)) + "start: A60",
    'a{x}: a{b{x}} x\nb{x}: x\nstart: a{"y"}',
    "start: " + "(" * 20_000 + '"a"' + ")" * 20_000,
    "start: A\nA: " + "~(" * 5_000 + '"a"' + ")" * 5_000,
    "start: /" + "(" * 1_000 + "a" + ")" * 1_000 + "/",
    "start: /(?:a{1000}){1000}/",
    'start: "' + "\\" * 5_001,
    "start: /" + "\\" * 5_001,
    "// \n" * 300_000,
]


@pytest.mark.parametrize("source", BOMBS, ids=range(len(BOMBS)))
def test_bombs(source: str) -> None:
    start = time.process_time()
    with pytest.raises((LimitExceeded, GrammarError)):
        read(source)
    assert time.process_time() - start < 20


SEEDS = [
    TOML,
    'start: x{"a", B}~2..3 | [C] -> foo\nx{p, q}: p "+" q\nB.2: /b+?/i\nC: "c".."e" & ~"d"\n%ignore / +/\n',
    '%import common (INT, WS)\n%ignore WS\nstart: %json {"type": "integer"} <|x|> INT{2,} | a-b\na-b[lazy]: /.*/ "x"\n',
    '%declare _X\nstart: /if\\b/ NAME "(" \n  | "else"i\n%extend NAME: "z"\nNAME: /(?<!x)[a-z]+(?![0-9])/\n',
]


@settings(suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SEEDS), st.data())
def test_mutations_raise_our_errors_only(source: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(source)))
        length = data.draw(st.integers(0, 4))
        other = data.draw(st.sampled_from(SEEDS))
        start = data.draw(st.integers(0, len(other)))
        texts = st.text('"/\\|()[]{}~&.:%<>@-+*?!,aA0 \n#_', max_size=3)
        piece = data.draw(st.one_of(texts, st.just(other[start : start + 6])))
        source = source[:place] + piece + source[place + length :]
    for rule in ("ordered", "longest"):
        try:
            read(source, lexer=rule)
        except StructgenError as error:
            assert str(error)
