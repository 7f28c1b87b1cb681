"""Requests over a limit get the status and code of that limit in OpenAI's form, and change no answer of others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from structgen.server.settings import ServerSettings
from structgen.serving import isolating_compiler
from structgen.serving.limits import RequestLimits
from tests.unhurried import HANG_SECONDS

from .calls import MESSAGES, chat, post
from .conftest import NAME, Running, until

CHAT, COMPLETION, RESPONSE = "/v1/chat/completions", "/v1/completions", "/v1/responses"
SETTINGS = ServerSettings(
    model_name=NAME,
    max_rows=4,
    max_body=60_000,
    max_queue=4,
    max_tokens=64,
    max_choices=2,
    max_particles=4,
    sampler_bytes=1 << 20,
    request_seconds=HANG_SECONDS,
    limits=RequestLimits(
        max_bytes=20_000,
        max_choices=50,
        max_tags=30,
        max_depth=8,
        compile_seconds=1.0,
        whitespace="json.dumps",
    ),
)
TAG = {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}
NESTED: dict[str, Any] = {"type": "const_string", "value": "x"}
for _ in range(20):
    NESTED = {"type": "sequence", "elements": [NESTED]}
PARTICLES = {"structgen": {"sampler": {"name": "smc", "particles": 4}}, "guided_regex": "[ab]{2}"}
MORE_PARTICLES = {"structgen": {"sampler": {"name": "smc", "particles": 5}}}
MORE_SECONDS = {"structgen": {"sampler": "smc", "max_seconds": 10_000}}

LIMITS: list[tuple[str, dict[str, Any], int, str | None, str | None]] = [
    (CHAT, {"messages": [{"role": "user", "content": "x" * 70_000}]}, 413, "body_too_large", None),
    (
        CHAT,
        {"messages": [{"role": "user", "content": "a b " * 9_000}]},
        400,
        "context_length_exceeded",
        "messages",
    ),
    (COMPLETION, {"prompt": "a b " * 9_000}, 400, "context_length_exceeded", "prompt"),
    (COMPLETION, {"prompt": [5] * 10_000}, 400, "context_length_exceeded", "prompt"),
    (RESPONSE, {"input": "a b " * 9_000}, 400, "context_length_exceeded", "input"),
    (CHAT, {"max_tokens": 65}, 400, None, "max_tokens"),
    (RESPONSE, {"input": "x", "max_output_tokens": 65}, 400, None, "max_output_tokens"),
    (CHAT, {"n": 3}, 400, None, "n"),
    (COMPLETION, {"prompt": "x", "logprobs": 21}, 400, None, "logprobs"),
    (CHAT, {"logprobs": True, "top_logprobs": 21}, 400, None, "top_logprobs"),
    (CHAT, {"stop": ["x"] * 17}, 400, None, "stop"),
    (CHAT, {"stop": "x" * 1_001}, 400, None, "stop"),
    (CHAT, {"logit_bias": {str(token): 1 for token in range(1_025)}}, 400, None, "logit_bias"),
    (CHAT, {"guided_regex": "a" * 21_000}, 400, "limit_exceeded", "guided_regex"),
    (CHAT, {"guided_json": {"enum": ["a" * 21_000]}}, 400, "limit_exceeded", "guided_json"),
    (
        CHAT,
        {"guided_choice": [f"text {number}" for number in range(51)]},
        400,
        "limit_exceeded",
        "guided_choice",
    ),
    (
        CHAT,
        {"response_format": {"type": "structural_tag", "format": {"type": "or", "elements": [TAG] * 31}}},
        400,
        "limit_exceeded",
        "response_format",
    ),
    (
        CHAT,
        {"response_format": {"type": "structural_tag", "format": NESTED}},
        400,
        "limit_exceeded",
        "response_format",
    ),
    (CHAT, {"guided_regex": "[ab]{500}"}, 400, "limit_exceeded", "guided_regex"),
    (CHAT, MORE_PARTICLES, 400, None, "structgen.sampler.particles"),
    (
        CHAT,
        {**PARTICLES, "messages": [{"role": "user", "content": "a b " * 900}]},
        400,
        "sampler_bytes",
        "structgen.sampler.particles",
    ),
    (CHAT, MORE_SECONDS, 400, None, "structgen.max_seconds"),
]
NEIGHBOUR = {"guided_regex": "([a-f]{3} ){2,4}", "seed": 5, "temperature": 0.7, "max_tokens": 24}
TYPES = {400: "invalid_request_error", 413: "invalid_request_error", 422: "generation_error"}


@pytest.fixture(scope="module")
def limited(model: Any) -> Iterator[Running]:
    running = Running(model, SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def neighbour(limited: Running) -> Any:
    """What the neighbour of every request is answered."""
    return answer_of_neighbour(limited)


def answer_of_neighbour(server: Running) -> Any:
    status, body = post(server, chat(**NEIGHBOUR))
    assert status == 200, body
    return body["choices"], body["usage"]["completion_tokens"]


def check_error(answer: tuple[int, Any], status: int, code: str | None, param: str | None) -> None:
    found, body = answer
    assert found == status, body
    error = body["error"]
    assert body.keys() == {"error"}
    assert error.keys() == {"message", "type", "param", "code", "request_id"}
    assert (error["type"], error["code"], error["param"]) == (TYPES[status], code, param), error


@pytest.mark.parametrize(
    ("path", "fields", "status", "code", "param"), LIMITS, ids=[f"{one[4]}-{one[3]}" for one in LIMITS]
)
def test_over_a_limit(
    limited: Running,
    neighbour: Any,
    path: str,
    fields: dict[str, Any],
    status: int,
    code: str | None,
    param: str | None,
) -> None:
    body = {"model": NAME, **({"messages": MESSAGES} if path == CHAT else {}), **fields}
    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(answer_of_neighbour, limited)
        check_error(post(limited, body, path), status, code, param)
        assert beside.result(HANG_SECONDS) == neighbour
    until(lambda: limited.service.open == 0 and limited.service.model_thread.batch.is_idle)


@pytest.mark.parametrize("streams", [False, True])
def test_a_constraint_whose_first_token_takes_too_long(
    model: Any, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", -1.0)
    limits = replace(SETTINGS.limits, compile_seconds=60.0, step_seconds=1e-6)
    server = Running(model, replace(SETTINGS, limits=limits))
    try:
        answer = post(server, chat(guided_grammar='root ::= "a" [b-y]{1,9}', stream=streams))
        check_error(answer, 400, "limit_exceeded", "guided_grammar")
        assert "step_seconds" in answer[1]["error"]["message"]
        free = post(server, chat(seed=3))
        assert free[0] == 200 and free[1]["choices"][0]["message"]["content"]
    finally:
        server.stop()


def test_more_requests_than_may_be_open(limited: Running, neighbour: Any) -> None:
    """The others go on, and what is refused says when to come again."""
    released = threading.Event()
    thread = limited.service.model_thread
    holding = threading.Thread(target=thread.call, args=(lambda: released.wait(HANG_SECONDS),))
    holding.start()
    try:
        with ThreadPoolExecutor(4) as clients:
            waiting = [clients.submit(answer_of_neighbour, limited) for _ in range(4)]
            until(lambda: limited.service.open == 4)
            status, body = post(limited, chat(**NEIGHBOUR))
            assert status == 429, body
            assert (body["error"]["type"], body["error"]["code"]) == ("rate_limit_error", "queue_full")
            released.set()
            assert all(one.result(HANG_SECONDS) == neighbour for one in waiting)
    finally:
        released.set()
        holding.join()
