"""Drawings of automata: their content, not their layout."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.formulas import Formula, automaton, parse
from structgen.formulas.automaton import Alphabet
from tests.strategies.formulas import ATOMS, formulas


def test_as_text() -> None:
    text = automaton("!b W a").dot()
    assert "start -> 0;" in text and "0 [shape = circle];" in text and "doublecircle" in text
    assert '0 -> 3 [label = "else, not b"];' in text and "2" not in re.findall(r"-> (\d+)", text)
    assert (
        "-> 2" in automaton("!b W a").dot(dead=True) and automaton("!b W a").dot(dead=True).count("->") == 9
    )
    assert 'label = "\\"pick up\\""' in automaton('F "pick up"').dot()


@settings(max_examples=100, deadline=None)
@given(formulas(ATOMS, leaves=5), st.sampled_from(["propositional"]))
def test_edges_are_what_the_automaton_does(formula: Formula, alphabet: Alphabet) -> None:
    found = automaton(formula, alphabet=alphabet, atoms=ATOMS)
    drawn = re.findall(r'(\d+) -> (\d+) \[label = "([^"]*)"\]', found.dot(dead=True))
    for state, there, label in drawn:
        if label.endswith("..."):
            continue
        guard = automaton(parse(label), alphabet="propositional", atoms=ATOMS)
        for letter in ({"a"}, {"b", "c"}, set(), {"a", "b", "c"}):
            assert (found.step(int(state), letter) == int(there)) == guard.accepts([letter])


def test_drawn() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    axes = automaton("(!b W a) & G (a -> X F c)").plot()
    texts = {one.get_text() for one in axes.texts}
    assert {"0", "1", "a", "c"} <= texts
    pyplot.close(axes.figure)
