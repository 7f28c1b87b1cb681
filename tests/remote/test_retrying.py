"""Wrong, truncated and missing answers are requested again, within bounds of attempts and time."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator

import structgen as sg
from structgen import errors
from structgen.remote import RemoteResult

from .answers import ALL, RIGHT, Person
from .http_server import Start, dribble, half, half_a_stream, hang_up

pytest.importorskip("httpx2")


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
