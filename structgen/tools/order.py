"""The order of tool calls: a formula of temporal logic about all calls of a conversation, and where a turn may go.

Why: some calls are right only after others, or must be followed by others, and a model should not be asked to
remember that. A turn is one piece of a longer trace: earlier calls have led to some state of the formulas, later turns
may still do what is owed.
What: positions are calls, one atom holds at each: the name of the tool. States are places of the product of the
formulas' automata, made as they are met, from which it is known how many calls are needed at least.
Invariant: a call is possible in a turn if and only if the turn can be ended so that later turns, with the calls that
are left to them, can make the whole conversation satisfy the formulas. A turn without calls ends the conversation: it
is possible if and only if the calls so far satisfy them.
Cost: a search for an end from each state that a turn meets; what one has found makes the next one shorter.
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
"""States that one search for an end may look at."""


class Order:
    """Made by `order_of`; a state of a conversation, and what may follow it."""

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
        self._place = _after(self._product, offered, earlier)

    @property
    def here(self) -> ProductState:
        """Where the earlier calls have led; they can be followed by others, or by none."""
        assert self._place is not None
        return self._place

    @property
    def holds(self) -> bool:
        """Whether the calls so far satisfy the formulas, so that the conversation may end."""
        return _holds(self.formulas, self.earlier, self._place)

    @property
    def is_broken(self) -> bool:
        """Nothing that could still be called makes it right."""
        return not _possible(self.formulas, self.offered, self.earlier)

    def after(
        self, place: ProductState, called: Sequence[Tool], room: int | None
    ) -> Iterator[tuple[Tool, ProductState]]:
        """The calls that may come next in this turn, which has room for so many, with where they lead."""
        rest = None if room is None else room - 1
        if rest is not None and rest < 0:
            return
        for number, there in self._product.after(place):
            if self.offered[number] in called and self._can_end(there, called, rest):
                yield self.offered[number], there

    def may_end(self, place: ProductState) -> bool:
        """Whether a turn may end after a call that led here: later turns can do what is owed."""
        return self._within(place, _FOREVER if self.max_later is None else self.max_later)

    def _can_end(self, place: ProductState, called: Sequence[Tool], room: int | None) -> bool:
        """Whether `room` more calls of these tools lead to where a turn may end."""
        if self.max_later is None:  # it may end here, if it may go on at all
            return self.may_end(place)
        if len(called) == len(self.offered):
            return self._within(place, _FOREVER if room is None else self.max_later + room)
        (tool,) = called  # the one that must be called
        met: set[ProductState] = set()
        while not self.may_end(place):
            met.add(place)
            ways = [one for number, one in self._product.after(place) if self.offered[number] is tool]
            if not ways or ways[0] in met or len(met) > (_FOREVER if room is None else room):
                return False
            place = ways[0]
        return True

    def _within(self, place: ProductState, calls: int) -> bool:
        found = self._product.can_finish(place, min(calls, _FOREVER))
        if found is None:
            raise LimitExceeded(
                f"the order of calls: more than {_SEARCHED} steps were tried for an end",
                limit="order_states",
                hint="Give fewer formulas, or shorter ones.",
            )
        return found

    def check(self, most: int | None) -> None:
        """An error if no calls make the formulas hold, of which this turn can make `most`."""
        if self.is_broken:
            self._raise_conflict()
        if most is None or self.max_later is None or self.holds:
            return
        if not self._within(self.here, most + self.max_later):
            needed = self._product.fewest(self.here)
            calls = "1 more call" if needed == 1 else f"{needed} more calls"
            raise UnsatisfiableFormula(
                f"the order {self.shown()} takes {calls} at least, and {most + self.max_later} can be made",
                hint="Allow more calls: max_calls or parallel, max_later; in run_tools max_rounds.",
            )

    def refused(self, choice: str) -> OptionError:
        """The error of a `tool_choice` that the order leaves nothing to, though `check` has found nothing."""
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
        """The formulas, for messages."""
        return repr("; ".join(map(str, self.formulas)))[:120]

    def after_earlier(self) -> str:
        """ "after backup, delete_file", for messages; "at first" where nothing was called."""
        names = ", ".join(self.earlier[-4:])
        return f"after {'... ' if len(self.earlier) > 4 else ''}{names}" if self.earlier else "at first"

    def _raise_conflict(self) -> None:
        def possible(formulas: Sequence[Formula]) -> bool:
            return _possible(formulas, self.offered, self.earlier)

        core = [self.formulas[place] for place in least_conflict(self.formulas, possible)]
        named = "; ".join(map(str, core))
        together = " together" if len(core) > 1 else ""
        after = f" {self.after_earlier()}" if self.earlier else ""
        raise UnsatisfiableFormula(
            f"no tool calls satisfy {named}{together}{after}",
            core=tuple(map(str, core)),
            hint="Without any one of them there are such calls." if together else None,
        )


def order_of(
    given: OrderFormulas | None,
    offered: Sequence[Tool],
    earlier: Sequence[str | ToolCall],
    max_later: int | None,
) -> Order | None:
    """What the options of `tools` say; None if there is no order."""
    if given is None:
        for name, value in (("earlier", list(earlier) or None), ("max_later", max_later)):
            if value is not None:
                raise OptionError(
                    f"{name} is {value!r:.60} without order", hint="It is what order= is judged by."
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
        raise OptionError(f"earlier is {with_kind(earlier)}; it is a list of calls or names of tools")
    names = [one.name if isinstance(one, ToolCall) else one for one in earlier]
    for one in names:
        if not isinstance(one, str):
            raise OptionError(f"an earlier call is a name or a ToolCall, not {a_kind(one)}")
        _check_name(one, offered, "in earlier")
    return Order(formulas, offered, names, max_later)


def formulas_of(given: OrderFormulas) -> list[Formula]:
    """The formulas; a conjunction is several, each of which has a small automaton of its own."""
    listed: Any = [given] if isinstance(given, Formula | str) else given
    if not isinstance(listed, Sequence):
        raise OptionError(f"order is {with_kind(given)}; it is a formula or a list of formulas")
    formulas = map(as_formula, listed)
    return [part for one in formulas for part in (one.args if one.op == "and" else (one,))]


def _check_name(name: str, offered: Sequence[Tool], where: str) -> None:
    names = [tool.name for tool in offered]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        raise OptionError(
            f"{name!r:.60} {where} is no tool",
            hint=f"Did you mean {near[0]}?" if near else f"There are {names_of(offered)}.",
        )


def _product(formulas: Sequence[Formula], offered: Sequence[Tool]) -> Product:
    return Product([frozenset([tool.name]) for tool in offered], formulas, budget=_SEARCHED)


def _after(product: Product, offered: Sequence[Tool], earlier: Sequence[str]) -> ProductState | None:
    """Where calls lead; None where nothing can follow that is right."""
    numbers = {tool.name: number for number, tool in enumerate(offered)}
    place: ProductState | None = product.start
    for name in earlier:
        place = place and product.step(place, numbers[name])
    return place


def _possible(formulas: Sequence[Formula], offered: Sequence[Tool], earlier: Sequence[str]) -> bool:
    """Whether anything, or nothing, can follow the earlier calls so that these formulas hold; True if not known."""
    product = _product(formulas, offered)
    place = _after(product, offered, earlier)
    return _holds(formulas, earlier, place) or (place is not None and product.fewest(place) != NEVER)


def _holds(formulas: Sequence[Formula], earlier: Sequence[str], place: ProductState | None) -> bool:
    if not earlier:
        return all(map(holds_on_empty, formulas))
    return place is not None and place.ends
