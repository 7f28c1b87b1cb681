"""Reasoning before an answer: the constraint, and `read`."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.constraints.composition import reasoning, special
from structgen.errors import ConstraintError, OptionError, OutputInvalid

from .small import accepted

_SINGLE = [bytes([byte]) for byte in range(256)]
BYTES = sg.Vocabulary.from_tokens([*_SINGLE, None], [256])
MARKED = sg.Vocabulary.from_tokens(
    [*_SINGLE, None, None, None], [256], specials={"<think>": 257, "</think>": 258}
)
ANSWER = sg.json_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def fits(constraint: sg.Constraint, text: str) -> bool:
    return accepted(constraint, BYTES, list(text.encode()))


def test_reasoning_then_a_schema() -> None:
    made = reasoning(ANSWER, max_chars=20)
    assert fits(made, '<think>So 1 + 1.</think>\n\n{"n": 2}')
    assert fits(made, '<think></think>{"n": 2}')
    assert not fits(made, "<think>" + "a" * 21 + '</think>{"n": 2}')
    assert not fits(made, '{"n": 2}')
    assert not fits(made, '<think>a</think></think>{"n": 2}')
    assert not fits(made, '<think>a</think>\n\n\n{"n": 2}')
    assert made.read('<think>So.</think>\n\n{"n": 2}') == ("So.", '{"n": 2}')


def test_markers_that_are_tokens() -> None:
    made = reasoning(ANSWER)
    ids = [257, *b"hm </thin", 258, *b'{"n": 2}']
    assert accepted(made, MARKED, ids)
    assert not accepted(made, MARKED, list(b'<think>hm</think>{"n": 2}'))
    assert made.read(MARKED.spelled(ids)) == ("hm </thin", '{"n": 2}')


def test_a_prompt_that_ends_with_the_marker() -> None:
    made = reasoning("yes", open=None, close=special("</think>"))
    assert fits(made, "hm</think>yes") and not fits(made, "hm yes")
    assert made.read("hm</think>\nyes") == ("hm", "yes")


def test_a_marker_that_overlaps_itself() -> None:
    made = reasoning(sg.text(), open="<", close="aa")
    assert fits(made, "<baa") and fits(made, "<aab")
    assert made.read("<aaab") == ("", "ab")
    assert fits(reasoning("b", open="<", close="aa"), "<aab") and not fits(
        reasoning("b", open="<", close="aa"), "<aaab"
    )


def test_optional_reasoning() -> None:
    made = reasoning(sg.text(), optional=True)
    assert fits(made, "at once") and fits(made, "<think>hm</think>then") and not fits(made, "<think>hm")
    assert made.read("at once") == (None, "at once")
    assert made.read("<think>hm</think>then") == ("hm", "then")


def test_texts_and_options_that_do_not_fit() -> None:
    with pytest.raises(OutputInvalid, match="does not begin with '<think>'"):
        reasoning("yes").read("yes")
    with pytest.raises(OutputInvalid, match="does not end with '</think>'"):
        reasoning("yes").read("<think>hm")
    with pytest.raises(OptionError, match="cannot be optional"):
        reasoning("yes", open=None, optional=True)
    with pytest.raises(OptionError, match="max_chars is -1"):
        reasoning("yes", max_chars=-1)
    with pytest.raises(ConstraintError, match="empty text"):
        reasoning("yes", close="")
