"""Actions with parameters, and the worlds that they change.

What: an action is a name with the possible values of each parameter. With one value for each it is a ground action, or
step: `go(kitchen)`. A world states which steps are possible in a state, and which state follows: as a table, or as a
Python function over hashable states. The positions of a trace are steps. At a step these atoms hold: its text
`go(kitchen)`, the bare name `go`, and the labels of the state after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.argument_names import checks_names_of_init
from structgen.brief import short_repr
from structgen.errors import LimitExceeded, OptionError, a_kind, with_kind

__all__ = ["Action", "Step", "World", "as_steps", "as_world"]

State = Hashable

_MOST_STEPS = 50_000


@short_repr
@dataclass(frozen=True)
class Action:
    """An action: a name, and the possible values of each parameter.

    Args:
        name: The name.
        **parameters: The values of each parameter, in order.

    Raises:
        OptionError: The name is empty, or a parameter has no values.

    Example:
        ``Action("put", item=["cup", "bowl"], on=["table", "shelf"])``
    """

    name: str
    parameters: tuple[tuple[str, tuple[str, ...]], ...]

    def __init__(self, name: str, /, **parameters: Iterable[str]) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"the name of an action must be a non-empty text, not {name!r:.40}")
        given = []
        for parameter, values in parameters.items():
            listed = _in_order(values)
            if not listed or not all(isinstance(value, str) and value for value in listed):
                raise OptionError(
                    f"the parameter {parameter} of the action {name} has the values {values!r:.60}",
                    hint='Pass a list of non-empty texts: Action("go", room=["hall", "kitchen"]).',
                )
            given.append((parameter, tuple(dict.fromkeys(listed))))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "parameters", tuple(given))


@short_repr
@dataclass(frozen=True)
class Step:
    """A ground action: an action with a value for each parameter."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()
    """The parameters with their values."""
    text: str = field(init=False, compare=False)
    """The step as an atom of formulas: ``go(kitchen)``, ``wait``."""

    def __post_init__(self) -> None:
        values = ",".join(value for _, value in self.arguments)
        object.__setattr__(self, "text", f"{self.name}({values})" if self.arguments else self.name)

    def __getitem__(self, parameter: str) -> str:
        """Return the value of a parameter."""
        for name, value in self.arguments:
            if name == parameter:
                return value
        raise KeyError(parameter)

    def __str__(self) -> str:
        return self.text


@checks_names_of_init
@short_repr
@dataclass(frozen=True)
class World:
    """A world: the steps that are possible in each state.

    Args:
        start: The state before the first step. States must be hashable.
        follow: Returns the state after a `Step`, or None if the step is not possible.
        labels: Returns the atoms that hold in a state, besides the step that leads there.
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
        """Return the world of a table.

        Args:
            table: For each state, the states after its possible steps, by the steps' texts. Other steps are not
                possible.
            start: The state before the first step.
            labels: The atoms that hold in each state.

        Raises:
            OptionError: The table leads to a state that it does not contain.
        """
        rows = {state: dict(row) for state, row in table.items()}
        if start not in rows:
            raise OptionError(f"the start {start!r:.60} is not a state of the table")
        for state, row in rows.items():
            for text, target in row.items():
                if target not in rows:
                    raise OptionError(
                        f"{text} leads from {state!r:.40} to {target!r:.40}, which is not a state of the table"
                    )
        label_rows = None if labels is None else {state: tuple(names) for state, names in labels.items()}
        return cls(start, _Table(rows), None if label_rows is None else _Labels(label_rows))


@dataclass(frozen=True)
class _Table:
    """The `follow` function of a table, as a class so that it can be pickled."""

    rows: dict[Any, dict[str, Any]]

    def __call__(self, state: State, step: Step) -> State:
        return self.rows[state].get(step.text)


@dataclass(frozen=True)
class _Labels:
    given: dict[Any, tuple[str, ...]]

    def __call__(self, state: State) -> Iterable[str]:
        return self.given.get(state, ())


def _anything(state: State, step: Step) -> State:
    return state


def as_steps(actions: object) -> list[Step]:
    """Return all ground actions of names, `Action`s, or a mapping of names to the values of parameters."""
    if isinstance(actions, str):
        raise OptionError(
            f"actions is the text {actions!r:.60}", hint=f"Pass a list of names: [{actions!r:.60}]."
        )
    if isinstance(actions, Action):
        actions = [actions]
    if isinstance(actions, set | frozenset):  # the same order in every process
        actions = sorted(actions, key=str)
    if isinstance(actions, Mapping):
        actions = [_from_mapping(name, values) for name, values in actions.items()]
    if not isinstance(actions, Iterable):
        raise OptionError(
            f"actions is {a_kind(actions)}",
            hint='Pass names, Actions, or {"go": {"room": ["hall", "kitchen"]}}.',
        )
    steps: dict[str, Step] = {}
    for given in actions:
        action = Action(given) if isinstance(given, str) else given
        if not isinstance(action, Action):
            raise OptionError(f"an action must be a name or an Action, not {a_kind(given)}")
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
                    hint="Use fewer values of parameters.",
                )
    if not steps:
        raise OptionError("a plan needs at least one action")
    return list(steps.values())


def _in_order(values: object) -> tuple[Any, ...] | None:
    """Return the values of a parameter; None if this is not a list. Sets are sorted, so the order is deterministic."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return None
    return tuple(sorted(values, key=str) if isinstance(values, set | frozenset) else values)


def _from_mapping(name: str, values: object) -> Action:
    if values is None:
        return Action(name)
    if not isinstance(values, Mapping):
        if not _in_order(values):
            raise OptionError(
                f"the action {name!r:.40} has the parameters {values!r:.60}",
                hint='Pass None, a list of values, or a dict: {"go": {"room": ["hall", "kitchen"]}, "wait": None}.',
            )
        values = {"value": values}
    for parameter in values:
        if not isinstance(parameter, str):
            raise OptionError(
                f"the action {name!r:.40} has the parameter {with_kind(parameter)}; names must be texts"
            )
    return Action(name, **values)


def as_world(world: object) -> World:
    """Return a world; None is the one in which every step is always possible."""
    if world is None:
        return World((), _anything)
    if isinstance(world, World):
        try:
            hash(world.start)
        except TypeError:
            raise OptionError(
                f"the start of the world is {with_kind(world.start)}, which is not hashable",
                hint="Use a tuple or a frozenset: states are keys of caches.",
            ) from None
        return world
    raise OptionError(
        f"the environment is {a_kind(world)}",
        hint="Pass World(start, follow) or World.from_table(table, start).",
    )


def atoms_of(steps: Sequence[Step]) -> frozenset[str]:
    """Return the atoms that formulas may use for these steps."""
    return frozenset(step.text for step in steps) | frozenset(step.name for step in steps)
