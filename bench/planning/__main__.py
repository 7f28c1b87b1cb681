"""Measure plans of a small model in two worlds, with and without constraints.

    python -m bench.planning [--worlds drone table] [--tasks N] [--temperature T]

The model gets each task in four modes:

- ``free``: any text, parsed line by line.
- ``format``: the format of plans.
- ``world``: the format, and only steps that are possible in the world.
- ``formulas``: the same under the task's formulas.

The report shows for each mode how many plans are safe (all steps are possible and no rule is broken) and complete (all
goals are met too), the steps and seconds of a plan, and the milliseconds of the constraint for each token. Python
functions that do not use the formulas check the plans.

Cost: about ten minutes for all tasks on two cores. Results: docs/performance.md, "Temporal logic".
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen.constraints.plans.actions import as_steps
from structgen.constraints.plans.formats import FORMATS

from .worlds import WORLDS, Domain, Task

__all__ = ["main"]

MODES = ("free", "format", "world", "formulas")


@dataclass
class Tally:
    """The figures of one mode."""

    safe: list[bool] = field(default_factory=list)
    complete: list[bool] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    constraint: list[float] = field(default_factory=list)
    """Milliseconds per token for masks and steps of the constraint."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.planning", __doc__)
    parser.add_argument(
        "--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS), help="default: all"
    )
    parser.add_argument("--tasks", type=int, default=0, help="how many of each world (all)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (0)")
    chosen = parser.parse_args(arguments)
    model = sg.load(threads=int(os.environ.get("OMP_NUM_THREADS") or 2))
    print("| world | plans | safe | complete | steps | seconds a plan | constraint, ms a token |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for name in chosen.worlds:
        domain = WORLDS[name]()
        tasks = domain.tasks[: chosen.tasks or None]
        tallies = {mode: Tally() for mode in MODES}
        for number, task in enumerate(tasks):
            for mode in MODES:
                _add(tallies[mode], model, domain, task, mode, chosen.temperature)
            print(f"{name}: {number + 1} of {len(tasks)}", end="\r", file=sys.stderr, flush=True)
        for mode, tally in tallies.items():
            print(
                f"| {name} | {mode} | {_share(tally.safe)} | {_share(tally.complete)} | "
                f"{statistics.mean(tally.steps):.1f} | {statistics.median(tally.seconds):.2f} | "
                f"{statistics.median(tally.constraint):.3f} |",
                flush=True,
            )


def _add(tally: Tally, model: Any, domain: Domain, task: Task, mode: str, temperature: float) -> None:
    example, plan = domain.example
    prompt = f"{domain.description}\n\nTask: {example}\nPlan:\n{plan}\n\nTask: {task.sentence}\nPlan:\n"
    result = sg.run(
        model,
        prompt,
        _constraint(domain, task, mode),
        temperature=temperature,
        max_tokens=120,
        seed=1,
        speculate=False,
    )
    steps = _read(domain, result.text)
    possible = steps is not None and _is_possible(domain, steps)
    known = steps or []
    safe = possible and all(rule.holds(known) for rule in task.rules)
    tally.safe.append(safe)
    tally.complete.append(safe and bool(known) and all(goal.holds(known) for goal in task.goals))
    tally.steps.append(len(known))
    timing = result.generation.timing
    tally.seconds.append(timing.total)
    tally.constraint.append(1000 * timing.constraint / max(1, len(result.generation.tokens)))


def _constraint(domain: Domain, task: Task, mode: str) -> Any:
    if mode == "free":
        return sg.text("\n\n")
    world = None if mode == "format" else domain.world
    formulas = task.formulas if mode == "formulas" else []
    return sg.plan(domain.actions, formulas, environment=world, max_steps=domain.max_steps)


def _read(domain: Domain, text: str) -> list[str] | None:
    """Return the steps of a text, line by line; None if a line is not a step."""
    known = FORMATS["lines"].texts(as_steps(domain.actions))
    lines = [line.strip() for line in text.strip().splitlines()]
    return [known[line].text for line in lines] if all(line in known for line in lines) else None


def _is_possible(domain: Domain, steps: Sequence[str]) -> bool:
    known = {step.text: step for step in as_steps(domain.actions)}
    state = domain.world.start
    for text in steps:
        state = domain.world.follow(state, known[text])
        if state is None:
            return False
    return True


def _share(values: Sequence[bool]) -> str:
    return f"{sum(values)}/{len(values)}"


if __name__ == "__main__":
    main()
