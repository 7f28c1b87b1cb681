"""Unusual replies of servers, and arguments of `connect` that make no valid request."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen import errors

from .http_server import Fault, Handler, World, half, serve

pytest.importorskip("httpx2")

Serve = Callable[..., World]


class Box(BaseModel):
    a: int


RIGHT = '{"a": 1}'


@pytest.fixture
def serving() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda **what: stack.enter_context(serve(World(**what)))


def whole(data: Any) -> Fault:
    return lambda handler: handler.send(200, data)


def message(finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **fields}, "finish_reason": finish}]}


def streamed(*events: Any) -> Fault:
    def send(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for event in events:
            handler.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        handler.wfile.write(b"data: [DONE]\n\n")
        handler.close_connection = True

    return send


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


def connected(world: World, **options: Any) -> Any:
    return sg.connect(
        world.url, **{"model": "small", "dialect": "none", "attempts": 1, "tries": 2, **options}
    )


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
PARTS = [THOUGHT, {"type": "text", "text": '{"a":'}, {"type": "text", "text": " 1}"}]


@pytest.mark.parametrize("output", [str, Box])
@pytest.mark.parametrize(
    "content",
    [RIGHT, PARTS, [RIGHT], [{"type": "output_text", "text": RIGHT}]],
    ids=["text", "parts", "texts", "new"],
)
def test_contents_in_parts(serving: Serve, output: Any, content: Any) -> None:
    world = serving(
        faults=[whole(message(content=content)), streamed(delta(content=content), delta(finish="stop"))]
    )
    wanted = RIGHT if output is str else Box(a=1)
    with connected(world) as model:
        assert sg.generate(model, "?", output) == wanted
        assert list(sg.stream(model, "?", output))[-1] == wanted


CALLS = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


@pytest.mark.parametrize(
    ("finish", "fields", "said"),
    [
        ("tool_calls", {"content": None, "tool_calls": CALLS}, "no text .*tool_calls"),
        ("content_filter", {"content": None}, "no text .*content_filter"),
        ("content_filter", {"content": "I will"}, "stopped the answer .*content_filter"),
        ("error", {"content": "I will"}, "stopped the answer .*error"),
        ("stop", {"content": 5}, "no text"),
        ("stop", {"content": [THOUGHT]}, "no text"),
        ("stop", {"content": None, "refusal": "No."}, "refuses: No."),
    ],
    ids=str,
)
@pytest.mark.parametrize("output", [str, Box])
def test_invalid_answers_are_never_read_as_empty_texts(
    serving: Serve, output: Any, finish: str, fields: dict[str, Any], said: str
) -> None:
    world = serving(
        faults=[whole(message(finish, **fields)), streamed(delta(**fields), delta(finish=finish))]
    )
    with connected(world) as model:
        with pytest.raises(errors.OutputInvalid, match=said):
            sg.generate(model, "?", output)
        with pytest.raises(errors.OutputInvalid, match=said):
            list(sg.stream(model, "?", output))


def test_an_empty_text_is_an_answer(serving: Serve) -> None:
    with connected(serving(faults=[whole(message(content=""))])) as model:
        assert sg.generate(model, "?") == ""


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"error": {"message": "model overloaded", "code": 529}}, "answers with an error: model overloaded"),
        ({"error": "boom"}, "answers with an error: boom"),
        ({"detail": "no such deployment"}, "no such deployment"),
        ({"choices": []}, "contains no message"),
        ([], "contains no message"),
    ],
    ids=str,
)
def test_errors_with_the_status_200(serving: Serve, reply: Any, said: str) -> None:
    with (
        connected(serving(faults=[whole(reply)] * 2)) as model,
        pytest.raises(errors.RemoteError, match=said),
    ):
        sg.generate(model, "?")


def test_redirects_say_where_to(serving: Serve) -> None:
    moved = (308, {"Location": "https://example.com/v1/chat/completions"})
    with connected(serving(faults=[moved])) as model, pytest.raises(errors.RemoteError) as caught:
        sg.generate(model, "?")
    assert "308: go to https://example.com/v1/chat/completions" in str(caught.value)
    assert "Redirects are not followed" in str(caught.value)


def test_streams_without_an_answer(serving: Serve) -> None:
    world = serving(faults=[streamed(), streamed(delta(content="I"), {"error": {"message": "gone"}})])
    with connected(world) as model:
        with pytest.raises(errors.RemoteError, match="contains no message"):
            list(sg.stream(model, "?", str))
        with pytest.raises(errors.RemoteError, match="stopped with an error: gone$"):
            list(sg.stream(model, "?", str))


def test_other_choices_are_not_mixed_in(serving: Serve) -> None:
    other = delta(1, content="zzz")
    world = serving(faults=[streamed(other, delta(content=RIGHT), other, delta(finish="stop"))])
    with connected(world) as model:
        assert list(sg.stream(model, "?", Box))[-1] == Box(a=1)


def test_the_number_of_tries_bounds_answers_that_break_off(serving: Serve) -> None:
    world = serving(faults=[half] * 20)
    with connected(world, tries=2) as model, pytest.raises(errors.RemoteError):
        sg.generate(model, "?", Box)
    assert len(world.requests) == 2


@pytest.mark.parametrize("dialect", ["json_schema", "structured_outputs"])
def test_a_server_that_ignores_a_constraint_is_not_used_in_silence(serving: Serve, dialect: str) -> None:
    world = serving(says=["It is one.", RIGHT, "It is one.", RIGHT])
    with connected(world, dialect=dialect, attempts=2) as model:
        with pytest.warns(errors.ConstraintNotSent, match=f"as {dialect}, and answered with a text"):
            assert sg.generate(model, "?", Box) == Box(a=1)
        first, second = world.requests
        assert "JSON Schema" not in str(first["messages"])
        assert "JSON Schema" in str(second["messages"]), "the model is shown the form now"
        assert "It is one." in str(second["messages"][2]["content"]), (
            "and the place in its text as it wrote it"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert sg.generate(model, "?", Box) == Box(a=1), "the warning comes once"


def test_an_ignored_constraint_is_known_in_later_calls_and_an_error_where_it_is_chosen(
    serving: Serve,
) -> None:
    world = serving(says=["It is one.", RIGHT, RIGHT])
    with connected(world, dialect="json_schema", attempts=2) as model:
        with pytest.warns(errors.ConstraintNotSent):
            sg.generate(model, "?", Box)
        sg.generate(model, "?", Box)
    assert len(world.requests) == 3 and "JSON Schema" in str(world.requests[2]["messages"])
    world = serving(says=["It is one."])
    with (
        connected(world, dialect="json_schema", weaken=False) as model,
        pytest.raises(errors.RemoteError, match="does not satisfy it"),
    ):
        sg.generate(model, "?", Box)


def test_reasoning_that_a_server_leaves_in_the_text(serving: Serve) -> None:
    world = serving(says=[f"<think>one?</think>\n\n{RIGHT}", "<think>\n</think>yes"])
    with connected(world) as model:
        assert sg.generate(model, "?", Box) == Box(a=1)
        assert sg.generate(model, "?", sg.choice(["yes", "no"])) == "yes"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(
            ({"url": url}, "the address")
            for url in (
                "http://", "http:///v1", "http://[::1/v1", "http://x:abc/v1", "http://x:99999", "http://a..b/v1",
                f"http://{'a' * 70}.com", "http://local host/v1", "http://x/\0", "http://x/v1?a=b", "http://x/v1#a", 5,
            )
        ),
        ({"headers": {"X": 5}}, "header 'X'"),
        ({"headers": {"X": "\u00e9"}}, "header 'X'"),
        ({"headers": {"X": "a\nb"}}, "header 'X'"),
        ({"headers": {5: "x"}}, "5, an int"),
        ({"headers": {"Content-Length": "3"}}, "Content-Length"),
        ({"extra_body": {"x": object()}}, "extra_body\\['x'\\] cannot be written as JSON"),
        ({"extra_body": {"x": float("nan")}}, "extra_body\\['x'\\] cannot be written as JSON"),
        ({"extra_body": {5: 6}}, "keys are texts"),
        ({"extra_body": {"stream": True}}, "'stream', which each request sets itself"),
        ({"extra_body": {"messages": []}}, "'messages', which each request sets itself"),
        ({"api_key": ""}, "api_key"),
        ({"api_key": "a\rb"}, "api_key"),
    ],
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)  # fmt: skip
def test_arguments_that_make_no_valid_request(given: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.OptionError, match=said):
        sg.connect(**{"url": "http://localhost:1/v1", **given})


def test_fields_that_would_replace_the_constraint(serving: Serve) -> None:
    world = serving()
    extra = {"response_format": {"type": "text"}}
    model = connected(world, dialect="json_schema", extra_body=extra)
    with model, pytest.raises(errors.OptionError, match="'response_format', which carries the constraint"):
        sg.generate(model, "?", Box)
    assert not world.requests
    with connected(world, extra_body=extra) as model:
        assert sg.generate(model, "?") == "Hello!"


@pytest.mark.parametrize(
    "messages",
    [
        [{}],
        [{"role": 5, "content": "x"}],
        [{"role": "user", "content": b"x"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": object()}]}],
        [{"role": "user", "content": float("inf")}],
    ],
    ids=["empty", "role", "bytes", "object", "infinity"],
)
def test_messages_that_json_cannot_represent(serving: Serve, messages: Any) -> None:
    world = serving()
    with connected(world) as model, pytest.raises(errors.PromptError, match=r"messages\[0\]: the message"):
        sg.generate(model, messages, Box)
    assert not world.requests


@pytest.mark.parametrize(
    ("variable", "value", "error", "said"),
    [
        ("SSL_CERT_FILE", "/no/such/file", errors.OptionError, "SSL_CERT_FILE"),
        ("ALL_PROXY", "gopher://localhost:1", errors.OptionError, "ALL_PROXY"),
    ],
)
def test_environments_in_which_no_client_can_be_created(
    variable: str, value: str, error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with (
        sg.connect("https://127.0.0.1:1/v1", model="m", dialect="none", tries=1) as model,
        pytest.raises(error, match=said),
    ):
        sg.generate(model, "?")


@pytest.mark.parametrize("password", ["secret", "se@secret"])
def test_names_and_passwords_of_an_address_are_not_shown(password: str) -> None:
    with sg.connect(f"http://ann:{password}@127.0.0.1:1/v1", model="m", dialect="none", tries=1) as model:
        assert "secret" not in repr(model)
        with pytest.raises(errors.RemoteError) as caught:
            sg.generate(model, "?")
        assert "secret" not in str(caught.value)
