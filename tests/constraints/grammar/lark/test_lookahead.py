"""Terminals with look-ahead, against lark's basic lexer and its Earley parser."""

from __future__ import annotations

import itertools
import random

import pytest
from lark import Lark
from lark.exceptions import LarkError

import structgen as sg
from structgen.errors import EmptyConstraint, GrammarError
from tests.constraints.grammar.lark.accepting import takes

QUOTED = r"""
start: item ("+" item)*
item: NAME | string
string: STRING | LONG_STRING
NAME: /[u-x]+/
COMMENT: LONG_STRING
STRING: /u?("(?!"").*?"|'(?!'').*?')/is
LONG_STRING: /u?(\"\"\".*?\"\"\"|'''.*?''')/is
%ignore COMMENT
"""


def lark_takes(parser: Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except LarkError:
        return False
    return True


def test_python_strings() -> None:
    """A prefix such as u is a name if no string follows; a name cannot be directly before a string."""
    parser, grammar = Lark(QUOTED, parser="earley", lexer="basic"), sg.lark(QUOTED)
    words = [*itertools.chain(*(itertools.product('u"x', repeat=n) for n in range(1, 6)))]
    texts = ["".join(word) for word in words]
    texts += [
        'u"""x"""',
        'x"""x"""',
        'u"" ""',
        '"""x"""+u',
        'u"x"+u""',
        'u""""""',
        "u'''\"'''+x",
        '"x""x"',
        'u"""x',
        '""""""x',
    ]
    for text in texts:
        assert takes(grammar, text) == lark_takes(parser, text), text


PATTERNS = [
    "/a(?!b)/", "/ab?(?!c)/", "/a+(?!a)/", "/[ab]+(?!c)/", "/c(?!aa?)/", "/b/", "/[bc]/", "/ab+/", "/a*c/",
    '"a"', '"bc"', "/abc?/", "/b(?!b)b?/", "/(a|b)(?![bc])/", "/c+/",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(120))
def test_random_grammars(seed: int) -> None:
    draw = random.Random(seed)
    names = "ABCD"[: draw.randint(2, 4)]
    lines = [f"{name}: {draw.choice(PATTERNS)}" for name in names]
    if draw.random() < 0.4:
        lines.append(f"%ignore {draw.choice(names)}")
    used = "".join(
        draw.choice(names) + draw.choice(["", "", "*", "+", "?"]) + " " for _ in range(draw.randint(1, 4))
    )
    source = "\n".join([f"start: {used}", *lines])
    try:
        grammar = sg.lark(source)
    except GrammarError:
        return
    parser = Lark(source, parser="earley", lexer="basic")
    for text in map("".join, itertools.chain(*(itertools.product("abc", repeat=n) for n in range(1, 6)))):
        try:
            found = takes(grammar, text)
        except EmptyConstraint:
            found = False
        assert found == lark_takes(parser, text), (text, source)
