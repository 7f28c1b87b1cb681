"""The calls of one turn in a given order, as rules of a grammar.

What: a right-linear grammar whose terminals are calls: a rule for each state that a turn may reach, with the calls that
may come next there; after a call the turn ends, or another rule goes on. Arguments stay what each tool's schema says.
Invariant: the turns are those of `Order`. A call is not begun where nothing right could follow it.
Cost: a rule for each state, times the calls that are left where `max_calls` is given; and a rule for each tool.
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

_MOST_WAYS = 50_000
"""Of all states together, the calls that may come next."""


@dataclass(frozen=True)
class CallPieces:
    """What calls are written with in one format."""

    start: Body
    """Before the name."""
    tools: Mapping[str, Body]
    """Of each tool its name and all up to the end of the arguments."""
    end: Body
    """After the arguments."""
    between: Body
    """Between two calls."""


def ordered_calls(order: Order, called: Sequence[Tool], most: int | None, pieces: CallPieces) -> list[Rule]:
    """The rules of one call or several in this order, the first for all of them; none where no call is possible."""
    first = (order.here, most)
    names: dict[tuple[ProductState, int | None], str] = {first: _name(0)}
    todo, ways = [first], 0
    rules: list[Rule] = []
    used: dict[str, Body] = {}
    for place, room in todo:
        rest = None if room is None else room - 1
        groups: dict[ProductState, list[Body]] = {}  # calls that lead to the same state end in the same way
        for tool, there in order.after(place, called, room):
            used[tool.name] = pieces.tools[tool.name]
            groups.setdefault(there, []).append(("rule", tool.name))
            ways += 1
        if ways > _MOST_WAYS:
            raise LimitExceeded(
                f"a turn may reach more than {len(rules)} states of the order",
                limit="order_states",
                hint="Give max_calls, or parallel=False: then a turn reaches fewer of them.",
            )
        nexts: list[Body] = []
        for there, bodies in groups.items():
            ends: list[Body] = [("sequence", ())] if order.may_end(there) else []
            if any(True for _ in order.after(there, called, rest)):
                key = (there, rest)
                if key not in names:
                    names[key] = _name(len(names))
                    todo.append(key)
                ends.append(sequence_of((pieces.between, ("rule", names[key]))))
            nexts.append(sequence_of((choice_of(bodies), pieces.end, choice_of(ends))))
        if nexts:
            rules.append(Rule(names[place, room], sequence_of((pieces.start, choice_of(nexts)))))
    return [*rules, *(Rule(name, body) for name, body in used.items())]


def _name(number: int) -> str:
    """Explanations do not tell rules that begin so."""
    return f"__calls {number}"
