"""Formulas in English: the common shapes have their own sentences, everything else is word by word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from structgen.formulas import Formula, english
from tests.strategies.formulas import formulas


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("F a", "At some point `a`."),
        ("G !a", "Never `a`."),
        ("!F a", "Never `a`."),
        ("G a", "Always `a`."),
        ("!b W a", "Not `b` before `a`."),
        ("!b U a", "Not `b` before `a`, and at some point `a`."),
        ("G (a -> F b)", "Whenever `a`, then `b` at that point or later."),
        ("G (a -> X F b)", "Whenever `a`, later `b`."),
        ("G (a -> N G !b)", "Whenever `a`, never `b` after that."),
        ("F (a | b) & G !c", "At some point either `a` or `b`. Never `c`."),
        ("F (a & X b)", "At some point both `a` and (next `b`)."),
        ("a U b", "`a` until `b`, which comes."),
        ("G (a -> !b)", "Whenever `a`, not `b`."),
        ("last", "The end."),
    ],
)
def test_common_shapes(formula: str, text: str) -> None:
    assert english(formula) == text


@settings(max_examples=300, deadline=None)
@given(formulas())
def test_every_formula_can_be_said(formula: Formula) -> None:
    text = english(formula)
    assert text.endswith(".") and all(f"`{name}`" in text for name in formula.atoms)
