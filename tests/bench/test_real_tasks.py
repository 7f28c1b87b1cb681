"""The tasks of the samplers' benchmark: their own examples are answers, and what is wrong is judged so."""

from __future__ import annotations

import pytest

from bench.faithful.real.tasks import TASKS, Task
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

BYTES = Vocabulary.of_bytes()
WRONG = {
    "json": '{"name": "Al", "age": 340, "city": "Rome"}',
    "molecule": "C(C",
    "date": "1989-13-09",
    "query": "SELECT salary FROM orders;",
}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_examples_are_answers(task: Task) -> None:
    if task.name == "molecule":
        pytest.importorskip("rdkit", reason="RDKit judges molecules: pip install rdkit")
    examples = task.turns[1::2]
    assert examples and len(task.turns) % 2 == 1
    for example in examples:
        matcher = Matcher(task.constraint, BYTES)
        assert all(map(matcher.advance, example.encode())) and matcher.is_complete(), example
        assert task.judge(example)
    assert not task.judge(WRONG[task.name])
