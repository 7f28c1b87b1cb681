"""Grammars that are passed to the reader of another notation: the error names the right one."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.errors import GrammarError, GrammarSyntaxError


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ('root ::= "a" b\nb ::= [0-9]+\n', (1, 6, 3)),
        ('# a comment\n\nroot::="a"', (3, 5, 3)),
        ('root ::= [^"\\\\]*', (1, 6, 3)),  # ends in the middle of a text, as Lark reads it
        ('<a> ::= <b> | "c"', (1, 5, 3)),
        ('  item-1 ::= "é"', (1, 10, 3)),
    ],
)
def test_gbnf_that_is_read_as_lark(source: str, place: tuple[int, int, int]) -> None:
    with pytest.raises(GrammarSyntaxError, match="looks like GBNF or EBNF") as caught:
        sg.lark(source)
    error = caught.value
    assert (error.line, error.column, error.length) == place
    assert "sg.gbnf" in str(error) and "sg.ebnf" in str(error)


@pytest.mark.parametrize("read", [sg.gbnf, sg.ebnf])
@pytest.mark.parametrize(
    ("source", "place"),
    [
        ('start: "a" NAME\nNAME: /[a-z]+/\n%ignore " "', (1, 6, 1)),
        ('// a comment\n?start: "a"', (2, 7, 1)),
        ("%import common.WS\nstart: WS", (1, 1, 7)),
        ('start: X\nX.2: "x"', (1, 6, 1)),
        ('list{item}: item ("," item)*', (1, 11, 1)),
    ],
)
def test_lark_that_is_read_as_gbnf_or_ebnf(read: object, source: str, place: tuple[int, int, int]) -> None:
    assert callable(read)
    with pytest.raises(GrammarSyntaxError, match="looks like a Lark grammar") as caught:
        read(source)
    error = caught.value
    assert (error.line, error.column, error.length) == place
    assert "sg.lark" in str(error)


def test_mistakes_in_the_right_notation_stay_as_they_are() -> None:
    for read, source, message in (
        (sg.lark, 'start: "a"\nroot ::= "a"', "must be written as _"),
        (sg.lark, 'start: "x ::= y', "this text is not closed"),
        (sg.lark, 'start: "a" // b ::= c\n  | d', "there is no rule d"),
        (sg.gbnf, 'root ::= "a" | x: y', "':' has no meaning here"),
        (sg.gbnf, 'root = "a"', "a rule must begin here"),
        (sg.ebnf, "", "there is no rule root"),
    ):
        with pytest.raises(GrammarError, match=message):
            read(source)
