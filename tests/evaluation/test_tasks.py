"""The bundled tasks: every answer is right by its own measure, and wrong ones are worth what the measure says."""

from __future__ import annotations

import ast
import json
import operator
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

import structgen as sg
from structgen.errors import OptionError
from structgen.evaluation.tasks import TASKS, Judgement, Task, judge, load_tasks

ALL = load_tasks()
SCHEMAS = {json.dumps(task.schema): task for task in ALL}


def first(name: str, part: str) -> Task:
    return next(task for task in ALL if (task.name, task.part) == (name, part))


def test_there_are_enough_and_names_are_distinct() -> None:
    counts = Counter(task.name for task in ALL)
    assert set(counts) == set(TASKS) and min(counts.values()) >= 50
    assert len({(task.name, task.id) for task in ALL}) == len(ALL)
    assert len({task.messages[-1]["content"] for task in ALL}) == len(ALL)


@pytest.mark.parametrize("name", TASKS)
def test_every_answer_is_correct(name: str) -> None:
    for task in load_tasks([name]):
        for text in (json.dumps(task.answer), json.dumps(task.answer, indent=2, ensure_ascii=False)):
            assert judge(task, text) == Judgement(True, True, 1.0), task.id


def test_every_schema_takes_its_answers_by_other_validators() -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    for task in ALL:
        assert jsonschema_rs.validator_for(task.schema, validate_formats=True).is_valid(task.answer), task.id


@pytest.mark.parametrize("text", SCHEMAS, ids=[f"{task.name}-{task.part}" for task in SCHEMAS.values()])
def test_structgen_writes_every_answer(text: str) -> None:
    constraint = sg.json_schema(text)
    vocabulary = sg.Vocabulary.of_bytes()
    for task in ALL:
        if json.dumps(task.schema) == text:
            matcher = sg.Matcher(constraint, vocabulary)
            written = json.dumps(task.answer, ensure_ascii=False).encode()
            assert all(matcher.advance(byte) for byte in written), task.id
            assert matcher.is_complete()


def test_prompts_hold_no_answer_but_those_of_the_examples() -> None:
    for task in ALL:
        assert [message["role"] for message in task.messages][::2] == ["system"] + ["assistant"] * (
            len(task.messages) // 2 - 1
        )
        assert task.messages[-1]["role"] == "user"
        examples = [message["content"] for message in task.messages if message["role"] == "assistant"]
        assert examples
        for example in examples:
            assert judge(task, example).valid and not judge(task, example).correct


def test_arithmetic_adds_up() -> None:
    for task in load_tasks(["arithmetic"]):
        report = _calculated(ast.parse(task.answer["reasoning"], mode="eval").body)
        assert report == Fraction(str(task.answer["answer"])), task.id


_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def _calculated(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_calculated(node.operand)
    assert isinstance(node, ast.BinOp)
    return Fraction(_OPERATORS[type(node.op)](_calculated(node.left), _calculated(node.right)))


@pytest.mark.parametrize(
    ("answer", "correct"),
    [("9", True), ("9.0", True), ("90e-1", True), ("9.0000000000000000001", False), ("-9", False)]
    + [("1e99", False), ("1e999", False), ("1" * 5000, False), ("9e" + "9" * 30, False)],
)
def test_numbers_are_exact(answer: str, correct: bool) -> None:
    task = first("arithmetic", "arithmetic")
    assert task.answer["answer"] == 9
    report = judge(task, f'{{"reasoning": "", "answer": {answer}}}')
    assert (report.correct, report.score) == (correct, float(correct))


def test_other_writings_of_a_decimal() -> None:
    task = next(task for task in ALL if task.name == "arithmetic" and task.answer["answer"] == 0.9)
    assert judge(task, '{"reasoning": "x", "answer": 0.90}').correct
    assert not judge(task, '{"reasoning": "x", "answer": 0.9000001}').correct


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9",
        "null",
        '{"reasoning": "", "answer": true}',
        '{"reasoning": "", "answer": NaN}',
        '{"reasoning": "", "answer": "9"}',
        '{"answer": 9}',
        '{"reasoning": "", "answer": 9, "more": 1}',
        '{"reasoning": "", "answer": 9',
        'It is {"reasoning": "", "answer": 9}',
        '```json\n{"reasoning": "", "answer": 9}\n```',
        "[" * 100_000,
    ],
)
def test_answers_that_violate_the_schema_score_zero(text: str) -> None:
    assert judge(first("arithmetic", "arithmetic"), text) == Judgement(False, False, 0.0)


def test_half_a_surrogate_pair_is_text() -> None:
    report = judge(
        first("extraction", "person"), '{"name": "\\ud800", "age": 31, "occupation": "", "city": ""}'
    )
    assert not report.correct


def test_extraction_counts_fields() -> None:
    task = first("extraction", "order")
    right = task.answer
    assert right == {"customer": "Mrs Olsen", "items": [{"product": "lamp", "quantity": 2}], "express": True}

    def score(**changes: Any) -> float:
        report = judge(task, json.dumps(right | changes))
        assert report.valid and report.correct == (report.score == 1)
        return report.score

    assert score(customer="  mrs\tOLSEN ") == 1
    assert score(customer="Olsen") == 3 / 4
    assert score(items=[{"product": "lamps", "quantity": 3}], express=False) == 1 / 4
    # A second product that was not ordered: two more fields, neither of them right.
    assert score(items=[*right["items"], {"product": "mug", "quantity": 1}]) == 4 / 6
    whole = judge(first("extraction", "match"), json.dumps(first("extraction", "match").answer))
    assert whole.score == 1


def test_an_empty_list_is_a_field() -> None:
    task = next(task for task in ALL if task.answer.get("scorers") == [])
    assert judge(task, json.dumps(task.answer | {"scorers": ["Kim"]})).score == 4 / 6


def test_calling_is_of_the_function_first() -> None:
    task = first("calling", "home")
    right = task.answer
    assert right == {"name": "set_light", "arguments": {"room": "kitchen", "percent": 80}}
    report = judge(task, json.dumps({"name": "set_light", "arguments": {"room": "kitchen", "percent": 8}}))
    assert report == Judgement(True, False, 2 / 3)
    other = {"name": "set_temperature", "arguments": {"room": "kitchen", "celsius": 80}}
    assert judge(task, json.dumps(other)) == Judgement(True, False, 0.0)


def test_groups_take_turns() -> None:
    parts = [task.part for task in load_tasks(["extraction"])]
    assert len(set(parts[:10])) == 10


def test_an_unknown_name_is_reported() -> None:
    with pytest.raises(OptionError, match=r"(?s)no task 'spelling'.*extraction, calling, arithmetic"):
        load_tasks(["spelling"])
    assert load_tasks([]) == []
    assert len(load_tasks(["calling", "calling"])) == 60
