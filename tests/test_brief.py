"""The `repr` of public objects is short, however much they hold."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.brief import MOST, brief, cut
from structgen.models import DistributionModel
from structgen.tools import FORMATS, ToolCall, read_tools
from tests.oracles.scripted_model import BYTES, ScriptedModel

LONG = "word " * 400
MODEL = ScriptedModel("ab")


class Person(BaseModel):
    name: str
    tags: list[str]


def search(at: str) -> str:
    """Look somewhere."""
    return LONG


@sg.prompt(MODEL)
def ask(text: str) -> Person:
    """{{ text }}"""


def made() -> dict[str, Any]:
    """Return public objects that hold much data."""
    vocabulary = sg.Vocabulary.of_bytes()
    alternatives = sg.choice([f"option number {i}" for i in range(300)])
    talking = ScriptedModel(LONG.strip())
    conversation = sg.run_tools(talking, LONG, [search], max_text=2_000, max_tokens=2_100)
    written = sg.run(talking, LONG, str, max_tokens=2_100)
    known = DistributionModel(BYTES, lambda tokens: [1 / 257] * 257)
    posterior = sg.sample(known, LONG, sg.choice(["ab", LONG[:40]]), n=2)
    beams = sg.inference.beam(known, LONG, sg.choice(["ab", LONG[:40]]), width=2)
    action = sg.ltl.Action("go_" + LONG.replace(" ", "_"))
    matcher = sg.Matcher(alternatives, vocabulary)
    return {
        "vocabulary": vocabulary,
        "schema": sg.json_schema(Person.model_json_schema()),
        "regex": sg.regex(f"({LONG})?"),
        "choice": alternatives,
        "capture": sg.captures.Capture("value", LONG, 0, 9),
        "substring": sg.substring(LONG, by="words"),
        "lark": sg.grammar("sql"),
        "sequence": LONG + alternatives + sg.regex("a"),
        "alternatives": alternatives | sg.regex("a") | LONG,
        "literal": sg.text(LONG),
        "repeat": sg.repeat(alternatives, 2, 3),
        "optional": sg.optional(alternatives),
        "dispatch": sg.dispatch({"<a>": alternatives + "</a>"}),
        "forbid": sg.forbid(sg.text(), LONG),
        "reasoning": sg.reasoning(alternatives),
        "special": sg.special("<|im_end|>"),
        "tokens": sg.tokens(exclude=range(7)),
        "tools": sg.tools([search]),
        "matcher": matcher,
        "explanation": matcher.explain(LONG),
        "complete": matcher.explain("option number 3"),
        "report": sg.check(Person.model_json_schema()),
        "finding": sg.check(Person.model_json_schema()).findings[0],
        "conversation": conversation,
        "round": conversation.rounds[0],
        "turn": conversation.rounds[0].turn,
        "result": written,
        "failed": sg.run(talking, LONG, sg.regex("[a-z ]{300,}!"), max_tokens=400),
        "generation": written.generation,
        "timing": written.timing,
        "posterior": posterior,
        "account": posterior.account,
        "draw": posterior.draws[0],
        "merged": posterior.merged[0],
        "beams": beams,
        "beam": beams[0],
        "filling": sg.infill(known, LONG[:100] + "{{a}}", a=sg.choice(["ab", "b"])),
        "prompt function": ask,
        "output type": ask.output,
        "options": sg.SamplingOptions(),
        "speculation": sg.Speculation(),
        "whitespace": sg.Whitespace.indented(4),
        "samplers": [sg.inference.Exact(), sg.inference.SMC(), sg.inference.AWRS()],
        "shelf": sg.grammars(),
        "shelf grammar": sg.grammars()["sql"],
        "formula": sg.ltl.parse(" & ".join(f"F a{i}" for i in range(100))),
        "tool format": FORMATS["deepseek_v3"],
        "tool": read_tools([search])[0],
        "call": ToolCall("search", {"at": LONG}),
        "bound call": sg.types.BoundCall(search, {"at": LONG, "also": LONG}),
        "action": action,
        "model": known,
        "processed": sg.models.with_processors(MODEL, lambda ids, logits: logits),
        "classification": sg.classify(known, LONG, ["ab", LONG[:40], *(f"option {i}" for i in range(50))]),
        "thinking": sg.Thinking(LONG, Person(name=LONG, tags=[LONG])),
        "reasoning options": sg.ReasoningOptions(open=LONG),
        "known distributions": sg.inference.KnownDistributions(),
        "stop flag": sg.StopFlag(),
    }


OBJECTS = made()


@pytest.mark.parametrize("name", OBJECTS)
def test_a_repr_is_short(name: str) -> None:
    shown = repr(OBJECTS[name])
    assert len(shown) <= MOST, shown
    assert "\n" not in shown


def test_what_is_shown() -> None:
    assert repr(sg.SamplingOptions(seed=7, top_p=0.5)) == "SamplingOptions(top_p=0.5, seed=7)"
    assert repr(sg.choice(["a", "b"])) == "choice(['a', 'b'])"
    assert repr(ToolCall("f", {"a": 1})) == "ToolCall(name='f', arguments={'a': 1})"
    assert repr(OBJECTS["explanation"]).startswith("Explanation(text='word word")
    assert "12 items" in repr(OBJECTS["shelf"]) or "12 grammars" in repr(OBJECTS["shelf"])


def test_values_are_cut() -> None:
    assert brief(1 / 3) == "0.3333" and brief([1, 2]) == "[1, 2]" and brief((1,)) == "(1)"
    assert brief([[1], "a"]) == "[[1], 'a']"
    assert brief(list(range(10**6))) == "[1,000,000 items]"
    assert len(brief("\\" * 10**6)) <= 50 and len(cut("a" * 500)) == MOST


def test_all_public_classes_are_named_here_or_have_no_repr_of_their_own() -> None:
    """A new public class either keeps Python's own repr, or belongs into `made`."""
    shown = {type(one) for one in OBJECTS.values()} | {type(one) for one in OBJECTS["samplers"]}
    for name in sg.__all__:
        one = getattr(sg, name)
        if inspect.isclass(one) and not issubclass(one, (BaseException, sg.Constraint)):
            own = [base for base in one.__mro__ if "__repr__" in vars(base) and base.__module__ != "builtins"]
            assert not own or any(issubclass(kind, one) for kind in shown) or name in UNTRIED, name


UNTRIED = {
    "AdaptiveRejection", "ASAp", "LocalMasking", "MH", "Rejection",  # numbers and names alone, as those above
    "PlanFormat", "RPG", "RemoteModel", "World", "Posterior",
}  # fmt: skip
