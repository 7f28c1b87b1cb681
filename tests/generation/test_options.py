"""Options that are nearly right, or have the names of other libraries, lead to the name that they have here."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen.diffusion.options import DecodingOptions
from structgen.errors import OptionError, did_you_mean
from structgen.generation.options import ALIASES, OPTION_NAMES, make_options
from tests.oracles.scripted_model import ScriptedModel

MODEL = ScriptedModel("ab")


def hint_of(call: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(OptionError) as caught:
        call(*args, **options)
    return caught.value.hint or ""


@pytest.mark.parametrize(
    ("theirs", "ours"),
    {
        "max_new_tokens": "Did you mean max_tokens?",
        "max_length": "Did you mean max_tokens?",
        "maxTokens": "Did you mean max_tokens?",
        "temp": "Did you mean temperature?",
        "tempreature": "Did you mean temperature?",
        "topk": "Did you mean top_k?",
        "topP": "Did you mean top_p?",
        "random_state": "Did you mean seed?",
        "num_return_sequences": "n=3",
        "do_sample": "temperature=0",
        "stop": "structgen.text(",
        "stop_sequences": "structgen.text(",
        "num_beams": "structgen.inference.beam(",
        "logits_processor": "structgen.models.with_processors(",
        "repeat_penalty": "Did you mean repetition_penalty?",
        "response_model": "third argument",
        "zzzz": "",
    }.items(),
)
def test_sampling_options(theirs: str, ours: str) -> None:
    for call, args in ((sg.generate, (MODEL, "x", int)), (sg.run, (MODEL, "x", int)), (sg.prompt, (MODEL,))):
        hint = hint_of(call, *args, **{theirs: 1})
        assert (ours in hint) if ours else not hint


def test_what_other_libraries_write_leads_to_what_there_is() -> None:
    for alias, target in ALIASES.items():
        assert " " in target or target in OPTION_NAMES, alias
        assert alias == alias.lower() and "_" not in alias


def test_other_calls_with_options() -> None:
    assert hint_of(sg.inference.beam, MODEL, "x", int, num_beams=3) == "Did you mean width?"
    assert hint_of(sg.sample, MODEL, "x", int, num_samples=3) == "Did you mean n?"
    assert hint_of(sg.sample, MODEL, "x", int, max_new_tokens=3) == "Did you mean max_tokens?"
    assert hint_of(sg.json_schema, {}, strict=True) == "Did you mean closed?"
    assert hint_of(sg.json_schema, {}, whitspace="compact") == "Did you mean whitespace?"
    assert "Did you mean tables?" in hint_of(sg.grammar, "sql", table=["a"])
    assert hint_of(sg.Vocabulary.of_bytes().with_limits, max_dept=3) == "Did you mean max_depth?"
    assert hint_of(DecodingOptions.of, {"temprature": 1}) == "Did you mean temperature?"
    assert hint_of(make_options, {"max_token": 1}) == "Did you mean max_tokens?"


def test_names_are_compared_without_case_and_dashes() -> None:
    assert did_you_mean("Top-K", ["top_k"]) == "Did you mean top_k?"
    assert did_you_mean("x" * 10_000, ["top_k"]) is None
    assert did_you_mean(5, ["top_k"]) is None
