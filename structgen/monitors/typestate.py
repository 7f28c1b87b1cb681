"""Which methods of a value may be called in which of its states: ``open`` before ``read`` before ``close``.

Source: typestate (Strom and Yemini, 1986), as a monitor over the order in which calls are written.
Approximate: calls count in the order of the text. Branches, loops and aliases are not followed: a call inside an ``if``
counts as made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from structgen.argument_names import checks_names
from structgen.errors import OptionError, with_kind

from .monitor import Context, Monitor, Trigger
from .receivers import callee_before
from .suggestions import Names

__all__ = ["Typestate", "typestate"]

_ASSIGNED = re.compile(
    r"(?:^|[;\n{(,]|\bwith\b|\bconst\b|\blet\b|\bvar\b)\s*(?:async\s+with\s+)?([\w.]+)\s*(?::[^=\n]*)?=\s*(?:await\s+|new\s+)*$"
)
_ENTERED = Trigger(r"\)[ \t]+as[ \t]")
"""The target of ``with File() as f``."""
_State = tuple[tuple[str, str, int], ...]
"""The state of each value, and the offset at which it began."""


class Typestate(Monitor):
    """Made by `typestate`."""

    def __init__(
        self,
        transitions: Mapping[str, Mapping[str, str]],
        start: str,
        made_by: frozenset[str],
        values: re.Pattern[str] | None,
        name: str,
    ) -> None:
        super().__init__(name, ("member", "call", _ENTERED), state=())
        self._transitions = {state: dict(calls) for state, calls in transitions.items()}
        self._start, self._made_by, self._values = start, made_by, values
        self._methods = frozenset(call for calls in self._transitions.values() for call in calls)

    def suggest(self, context: Context) -> Any:
        """Exclude methods that the state of a watched value does not have."""
        if context.place != "member":
            return None
        state = self._state_of(context.receiver, context.state, context.text)
        if state is None:
            return None
        refused = self._methods - self._transitions.get(state, {}).keys()
        return Names(refused, excluded=True) if refused else None

    def committed(self, context: Context, name: str) -> _State:
        """Add a value where its maker is called, and change its state where one of its methods is called."""
        states: _State = context.state
        if context.place == _ENTERED.pattern:
            before = context.text.rstrip()[:-2].rstrip()
            is_made = callee_before(before, closed=True) in self._made_by
            return (
                _with(states, name, self._start, len(context.text) + len(name))
                if is_made and name
                else states
            )
        if context.place != "call":
            return states
        callee = context.callee
        receiver, _, method = callee.rpartition(".")
        if callee in self._made_by:
            made = self._assigned(context.text[: context.opening - len(callee)])
            return states if made is None else _with(states, made, self._start, len(context.text))
        state = self._state_of(receiver, states, context.text)
        after = None if state is None else self._transitions.get(state, {}).get(method)
        return states if after is None else _with(states, receiver, after, len(context.text))

    def _assigned(self, before: str) -> str | None:
        match = _ASSIGNED.search(before[-500:])
        return None if match is None else match[1]

    def _state_of(self, receiver: str, states: _State, text: str) -> str | None:
        for value, state, since in states:
            if value == receiver:
                return None if _is_bound_again(receiver, text[since:]) else state
        is_value = self._values is not None and self._values.fullmatch(receiver)
        return self._start if is_value else None


def _is_bound_again(name: str, text: str) -> bool:
    """Return whether the name is assigned to, deleted, or given to something else."""
    value = rf"(?<![\w.]){re.escape(name)}(?!\w)"
    return (
        re.search(
            rf"{value}\s*(?::[^=\n]*)?=(?!=)|\bdel\s+{value}|\bfor\s+[^\n]*{value}[^\n]*\b(?:in|of)\b|"
            rf"(?:\bdef\b|\bfunction\b|\blambda\b)[^\n]*{value}|\bas\s+{value}|{value}\s*=>",
            text,
        )
        is not None
    )


@checks_names
def typestate(
    transitions: Mapping[str, Mapping[str, str]],
    *,
    start: str,
    made_by: str | Collection[str] = (),
    values: str | None = None,
    name: str = "typestate",
) -> Typestate:
    """Return a monitor of the order in which a value's methods are called.

        typestate(
            {"closed": {"open": "opened"}, "opened": {"read": "opened", "close": "closed"}},
            start="closed",
            made_by="File",
        )

    Args:
        transitions: For each state the methods that may be called in it, and the state after each. A method that is
            named anywhere here is refused in states that do not have it; others are unconstrained.
        start: The state of a new value.
        made_by: Functions or classes whose result is such a value, where it is assigned to a name.
        values: A regular expression (of Python): expressions that match it are such values from the beginning on.

    Raises:
        OptionError: A state is unknown, or no value is watched.
    """
    if not isinstance(transitions, Mapping) or not transitions:
        raise OptionError(
            f"transitions is {with_kind(transitions)}", hint='Write {"closed": {"open": "opened"}, ...}.'
        )
    known = ", ".join(map(repr, transitions))
    for state, calls in transitions.items():
        if not isinstance(calls, Mapping):
            raise OptionError(
                f"the state {state!r} has {with_kind(calls)}", hint="Give its methods and what follows each."
            )
        for call, after in calls.items():
            if after not in transitions:
                raise OptionError(
                    f"{call!r} leads from {state!r} to {after!r}, which is no state",
                    hint=f"There are {known}; a last state has no methods: {{{after!r}: {{}}}}.",
                )
    if start not in transitions:
        raise OptionError(
            f"start is {start!r:.60}, which is no state",
            hint=f"There are {known}.",
        )
    makers = frozenset([made_by] if isinstance(made_by, str) else made_by)
    if not makers and values is None:
        raise OptionError("no value is watched", hint="Say which are: made_by=, values=, or both.")
    try:
        pattern = None if values is None else re.compile(values)
    except re.error as error:
        raise OptionError(f"values is no regular expression: {error}") from None
    return Typestate(transitions, start, makers, pattern, name)


def _with(states: _State, value: str, state: str, since: int) -> _State:
    others = (item for item in states if item[0] != value)
    return tuple(sorted([*others, (value, state, since)]))
