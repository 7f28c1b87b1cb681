"""Measure the time of formulas and plans; with `ltlf2dfa` and MONA too, where both are installed.

    python -m bench.planning.speed [--runs N] [--limit SECONDS]

The tasks:

    patterns    a list of 3 to 8 random patterns of ten actions: until the first step of a plan is allowed (lazily),
                until the whole minimal automaton of their conjunction exists, and the same by ltlf2dfa
    order       a plan that visits 20 places in a given order, token by token: the mask and the step of the constraint
    any order   the same, with twelve of them in any order through a ring of doors

Figures are medians and maxima; each formula is compiled again in every run.

Results: docs/performance.md, "Temporal logic".
"""

from __future__ import annotations

import itertools
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen import ltl
from structgen.errors import LimitExceeded, UnsatisfiableFormula
from structgen.ltl import patterns

__all__ = ["main"]

ACTIONS = [f"a{number}" for number in range(10)]
_THEIRS = """
import sys, time
from ltlf2dfa.parser.ltlf import LTLfParser
formula = LTLfParser()(sys.argv[1])
started = time.perf_counter()
formula.to_dfa()
print(time.perf_counter() - started)
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.planning.speed", __doc__)
    parser.add_argument("--runs", type=int, default=20, help="conjunctions of each size (20)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that ltlf2dfa is given (60)")
    chosen = parser.parse_args(arguments)
    print(
        "| patterns | first step, ms | slowest | whole automaton, ms | slowest | states | ltlf2dfa, ms | slowest |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for size in range(3, 9):
        print(_row(size, chosen.runs, chosen.limit), flush=True)
    print(
        "\n| plan | made, ms | tokens | mask and step, ms | slowest | places expanded |\n|---|--:|--:|--:|--:|--:|"
    )
    for name, make in (("20 places in order", _in_order), ("12 places in any order", _any_order)):
        print(f"| {name} | {_walked(make)} |", flush=True)


def random_patterns(chance: random.Random, size: int) -> list[ltl.Formula]:
    """Patterns that can be met together."""
    while True:
        formulas = []
        for _ in range(size):
            p, s, t = chance.sample(ACTIONS, 3)
            scope = chance.choice([None, None, patterns.before(t), patterns.after(t)])
            made = (
                partial(patterns.existence, p, scope),
                partial(patterns.absence, p, patterns.after(t)),
                partial(patterns.precedence, s, p, scope),
                partial(patterns.response, p, s, scope),
                partial(patterns.bounded_existence, p, 2),
                partial(patterns.response_by_chain, p, s, t),
            )
            formulas.append(chance.choice(made)())
        try:
            sg.plan(ACTIONS, formulas)
        except UnsatisfiableFormula:
            continue
        return formulas


def _row(size: int, runs: int, limit: float) -> str:
    chance = random.Random(size)
    lazy, whole, states, theirs = [], [], [], []
    for _ in range(runs):
        formulas = random_patterns(chance, size)
        started = time.perf_counter()
        plan = sg.plan(ACTIONS, formulas)
        plan.shortest()
        lazy.append(time.perf_counter() - started)
        started = time.perf_counter()
        try:
            states.append(len(ltl.automaton(ltl.all_of(formulas), atoms=ACTIONS, most=100_000)))
            whole.append(time.perf_counter() - started)
        except LimitExceeded:
            whole.append(float("inf"))
        theirs.append(_their_time(formulas, limit))
    reference = "| | " if None in theirs else f"{_ms(theirs)} | "  # type: ignore[arg-type]
    return f"| {size} | {_ms(lazy)} | {_ms(whole)} | {statistics.median(states):.0f} | {reference}"


def _ms(seconds: Sequence[float]) -> str:
    return f"{1000 * statistics.median(seconds):.2f} | {1000 * max(seconds):.2f}"


def _their_time(formulas: Sequence[ltl.Formula], limit: float) -> float | None:
    """Seconds of ltlf2dfa; None where it is not there, infinite where it takes too long."""
    if shutil.which("mona") is None:
        return None
    text = " & ".join(f"({_spelled(formula)})" for formula in formulas)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _THEIRS, text], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return float("inf")
    return float(done.stdout) if done.returncode == 0 else None


def _spelled(formula: ltl.Formula) -> str:
    """Without W, which it does not read, and with parentheses everywhere."""
    args = [f"({_spelled(argument)})" for argument in formula.args]
    match formula.op:
        case "atom":
            return formula.name
        case "W":
            return f"({args[0]} U {args[1]}) | (G {args[0]})"
        case "not":
            return f"!{args[0]}"
        case "N":
            return f"WX {args[0]}"
        case "F" | "G" | "X":
            return f"{formula.op} {args[0]}"
        case "and" | "or" | "implies" | "U" | "R":
            sign = {"and": "&", "or": "|", "implies": "->"}.get(formula.op, formula.op)
            return f" {sign} ".join(args)
    return formula.op


def _in_order() -> sg.Constraint:
    places = [f"place {number}" for number in range(20)]
    order = [f'!"visit({after})" U "visit({before})"' for before, after in itertools.pairwise(places)]
    return sg.plan(
        {"visit": {"where": places}}, [*order, *(f'F "visit({place})"' for place in places)], max_steps=25
    )


def _any_order() -> sg.Constraint:
    places = [str(number) for number in range(12)]

    def follow(here: int, step: Any) -> int | None:
        there = int(step["to"])
        return there if (there - here) % 12 in (1, 2, 11) else None

    world = sg.ltl.World(0, follow)
    return sg.plan(
        {"go": {"to": places}}, [f"F go({place})" for place in places], environment=world, max_steps=16
    )


def _walked(make: Callable[[], Any]) -> str:
    vocabulary = sg.load(threads=1).vocabulary
    sg.Matcher(sg.regex("a"), vocabulary).mask()
    started = time.perf_counter()
    plan = make()
    made = time.perf_counter() - started
    matcher, chance, times = sg.Matcher(plan, vocabulary), random.Random(1), []
    while True:
        started = time.perf_counter()
        mask = matcher.mask()
        spent = time.perf_counter() - started
        allowed = [token for token in range(vocabulary.size) if mask[token // 32] >> (token % 32) & 1]
        token = chance.choice(allowed)
        if token in vocabulary.eos_ids:
            break
        started = time.perf_counter()
        matcher.advance(token)
        times.append(spent + time.perf_counter() - started)
    return f"{1000 * made:.1f} | {len(times)} | {_ms(times)} | {plan.expanded}"


if __name__ == "__main__":
    main()
