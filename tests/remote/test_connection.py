"""Remote models over a real socket: typed calls, options, tools, budgets, and faults of servers."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen import errors
from structgen.api import run_batch
from structgen.generation import SamplingOptions
from structgen.types import output_type
from tests.embedded import embedded_model

from .answers import ALL, RIGHT, Person
from .http_server import Start, World, serve

pytest.importorskip("httpx2")


def test_the_same_typed_code_runs_against_a_server(start: Start) -> None:
    world = start(enforces=ALL, owned_by="vllm")
    with sg.connect(world.url) as model:

        @sg.prompt(model, max_tokens=200)
        def extract(text: str) -> Person:
            """Extract the person from: {{ text }}"""

        person = extract("Ann is 31 years old.")
        assert isinstance(person, Person)
        assert world.requests[-1]["messages"] == [
            {"role": "user", "content": "Extract the person from: Ann is 31 years old."}
        ]
        assert len(extract.map(["a", "b", "c"], seed=1)) == 3
        *partial, last = extract.stream("Bob")
        assert partial and isinstance(last, Person)
        assert isinstance(sg.generate(model, "A person?", Person, max_tokens=200), Person)
        assert model.model == "small" and model.dialect == "structured_outputs"
        assert sg.generate(model, "Say it.", max_tokens=5) == "Hello"


async def test_without_blocking(start: Start) -> None:
    world = start(enforces=ALL, owned_by="vllm")
    model = sg.connect(world.url)

    @sg.prompt(model, max_tokens=200)
    def extract(text: str) -> Person:
        """Extract {{ text }}"""

    assert isinstance(await extract.aio("Ann"), Person)
    assert isinstance([value async for value in extract.astream("Ann")][-1], Person)
    model.close()


@pytest.mark.parametrize(
    "said",
    [
        RIGHT,
        f"```json\n{RIGHT}\n```",
        f"  \n```\n{RIGHT}```",
        f"Sure! {RIGHT}",
        '{"name": "ann", oh',
        "{}}",
        "\ud83d",
    ],
)
def test_streams_of_anything_end_with_the_value(start: Start, said: str) -> None:
    world = start(says=[said, RIGHT])
    with sg.connect(world.url, model="small", dialect="none") as model:
        *partial, last = sg.stream(model, "?", Person)
        assert last == Person(name="ann", age=31)
        assert partial and all(isinstance(one, Person) for one in partial)


def test_a_server_with_a_real_model(start: Start) -> None:
    world = start(enforces=frozenset({"json_schema"}), model=embedded_model())
    with sg.connect(world.url) as model:

        @sg.prompt(model, max_tokens=60)
        def extract(text: str) -> Person:
            """Extract the person, in lower case, from: {{ text }}"""

        assert extract("ann is 31 years old.").age == 31
        assert model.dialect == "json_schema"


def endless(handler: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    handler.close_connection = True
    piece = b'data: {"choices": [{"delta": {"content": "' + b"x" * 10_000 + b'"}}]}\n\n'
    try:
        while True:
            handler.wfile.write(piece)
    except OSError:
        pass


@pytest.mark.parametrize(
    "content", [b"<html>not found</html>", b"[]", b'{"choices": []}', b'{"choices": [{"message": 3}]}', b""]
)
def test_an_invalid_answer_raises_an_error(start: Start, content: bytes) -> None:
    world = start(faults=[lambda handler: handler.send(200, content)])
    with sg.connect(world.url, model="small", dialect="none") as model:
        error = sg.run(model, "?", Person).error
        assert isinstance(error, errors.RemoteError) and "server" in str(error)


def test_an_endless_answer_is_not_read_to_its_end(start: Start) -> None:
    world = start(faults=[endless])
    with (
        sg.connect(world.url, model="small", dialect="none") as model,
        pytest.raises(errors.RemoteError, match="longer"),
    ):
        list(sg.stream(model, "?", str, max_tokens=100))


def test_keys_go_to_the_server_and_nowhere_else(start: Start) -> None:
    world = start(key="secret-key", says=["yes"])
    with sg.connect(world.url, model="small", dialect="none", api_key="secret-key") as model:
        assert sg.generate(model, "?", Literal["yes"]) == "yes"
        assert "secret-key" not in repr(model)
    with sg.connect(world.url, dialect="none", api_key="other-key") as model:
        error = sg.run(model, "?", Person).error
        assert isinstance(error, errors.RemoteError) and error.status == 401
        assert "other-key" not in str(error) and "api_key" in str(error)


def test_a_port_without_a_server() -> None:
    model = sg.connect("http://127.0.0.1:9/v1", model="m", dialect="none", tries=1)
    with model, pytest.raises(errors.RemoteError, match="cannot be reached"):
        sg.generate(model, "?", Person)


def test_a_batch_is_sent_concurrently_and_rows_have_their_own_errors(start: Start) -> None:
    world = start(enforces=ALL, owned_by="vllm", faults=[(400, {})], seconds=0.05)
    with sg.connect(world.url, concurrency=4) as model:
        model.dialect  # noqa: B018  (sends a request)
        each = [SamplingOptions(max_tokens=200, seed=i) for i in range(8)]
        results = run_batch(model, ["?"] * 8, output_type(str), each)
        assert sorted(result.finish for result in results) == ["complete"] * 7 + ["failed"]
        assert 1 < world.most_at_once <= 4


def test_samplers_and_masks_are_refused_by_name(start: Start) -> None:
    world = start()
    model: Any = sg.connect(world.url, model="small", dialect="none")
    with pytest.raises(errors.OptionError, match=r"sample\(\) needs the model's logits"):
        sg.sample(model, "?", Person)
    with pytest.raises(errors.OptionError, match=r"beam\(\) needs"):
        sg.inference.beam(model, "?", Person)
    with pytest.raises(errors.OptionError, match=r"infill\(\) needs"):
        sg.infill(model, "a [[x]] b")
    with pytest.raises(errors.VocabularyError, match="no vocabulary"):
        sg.Matcher(sg.regex("a"), model.vocabulary)
    for name, value in (("close_within_budget", True), ("noise", "uniform")):
        with pytest.raises(errors.OptionError, match=name):
            sg.generate(model, "?", Person, **{name: value})
    with pytest.raises(errors.OptionError, match="top_k"):
        sg.generate(model, "?", Person, top_k=3)
    assert not world.requests


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "localhost:8000"},
        {"dialect": "xml"},
        {"attempts": 0},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"tokens": -1},
        {"model": ""},
        {"api_key": "a\nb"},
        {"headers": 3},
        {"concurrency": True},
    ],
    ids=str,
)
def test_errors_name_the_wrong_option(wrong: dict[str, Any]) -> None:
    name = next(iter(wrong))
    with pytest.raises(errors.OptionError, match="address" if name == "url" else name):
        sg.connect(**{"url": "http://localhost/v1", **wrong})


def test_options_are_sent(start: Start) -> None:
    world = start(says=["yes"])
    with sg.connect(world.url, model="small", dialect="none", extra_body={"user": "me"}) as model:
        sg.generate(model, "?", Literal["yes"], top_p=0.5, seed=7, max_tokens=9)
        body = world.requests[-1]
        assert (body["top_p"], body["seed"], body["max_tokens"], body["user"]) == (0.5, 7, 9, "me")
        assert body["temperature"] == 1.0
        assert not {"frequency_penalty", "presence_penalty", "logit_bias", "repetition_penalty"} & body.keys()
        changes: dict[str, Any] = {"frequency_penalty": 0.5, "presence_penalty": -1, "logit_bias": {7: 3}}
        sg.generate(model, "?", **changes)
        body = world.requests[-1]
        assert (body["frequency_penalty"], body["presence_penalty"]) == (0.5, -1)
        assert body["logit_bias"] == {"7": 3.0}
        with pytest.raises(errors.OptionError, match="'repetition_penalty'"):
            sg.generate(model, "?", repetition_penalty=1.2)
    with sg.connect(world.url, model="small", dialect="structured_outputs") as model:
        sg.generate(model, "?", repetition_penalty=1.2)
        assert world.requests[-1]["repetition_penalty"] == 1.2


def test_tools_are_called_through_a_server(start: Start) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    call = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'
    world = start(says=[call, "It is 5."])
    with sg.connect(world.url, model="small", dialect="none") as model:
        talk: Any = sg.run_tools(model, "2 + 3?", [add])
        assert [result.value for result in talk.results] == [5]
        assert talk.answer == "It is 5."


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "stop", "length", RIGHT, "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "finish_reason",
                    "usage",
                    "completion_tokens",
                    "error",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


ANSWERS = JSON | st.builds(
    lambda first, usage: {"choices": [first], "usage": usage},
    st.fixed_dictionaries({}, optional={"message": JSON, "delta": JSON, "finish_reason": JSON}),
    JSON,
)


def test_no_answer_of_a_server_crashes_the_client() -> None:
    with (
        serve(World()) as world,
        sg.connect(world.url, model="small", dialect="none", attempts=1, tries=1) as model,
    ):

        @settings(max_examples=60, deadline=None)
        @given(ANSWERS, st.booleans())
        def check(answer: Any, streamed: bool) -> None:
            def say(handler: Any) -> None:
                events = b"data: " + json.dumps(answer).encode() + b"\n\ndata: [DONE]\n\n"
                handler.send(200, events if streamed else answer)

            world.faults = [say]
            result = sg.run(model, "?", Person, cancel=(lambda: False) if streamed else None)
            assert result.error is None or isinstance(
                result.error, (errors.RemoteError, errors.GenerationError)
            )
            if result.error is None:
                assert isinstance(result.value, Person)

        check()
