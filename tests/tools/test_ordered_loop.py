"""The loop under temporal logic: the calls of a whole conversation satisfy it, against the preferences of the model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import OptionError, OutputInvalid, UnsatisfiableFormula
from structgen.formulas import all_of, parse
from structgen.tools import ToolCall, run_tools
from tests.oracles.scripted_model import BYTES, ScriptedModel
from tests.oracles.toy_model import ToyModel

from ..oracles.trace_semantics import on_stretch
from .scripted import call, scripted

Done = list[str]


def backup() -> str:
    """Save all files."""
    return "saved"


def delete() -> str:
    """Delete all files."""
    raise OSError("busy")


def report() -> str:
    """Say what was done."""
    return "reported"


TOOLS = [backup, delete, report]


def names(done: Any) -> Done:
    return [result.call.name for result in done.results]


def right(order: list[str], called: Done) -> bool:
    return on_stretch(all_of(map(parse, order)), [frozenset([name]) for name in called])


def test_a_call_that_is_forbidden_first_may_come_later() -> None:
    """The model writes `delete` each time; the name is as long as that of what must come before it."""
    model = ScriptedModel(call("delete"))
    done = run_tools(
        model, "Clean up.", TOOLS, order="!delete W backup", parallel=False, max_rounds=2, max_text=5
    )
    assert names(done) == ["backup", "delete"]
    assert isinstance(done.results[1].error, OSError)  # a call counts even if it failed
    assert "The calls keep this order: Not `delete` before `backup`." in done.messages[0]["content"]
    again = run_tools(
        scripted(call("delete"), "Done."), "Clean up.", TOOLS, order="!delete W backup", earlier=["backup"]
    )
    assert names(again) == ["delete"] and again.answer == "Done."


def test_calls_in_one_turn_are_in_order_too() -> None:
    both = call("delete") + "\n" + call("delete")
    done = run_tools(scripted(both, "Done."), "Clean up.", TOOLS, order="!delete W backup")
    assert names(done) == ["backup", "delete"] and len(done.rounds) == 2


def test_no_answer_before_the_order_holds() -> None:
    """A model that always wants to answer; what it says becomes the text before a call."""
    model = ScriptedModel("Done.")
    order = ["F backup", "G (backup -> X report)"]
    done = run_tools(model, "Go.", TOOLS, order=order, parallel=False, max_text=5, max_tokens=300, seed=3)
    assert right(order, names(done)) and names(done)
    assert done.answer == "Done." and not done.rounds[-1].turn.calls
    assert all(one.turn.calls for one in done.rounds[:-1])


@pytest.mark.parametrize("format", ["hermes", "pythonic", "llama3_json", "harmony"])
@pytest.mark.parametrize(
    "order",
    [["F report", "!delete W backup"], ["G (backup -> F delete)", "X true"], ["N !report", "G !backup"]],
)
def test_conversations_of_a_random_model_satisfy_the_order(format: str, order: list[str]) -> None:
    """Bounded rounds are taken into account: the order holds in the end."""
    model = ToyModel(BYTES, lambda tokens: np.full(257, 1 / 257))
    model.encode = lambda prompt: [0]  # type: ignore[assignment,method-assign]
    for seed in range(4):
        done = run_tools(
            model,
            "Go.",
            TOOLS,
            format=format,
            order=order,
            max_rounds=2,
            max_text=3,
            max_tokens=2000,
            seed=seed,
        )
        assert right(order, names(done)), names(done)
        assert not done.rounds[-1].turn.calls


@pytest.mark.parametrize("every", list(itertools.permutations(["backup", "delete", "report"])))
def test_the_last_rounds_make_the_calls_that_are_still_required(every: Done) -> None:
    order = [f"F {name}" for name in every]
    model = ScriptedModel(call(every[0]))
    done = run_tools(model, "Go.", TOOLS, order=order, parallel=False, max_rounds=3, max_text=0)
    assert sorted(names(done)) == sorted(every)


def test_too_few_rounds_are_an_error_before_anything_is_generated() -> None:
    model = ScriptedModel("Done.")
    order = ["F backup", "F delete", "F report"]
    with pytest.raises(
        UnsatisfiableFormula, match=r"needs at least 3 more calls, but only 2 can be made\n.*max_rounds"
    ):
        run_tools(model, "Go.", TOOLS, order=order, parallel=False, max_rounds=2)
    with pytest.raises(UnsatisfiableFormula, match="needs at least 3 more calls, but only 0 can be made"):
        run_tools(model, "Go.", TOOLS, order=order, max_rounds=0)
    with pytest.raises(UnsatisfiableFormula, match="no tool calls satisfy F backup; G !backup together"):
        run_tools(model, "Go.", TOOLS, order=["F backup", "G !backup"])
    with pytest.raises(OptionError, match="tool_choice is 'delete', but at first no call of it fits"):
        run_tools(model, "Go.", TOOLS, order="!delete W backup", tool_choice="delete")
    with pytest.raises(OptionError, match="earlier is .* without order"):
        run_tools(model, "Go.", TOOLS, earlier=[ToolCall("backup")])
    with pytest.raises(OptionError, match="earlier is 'backup', a str; it must be a list"):
        run_tools(model, "Go.", TOOLS, order="F backup", earlier="backup")
    assert not model.prompts


def test_an_answer_that_reads_as_a_forbidden_call_is_not_run() -> None:
    text = '{"name": "delete", "parameters": {}}'
    with pytest.raises(OutputInvalid, match="reads as a call that violates the order '!delete W backup'"):
        run_tools(
            scripted(text),
            "Go.",
            TOOLS,
            format="llama3_json",
            order="!delete W backup",
            answer=sg.json_schema({"type": "object"}),
        )
    with pytest.raises(
        OutputInvalid, match="reads as a call"
    ):  # allowed before, but no round is left for its report
        run_tools(
            scripted(text),
            "Go.",
            TOOLS,
            format="llama3_json",
            order="G (delete -> X report)",
            answer=sg.json_schema({"type": "object"}),
            max_rounds=0,
        )
