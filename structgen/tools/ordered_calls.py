"""The calls of one turn in a given order, as grammar rules.

What: a right-linear grammar whose terminals are calls. Each state that a turn may reach has a rule with the calls that
may come next; after a call the turn ends, or another rule follows. Each tool's schema constrains its arguments.
Invariant: the turns are those of `Order`. No call starts where none of its continuations satisfies the order.
Cost: one rule per state, times the remaining calls if `max_calls` is given, and one rule per tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from structgen.errors import LimitExceeded
from structgen.formulas.product import ProductState
from structgen.ir.grammar import Body, Rule

from .bodies import choice_of, sequence_of
from .definitions import Tool
from .order import Order

__all__ = ["CallPieces", "ordered_calls"]

_MOST_EDGES = 50_000
"""Upper bound of the next calls of all states, summed."""


@dataclass(frozen=True)
class CallPieces:
    """The parts that calls consist of in one format."""

    start: Body
    """The text before the name."""
    tools: Mapping[str, Body]
    """For each tool: its name, and everything up to the end of its arguments."""
    end: Body
    """The text after the arguments."""
    between: Body
    """The text between two calls."""


def ordered_calls(order: Order, called: Sequence[Tool], most: int | None, pieces: CallPieces) -> list[Rule]:
    """Return the rules of one call or several in this order, the start rule first; empty if no call is possible."""
    first = (order.here, most)
    names: dict[tuple[ProductState, int | None], str] = {first: _name(0)}
    todo, edges = [first], 0
    rules: list[Rule] = []
    used: dict[str, Body] = {}
    for state, room in todo:
        rest = None if room is None else room - 1
        groups: dict[
            ProductState, list[Body]
        ] = {}  # calls that lead to the same state have the same continuation
        for tool, next_state in order.after(state, called, room):
            used[tool.name] = pieces.tools[tool.name]
            groups.setdefault(next_state, []).append(("rule", tool.name))
            edges += 1
        if edges > _MOST_EDGES:
            raise LimitExceeded(
                f"a turn may reach more than {len(rules)} states of the order",
                limit="order_states",
                hint="Give max_calls, or parallel=False: then a turn reaches fewer of them.",
            )
        nexts: list[Body] = []
        for next_state, bodies in groups.items():
            ends: list[Body] = [("sequence", ())] if order.may_end(next_state) else []
            if any(True for _ in order.after(next_state, called, rest)):
                key = (next_state, rest)
                if key not in names:
                    names[key] = _name(len(names))
                    todo.append(key)
                ends.append(sequence_of((pieces.between, ("rule", names[key]))))
            nexts.append(sequence_of((choice_of(bodies), pieces.end, choice_of(ends))))
        if nexts:
            rules.append(Rule(names[state, room], sequence_of((pieces.start, choice_of(nexts)))))
    return [*rules, *(Rule(name, body) for name, body in used.items())]


def _name(number: int) -> str:
    """Explanations omit rules with this prefix."""
    return f"__calls {number}"
