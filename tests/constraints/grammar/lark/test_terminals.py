"""The lexemes of a Lark grammar's terminals, against lark's own basic lexer and a twin of rule "longest"."""

from __future__ import annotations

import re
from pathlib import Path

import lark
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lark.common import LexerConf
from lark.exceptions import LarkError, UnexpectedCharacters
from lark.indenter import PythonIndenter
from lark.lexer import BasicLexer, LexerState, TextSlice
from lark.load_grammar import load_grammar

from structgen.constraints.grammar.lark.reader import read_lark
from structgen.errors import GrammarUnsupported
from structgen.ir.grammar import Lexer, position_at
from tests.oracles.slow_lexer import lexeme, lexemes, significant

BUNDLED = Path(lark.__file__).parent / "grammars"
PYTHON = (BUNDLED / "python.lark").read_text(encoding="utf-8")

Tokens = list[tuple[str, str]]


class Basic:
    """Return lark's basic lexer of a grammar, without its slow search for collisions."""

    def __init__(self, grammar: str, start: str = "start", keep: tuple[str, ...] = ()) -> None:
        compiled, _ = load_grammar(grammar, "<string>", [], False)
        terminals, _, ignore = compiled.compile([start], set(keep))
        for terminal in terminals:
            assert terminal.pattern.min_width > 0
        self.lexer = BasicLexer(LexerConf(terminals, re, ignore, skip_validation=True))

    def tokens(self, text: str) -> Tokens | None:
        try:
            return [(t.type, str(t)) for t in self.lexer.lex(LexerState(TextSlice(text, 0, len(text))), None)]
        except UnexpectedCharacters:
            return None


def ours(lexer: Lexer, text: str) -> Tokens | None:
    """Return the lexemes with lark's names, without ignored ones."""
    found = lexemes(lexer, text)
    if found is None:
        return None
    return [(name.split("@")[0].rstrip("'"), part) for name, part in significant(lexer, found)]


CASES = [
    ('start: ("if" | NAME)*\nNAME: /[a-z]+/', ["if", "ifx", "iff if", "xif"]),
    ('start: ("if"i | NAME)*\nNAME: /[a-z]+/', ["if", "IF", "iF", "IFx", "iFx", "ifx"]),
    ('start: (IF | NAME)*\nIF.2: "if"\nNAME: /[a-z]+/', ["if", "ifx", "xif"]),
    ('start: (IF | NAME)*\nIF.-1: "if"\nNAME: /[a-z]+/', ["if", "ifx"]),
    ('start: ("a" | "ab" | "abc")*', ["abc", "ab", "aab", "abca"]),
    ("start: (/a|ab/ | /b+/)*", ["ab", "abb", "a", "ba"]),
    ("start: (/\\d+|\\d+\\.\\d+/ | /\\./)*", ["12.5", "1", ".5"]),
    ('start: A*\nA: "x" | "xy" | "xyz"', ["xyz", "xy", "xx", "xyx"]),
    ('start: ("<" | "<=" | NAME)*\nNAME: /\\w+/\n%ignore " "', ["a <= b", "a<b", "< =", "a  b"]),
    ('start: (NAME | "foo")*\nNAME: /[a-z]+/\n%ignore "foo"', ["foo", "foox", "x", "xfoo"]),
    ('start: (NAME | "if")*\nNAME: /[a-z]+/\n%ignore NAME', ["if", "x", "ifx"]),
    ('start: (A | B | "if")*\nA: /[a-i]+/\nB: /[f-z]+/', ["if", "f", "fz", "ai", "ifz"]),
    ("start: (C | W)*\nC: /\\/\\*.*?\\*\\//s\nW: /[a-z]+/\n%ignore /\\s+/",
     ["/* a */ b */", "a/**/b", "/* a", "/*/ x */"]),
    ('%import common (ESCAPED_STRING, SIGNED_NUMBER, WS)\nstart: (ESCAPED_STRING | SIGNED_NUMBER | "-")*\n%ignore WS',
     ['"a" -1.5e3', '"a\\"b"', '"\\\\" "', "- 1", "1-1", '""""']),
    ('start: (A | B)*\nA.1: /x+?/\nB: /x+/', ["xxx", "x"]),
    ('start: (A | B)*\nA: "é"\nB: /[^\\W\\d_]+/', ["é", "éa", "ß"]),
    ('start: ("k"i | /[a-z]/i)*', ["k", "K", "\u212a", "a", "\u017f"]),
    ('start: X*\nX: "a".."c" "1".."3"', ["a1b2", "a4", "c3"]),
    ('start: (WORD | NUM)*\nWORD: /\\w+\\b/\nNUM: /[0-9]+(?![0-9])/', ["ab", "12", "a1"]),
    ("start: (N | /[e_]/)*\nN: /[0-9]+(\\.[0-9]+)?(e[0-9]+)?(?![0-9e_])/", ["12.5", "12.", "1e5", "1.5e5.5"]),
    ("start: (IF | NAME)*\nIF.1: /if\\b/\nNAME: /\\w+/", ["if", "ifs", "if1", "xif"]),
    ('start: (IF | NAME | "!")*\nIF.1: /(if|else)\\b/\nNAME: /\\w+/', ["if!", "else", "elsei!", "ifelse"]),
    ("start: (L | /\\n/)*\nL: /#.*$/m", ["#a\n#b", "#", "#a"]),
    ('start: a\na: a "x"\nb: "y" b | "z"\nc: ("w" c)*', ["x", "y", "z", "w"]),  # which terminals are kept
    ('start: ("x" "y"~0)*', ["xy", "x"]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "texts"), CASES)
def test_ordered_is_lark(grammar: str, texts: list[str]) -> None:
    basic = Basic(grammar)
    lexer = read_lark(grammar, lexer="ordered").lexer
    assert lexer is not None
    assert lexer.rule == "ordered"
    for text in texts:
        assert ours(lexer, text) == basic.tokens(text), text


PATTERNS = [
    "/[a-c]+/", "/a|ab/", "/ab|a/", "/a+?/", "/(a|b)*?c/", "/a?(ab)?c/", "/[^b]/", "/b[ac]?/i", "/(?:a|ab)(?:c|bc)?/",
    "/a(?!b)/", "/c\\b/", "/[ab]+(?![ab])/", "/A/i", '"a"', '"b"', '"ab"', '"abc"', '"c"i', '"AB"i', '"ca"', '"bb"',
]  # fmt: skip


@st.composite
def grammars(draw: st.DrawFn) -> str:
    patterns = draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=5, unique=True))
    lines, used = [], []
    for number, pattern in enumerate(patterns):
        name = f"T{number}"
        kind = draw(st.integers(0, 5))
        if kind == 0:
            used.append(pattern)
            continue
        priority = draw(st.sampled_from(["", "", "", ".1", ".-1"]))
        lines.append(f"{name}{priority}: {pattern}")
        if kind == 1:
            lines.append(f"%ignore {name}")
        if kind > 1 or draw(st.booleans()):
            used.append(name)
    return "\n".join([f"start: ({' | '.join(used)})*" if used else 'start: "z"', *lines])


@settings(suppress_health_check=list(HealthCheck))
@given(grammars(), st.lists(st.text("abcABC", max_size=7), min_size=1, max_size=4))
def test_ordered_is_lark_on_random_grammars(grammar: str, texts: list[str]) -> None:
    try:
        basic = Basic(grammar)
    except (LarkError, AssertionError):
        assume(False)
    try:
        lexer = read_lark(grammar, lexer="ordered").lexer
    except GrammarUnsupported:
        assume(False)
    assert lexer is not None
    for text in texts:
        assert ours(lexer, text) == basic.tokens(text)


CODE = [
    "def f(x):\n  x+1 # hi\n",
    'x = "a\\"b" + \'\'\n',
    's = rb"""abc"""\n',
    "01",
    "0x1f + 1.5e3j",
    '"""abc"',
    'b"""abc"',
    "if x is not None: pass\n",
    "a<>b",
    '"" ""',
    "10_000 if y else 0",
    '"a\n"',
    "case match await",
    "10.5.6 1..2 0e0 007",
    "ﬁ",
]


@pytest.fixture(scope="module")
def python() -> tuple[Lexer, Basic]:
    lexer = read_lark(PYTHON, "file_input", lexer="ordered", indenter=PythonIndenter).lexer
    assert lexer is not None
    return lexer, Basic(PYTHON, "file_input", ("_NEWLINE",))


@pytest.mark.parametrize("text", CODE)
def test_python(python: tuple[Lexer, Basic], text: str) -> None:
    lexer, basic = python
    assert ours(lexer, text) == basic.tokens(text)


def test_lark_in_lark() -> None:
    grammar = (BUNDLED / "lark.lark").read_text(encoding="utf-8")
    lexer = read_lark(grammar, lexer="ordered").lexer
    assert lexer is not None
    basic = Basic(grammar)
    for line in grammar.split("\n")[:40]:
        assert ours(lexer, line) == basic.tokens(line)


# -- "longest"


def longest(grammar: str) -> Lexer:
    lexer = read_lark(grammar, lexer="longest").lexer
    assert lexer is not None
    assert lexer.scanners == ()
    return lexer


@pytest.mark.parametrize(
    ("grammar", "text", "found"),
    [
        ('start: ("if" | NAME)*\nNAME: /[a-z]+/', "ifx", [("NAME", "ifx")]),
        ('start: ("if" | NAME)*\nNAME: /[a-z]+/', "if", [("IF", "if")]),
        ('start: (IF | NAME)*\nIF: "if"\nNAME.1: /[a-z]+/', "if", [("NAME", "if")]),
        ("start: (A | B)*\nA: /a|ab/\nB: /b+/", "abb", [("A", "ab"), ("B", "b")]),
        ("start: (A | B)*\nA: /xy*/\nB: /x+/", "xxy", [("B", "xx"), None]),
        ("start: (C | W)*\nC: /\\/\\*.*?\\*\\//s\nW: /[a-z*\\/]/", "/**/*/", [("C", "/**/"), ("W", "*"), ("W", "/")]),
        ("start: (IF | NAME)*\nIF: /if\\b/\nNAME: /\\w+/", "if", [("NAME", "if")]),
        ("start: (IF | NAME)*\nIF.1: /if\\b/\nNAME: /\\w+/", "if", [("IF", "if")]),
        ("start: (IF | NAME)*\nIF.1: /if\\b/\nNAME: /\\w+/", "ifs", [("NAME", "ifs")]),
        ('start: IF "("\nIF: /if\\b/', "if(", [("IF", "if"), ("LPAR", "(")]),
        ('start: IF "("\nIF: /if\\b/', "ifs", [("not IF", "ifs")]),
    ],
)  # fmt: skip
def test_longest(grammar: str, text: str, found: list[tuple[str, str] | None]) -> None:
    lexer = longest(grammar)
    for expected in found:
        got = lexeme(lexer, text)
        assert got == expected
        text = text[len(got[1]) :] if got else ""


def test_best_first() -> None:
    lexer = longest('start: (A | "b" | /c/ | D | E)*\nA.1: /a+/\nD.1: "d"\nE: /e+/')
    assert [one.name for one in lexer.terminals] == ["D", "A", "B", "E", "__ANON_0"]


def test_terminals_have_places() -> None:
    source = 'start: NAME "("\n\nNAME: /[a-z]+/'
    places = {
        one.name: one.offset is not None and position_at(source, one.offset)
        for one in longest(source).terminals
    }
    assert places == {"NAME": (3, 1), "LPAR": (1, 13)}


# -- indentation


def test_indenter() -> None:
    grammar = read_lark(PYTHON, "file_input", lexer="ordered", indenter=PythonIndenter())
    assert grammar.lexer is not None
    found = grammar.lexer.indentation
    assert found is not None
    assert (found.newline, found.indent, found.dedent, found.tab_width) == (
        "_NEWLINE",
        "_INDENT",
        "_DEDENT",
        8,
    )
    assert found.open_brackets == ("LPAR", "LSQB", "LBRACE")
    assert not {"_INDENT", "_DEDENT"} & {one.name for one in grammar.lexer.terminals}  # they have no text
    assert read_lark(PYTHON, "file_input", lexer="ordered", indenter=found) == grammar


def test_brackets_that_are_not_there_are_left_out() -> None:
    text = 'start: (NAME | "(" | _NL _INDENT)*\nNAME: /[a-z]+/\n_NL: /\\n */\n%declare _INDENT _DEDENT'

    class Indenter(PythonIndenter):
        NL_type = "_NL"

    lexer = read_lark(text, lexer="longest", indenter=Indenter).lexer
    assert lexer is not None and lexer.indentation is not None
    assert lexer.indentation.open_brackets == ("LPAR",)
    assert lexer.indentation.close_brackets == ()
