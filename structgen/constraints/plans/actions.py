"""Actions with parameters, and the world they change.

What: an action is a name with the values that each parameter may have; with a value for each it is *ground*:
`go(kitchen)`. A world says which ground actions are possible in a state, and which state they lead to: a table, or a
Python function over hashable states. Positions of a trace are actions: at the position of an action hold its text
`go(kitchen)`, its bare name `go`, and the labels of the state that it leads to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.brief import short_repr
from structgen.errors import LimitExceeded, OptionError, a_kind, with_kind

__all__ = ["Action", "Step", "World", "as_steps", "as_world"]

State = Hashable

_MOST_STEPS = 50_000


@short_repr
@dataclass(frozen=True)
class Action:
    """A name and the values of each parameter, in order: ``Action("put", item=["cup", "bowl"], on=["table",
    "shelf"])``."""

    name: str
    parameters: tuple[tuple[str, tuple[str, ...]], ...]

    def __init__(self, name: str, /, **parameters: Iterable[str]) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"an action is named by a text that is not empty, not by {name!r:.40}")
        told = []
        for parameter, values in parameters.items():
            listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else None
            if not listed or not all(isinstance(value, str) and value for value in listed):
                raise OptionError(
                    f"the parameter {parameter} of the action {name} has the values {values!r:.60}",
                    hint='Give a list of texts that are not empty: Action("go", room=["hall", "kitchen"]).',
                )
            told.append((parameter, tuple(dict.fromkeys(listed))))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "parameters", tuple(told))


@short_repr
@dataclass(frozen=True)
class Step:
    """A ground action."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()
    """The parameters with their values."""
    text: str = field(init=False, compare=False)
    """As atoms of formulas name it: ``go(kitchen)``, ``wait``."""

    def __post_init__(self) -> None:
        values = ",".join(value for _, value in self.arguments)
        object.__setattr__(self, "text", f"{self.name}({values})" if self.arguments else self.name)

    def __getitem__(self, parameter: str) -> str:
        """The value of a parameter."""
        for name, value in self.arguments:
            if name == parameter:
                return value
        raise KeyError(parameter)

    def __str__(self) -> str:
        return self.text


@short_repr
@dataclass(frozen=True)
class World:
    """Which steps are possible where.

    Attributes
    ----------
    start
        The state before the first step. States are hashable.
    follow
        From a state and a `Step` to the next state; None where the step is not possible.
    labels
        The atoms that hold in a state, besides the action that leads there.
    """

    start: State
    follow: Callable[[Any, Step], Any]
    labels: Callable[[Any], Iterable[str]] | None = None

    @classmethod
    def from_table(
        cls,
        table: Mapping[Any, Mapping[str, Any]],
        start: State,
        labels: Mapping[Any, Iterable[str]] | None = None,
    ) -> World:
        """Of rows ``{state: {step's text: next state}}``; a step that a row does not name is not possible there."""
        rows = {state: dict(row) for state, row in table.items()}
        if start not in rows:
            raise OptionError(f"the start {start!r:.60} is no state of the table")
        for state, row in rows.items():
            for text, there in row.items():
                if there not in rows:
                    raise OptionError(
                        f"{text} leads from {state!r:.40} to {there!r:.40}, which is no state of the table"
                    )
        told = None if labels is None else {state: tuple(names) for state, names in labels.items()}
        return cls(start, _Table(rows), None if told is None else _Labels(told))


@dataclass(frozen=True)
class _Table:
    """`follow` of a table, as a class so that it can be pickled."""

    rows: dict[Any, dict[str, Any]]

    def __call__(self, state: Any, step: Step) -> Any:
        return self.rows[state].get(step.text)


@dataclass(frozen=True)
class _Labels:
    told: dict[Any, tuple[str, ...]]

    def __call__(self, state: Any) -> Iterable[str]:
        return self.told.get(state, ())


def _anything(state: Any, step: Step) -> Any:
    return state


def as_steps(actions: Any) -> list[Step]:
    """All ground actions of what a user gave: names, `Action`s, or a mapping of names to the values of parameters."""
    if isinstance(actions, str | Action):
        actions = [actions]
    if isinstance(actions, Mapping):
        actions = [_from_mapping(name, values) for name, values in actions.items()]
    if not isinstance(actions, Iterable):
        raise OptionError(
            f"actions is {a_kind(actions)}",
            hint='Give names, Actions, or {"go": {"room": ["hall", "kitchen"]}}.',
        )
    steps: dict[str, Step] = {}
    for one in actions:
        action = Action(one) if isinstance(one, str) else one
        if not isinstance(action, Action):
            raise OptionError(f"an action is a name or an Action, not {a_kind(one)}")
        values = [[(name, value) for value in all_] for name, all_ in action.parameters]
        for chosen in itertools.product(*values):
            step = Step(action.name, chosen)
            other = steps.setdefault(step.text, step)
            if other != step:
                raise OptionError(
                    f"the steps {other.arguments} and {step.arguments} are both written as {step.text!r:.60}"
                )
            if len(steps) > _MOST_STEPS:
                raise LimitExceeded(
                    f"there are more than {_MOST_STEPS} actions with all their values",
                    limit="plan_actions",
                    hint="Give the parameters of actions fewer values.",
                )
    if not steps:
        raise OptionError("a plan needs an action at least")
    return list(steps.values())


def _from_mapping(name: str, values: Any) -> Action:
    if values is None:
        return Action(name)
    if isinstance(values, Mapping):
        for parameter in values:
            if not isinstance(parameter, str):
                raise OptionError(
                    f"a parameter of the action {name} is {with_kind(parameter)}",
                    hint='Parameters are named by texts: {"go": {"room": ["hall", "kitchen"]}}.',
                )
        return Action(name, **values)
    return Action(name, value=values)


def as_world(world: Any) -> World:
    """None is a world without states, in which every action is possible."""
    if world is None:
        return World((), _anything)
    if isinstance(world, World):
        try:
            hash(world.start)
        except TypeError:
            raise OptionError(
                f"the start of the world is {with_kind(world.start)}, which is not hashable",
                hint="States are compared and kept: use a tuple or a frozenset.",
            ) from None
        return world
    raise OptionError(
        f"the environment is {a_kind(world)}",
        hint="Give a World(start, follow) or World.from_table(table, start).",
    )


def atoms_of(steps: Sequence[Step]) -> frozenset[str]:
    """What formulas may say of these steps."""
    return frozenset(step.text for step in steps) | frozenset(step.name for step in steps)
