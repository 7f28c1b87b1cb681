"""Lark grammars as a whole: they accept the texts that lark parses.

A slow recogniser (tests/oracles/lark_parser.py) reads the grammar that our reader returns.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lark.exceptions import LarkError
from lark.load_grammar import load_grammar

from structgen.constraints.grammar.lark.reader import read_lark
from structgen.errors import GrammarUnsupported
from structgen.ir.grammar import Grammar
from tests.oracles.lark_parser import covers, parser, parses, takes
from tests.strategies.lark_grammars import grammars

CASES = [
    ('start: "a" ["b"] ["c"]', ["a", "ab", "ac", "abc", "acb", ""]),
    ('start: x ~ 2..3 "!"\nx: "a" | "b" x', ["aa!", "a!", "baa!", "aaaa!", "bbaba!"]),
    ('start: (a | b)* -> foo\n?a: "x"\n_b: "y"\nb: _b | ', ["", "x", "xyx", "yy", "z"]),
    ('start: pair{NUMBER, ","}\npair{x, sep}: x sep x\nNUMBER: /[0-9]+/\n%ignore " "', ["1,2", "1 , 2", "12", "1,"]),
    ('start: list{item}\nlist{x}: "[" [x ("," x)*] "]"\nitem: "a" | list{item}',
     ["[]", "[a,a]", "[[a],[]]", "[a", "[,]"]),
    ('%import common (INT, WS)\n%ignore WS\nstart: sum\nsum: product | sum "+" product\n'
     'product: atom | product "*" atom\natom: INT | "(" sum ")"', ["1+2*3", "(1 + 2) * 3", "1+", "12 3", "((4))"]),
    ("%import common.INT\nstart: IF INT ELSE? INT\nIF: /if\\b/\nELSE: /else(?![a-z0-9])/\n%ignore /\\s/",
     ["if 1 else 2", "if1 2", "if 1 else2", "if 1 2"]),
    ('start: value\n?value: dict | list | STRING | NUMBER | "true" -> t | "null" -> n\n'
     'list: "[" [value ("," value)*] "]"\ndict: "{" [pair ("," pair)*] "}"\npair: STRING ":" value\n'
     "%import common.ESCAPED_STRING -> STRING\n%import common.SIGNED_NUMBER -> NUMBER\n"
     "%import common.WS\n%ignore WS",
     ['{"a": [1, -2.5e3, true]}', "[null, {}]", '{"a" 1}', "[1,]", "nulll", "tru"]),
    ('start: "x"~0..60 "y"~51', ["y" * 51, "x" + "y" * 51, "y"]),
    ("start: NAME | G\nNAME: /[a-c]+/\nG: /a+(!a+)*\\b/", ["ab", "a", "ba", "aab", "a!a", "a!ab", "aa!", "a!"]),
    ('start: A\nA: B~2 C?\nB: "b"\nC: "c"\n%extend B: "d"', ["bb", "bdc", "b", "ddcc"]),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "texts"), CASES)
def test_is_what_lark_parses(grammar: str, texts: list[str]) -> None:
    ours = read_lark(grammar, lexer="ordered")
    for text in texts:
        assert takes(ours, text) == parses(grammar, text), text


@settings(suppress_health_check=list(HealthCheck))
@given(grammars(), st.lists(st.text("aabbc! ", max_size=8), min_size=1, max_size=6))
def test_is_what_lark_parses_for_random_grammars(grammar: str, texts: list[str]) -> None:
    try:
        ours = read_lark(grammar, lexer="ordered")
    except GrammarUnsupported:
        assume(False)
    try:
        parser(grammar)
    except LarkError:
        assume(False)  # lark refuses equal alternatives, which is not necessary here
    for text in texts:
        assert takes(ours, text) == parses(grammar, text)


def longest(patterns: dict[str, str], ours: Grammar, text: str) -> list[str] | None:
    """Return the terminals of lexemes by rule "longest", with Python's `re`, whose look-ahead sees the whole text."""
    assert ours.lexer is not None
    order = [one.name for one in ours.lexer.terminals if one.name in patterns]
    kinds: list[str] = []
    while text:
        found = [
            (length, name)
            for length in range(len(text), 0, -1)
            for name in order
            if re.match(f"(?:{patterns[name]})(?=(?s:.{{{len(text) - length}}})\\Z)", text)
        ]
        if not found:
            return None
        text = text[found[0][0] :]
        kinds.append(found[0][1])
    return [name for name in kinds if name not in ours.lexer.ignore]


@settings(suppress_health_check=list(HealthCheck))
@given(grammars(), st.lists(st.text("aabbc! ", max_size=8), min_size=1, max_size=6))
def test_longest_for_random_grammars(grammar: str, texts: list[str]) -> None:
    assume("?b" not in grammar and "?c" not in grammar)  # lazy quantifiers depend on the preference of re
    try:
        ours = read_lark(grammar, lexer="longest")
    except GrammarUnsupported:
        assume(False)
    try:
        terminals, _, _ = load_grammar(grammar, "<string>", [], False)[0].compile(["start"], set())
    except LarkError:
        assume(False)
    patterns = {one.name: one.pattern.to_regexp() for one in terminals}
    for text in texts:
        kinds = longest(patterns, ours, text)
        assert takes(ours, text) == (kinds is not None and covers(ours, kinds))
