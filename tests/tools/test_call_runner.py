"""Calls of tools: async ones, time-outs, arguments that are refused, and errors."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen.errors import OptionError, OutputInvalid, ToolTimeout
from structgen.tools import ToolCall, run_tools, run_tools_async

from .scripted import call, content_of, run_once, scripted

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
