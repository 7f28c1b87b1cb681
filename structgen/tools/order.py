"""The order of tool calls: a formula of temporal logic about all calls of a conversation.

Why: some calls are right only after others, or must be followed by others, and a model should not have to remember it.
A turn is one piece of a longer trace: earlier calls have led to a state of the formulas, and later turns may satisfy
what is still required.
What: positions of the trace are calls; the atom that holds at each is the name of the tool. States are those of the
product of the formulas' automata, built when they are reached. For each, the least number of further calls is known.
Invariant: a call is possible in a turn if and only if the turn can end so that later turns, with the calls that remain
to them, can make the whole conversation satisfy the formulas. A turn without calls ends the conversation, and is
possible if and only if the calls so far satisfy the formulas.
Cost: a search for an end from each state that a turn reaches; each search shortens the later ones.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from structgen.errors import LimitExceeded, OptionError, UnsatisfiableFormula, a_kind, with_kind
from structgen.formulas import Formula, holds_on_empty, least_conflict
from structgen.formulas.formula import as_formula
from structgen.formulas.product import NEVER, Product, ProductState

from .definitions import Tool, ToolCall, names_of

__all__ = ["Order", "OrderFormulas", "formulas_of", "order_of"]

OrderFormulas = Formula | str | Sequence[Formula | str]

_FOREVER = NEVER - 1
"""More calls than any formula needs."""
_SEARCHED = 200_000
"""States that one search for an end may visit."""


class Order:
    """The state of a conversation, and the calls that may follow; `order_of` returns it."""

    def __init__(
        self,
        formulas: Sequence[Formula],
        offered: Sequence[Tool],
        earlier: Sequence[str],
        max_later: int | None,
    ) -> None:
        self.formulas = tuple(formulas)
        self.offered = tuple(offered)
        self.earlier = tuple(earlier)
        self.max_later = max_later
        self._product = _product(formulas, offered)
        self._state = _after(self._product, offered, earlier)

    @property
    def here(self) -> ProductState:
        """The state after the earlier calls."""
        assert self._state is not None
        return self._state

    @property
    def holds(self) -> bool:
        """Whether the calls so far satisfy the formulas, so that the conversation may end."""
        return _holds(self.formulas, self.earlier, self._state)

    @property
    def is_broken(self) -> bool:
        """Whether no further calls can satisfy the formulas."""
        return not _possible(self.formulas, self.offered, self.earlier)

    def after(
        self, state: ProductState, called: Sequence[Tool], room: int | None
    ) -> Iterator[tuple[Tool, ProductState]]:
        """Yield the calls that may come next in this turn, with the states after them.

        Args:
            state: The current state.
            called: The tools that may be called.
            room: The calls that remain in this turn; None is any number.
        """
        rest = None if room is None else room - 1
        if rest is not None and rest < 0:
            return
        for number, next_state in self._product.after(state):
            if self.offered[number] in called and self._can_end(next_state, called, rest):
                yield self.offered[number], next_state

    def may_end(self, state: ProductState) -> bool:
        """Return whether a turn may end in this state, because later turns can satisfy the formulas."""
        return self._within(state, _FOREVER if self.max_later is None else self.max_later)

    def _can_end(self, state: ProductState, called: Sequence[Tool], room: int | None) -> bool:
        """Return whether at most `room` more calls of these tools lead to a state in which the turn may end."""
        if self.max_later is None:  # if any calls can follow, the turn may end here
            return self.may_end(state)
        if len(called) == len(self.offered):
            return self._within(state, _FOREVER if room is None else self.max_later + room)
        (tool,) = called  # `tool_choice` names it
        visited: set[ProductState] = set()
        while not self.may_end(state):
            visited.add(state)
            steps = [
                next_state
                for number, next_state in self._product.after(state)
                if self.offered[number] is tool
            ]
            if not steps or steps[0] in visited or len(visited) > (_FOREVER if room is None else room):
                return False
            state = steps[0]
        return True

    def _within(self, state: ProductState, calls: int) -> bool:
        found = self._product.can_finish(state, min(calls, _FOREVER))
        if found is None:
            raise LimitExceeded(
                f"the order of calls: the search for an end exceeds {_SEARCHED} steps",
                limit="order_states",
                hint="Use fewer or shorter formulas.",
            )
        return found

    def check(self, most: int | None) -> None:
        """Raise `UnsatisfiableFormula` if no calls satisfy the formulas. `most` is the most calls of this turn."""
        if self.is_broken:
            self._raise_conflict()
        if most is None or self.max_later is None or self.holds:
            return
        if not self._within(self.here, most + self.max_later):
            needed = self._product.fewest(self.here)
            calls = "1 more call" if needed == 1 else f"{needed} more calls"
            raise UnsatisfiableFormula(
                f"the order {self.shown()} needs at least {calls}, but only {most + self.max_later} can be made",
                hint="Allow more calls: max_calls or parallel, max_later; or max_rounds of run_tools.",
            )

    def refused(self, choice: str) -> OptionError:
        """Return the error of a `tool_choice` that the order makes impossible."""
        if choice == "none":
            return OptionError(
                f"tool_choice is 'none', but {self.after_earlier()} the order {self.shown()} does not hold yet",
                hint="A turn without calls ends the conversation. Let it call: tool_choice='auto'.",
            )
        what = "no call" if choice == "required" else "no call of it"
        return OptionError(
            f"tool_choice is {choice!r:.60}, but {self.after_earlier()} {what} fits the order {self.shown()}",
            hint="Use tool_choice='auto', or change the order.",
        )

    def shown(self) -> str:
        """Return the formulas, for messages."""
        return repr("; ".join(map(str, self.formulas)))[:120]

    def after_earlier(self) -> str:
        """Return "after backup, delete_file", or "at first" without earlier calls, for messages."""
        names = ", ".join(self.earlier[-4:])
        return f"after {'... ' if len(self.earlier) > 4 else ''}{names}" if self.earlier else "at first"

    def _raise_conflict(self) -> None:
        def possible(formulas: Sequence[Formula]) -> bool:
            return _possible(formulas, self.offered, self.earlier)

        core = [self.formulas[index] for index in least_conflict(self.formulas, possible)]
        named = "; ".join(map(str, core))
        together = " together" if len(core) > 1 else ""
        after = f" {self.after_earlier()}" if self.earlier else ""
        raise UnsatisfiableFormula(
            f"no tool calls satisfy {named}{together}{after}",
            core=tuple(map(str, core)),
            hint="Without any one of them, such calls exist." if together else None,
        )


def order_of(
    given: OrderFormulas | None,
    offered: Sequence[Tool],
    earlier: Sequence[str | ToolCall],
    max_later: int | None,
) -> Order | None:
    """Return the order that the options of `tools` describe; None without one. Raises `OptionError`."""
    if given is None:
        for name, value in (("earlier", list(earlier) or None), ("max_later", max_later)):
            if value is not None:
                raise OptionError(
                    f"{name} is {value!r:.60} without order", hint="It only has an effect with order=."
                )
        return None
    if max_later is not None and (
        not isinstance(max_later, int) or isinstance(max_later, bool) or max_later < 0
    ):
        raise OptionError(f"max_later is {max_later!r:.60}; it must be a whole number of 0 or more")
    formulas = formulas_of(given)
    for formula in formulas:
        for name in sorted(formula.atoms):
            _check_name(name, offered, f"in the order {str(formula)!r:.80}")
    if isinstance(earlier, str | ToolCall):
        raise OptionError(f"earlier is {with_kind(earlier)}; it must be a list of calls or names of tools")
    names = [call.name if isinstance(call, ToolCall) else call for call in earlier]
    for name in names:
        if not isinstance(name, str):
            raise OptionError(f"an earlier call must be a name or a ToolCall, not {a_kind(name)}")
        _check_name(name, offered, "in earlier")
    return Order(formulas, offered, names, max_later)


def formulas_of(given: OrderFormulas) -> list[Formula]:
    """Return the formulas. A conjunction counts as several, so that each automaton is small."""
    listed: Any = [given] if isinstance(given, Formula | str) else given
    if not isinstance(listed, Sequence):
        raise OptionError(f"order is {with_kind(given)}; it must be a formula or a list of formulas")
    formulas = map(as_formula, listed)
    return [part for formula in formulas for part in (formula.args if formula.op == "and" else (formula,))]


def _check_name(name: str, offered: Sequence[Tool], where: str) -> None:
    names = [tool.name for tool in offered]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        raise OptionError(
            f"{name!r:.60} {where} is not a tool",
            hint=f"Did you mean {near[0]}?" if near else f"The tools are {names_of(offered)}.",
        )


def _product(formulas: Sequence[Formula], offered: Sequence[Tool]) -> Product:
    return Product([frozenset([tool.name]) for tool in offered], formulas, budget=_SEARCHED)


def _after(product: Product, offered: Sequence[Tool], earlier: Sequence[str]) -> ProductState | None:
    """Return the state after some calls; None if they violate the formulas for good."""
    numbers = {tool.name: number for number, tool in enumerate(offered)}
    state: ProductState | None = product.start
    for name in earlier:
        state = state and product.step(state, numbers[name])
    return state


def _possible(formulas: Sequence[Formula], offered: Sequence[Tool], earlier: Sequence[str]) -> bool:
    """Return whether these formulas hold, or can be made to hold, after the earlier calls; True if unknown."""
    product = _product(formulas, offered)
    state = _after(product, offered, earlier)
    return _holds(formulas, earlier, state) or (state is not None and product.fewest(state) != NEVER)


def _holds(formulas: Sequence[Formula], earlier: Sequence[str], state: ProductState | None) -> bool:
    if not earlier:
        return all(map(holds_on_empty, formulas))
    return state is not None and state.ends
