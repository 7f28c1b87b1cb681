"""Calls of tools: async ones, time-outs, arguments that are refused, and results of every kind as JSON."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import threading
import time
from collections import namedtuple
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen.errors import OptionError, OutputInvalid, ToolTimeout
from structgen.tools import CallResult, ToolCall, run_tools, run_tools_async
from structgen.tools.result_json import shown
from tests.oracles.scripted_model import ScriptedModel


def call(name: str, /, **arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def scripted(*texts: str) -> ScriptedModel:
    left = list(texts)
    return ScriptedModel(lambda prompt: left.pop(0))


def run_once(tool: Any, text: str, **options: Any) -> CallResult:
    """Run one call in both loops, and check that the results agree."""
    done = run_tools(scripted(text, "Done."), "Go.", [tool], **options)
    again = asyncio.run(run_tools_async(scripted(text, "Done."), "Go.", [tool], **options))
    assert done.answer == again.answer == "Done."
    assert [one.content for one in done.results] == [one.content for one in again.results]
    return done.results[0]


def content_of(done: CallResult) -> Any:
    return json.loads(done.content)


# -- async tools

context: contextvars.ContextVar[str] = contextvars.ContextVar("context", default="none")


async def double(number: int) -> int:
    """Double."""
    await asyncio.sleep(0)
    return 2 * number


class Clients:
    async def find(self, name: str) -> str:
        await asyncio.sleep(0)
        return f"found {name}"

    async def stream(self) -> AsyncIterator[int]:
        for number in range(3):
            yield number


async def fails() -> None:
    raise ValueError("no")


def gives_a_coroutine(number: int) -> Any:
    return double(number)


def counts() -> Iterator[int]:
    yield from range(3)


@pytest.mark.parametrize("timeout", [None, 120])
@pytest.mark.parametrize(
    ("tool", "text", "value"),
    [
        (double, call("double", number=4), 8),
        (Clients().find, call("find", name="Ann"), "found Ann"),
        (Clients().stream, call("stream"), [0, 1, 2]),
        (functools.partial(double, number=5), call("double"), 10),
        (gives_a_coroutine, call("gives_a_coroutine", number=6), 12),
        (counts, call("counts"), [0, 1, 2]),
    ],
)
def test_async_tools_are_awaited(tool: Any, text: str, value: Any, timeout: float | None) -> None:
    assert run_once(tool, text, timeout=timeout).value == value


def test_exceptions_of_async_tools_are_reported() -> None:
    done = run_once(fails, call("fails"))
    assert isinstance(done.error, ValueError) and content_of(done) == {"error": "ValueError: no"}


def test_async_tools_of_a_conversation_share_an_event_loop() -> None:
    loops = []

    async def where() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    texts = (call("where") + "\n" + call("where"), call("where"), "Done.")
    run_tools(scripted(*texts), "Go.", [where])
    assert len({id(loop) for loop in loops}) == 1 and loops[0].is_closed()
    assert not any(thread.name == "structgen-tools" for thread in threading.enumerate())

    async def outer() -> None:
        loops.clear()
        await run_tools_async(scripted(*texts), "Go.", [where])
        assert set(loops) == {asyncio.get_running_loop()}
        run_tools(scripted(*texts), "Go.", [where])  # inside a running loop, as in a notebook

    asyncio.run(outer())


def test_context_variables_reach_tools() -> None:
    def read() -> str:
        return context.get()

    async def read_async() -> str:
        return context.get()

    token = context.set("mine")
    try:
        for tool in (read, read_async):
            assert run_once(tool, call(tool.__name__), timeout=600).value == "mine"
    finally:
        context.reset(token)


def test_execute_may_be_async() -> None:
    definition = {"name": "now", "parameters": {"type": "object", "properties": {}}}

    async def execute(one: ToolCall) -> str:
        return f"{one.name}: 12:00"

    assert run_once(definition, call("now"), execute=execute).content == "now: 12:00"


def test_the_event_loop_goes_on_while_a_tool_blocks() -> None:
    started, done = threading.Event(), threading.Event()

    def blocks() -> str:
        started.set()
        return "went on" if done.wait(600) else "stood still"

    async def both() -> Any:
        running = asyncio.create_task(run_tools_async(scripted(call("blocks"), "Done."), "Go.", [blocks]))
        while not started.is_set():
            await asyncio.sleep(0.001)
        done.set()
        return await running

    assert asyncio.run(both()).results[0].value == "went on"


def test_cancelling_ends_an_async_tool() -> None:
    started, ended = [], []

    async def waits() -> None:
        started.append(True)
        try:
            await asyncio.sleep(600)
        finally:
            ended.append(True)

    async def cancel() -> None:
        running = asyncio.create_task(run_tools_async(scripted(call("waits"), "Done."), "Go.", [waits]))
        while not started:
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    assert ended == [True]


# -- time-outs and errors


def test_a_tool_that_times_out_is_reported_and_the_loop_continues() -> None:
    release = threading.Event()

    def slow() -> str:
        release.wait(600)
        return "late"

    async def slow_async() -> str:
        await asyncio.sleep(600)
        return "late"

    for tool in (slow, slow_async):
        done = run_once(tool, call(tool.__name__), timeout=0.05)
        assert isinstance(done.error, ToolTimeout) and isinstance(done.error, TimeoutError)
        assert content_of(done) == {"error": f"{tool.__name__} gave no result within 0.05 seconds"}
    release.set()


def test_an_async_tool_that_blocks_its_loop_times_out_as_well() -> None:
    def sleep() -> None:
        time.sleep(1.2)

    async def blocks() -> None:
        sleep()

    done = run_tools(scripted(call("blocks"), "Done."), "Go.", [blocks], timeout=0.05)
    assert isinstance(done.results[0].error, ToolTimeout) and done.answer == "Done."


def test_a_timeout_error_of_the_tool_is_not_a_timeout_of_the_call() -> None:
    async def asks() -> None:
        raise TimeoutError("the service is down")

    def asks_too() -> None:
        raise TimeoutError("the service is down")

    for tool in (asks, asks_too):
        done = run_once(tool, call(tool.__name__), timeout=600)
        assert content_of(done) == {"error": "TimeoutError: the service is down"}


def even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even")
    return number


class Order(BaseModel):
    item: str
    count: Annotated[int, AfterValidator(even)]


def buy(order: Order) -> str:
    """Buy."""
    return order.item


def test_arguments_that_a_validator_refuses_are_reported() -> None:
    wrong, right = (call("buy", order={"item": "tea", "count": count}) for count in (3, 4))
    done = run_tools(scripted(wrong, right, "Done."), "Go.", [buy])
    first, second = done.results
    assert isinstance(first.error, OutputInvalid)
    assert content_of(first) == {"error": "invalid arguments for buy: order.count: Value error, must be even"}
    assert second.value == "tea" and done.answer == "Done."
    assert "must be even" in done.messages[3]["content"]


def test_errors_can_be_raised_instead() -> None:
    def fails_now() -> None:
        raise KeyError("gone")

    for tool, text, error in (
        (fails_now, call("fails_now"), KeyError),
        (fails, call("fails"), ValueError),
        (buy, call("buy", order={"item": "tea", "count": 3}), OutputInvalid),
    ):
        with pytest.raises(error):
            run_tools(scripted(text), "Go.", [tool], on_error="raise")
        with pytest.raises(error):
            asyncio.run(run_tools_async(scripted(text), "Go.", [tool], on_error="raise"))


def test_exceptions_that_python_treats_specially() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def stops() -> None:
        raise StopIteration

    def is_rude() -> None:
        raise Rude

    def interrupts() -> None:
        raise KeyboardInterrupt

    for timeout in (None, 30):
        assert "StopIteration" in run_once(stops, call("stops"), timeout=timeout).content
        assert content_of(run_once(is_rude, call("is_rude"), timeout=timeout)) == {"error": "Rude"}
        with pytest.raises(KeyboardInterrupt):
            run_tools(scripted(call("interrupts")), "Go.", [interrupts], timeout=timeout)


# -- functools.partial


def book(city: str, nights: int, user: str = "anyone", **more: str) -> str:
    """Book a room."""
    return f"{city} {nights} {user} {sorted(more.items())}"


def test_arguments_that_a_partial_sets_are_neither_offered_nor_changed() -> None:
    tool = functools.partial(functools.partial(book, user="ann"), nights=2)
    (read,) = sg.tools.read_tools([tool])
    assert list(read.parameters["properties"]) == ["city", "more"]
    assert read.description == "Book a room." and read.name == "book"
    assert run_once(tool, call("book", city="Rome")).value == "Rome 2 ann []"
    with_more = run_once(tool, call("book", city="Rome", more={"view": "sea"}))
    assert with_more.value == "Rome 2 ann [('view', 'sea')]"
    (positional,) = sg.tools.read_tools([functools.partial(book, "Rome")])
    assert list(positional.parameters["properties"]) == ["nights", "user", "more"]


def test_a_set_keyword_cannot_come_in_through_the_open_ones() -> None:
    def log(**fields: str) -> str:
        return str(fields)

    done = run_once(functools.partial(log, user="ann"), call("log", fields={"user": "eve"}))
    assert content_of(done) == {"error": "log does not take user, which is set already"}


# -- results


class Color(enum.Enum):
    RED = "red"


class City(BaseModel):
    name: str
    founded: datetime.date


@dataclasses.dataclass
class Point:
    x: float
    next: Any = None


Pair = namedtuple("Pair", ["left", "right"])


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class BrokenModel(BaseModel):
    value: Any

    def model_dump(self, **options: Any) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a text", "a text"),
        (None, None),
        (True, True),
        (City(name="Rome", founded=datetime.date(1, 4, 21)), {"name": "Rome", "founded": "0001-04-21"}),
        ([City(name="Rome", founded=datetime.date(1, 4, 21))], [{"name": "Rome", "founded": "0001-04-21"}]),
        (Point(1.5, Point(2)), {"x": 1.5, "next": {"x": 2, "next": None}}),
        (Pair(1, Color.RED), {"left": 1, "right": "red"}),
        (Color.RED, "red"),
        ({Color.RED: 1, 2: "two", None: 3, (1, "a"): 4}, {"red": 1, "2": "two", "null": 3, '[1, "a"]': 4}),
        (datetime.datetime(2024, 2, 29, 12), "2024-02-29T12:00:00"),
        (datetime.timedelta(minutes=90), "PT1H30M"),
        (decimal.Decimal("1.50"), "1.50"),
        (Path("a/b"), "a/b"),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ({3, 10, 2}, [10, 2, 3]),
        (range(3), [0, 1, 2]),
        ((1, (2, 3)), [1, [2, 3]]),
        (b"abc", "abc"),
        (b"\xff\x00", "/wA="),
        (float("nan"), "NaN"),
        ([float("inf"), float("-inf")], ["Infinity", "-Infinity"]),
        (np.int64(3), 3),
        (np.array([[1.5, float("nan")]]), [[1.5, "NaN"]]),
        ("\ud800", "\ufffd"),
        (["\ud800"], ["\ufffd"]),
        (ValueError("no"), "ValueError: no"),
        (Broken(), "a Broken"),
        ([BrokenModel(value=1)], [{"value": 1}]),
        ({1: {2: {3}}}, {"1": {"2": [3]}}),
    ],
)
def test_results_are_shown_as_json(value: Any, expected: Any) -> None:
    text = shown(value)
    assert text == expected if isinstance(value, str) else json.loads(text) == expected
    assert "NaN," not in text
    assert CallResult(ToolCall("f"), value).content == text


def test_cycles_depth_and_huge_numbers() -> None:
    cycle: dict[str, Any] = {"a": 1}
    cycle["self"] = [cycle]
    assert json.loads(shown(cycle)) == {"a": 1, "self": ["(the same value again)"]}
    point = Point(1)
    point.next = point
    assert json.loads(shown(point)) == {"x": 1, "next": "(the same value again)"}
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    json.loads(shown(deep))
    assert json.loads(shown(10**10_000)).startswith("0x")
    assert json.loads(shown([object()]))[0].startswith("<object object")


def test_odd_results_do_not_end_the_loop() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)

    def odd() -> Any:
        return {(1, 2): cycle, "set": {1}, "object": Broken(), "nan": float("nan")}

    assert content_of(run_once(odd, call("odd")))["set"] == [1]


# -- the answer


class Forecast(BaseModel):
    city: str
    degrees: Annotated[int, AfterValidator(even)]


def test_the_final_answer_is_a_validated_value() -> None:
    texts = (call("double", number=10), '{"city": "Rome", "degrees": 20}')
    done = run_tools(scripted(*texts), "Weather?", [double], answer=Forecast)
    assert done.value == Forecast(city="Rome", degrees=20)
    assert done.answer == texts[1]
    assert run_tools(scripted("warm"), "Weather?", [double], answer=Literal["warm", "cold"]).value == "warm"
    assert run_tools(scripted("Warm."), "Weather?", [double]).value == "Warm."
    assert run_tools(scripted("yes"), "Weather?", [double], answer="yes").value == "yes"
    odd = run_tools(scripted('{"city": "Rome", "degrees": 21}'), "Weather?", [double], answer=Forecast)
    with pytest.raises(OutputInvalid, match="must be even"):
        _ = odd.value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": "5"}, "timeout is '5'"),
        ({"timeout": True}, "timeout is True"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"execute": 3}, "execute is 3"),
        ({"temprature": 1}, "temprature"),
        ({"max_rounds": 1.5}, "max_rounds is 1.5"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        run_tools(scripted("Done."), "Go.", [double], **options)
    with pytest.raises(OptionError, match=message):
        asyncio.run(run_tools_async(scripted("Done."), "Go.", [double], **options))
