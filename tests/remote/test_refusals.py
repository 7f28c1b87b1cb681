"""Refused requests: only refusals that name the constraint weaken it, with a warning, and for no other call."""

from __future__ import annotations

import json
import warnings
from typing import Any, Literal

import pytest

import structgen as sg
from structgen import errors
from structgen.remote.refusals import cause_of, wants_completion_tokens

from .answers import ALL, RIGHT, Person
from .http_server import Start

pytest.importorskip("httpx2")

FORM = {"response_format": 1, "structured_outputs": 1}


def page(message: str, **more: Any) -> str:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}})


REFUSALS: list[tuple[str, str]] = [
    # Messages as servers of the protocol write them.
    ("constraint", page("Invalid schema for response_format 'answer': 'minLength' is not permitted.")),
    (
        "constraint",
        page("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    ),
    (
        "constraint",
        page(
            "'messages' must contain the word 'json', to use 'response_format' of type 'json_object'.",
            param="messages",
        ),
    ),
    ("constraint", page("Something about the answer", param="response_format")),
    (
        "constraint",
        page("In context=('properties', 'image'), 'pattern' is not permitted", param="response_format"),
    ),
    ("constraint", page("Failed to compile json_schema: unknown type of the property 'max_tokens'")),
    ("constraint", page("Unrecognized request argument supplied: structured_outputs")),
    ("constraint", page("The provided JSON schema contains features not supported by xgrammar.")),
    ("constraint", page("Failed to parse grammar")),
    ("constraint", page("Only one of regex, json_schema, or ebnf can be set.")),
    ("constraint", page("Invalid regex: look-around is not supported")),
    ("constraint", "JSON schema conversion failed: Unrecognized schema"),
    ("constraint", json.dumps({"detail": [{"loc": ["body", "structured_outputs"], "msg": "Extra inputs"}]})),
    ("constraint", json.dumps({"object": "error", "message": "guided_json is not supported", "code": 400})),
    (
        "constraint",
        page(
            "[{'type': 'x', 'loc': ('body', 'response_format', 'type'), 'msg': 'no', 'input': {'image': 1}}]"
        ),
    ),
    (
        "constraint",
        page("In context=('properties', 'max_tokens'), 'pattern' is not permitted", param="response_format"),
    ),
    # Messages about the rest of the request.
    (
        "other",
        page(
            "the shortest text that satisfies it takes 125 tokens, 5 are left (max_tokens)",
            param="structured_outputs",
        ),
    ),
    ("other", page("the schema and the prompt exceed the context length", param="response_format")),
    (
        "other",
        page(
            "This model's maximum context length is 4096 tokens, your messages have 5000 (50 in the schema)."
        ),
    ),
    ("other", page("The prompt is too long", code="context_length_exceeded")),
    ("other", page("max_tokens is too large: 90000. This model supports at most 4096 completion tokens.")),
    ("other", page("image_url is not supported by this model, nor with response_format")),
    ("other", page("At most 1 image(s) may be provided in one request.")),
    (
        "other",
        page("The model `gpt-x` does not exist or you do not have access to it.", code="model_not_found"),
    ),
    ("other", page("Incorrect API key provided")),
    ("other", page("Your schema of billing is unpaid", param="messages")),
    ("other", page("prompt (9,000 tokens) exceeds the limit")),
    (
        "other",
        json.dumps(
            {"detail": [{"loc": ["body", "messages", 0], "msg": "Input should be an object", "input": FORM}]}
        ),
    ),
    ("other", page(f"[{{'type': 'x', 'loc': ('body', 'messages'), 'msg': 'no', 'input': {FORM}}}]")),
    ("unknown", page("Bad request")),
    ("unknown", "<html><h1>400 Bad Request</h1></html>"),
    ("unknown", "[[[[[[1]]]]]]"),
    ("unknown", ""),
]


@pytest.mark.parametrize(("cause", "said"), REFUSALS)
def test_the_cause_of_a_refusal_is_read_from_its_page(cause: str, said: str) -> None:
    assert cause_of(errors.RemoteError("the server answers 400", status=400, body=said)) == cause


def test_statuses_that_do_not_refuse_a_request() -> None:
    for status in (0, 401, 404, 429, 500):
        error = errors.RemoteError("response_format", status=status, body=page("response_format"))
        assert cause_of(error) == "other" and not wants_completion_tokens(error)


UNRELATED = [
    "the prompt is too long",
    "max_tokens is too large",
    "images are not supported",
    "the model `x` does not exist",
    "bad request",
]


@pytest.mark.parametrize("said", UNRELATED)
@pytest.mark.parametrize("streamed", [False, True])
def test_unrelated_refusals_raise_at_once_and_change_nothing(start: Start, said: str, streamed: bool) -> None:
    def refuses(body: dict[str, Any]) -> str:
        return said if "LONG" in str(body["messages"]) else ""

    world = start(enforces=ALL, refuses=refuses)
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        with pytest.raises(errors.RemoteError, match=said) as caught:
            list(sg.stream(model, "LONG", Person)) if streamed else sg.generate(model, "LONG", Person)
        assert caught.value.status == 400 and len(world.requests) == 1
        assert ("dialect=" in str(caught.value)) == (said == "bad request")
        result: Any = sg.run(model, "short", Person, max_tokens=200)
        assert result.error is None and "structured_outputs" in world.requests[-1]
        assert [one.dialect for one in result.account.attempts] == ["structured_outputs"]
        assert not result.account.refused


def test_one_long_document_of_a_batch_leaves_the_others_alone(start: Start) -> None:
    def refuses(body: dict[str, Any]) -> str:
        return "This model's maximum context length is 10 tokens" if "LONG" in str(body["messages"]) else ""

    world = start(enforces=ALL, refuses=refuses)
    with sg.connect(world.url, model="small", dialect="vllm", concurrency=1) as model:

        @sg.prompt(model, max_tokens=200)
        def extract(text: str) -> Person:
            """Extract {{ text }}"""

        found = extract.map(["a", "LONG", "b", "c"], return_errors=True)
    assert [type(one) for one in found] == [Person, errors.RemoteError, Person, Person]
    assert "maximum context length" in str(found[1])
    assert all("structured_outputs" in body for body in world.requests)
    assert found[1].account is not None


def test_a_weaker_dialect_is_forgotten_unless_it_works(start: Start) -> None:
    # The server says that the schema is at fault, and then that the prompt is.
    said = ["no such schema", "the prompt is too long"]
    world = start(enforces=ALL, refuses=lambda body: said.pop(0) if said else "")
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        result: Any = sg.run(model, "?", Person, max_tokens=200)
        assert isinstance(result.error, errors.RemoteError) and "too long" in str(result.error)
        assert result.account.refused == ["structured_outputs: the server answers 400: no such schema"]
        again: Any = sg.run(model, "?", Person, max_tokens=200)
        assert again.account.attempts[0].dialect == "structured_outputs" and not again.account.refused


def test_a_prompt_that_looks_like_a_refusal_of_the_constraint_costs_the_others_nothing(start: Start) -> None:
    def refuses(body: dict[str, Any]) -> str:
        return "policy forbids to correct a grammar" if "grammar" in str(body["messages"]) else ""

    world = start(enforces=ALL, refuses=refuses)
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        with pytest.raises(errors.RemoteError, match="policy"):
            sg.generate(model, "Correct the grammar.", Person)
        sg.generate(model, "?", Person, max_tokens=200)
        assert "structured_outputs" in world.requests[-1]


def test_each_constraint_warns_once(start: Start) -> None:
    def refuses(body: dict[str, Any]) -> str:
        return "no structured outputs here" if body.keys() & {"structured_outputs", "response_format"} else ""

    world = start(refuses=refuses, says=["yes", "a", "no", RIGHT])
    yes_or_no, letter = sg.choice(["yes", "no"]), sg.regex("[a-z]")
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for constraint in (yes_or_no, letter, yes_or_no):
                sg.generate(model, "?", constraint)
        assert [one.category for one in caught] == [errors.ConstraintNotSent] * 2
        assert all(f"{world.url} refused" in str(one.message) for one in caught)
        assert all("it is no longer sent" in str(one.message) for one in caught)
    assert issubclass(errors.ConstraintNotSent, UserWarning)


def test_where_warnings_are_errors_every_call_raises(start: Start) -> None:
    refuses = lambda body: "no structured outputs" if "structured_outputs" in body else ""  # noqa: E731
    world = start(enforces=ALL, refuses=refuses, says=["Hello!"] * 9)
    with sg.connect(world.url, model="small", dialect="vllm") as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(errors.ConstraintNotSent):
                sg.generate(model, "?", Literal["a"])
    world = start(says=["Hello!"] * 3 + ["a"] * 9)
    with sg.connect(world.url) as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(errors.ConstraintNotSent):
                sg.generate(model, "?", Literal["a"])


def test_weaken_false_raises(start: Start) -> None:
    world = start(enforces=ALL, refuses=lambda body: "no schema" if "json" in str(body) else "")
    both = sg.regex("[a-z]{2}") & sg.regex("a.*")
    with sg.connect(world.url, model="small", dialect="vllm", weaken=False) as model:
        with pytest.raises(errors.RemoteError, match="no schema"):
            sg.generate(model, "?", Person)
        with pytest.raises(errors.OptionError, match="weaken=False"):
            sg.generate(model, "?", both)
        assert len(world.requests) == 1
        assert sg.generate(model, "?", Literal["a"]) == "a"
        assert sg.generate(model, "?", str, max_tokens=5) == "Hello"
    with pytest.raises(errors.OptionError, match="weaken"):
        sg.connect(world.url, weaken="no")  # type: ignore[arg-type]


def test_a_server_that_enforces_nothing_causes_a_warning(start: Start) -> None:
    world = start(says=["Hello!"] * 3 + ["yes", "no"])
    with sg.connect(world.url) as model:
        with pytest.warns(errors.ConstraintNotSent, match="no constraint in any known dialect"):
            sg.generate(model, "?", Literal["yes", "no"])
        sg.generate(model, "?", Literal["yes", "no"])
    world.says = ["yes"]
    with sg.connect(world.url, dialect="none") as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.generate(model, "?", Literal["yes", "no"])


@pytest.mark.parametrize("said", ["model is too busy", "max_tokens must be 16 at most"])
def test_refused_probes_do_not_show_that_a_server_has_no_constraints(start: Start, said: str) -> None:
    refused = [said] * 2
    world = start(enforces=ALL, refuses=lambda body: refused.pop(0) if refused else "")
    with sg.connect(world.url) as model:
        with pytest.raises(errors.RemoteError, match=said):
            sg.generate(model, "?", Person)
        assert model.dialect == "structured_outputs"


def test_the_newer_name_of_the_length_is_detected_and_kept_only_if_it_works(start: Start) -> None:
    def newer(body: dict[str, Any]) -> str:
        wrong = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        return wrong if "max_tokens" in body else ""

    world = start(enforces=ALL, refuses=newer)
    with sg.connect(world.url) as model:
        assert model.dialect == "structured_outputs"
        assert sg.generate(model, "?", Literal["a"]) == "a"
        assert "max_tokens" not in world.requests[-1]
    said = ["max_tokens and max_completion_tokens are too large", "max_completion_tokens is too large"]
    world = start(enforces=ALL, refuses=lambda body: said.pop(0) if said else "")
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        with pytest.raises(errors.RemoteError, match="too large"):
            sg.generate(model, "?", Literal["a"])
        assert model.length_key == "max_tokens"
