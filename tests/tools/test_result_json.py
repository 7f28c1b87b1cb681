"""Results of every kind as JSON, also broken ones."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from structgen.tools import CallResult, ToolCall
from structgen.tools.result_json import shown

from .scripted import call, content_of, run_once


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
