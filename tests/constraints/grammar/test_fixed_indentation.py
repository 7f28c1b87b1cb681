"""Grammars with a fixed unit of indentation, against the grammar itself and a check of the columns."""

from __future__ import annotations

import ast
import itertools
import re

import pytest
from lark.indenter import Indenter

import structgen as sg
from structgen.errors import CombinationError, EmptyConstraint, OptionError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], [256])


class Lines(Indenter):
    NL_type = "_NL"
    OPEN_PAREN_types = ["LPAR"]  # noqa: RUF012
    CLOSE_PAREN_types = ["RPAR"]  # noqa: RUF012
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8


TOY = sg.lark(
    r"""
start: _NL? (statement+ "a"?)?
statement: simple _NL | "b" _NL _INDENT statement+ _DEDENT
simple: "a" | LPAR simple? RPAR
LPAR: "("
RPAR: ")"
_NL: /(\n *)+/
%declare _INDENT _DEDENT
%ignore /\\\n/
%ignore " "
""",
    lexer="longest",
    indenter=Lines(),
)


def accepts(constraint: sg.Constraint, text: str) -> bool:
    return Matcher(constraint, VOCABULARY).native.next_bytes(text.encode())[1]


def is_canonical(text: str, unit: str) -> bool:
    """Return whether each block starts one unit to the right of the block around it."""
    levels, brackets, started = [0], 0, False
    for line in text.split("\n"):
        columns = len(line) - len(line.lstrip(" "))
        if brackets == 0 and started and line.strip(" "):
            while columns < levels[-1]:
                levels.pop()
            if columns > levels[-1]:
                levels.append(columns)
            if columns != len(unit) * (len(levels) - 1):
                return False
        started = True
        brackets += line.count("(") - line.count(")")
    last = text.rsplit("\n", 1)[-1]
    return bool(last.strip(" ")) or not last  # blanks alone at the end are left out


@pytest.mark.parametrize("unit", [" ", "  "])
def test_texts_are_those_of_the_grammar_with_such_columns(unit: str) -> None:
    indented = Matcher(TOY.indented_by(unit, deepest=9), VOCABULARY).native
    free = Matcher(TOY, VOCABULARY).native
    started = [""]
    found = 0
    for _ in range(9):
        longer = []
        for text, letter in itertools.product(started, "ab()\n "):
            whole = text + letter
            if re.search(r"^ ", whole):
                continue  # blanks before the first line are ignored text
            right = free.next_bytes(whole.encode())[1] and is_canonical(whole, unit)
            if "\n\\" not in whole:
                assert indented.next_bytes(whole.encode())[1] == right, repr(whole)
            found += right
            if free.viable_bytes(whole.encode()) == len(whole):
                longer.append(whole)
        started = longer
    assert found > 300


def test_blocks_are_not_nested_deeper_than_allowed() -> None:
    nested = "b\n b\n  b\n   a\n"
    assert accepts(TOY.indented_by(" ", deepest=3), nested)
    assert not accepts(TOY.indented_by(" ", deepest=2), nested)


def test_a_line_does_not_begin_with_a_backslash() -> None:
    """A lexer that ignores joined lines accepts it, Python does not."""
    assert accepts(TOY, "a\n\\\na\n") and not accepts(TOY.indented_by(" "), "a\n\\\na\n")
    assert accepts(TOY.indented_by(" "), "( \\\n a)\n")


def test_python_in_blocks_of_four() -> None:
    python = sg.grammar("python").indented_by("    ")
    texts = [
        "x = 1",
        "def f(a, *, b=2):\n    if a:\n        return (a,\n  b)\n    # why\n\n    return {\n}\n",
        "class A:\n    x: int\n\n    @staticmethod\n    def f(): pass\n",
        "match x:\n    case [1, *_]:\n        pass\n    case _:\n        y = '''\n  a'''\n",
        "try:\n    a\nexcept* B as e:\n    raise\nelse: b\nfinally:\n    if a: c",
    ]
    for text in texts:
        ast.parse(text)
        assert accepts(python, text), text
        assert not accepts(python, text.replace("\n    ", "\n   ")) or "\n    " not in text
    for text in ["if a:\n", "def f():\nreturn", "x = (\n", "a\n    b\n", "if a:\n        b\n"]:
        assert not accepts(python, text), text


def test_a_part_of_what_is_indented_begins_at_a_column() -> None:
    part = sg.grammar("python").indented_by("  ", before="    ")
    assert accepts(
        "def f():\n    " + part + "\n    return y", "def f():\n    if a:\n      b\n    c\n    return y"
    )
    assert not accepts(
        "def f():\n    " + part + "\n    return y", "def f():\n    if a:\n        b\n    return y"
    )


def test_it_can_be_intersected_with_a_regular_expression() -> None:
    template = sg.regex(r"while [^\x00]*:\n        [^\x00]*\n    return a\n")
    whole = sg.regex(r"def f\(a\):\n    ") + template
    joined = sg.grammar("python").indented_by("    ", deepest=4) & whole
    matcher = Matcher(joined, VOCABULARY)
    assert matcher.viable_bytes("def f(a):\n    while (a") > 20
    # The text after the hole cannot follow an open bracket or string that nothing closes.
    for hole, right in [
        ("g(", False),
        ("'''", False),
        ("g()", True),
        ("if b", False),
        ("if b:\n            c", True),
    ]:
        assert accepts(joined, f"def f(a):\n    while a:\n        {hole}\n    return a\n") == right
    for started in [
        "def f(a):\n    while g(",
        "def f(a):\n    while a:\n        '''",
        "def f(a):\n    while a:\n        if b",
    ]:
        reading = matcher.fork()
        for byte in started.encode():
            assert reading.advance(byte)
        rest = reading.witness_text()
        assert rest is not None
        text = started + rest.decode()
        ast.parse(text)
        assert text.endswith("\n    return a\n")
    assert matcher.unproven == 0
    with pytest.raises(EmptyConstraint):
        Matcher(sg.grammar("python").indented_by() & sg.regex("if a:\n  b"), VOCABULARY)


def test_bad_input() -> None:
    with pytest.raises(OptionError, match="reads no indentation"):
        sg.grammar("sql").indented_by()  # type: ignore[attr-defined]
    for unit, options, said in (
        ("", {}, "unit is"),
        ("x", {}, "unit is"),
        (" ", {"deepest": -1}, "deepest is -1"),
        (" ", {"deepest": 1000}, "deepest is 1000"),
        (" ", {"before": "x"}, "before is"),
    ):
        with pytest.raises(OptionError, match=said):
            TOY.indented_by(unit, **options)  # type: ignore[arg-type]
    unbalanced = sg.lark(
        'start: open "a" RPAR _NL (_INDENT start _DEDENT)?\nopen: LPAR\nLPAR: "("\nRPAR: ")"\n_NL: /\\n */\n'
        "%declare _INDENT _DEDENT",
        lexer="longest",
        indenter=Lines(),
    )
    with pytest.raises(CombinationError, match="without its counterpart"):
        unbalanced.indented_by()
