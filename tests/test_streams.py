"""Streams: partial values with what is finished of them, and validated items one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field

import structgen as sg
from structgen.errors import ConcurrentUse, GenerationError, OptionError, OutputInvalid, Truncated
from structgen.streams import ItemStream, Stream
from structgen.types import output_type
from tests.oracles.scripted_model import ScriptedModel


class Item(BaseModel):
    name: str
    price: Annotated[float, Field(ge=0)]


class Order(BaseModel):
    customer: str = Field(alias="customerName")
    items: list[Item]


TWO = '[{"name": "tea", "price": 2.5}, {"name": "cake", "price": 4.0}]'
ORDER = f'{{"customerName": "Ann", "items": {TWO}}}'


def test_a_stream_says_what_is_finished() -> None:
    stream = sg.stream(ScriptedModel(ORDER), "?", Order)
    for order in stream:
        for path, value in (
            ("customer", order.customer),
            ("customerName", order.customer),
            ("items.0.name", order.items[0].name if order.items else None),
            (("items", 1, "price"), order.items[1].price if len(order.items or ()) > 1 else None),
        ):
            if stream.is_complete(path):
                assert value in ("Ann", "tea", 4.0)
        assert stream.is_complete("customer") == ('"Ann"' in stream.text)
        assert stream.is_complete("items.0.name") == ('"tea"' in stream.text)
        assert not stream.is_complete("items.2") or stream.text == ORDER
    assert stream.is_complete() and stream.is_complete("items.1.price")
    assert stream.result is not None and stream.result.value == order


def test_a_part_that_the_type_has_not_is_an_error() -> None:
    stream = sg.stream(ScriptedModel(ORDER), "?", Order)
    next(stream)
    for path, hint in (
        ("custmer", "customer"),
        ("items.0.nam", "name"),
        ("customer.x", ""),
        (("items", "one"), ""),
    ):
        with pytest.raises(OptionError, match="has no part") as caught:
            stream.is_complete(path)
        assert hint in str(caught.value.hint)
    list(stream)
    with pytest.raises(OptionError):
        stream.is_complete("custmer")


def test_a_truncated_stream_knows_what_is_finished_too() -> None:
    stream = sg.stream(ScriptedModel(ORDER), "?", Order, max_tokens=len(ORDER) - 20)
    with pytest.raises(Truncated) as caught:
        list(stream)
    assert stream.is_complete("items.0") and not stream.is_complete("items.1.price")
    result = caught.value.result
    assert result.is_complete("items.0.price") and not result.is_complete("items")
    assert result.partial.items[0] == Item(name="tea", price=2.5)


def test_items_come_when_they_are_finished() -> None:
    stream = sg.stream_items(ScriptedModel(TWO), "?", list[Item])
    first = next(stream)
    assert first == Item(name="tea", price=2.5) and len(stream.text) < len(TWO) - 20
    assert list(stream) == [Item(name="cake", price=4.0)]
    assert stream.result is not None and stream.result.value[0] == first


@pytest.mark.parametrize("kind", [list[int], tuple[int, ...], set[int]])
def test_items_of_all_kinds_of_lists(kind: Any) -> None:
    assert list(sg.stream_items(ScriptedModel("[3, 1, 2]"), "?", kind)) == [3, 1, 2]


def test_items_of_a_list_inside() -> None:
    for path in ("items", ("items",)):  # and by their keys in the text
        assert [one.name for one in sg.stream_items(ScriptedModel(ORDER), "?", Order, path=path)] == [
            "tea",
            "cake",
        ]


@pytest.mark.parametrize(
    ("kind", "path"), [(Order, ""), (Order, "customer"), (int, ""), (str, ""), (Order, "no")]
)
def test_a_type_without_a_list_is_refused(kind: Any, path: str) -> None:
    with pytest.raises(OptionError, match="has no list"):
        sg.stream_items(ScriptedModel(""), "?", kind, path=path)


def test_an_item_that_a_validator_refuses_ends_the_stream() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value

    stream = sg.stream_items(ScriptedModel("[2, 3, 4]"), "?", list[Annotated[int, AfterValidator(even)]])
    assert next(stream) == 2
    with pytest.raises(OutputInvalid, match="item 1 of .*odd"):
        next(stream)


def test_a_cut_off_list_gives_its_finished_items_first() -> None:
    stream = sg.stream_items(ScriptedModel("[1, 2, 3, 4]"), "?", list[int], max_tokens=8)
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(Truncated):
        next(stream)


def steps(*texts: str) -> Iterator[Any]:
    """As generations that go back give them: texts only."""
    for text in texts:
        yield SimpleNamespace(text=text, generation=None)


def test_an_answer_that_is_written_again_must_repeat_what_was_handed_out() -> None:
    kind = output_type(list[int])
    again: Any = ItemStream(kind, steps("[1, 2", "[1, 7", "[1, 7, "), ())
    assert list(again) == [1, 7]
    other: Any = ItemStream(kind, steps("[1, 2, ", "[5, 2, "), ())
    assert [next(other), next(other)] == [1, 2]
    with pytest.raises(GenerationError, match="item 0 was yielded"):
        next(other)


def test_prompt_functions_stream_items_in_both_ways() -> None:
    @sg.prompt(ScriptedModel(TWO))
    def list_items(text: str) -> list[Item]:
        """List the items in: {{ text }}"""

    async def collect() -> tuple[list[Item], bool]:
        stream = list_items.astream_items("tea, cake")
        assert not stream.is_complete() and stream.text == ""
        return [item async for item in stream], stream.is_complete("0.name")

    items, finished = asyncio.run(collect())
    assert items == list(list_items.stream_items("tea, cake")) and finished


def test_an_async_stream_can_be_closed() -> None:
    @sg.prompt(ScriptedModel("[" + "1, " * 200 + "1]"), max_tokens=999)
    def numbers() -> list[int]:
        """Numbers."""

    async def first() -> Any:
        async with numbers.astream() as stream:
            return await anext(stream), len(stream.text)

    value, length = asyncio.run(first())
    assert value == [] and length < 10


def test_items_wait_for_the_next_attempt() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value

    answers = ["[2, 3]", "[2, 4]"]
    kind = list[Annotated[int, AfterValidator(even)]]
    model = ScriptedModel(lambda prompt: answers.pop(0))
    assert list(sg.stream_items(model, "?", kind, attempts=2)) == [2, 4]
    answers = ["[2, 3]", "[2, 5]"]
    items = sg.stream_items(model, "?", kind, attempts=2)
    assert next(items) == 2
    with pytest.raises(OutputInvalid, match="odd"):
        list(items)


def test_closing_ends_the_generation() -> None:
    ended = []

    def steps_that_end() -> Iterator[Any]:
        try:
            yield from steps("[1", "[1, ", "[1, 2")
        finally:
            ended.append(True)

    with Stream(output_type(list[int]), steps_that_end()) as stream:
        next(stream)
    assert ended == [True]


def test_a_cancelled_async_stream_raises_the_cancellation() -> None:
    @sg.prompt(ScriptedModel("[" + "1, " * 300 + "1]"), max_tokens=2000)
    def numbers() -> list[int]:
        """Numbers."""

    async def run() -> int:
        seen = 0
        async with numbers.astream() as stream:
            task = asyncio.current_task()
            assert task is not None
            async for _ in stream:
                seen += 1
                if seen == 3:
                    asyncio.get_running_loop().call_soon(task.cancel)
        return seen

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_an_async_stream_is_read_by_one_task() -> None:
    @sg.prompt(ScriptedModel("[1, 2]"))
    def numbers() -> list[int]:
        """Numbers."""

    async def run() -> list[Any]:
        stream = numbers.astream()
        return await asyncio.gather(anext(stream), anext(stream), return_exceptions=True)

    assert any(isinstance(one, ConcurrentUse) for one in asyncio.run(run()))


def test_comparing_partial_objects_may_fail() -> None:
    class Odd(BaseModel):
        a: int
        b: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Odd) and self.a + self.b == other.a + other.b

    *_, last = sg.stream(ScriptedModel('{"a": 1, "b": 2}'), "?", Odd)
    assert (last.a, last.b) == (1, 2)
