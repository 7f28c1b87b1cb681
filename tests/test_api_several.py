"""``n=``: several values of one prompt, each with a seed of its own."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen.api import several
from structgen.errors import OptionError, Truncated
from structgen.generation import SamplingOptions
from tests.oracles.scripted_model import ScriptedModel

MODEL = ScriptedModel("ab")
WORD = sg.regex("[a-z]{2,4}")


def test_value_i_has_the_seed_and_i() -> None:
    values = sg.generate(MODEL, "x", WORD, n=4, seed=7, temperature=20.0)
    assert values == [sg.generate(MODEL, "x", WORD, seed=(7, i), temperature=20.0) for i in range(4)]
    assert len(set(values)) > 1
    several = sg.generate(MODEL, "x", WORD, n=2, seed=(7, 1), temperature=20.0)
    assert several == [sg.generate(MODEL, "x", WORD, seed=(7, 1, i), temperature=20.0) for i in range(2)]


def test_results_of_a_run() -> None:
    results = sg.run(MODEL, "x", WORD, n=3, seed=1)
    assert [type(one) for one in results] == [sg.Result] * 3
    assert sg.run(MODEL, "x", WORD, n=1)[0].value == "ab"
    assert isinstance(sg.run(MODEL, "x", WORD), sg.Result)


def test_several_values_are_drawn_at_random_by_default() -> None:
    assert [one.temperature for one in several(SamplingOptions(), 2)] == [1.0, 1.0]
    assert several(SamplingOptions(), 1) == several(SamplingOptions(), None) == [SamplingOptions()]
    assert [one.temperature for one in several(SamplingOptions(top_k=2), 2)] == [None, None]
    greedy = sg.generate(MODEL, "x", WORD, n=3, temperature=0)
    assert greedy == ["ab"] * 3
    assert sg.generate(MODEL, "x", WORD, n=1) == ["ab"]


def test_an_error_has_the_other_values() -> None:
    with pytest.raises(Truncated, match="item 0 of 2") as caught:
        sg.generate(MODEL, "x", sg.regex("a(b{0,5}c)?d*"), n=2, max_tokens=1, temperature=0)
    assert caught.value.item == 0 and len(caught.value.results or ()) == 2


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3"])
def test_wrong_numbers(n: Any) -> None:
    with pytest.raises(OptionError, match="number of values"):
        sg.generate(MODEL, "x", WORD, n=n)


def test_a_stream_is_of_one() -> None:
    with pytest.raises(OptionError, match="takes no n"):
        next(sg.stream(MODEL, "x", WORD, n=2))
