"""Check that texts with drafts equal those without: a hundred prompts, five constraints, three temperatures.

    python -m bench.speculation.equality [--prompts N] [--batch N] [--temperatures T ...] [--dtype float32|bfloat16]
        [--threads N] [--tokens N] [--branching] [--drafter FILE ...]

Every prompt is answered under every constraint at every temperature, once plainly, and once with drafts at every step:
the default drafters, eight tokens at a time, without regard to cost. ``--drafter`` names learned ones, each of which
takes the place of the learned one among them. The tokens must be the same. In float32 they are, unless two tokens are
nearly equally likely, because a pass over several tokens rounds differently from one over a single token. The report
has a line for each learned drafter, and what each of the drafters has brought.

Results: docs/speculation.md, "Guarantees".
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.speculative import Fixed, Speculation, default_drafters

from ..records import progress
from .tasks import TASKS, Person, requests

__all__ = ["main"]

NOUNS = [
    "lighthouse",
    "harbour",
    "bakery",
    "orchestra",
    "glacier",
    "library",
    "beehive",
    "railway",
    "volcano",
    "market",
    "observatory",
    "vineyard",
    "canal",
    "theatre",
    "museum",
    "forest",
    "bridge",
    "desert",
    "island",
    "castle",
]
PROMPTS = (
    "Describe a {} in a few words.",
    "Invent a person who works at a {}, and tell me about them.",
    "What do I need to know about a {}?",
    "Who would visit a {}, and why?",
    "Give me the facts about a {}.",
)


def prompts(count: int) -> list[str]:
    """Return `count` different prompts: every noun in every question, and then the prompts of the tasks."""
    made = [prompt.format(noun) for prompt in PROMPTS for noun in NOUNS]
    more = [request.prompt for task in TASKS for request in requests(task) if isinstance(request.prompt, str)]
    return (made + more)[:count]


def constraints() -> dict[str, sg.Constraint | None]:
    """Return one constraint of each kind."""
    return {
        "schema": sg.types.constraint_for_type(Person),
        "regex": sg.regex(r"(The|A) [a-z]+( [a-z]+){2,8}(, (which|and) [a-z]+( [a-z]+){1,6})?\."),
        "grammar": sg.grammar("sql", start="select"),
        "choice": sg.repeat(
            sg.choice(["a red brick house", "a red boat", "a blue bird", "a tall tree"]), 2, 5, ", "
        ),
        "free": None,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation.equality", __doc__)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7, 1.5])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--branching", action="store_true")
    parser.add_argument("--drafter", type=Path, nargs="+", default=[], help="files of learned drafters")
    chosen = parser.parse_args(arguments)
    model = sg.load(threads=chosen.threads, dtype=chosen.dtype)
    encoded = [model.encode(prompt) for prompt in prompts(chosen.prompts)]
    started = time.perf_counter()
    mine = _speculations(model, chosen.drafter, branching=chosen.branching)
    counts: dict[str, Counter[str]] = {name: Counter() for name in mine}
    kinds = constraints()
    jobs = [
        (temperature, name, start)
        for temperature in chosen.temperatures
        for name in kinds
        for start in range(0, len(encoded), chosen.batch)
    ]
    for temperature, name, start in progress(jobs, "batches"):
        batch = encoded[start : start + chosen.batch]
        options = [
            SamplingOptions(
                temperature=temperature, seed=(7, start + row), max_tokens=chosen.tokens, exact_weight=False
            )
            for row in range(len(batch))
        ]
        plain = _drawn(model, batch, kinds[name], options)
        for drafter, speculation in mine.items():
            drafted = _drawn(model, batch, kinds[name], options, speculation)
            found = counts[drafter]
            for row, (text, other) in enumerate(zip(drafted, plain, strict=True)):
                found["texts"] += 1
                found["taken"] += text.accepted_tokens
                found["tokens"] += len(text.tokens)
                if text.tokens != other.tokens or text.finish != other.finish:
                    found["different"] += 1
                    print(
                        f"{drafter}, different: {name}, temperature {temperature:g}, prompt {start + row}: "
                        f"{_where(text, other)}"
                    )
    for drafter, found in counts.items():
        print(
            f"{drafter}, {chosen.dtype}: {found['texts']} texts, {found['tokens']} tokens, {found['taken']} of them "
            f"drafted; {found['different']} texts differ"
        )
        print(mine[drafter].report())
    print(f"{time.perf_counter() - started:.0f} s")


def _speculations(model: Any, files: Sequence[Path], *, branching: bool) -> dict[str, Speculation]:
    """Return speculation with each of the learned drafters, by their paths; or with the default ones."""
    from structgen.speculative.learned import load_drafter

    chosen = {str(path): (*Speculation().drafters, load_drafter(path, model, least=0.05)) for path in files}
    return {
        name: Speculation(drafters, controller=Fixed(8), branching=branching)
        for name, drafters in (chosen or {"default": default_drafters(model)}).items()
    }


def _drawn(
    model: Any,
    batch: list[list[int]],
    constraint: Any,
    options: list[SamplingOptions],
    speculation: Speculation | None = None,
) -> list[Generation]:
    matchers = [None if constraint is None else sg.Matcher(constraint, model.vocabulary) for _ in batch]
    drafting = None if speculation is None else speculation.start(model)
    return generate_tokens(model, batch, matchers, options, drafting=drafting)


def _where(drafted: Generation, plain: Generation) -> str:
    position = next(
        (at for at, (a, b) in enumerate(zip(drafted.tokens, plain.tokens, strict=False)) if a != b), -1
    )
    return f"token {position} of {len(plain.tokens)}: {drafted.text[-40:]!r} / {plain.text[-40:]!r}"


if __name__ == "__main__":
    main()
