"""Remote models over a real socket: typed calls, dialects, the local check, feedback, budgets, faults of servers."""

from __future__ import annotations

import datetime
import enum
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

import structgen as sg
from structgen import errors
from structgen.api import run_batch
from structgen.generation import SamplingOptions
from structgen.remote import RemoteResult
from structgen.types import output_type
from tests.embedded import embedded_model

from .http_server import Handler, World, dribble, half, half_a_stream, hang_up, serve

pytest.importorskip("httpx2")

Start = Callable[..., World]
ALL = frozenset({"structured_outputs", "json_schema", "json_object"})


class Person(BaseModel):
    name: Annotated[str, Field(max_length=20, pattern="^[a-z]+$")]
    age: Annotated[int, Field(ge=0, le=150)]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    label: Literal["leaf", "node"]
    below: Annotated[list[Tree], Field(max_length=1)] = []


RIGHT = '{"name": "ann", "age": 31}'


@pytest.fixture
def start() -> Iterator[Start]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda **what: stack.enter_context(serve(World(**what)))


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
    ("enforces", "found"),
    [
        (ALL, "structured_outputs"),
        (ALL - {"structured_outputs"}, "json_schema"),
        (frozenset({"json_object"}), "json_object"),
        (frozenset(), "none"),
    ],
)
def test_the_dialect_of_a_server_is_detected(start: Start, enforces: frozenset[str], found: str) -> None:
    world = start(enforces=enforces)
    with sg.connect(world.url) as model:
        assert model.dialect == found
        sent = len(world.requests)
        assert sent <= 3
        assert model.dialect == found and len(world.requests) == sent


def test_the_dialect_of_a_server_that_refuses_unknown_fields_is_detected(start: Start) -> None:
    def strict(body: dict[str, Any]) -> str:
        return "unknown field" if "structured_outputs" in body else ""

    world = start(enforces=ALL, refuses=strict)
    with sg.connect(world.url) as model:
        assert model.dialect == "json_schema"


@pytest.mark.parametrize("dialect", ["structured_outputs", "json_schema"])
@pytest.mark.parametrize(
    "output",
    [
        Person,
        list[Person],
        Tree,
        Literal["yes", "no"],
        Colour,
        datetime.date,
        bool,
        int,
        sg.choice(["a", "b c"]),
        sg.json_schema({"type": "array", "items": {"enum": [1, "x"]}, "maxItems": 2}, whitespace="compact"),
    ],
    ids=str,
)
def test_types_are_enforced_by_the_server(start: Start, dialect: str, output: Any) -> None:
    world = start(enforces=ALL)
    with sg.connect(world.url, model="small", dialect=dialect, attempts=1) as model:
        result = sg.run(model, "Well?", output, max_tokens=400, seed=5)
        kept = output_type(output)
        if (
            kept.constraint.lower()[0] == "regex"
            and output is datetime.date
            and dialect == "structured_outputs"
        ):
            assert result.account.attempts[0].dialect in ("structured_outputs", "none")  # type: ignore[attr-defined]
        assert result.error is None, result.account  # type: ignore[attr-defined]
        assert len(world.requests) == 1
        *_, last = sg.stream(model, "Well?", output, max_tokens=400, seed=5)
        assert last == result.value


def test_regular_expressions_and_grammars(start: Start) -> None:
    world = start(enforces=ALL)
    with sg.connect(world.url, model="small", dialect="vllm", attempts=1) as model:
        assert sg.generate(model, "?", sg.regex("[ab]{3}")) in {
            a + b + c for a in "ab" for b in "ab" for c in "ab"
        }
        assert world.requests[-1]["structured_outputs"] == {"regex": "[ab]{3}"}
        assert sg.generate(model, "?", sg.gbnf('root ::= "x" | "y"')) in ("x", "y")
        assert world.requests[-1]["structured_outputs"] == {"grammar": 'root ::= "x" | "y"'}


def test_a_pattern_with_flags_is_more_than_its_text(start: Start) -> None:
    world = start(says=["ABC"])
    with sg.connect(world.url, model="small", dialect="vllm", attempts=1) as model:
        assert sg.generate(model, "?", sg.regex("abc", flags=re.IGNORECASE)) == "ABC"
        assert "structured_outputs" not in world.requests[-1]


def test_a_constraint_that_cannot_be_sent_is_checked_here_and_the_request_repeated(start: Start) -> None:
    both = sg.regex("[a-z]{2,4}") & sg.regex("(?!ab).*")
    world = start(enforces=ALL, says=["ABC", "abc", "bcd"])
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        result = sg.run(model, "Letters.", both)
        assert isinstance(result, RemoteResult)
        assert result.value == "bcd"
        assert [one.text for one in result.account.attempts] == ["ABC", "abc", "bcd"]
        assert [bool(one.problem) for one in result.account.attempts] == [True, True, False]
        said = world.requests[-1]["messages"]
        assert said[-2] == {"role": "assistant", "content": "abc"}
        assert "That answer is wrong" in said[-1]["content"] and "^" in said[-1]["content"]


def test_temporal_logic_is_checked(start: Start) -> None:
    plan = sg.ltl.ltl_over({"backup": '"backup"', "delete": '"delete"'}, "!delete W backup")
    world = start(enforces=ALL, says=['["delete", "backup"]', '["backup", "delete"]'])
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        assert sg.generate(model, "A plan.", plan) == '["backup", "delete"]'
        assert "!delete W backup" in world.requests[-1]["messages"][-1]["content"]


def test_json_of_another_form_is_the_same_value(start: Start) -> None:
    world = start(
        says=[
            '{"age": 31,\n  "name":"ann"}',
            f"```json\n{RIGHT}\n```",
            f"  {RIGHT}\n",
            '{"name": "\\u0061", "age": 3.10e1}',
        ]
    )
    with sg.connect(world.url, model="small", dialect="none", attempts=1) as model:
        for _ in range(3):
            assert sg.generate(model, "Who?", Person) == Person(name="ann", age=31)
        assert sg.generate(model, "Who?", Person) == Person(name="a", age=31)
        assert (
            "JSON Schema" in world.requests[0]["messages"][-1]["content"]
        )  # the server does not show it to the model


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('{"name": "ann", "age": 151}', "age"),
        ('{"name": "Ann", "age": 3}', "name"),
        ('{"name": "ann"}', "age"),
        ("I think it is Ann.", ""),
        ("", ""),
        ('{"name": "ann", "age": 3', "end"),
    ],
)
def test_the_next_request_says_what_was_wrong(start: Start, wrong: str, message: str) -> None:
    world = start(says=[wrong, RIGHT])
    with sg.connect(world.url, model="small", dialect="none") as model:
        assert sg.generate(model, "Who?", Person).name == "ann"
        assert message in world.requests[-1]["messages"][-1]["content"]


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


def test_errors_of_the_types_validators_are_reported_too(start: Start) -> None:
    world = start(says=["3", "4"])
    with sg.connect(world.url, model="small", dialect="none") as model:
        assert sg.generate(model, "A number.", Annotated[int, AfterValidator(even)]) == 4
        assert "must be even" in world.requests[-1]["messages"][-1]["content"]


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


def test_budgets_end(start: Start) -> None:
    world = start(says=["no"] * 20)
    with sg.connect(world.url, model="small", dialect="none", attempts=2) as model:
        result = sg.run(model, "Who?", Person)
        assert isinstance(result.error, errors.OutputInvalid)
        assert "2 attempts" in str(result.error) and "attempts" in str(result.error.hint)
        assert result.text == "no" and len(world.requests) == 2
    with sg.connect(world.url, model="small", dialect="none", attempts=9, tokens=5) as model:
        result = sg.run(model, "Who?", Person)
        assert isinstance(result.error, errors.Truncated) and "budget of tokens" in str(result.error)
        assert [body["max_tokens"] for body in world.requests[2:]] == [5, 3, 1]


def test_a_truncated_answer_is_requested_again(start: Start) -> None:
    world = start(says=["x" * 50, RIGHT])
    with sg.connect(world.url, model="small", dialect="none") as model:
        assert sg.generate(model, "Who?", Person, max_tokens=40).age == 31
    world.says = ["x" * 50] * 3
    with (
        sg.connect(world.url, model="small", dialect="none") as model,
        pytest.raises(errors.Truncated, match="cut off"),
    ):
        sg.generate(model, "Who?", Person, max_tokens=40)


def test_a_refused_constraint_is_sent_in_a_weaker_dialect(start: Start) -> None:
    def refuses(body: dict[str, Any]) -> str:
        return "no pattern in schemas, please" if "pattern" in str(body.get("structured_outputs", "")) else ""

    world = start(enforces=ALL, refuses=refuses)
    with sg.connect(world.url, model="small", dialect="vllm") as model:
        with pytest.warns(errors.ConstraintNotSent, match="no pattern in schemas"):
            result = sg.run(model, "Who?", Person, max_tokens=200)
        assert isinstance(result, RemoteResult) and isinstance(result.value, Person)
        assert result.account.attempts[-1].dialect == "json_schema"
        assert "no pattern in schemas, please" in result.account.refused[0]
        sent = len(world.requests)
        again: Any = sg.run(model, "Who?", Person, max_tokens=200)
        assert len(world.requests) == sent + 1, "it is remembered"
        assert again.account.refused == result.account.refused, "and each account says so"


@pytest.mark.parametrize(
    "fault", [(429, {"Retry-After": "0"}), (503, {}), hang_up], ids=["429", "503", "hang up"]
)
def test_requests_to_a_busy_server_are_repeated(start: Start, fault: Any) -> None:
    world = start(faults=[fault], says=["yes"])
    with sg.connect(world.url, model="small", dialect="none") as model:
        assert sg.generate(model, "?", Literal["yes", "no"]) == "yes"
    world.faults, world.says = [fault], ["no"]
    with sg.connect(world.url, model="small", dialect="none") as model:
        assert list(sg.stream(model, "?", Literal["yes", "no"]))[-1] == "no"


def test_an_answer_that_breaks_off_is_requested_again(start: Start) -> None:
    world = start(faults=[half], says=["yes", "no"])
    with sg.connect(world.url, model="small", dialect="none", attempts=1) as model:
        assert sg.generate(model, "?", Literal["yes", "no"]) == "yes"
        world.faults = [half_a_stream]
        assert list(sg.stream(model, "?", Literal["yes", "no"])) == ["no"]
        world.faults = [half_a_stream] * 9
        error = sg.run(model, "?", Literal["yes", "no"], cancel=lambda: False).error
        assert isinstance(error, errors.RemoteError)


def test_a_server_with_a_real_model(start: Start) -> None:
    world = start(enforces=frozenset({"json_schema"}), model=embedded_model())
    with sg.connect(world.url) as model:

        @sg.prompt(model, max_tokens=60)
        def extract(text: str) -> Person:
            """Extract the person, in lower case, from: {{ text }}"""

        assert extract("ann is 31 years old.").age == 31
        assert model.dialect == "json_schema"


def test_a_server_that_stays_busy_is_given_up(start: Start) -> None:
    world = start(faults=[(429, {"Retry-After": "0"})] * 50)
    with sg.connect(world.url, model="small", dialect="none", tries=3) as model:
        result = sg.run(model, "?", Person)
        assert isinstance(result.error, errors.RemoteError)
        assert result.error.status == 429 and len(world.requests) == 3 and result.finish == "failed"


def test_time_is_bounded_for_any_server(start: Start) -> None:
    world = start(faults=[dribble, (429, {"Retry-After": "100"})])
    with sg.connect(world.url, model="small", dialect="none", seconds=0.6) as model:
        for _ in range(2):
            began = time.monotonic()
            assert isinstance(sg.run(model, "?", Person).error, errors.RemoteError)
            assert time.monotonic() - began < 300  # the answer takes a thousand seconds


def test_cancelling_stops(start: Start) -> None:
    world = start(faults=[dribble])
    began = time.monotonic()
    with sg.connect(world.url, model="small", dialect="none") as model:
        result = sg.run(model, "?", Person, cancel=lambda: time.monotonic() - began > 0.2)
        assert result.finish == "cancelled" and time.monotonic() - began < 300


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


def test_the_model_must_be_named_where_there_are_several(start: Start) -> None:
    world = start(models=("one", "two"))
    with sg.connect(world.url, dialect="none") as model, pytest.raises(errors.RemoteError, match="one, two"):
        sg.generate(model, "?", Person)


def test_the_error_names_the_missing_end_of_an_address(start: Start) -> None:
    world = start(models=())
    for url, is_named in ((world.url.removesuffix("/v1"), True), (world.url, False)):
        with sg.connect(url, dialect="none") as model, pytest.raises(errors.RemoteError) as caught:
            sg.generate(model, "?", Person)
        assert ("does not contain it" in str(caught.value)) == is_named


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


def test_monitors_judge_the_answer(start: Start) -> None:
    constraint = sg.monitored(sg.regex("[a-z]{1,8}"), sg.monitors.after("b", lambda context: ["c", "d"]))
    world = start(says=["abxc", "abc"])
    with sg.connect(world.url, model="small", dialect="none") as model:
        assert sg.generate(model, "?", constraint) == "abc"


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


@pytest.mark.parametrize(
    "listed",
    [None, [], {"data": 3}, {"data": [1, {}, {"id": 2}]}, {"data": [{"id": "a", "owned_by": []}]}],
    ids=str,
)
def test_no_list_of_models_crashes_the_client(
    start: Start, monkeypatch: pytest.MonkeyPatch, listed: Any
) -> None:
    world = start(says=["yes"] * 9)
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.send(200, listed))
    with sg.connect(world.url) as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.ConstraintNotSent)  # the server enforces nothing
        result = sg.run(model, "?", Literal["yes"])
        assert result.error is None or "model" in str(result.error)
