"""Answers are checked locally: other forms of a value, temporal logic, and monitors."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.remote import RemoteResult

from .answers import ALL, RIGHT, Person
from .http_server import Start

pytest.importorskip("httpx2")


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


def test_monitors_judge_the_answer(start: Start) -> None:
    constraint = sg.monitored(sg.regex("[a-z]{1,8}"), sg.monitors.after("b", lambda context: ["c", "d"]))
    world = start(says=["abxc", "abc"])
    with sg.connect(world.url, model="small", dialect="none") as model:
        assert sg.generate(model, "?", constraint) == "abc"
