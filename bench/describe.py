"""Measure whether a model benefits from seeing the fields of the output type in its prompt.

    python -m bench.describe [TASK ...] [--examples]

Each item of the bundled tasks gets one greedy answer. Its prompt is the task's instruction and the item's text, with
the output of `structgen.types.describe` before the text, after it, or nowhere. With ``--examples`` the task's worked
example comes first, as messages. The default of ``describe=`` follows these results.

Cost: about a minute for each task and position, with the embedded model on one core. Results: docs/types.md, "Does it
help?".
"""

from __future__ import annotations

import json
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen import api
from structgen.evaluation.tasks import TASKS, Task, judge, load_tasks
from structgen.generation.options import make_options
from structgen.types.describe import describe_schema
from structgen.types.output import output_type

_POSITIONS = ("nowhere", "before", "after")
_BATCH = 10


def prompt_for(task: Task, position: str, examples: bool) -> Any:
    """Return the prompt of an item, with the fields at a position."""
    instruction = task.messages[0]["content"].split("\n\n")[0]
    fields, text = describe_schema(task.schema), task.messages[-1]["content"]
    if not examples:
        text = f"{instruction}\n\n{text}"
    if position != "nowhere":
        text = f"{fields}\n\n{text}" if position == "before" else f"{text}\n\n{fields}"
    if not examples:
        return text
    return [
        {"role": "system", "content": instruction},
        *task.messages[1:-1],
        {"role": "user", "content": text},
    ]


def empty_lists(value: Any) -> int:
    """Return how many lists in a JSON value have no items."""
    if isinstance(value, list):
        return (not value) + sum(map(empty_lists, value))
    return sum(map(empty_lists, value.values())) if isinstance(value, dict) else 0


def measure(model: Any, name: str, position: str, examples: bool) -> str:
    """Return a row of the table."""
    options = make_options({"max_tokens": 96, "close_within_budget": True, "exact_weight": False})
    tasks = load_tasks([name])
    right, score, empty = 0, 0.0, 0
    for part in dict.fromkeys(task.part for task in tasks):
        items = [task for task in tasks if task.part == part]
        kind = output_type(
            sg.json_schema(items[0].schema, ordered=True, whitespace="json.dumps", integers="digits")
        )
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            prompts = [prompt_for(task, position, examples) for task in batch]
            for task, result in zip(
                batch, api.run_batch(model, prompts, kind, [options] * len(batch)), strict=True
            ):
                verdict = judge(task, result.text)
                right, score = right + verdict.correct, score + verdict.score
                empty += empty_lists(json.loads(result.text)) if verdict.valid else 0
    return f"| {name} | {position} | {right / len(tasks):.1%} | {score / len(tasks):.3f} | {empty} |"


def main() -> None:
    parser = argument_parser("bench.describe", __doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), metavar="TASK")
    parser.add_argument("--examples", action="store_true", help="show the worked example of each task first")
    arguments = parser.parse_args()
    model = sg.load()
    for name in arguments.tasks:
        for position in _POSITIONS:
            print(measure(model, name, position, arguments.examples), flush=True)


if __name__ == "__main__":
    main()
