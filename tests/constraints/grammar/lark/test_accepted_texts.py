"""Lark grammars as a whole: they accept the texts that lark parses.

The recogniser here is a slow twin: it computes the spans of lexemes that each rule may cover, as a fixed point.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.common import LexerConf
from lark.exceptions import LarkError, UnexpectedInput
from lark.lexer import BasicLexer
from lark.load_grammar import load_grammar

from structgen.constraints.grammar.lark.reader import read_lark
from structgen.errors import GrammarUnsupported
from structgen.ir.grammar import Body, Grammar
from tests.oracles.slow_lexer import lexemes, significant

Span = tuple[int, int]


def takes(grammar: Grammar, text: str) -> bool:
    """Return whether a text is one of the grammar."""
    assert grammar.lexer is not None
    found = lexemes(grammar.lexer, text)
    if found is None:
        return False
    return covers(grammar, [name for name, _ in significant(grammar.lexer, found)])


def covers(grammar: Grammar, kinds: list[str]) -> bool:
    """Return whether lexemes of these terminals form a text."""
    bodies = {rule.name: rule.body for rule in grammar.rules}
    known: dict[str, frozenset[Span]] = dict.fromkeys(bodies, frozenset())
    while True:
        now = {name: spans(body, kinds, known) for name, body in bodies.items()}
        if now == known:
            return (0, len(kinds)) in known[grammar.start]
        known = now


def spans(body: Body, kinds: list[str], known: dict[str, frozenset[Span]]) -> frozenset[Span]:
    kind = body[0]
    empty = frozenset((place, place) for place in range(len(kinds) + 1))
    if kind == "rule":
        return known[body[1]]
    if kind == "terminal":
        return frozenset((place, place + 1) for place, name in enumerate(kinds) if name == body[1])
    if kind == "choice":
        return frozenset[Span]().union(*(spans(part, kinds, known) for part in body[1]))
    if kind == "sequence":
        result = empty
        for part in body[1]:
            result = joined(result, spans(part, kinds, known))
        return result
    assert kind == "repeat"
    _, inner, low, high = body
    once = spans(inner, kinds, known)
    least = empty
    for _ in range(low):
        least = joined(least, once)
    result, more = least, least
    for _ in range(len(kinds) + 1 if high is None else high - low):
        more = joined(more, once)
        result |= more
    return result


def joined(left: frozenset[Span], right: frozenset[Span]) -> frozenset[Span]:
    return frozenset((a, d) for a, b in left for c, d in right if b == c)


class Basic(BasicLexer):
    """Return lark's basic lexer without its search for collisions, which is slow and fails on some patterns."""

    __future_interface__ = 2  # lark's name for a lexer that it need not wrap

    def __init__(self, conf: LexerConf) -> None:
        conf.skip_validation = True
        super().__init__(conf)


@cache
def parser(grammar: str) -> Lark:
    return Lark(grammar, parser="earley", lexer=Basic)


def parses(grammar: str, text: str) -> bool:
    try:
        parser(grammar).parse(text)
    except UnexpectedInput:
        return False
    return True


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


TERMINALS = [
    "NAME: /[a-c]+/", "A: /a(?!b)/", "B: /b\\b/", 'C: "c"', "AB.1: /ab?(?![ab])/", "L: /b.*?c/", 'N: "a"i "b"?',
    "S: /b(?!bb).*?b/", "LS: /bbb.*?bbb/", "O: /c|ca/", "G: /a+(!a+)*\\b/", "E: /c(a|b!)?(?![ab])/",
]  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    kind = draw(st.integers(0, 7 if depth else 3))
    if kind <= 3:
        return draw(st.sampled_from(names))
    inner = [draw(bodies(names, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    if kind == 4:
        return f"({' | '.join(inner)})"
    if kind == 5:
        return f"[{' '.join(inner)}]"
    if kind == 6:
        return f"({' '.join(inner)}){draw(st.sampled_from(['*', '+', '?', '~2', '~0..2', '~1..2']))}"
    return f"({' '.join(inner)})"


@st.composite
def grammars(draw: st.DrawFn) -> str:
    terminals = draw(st.lists(st.sampled_from(TERMINALS), min_size=1, max_size=4, unique=True))
    names = [line.split(":")[0].split(".")[0] for line in terminals] + ['"!"', '"c"']
    rules = draw(st.lists(st.sampled_from(["start", "r"]), min_size=1, max_size=2, unique=True))
    rules = ["start", *(name for name in rules if name != "start")]
    lines = [
        f"{rule}: {' | '.join(draw(bodies(names + rules[1:])) for _ in range(draw(st.integers(1, 2))))}"
        for rule in rules
    ]
    ignored = draw(st.sampled_from(["", '%ignore " "', "%ignore /c /"]))
    return "\n".join([*lines, *terminals, ignored])


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
