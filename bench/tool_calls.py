"""Measure tool calls of the embedded model in many formats: how many are invalid, and how long they take.

    python -m bench.tool_calls [--runs N] [--unconstrained N] [--threads N] [--device D] [--write FILE]

Each run is a conversation with a question, tools (some Python functions, some definitions), a format and a fixed seed.
The model must call a tool. The call is parsed, validated by pydantic or jsonschema and executed; the model gets the
result and answers.

The report shows the calls, how many of them could not be parsed or were invalid (the bar is 0), how many turns the
token budget ended, and the times. For the first turns of the first ``--unconstrained`` runs it also shows the same
generation without a constraint: how often the model alone writes a valid call.

Results: docs/tools.md, "Measured".
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import structgen as sg
from bench.command import argument_parser
from structgen.errors import StructgenError, Truncated
from structgen.generation import SamplingOptions, generate_tokens
from structgen.tools import FORMATS, ToolCall, ToolTurn, instructions, run_tools, tools

__all__ = ["main"]

Word = Annotated[str, Field(min_length=1, max_length=24)]


class Item(BaseModel):
    name: Word
    count: Annotated[int, Field(ge=1, le=99)] = 1


def temperature(city: Word, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Tell the temperature in a city."""
    return {"city": city, "degrees": len(city) + 10, "unit": unit}


def add(
    first: Annotated[int, Field(ge=-9999, le=9999)], second: Annotated[int, Field(ge=-9999, le=9999)]
) -> int:
    """Add two numbers."""
    return first + second


def order(items: Annotated[list[Item], Field(min_length=1, max_length=3)], express: bool = False) -> str:
    """Order items from the shop."""
    return f"{sum(item.count for item in items)} items, {'express' if express else 'standard'}"


Room = Literal["kitchen", "bath", "hall"]


def light(room: Room, on: bool, level: Annotated[int, Field(ge=0, le=10)] | None = None) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}" + (
        f" at {level}" if level is not None else ""
    )


SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the library.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 30},
                "kind": {"enum": ["book", "film", "song"]},
                "year": {"type": ["integer", "null"], "minimum": 1800, "maximum": 2030},
            },
            "required": ["query", "kind"],
        },
    },
}
TOOLS: list[Any] = [temperature, add, order, light, SEARCH]
QUESTIONS = (
    "What is the temperature in Paris?",
    "How warm is it in New York, in fahrenheit?",
    "What is 412 plus 1839?",
    "Add 17 and 25, please.",
    "Order two apples and a loaf of bread.",
    "I need 12 pencils as fast as possible.",
    "Turn the kitchen light on.",
    "Make the hall dark.",
    "Find a film about the sea.",
    "Which songs from 1969 do you have?",
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.tool_calls", __doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--unconstrained", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default=None)
    parser.add_argument("--write", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    model = sg.load(threads=chosen.threads, device=chosen.device)
    count: Counter[str] = Counter({"invalid": 0, "cut off": 0})
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in range(chosen.runs):
        _run(model, run, count, seconds, beside=run < chosen.unconstrained)
        print(f"\r{run + 1}/{chosen.runs}", dict(count), end="", flush=True)
    figures = {
        **count,
        "seconds per conversation": round(statistics.median(seconds["conversation"]), 3),
        "seconds to make a constraint": round(statistics.median(seconds["constraint"]), 5),
        "milliseconds of masks per token": round(1000 * sum(seconds["masks"]) / max(1, count["tokens"]), 3),
        "milliseconds of model per token": round(1000 * sum(seconds["model"]) / max(1, count["tokens"]), 3),
    }
    print("\n" + json.dumps(figures, indent=2))
    if chosen.write is not None:
        chosen.write.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


def _run(
    model: Any, run: int, count: Counter[str], seconds: dict[str, list[float]], *, beside: bool = False
) -> None:
    """One conversation; its figures go into `count` and `seconds`."""
    format = list(FORMATS.values())[run % len(FORMATS)]
    offered = [TOOLS[(run // 2 + number) % len(TOOLS)] for number in range(1 + run % 3)]
    question = QUESTIONS[run % len(QUESTIONS)]
    most = 2 if run % 4 == 0 and format.between is not None else 1
    options: dict[str, Any] = {"seed": (run, 0), "top_p": 0.95, "max_tokens": 320}
    before = time.perf_counter()
    turn = tools(offered, format=format, tool_choice="required", max_calls=most)
    seconds["constraint"].append(time.perf_counter() - before)
    if beside:
        _unconstrained(model, turn, question, options, count)
    before = time.perf_counter()
    try:
        done = run_tools(
            model,
            question,
            offered,
            format=format,
            tool_choice="required",
            max_calls=most,
            max_rounds=1,
            max_text=40,
            execute=_search,
            **options,
        )
    except Truncated:
        count["cut off"] += 1
        return
    except StructgenError as error:  # a call that cannot be read, or does not validate
        count["invalid"] += 1
        print(f"\n{format.name}, run {run}: {error}")
        return
    seconds["conversation"].append(time.perf_counter() - before)
    for reply in done.rounds:
        timing = reply.generation.timing
        seconds["masks"].append(timing.constraint)
        seconds["model"].append(timing.model)
        count["tokens"] += len(reply.generation.tokens)
    count["calls"] += len(done.results)
    count["errors of functions"] += sum(result.error is not None for result in done.results)
    count["conversations"] += 1


def _unconstrained(
    model: Any, turn: ToolTurn, question: str, options: dict[str, Any], count: Counter[str]
) -> None:
    """The same first turn without a constraint: is what it writes a call that the tools take?"""
    system = {"role": "system", "content": instructions(turn.tools, turn.format)}
    prompt = model.encode([system, {"role": "user", "content": question}])
    chosen = SamplingOptions(**{**options, "max_tokens": 60}, exact_weight=False)
    (generation,) = generate_tokens(model, [prompt], [None], [chosen])
    count["unconstrained turns"] += 1
    try:
        read = turn.read(model.vocabulary.spelled(generation.tokens))
        for call in read.calls:
            next(tool for tool in turn.tools if tool.name == call.name).validate(call.arguments)
        count["valid unconstrained calls"] += len(read.calls)
    except StructgenError:
        count["broken unconstrained turns"] += 1


def _search(call: ToolCall) -> list[str]:
    return [f"{call.arguments['kind']}: {call.arguments['query']}"]


if __name__ == "__main__":
    main()
