"""Two worlds for plans, with the tasks that a model gets in them.

    drone       a house of twelve rooms: fly through doors, take photos of the room that it is in
    table       five things on a table with three places, one hand: pick up, put down

A task is a sentence with goals (what must happen) and rules (what must never happen). Each of them is a formula, and a
Python check of the steps that does not use the formula.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structgen as sg

__all__ = ["WORLDS", "Demand", "Domain", "Task"]

_DESCRIPTIONS: dict[str, str] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "planning" / "descriptions.json").read_text("utf-8")
)

Steps = Sequence[str]
"""As atoms: ``fly(kitchen)``."""
TASKS = 120


@dataclass(frozen=True)
class Demand:
    """A part of a task."""

    sentence: str
    formula: str
    holds: Callable[[Steps], bool]


@dataclass(frozen=True)
class Task:
    """The task in words."""

    goals: tuple[Demand, ...]
    rules: tuple[Demand, ...]

    @property
    def sentence(self) -> str:
        return " ".join(demand.sentence for demand in (*self.goals, *self.rules))

    @property
    def formulas(self) -> list[str]:
        return [demand.formula for demand in (*self.goals, *self.rules)]


@dataclass(frozen=True)
class Domain:
    """A world, its description for a model, and its tasks."""

    actions: dict[str, dict[str, Sequence[str]]]
    world: sg.ltl.World
    description: str
    example: tuple[str, str]
    """A task and a plan for it."""
    max_steps: int
    tasks: list[Task] = field(default_factory=list)


# -- the house

DOORS = (
    ("hall", "kitchen"), ("hall", "study"), ("hall", "stairs"), ("kitchen", "pantry"), ("kitchen", "dining room"),
    ("dining room", "living room"), ("living room", "hall"), ("living room", "terrace"), ("stairs", "landing"),
    ("landing", "bedroom"), ("landing", "bathroom"), ("bedroom", "bathroom"),
)  # fmt: skip
ROOMS = tuple(dict.fromkeys(itertools.chain(*DOORS)))


def fly(room: str, step: Any) -> str | None:
    """The drone's world: a state is the room that it is in."""
    there = step["room"]
    if step.name == "photo":
        return room if room == there else None
    return there if (room, there) in DOORS or (there, room) in DOORS else None


def _photo(room: str) -> Demand:
    return Demand(
        f"Take a photo of the {room}.", f'F "photo({room})"', lambda steps: f"photo({room})" in steps
    )


def _photos_in_order(first: str, then: str) -> Demand:
    def holds(steps: Steps) -> bool:
        before, after = f"photo({first})", f"photo({then})"
        return after in steps and before in steps[: steps.index(after)]

    return Demand(
        f"Take a photo of the {first}, and only then one of the {then}.",
        f'!"photo({then})" U ("photo({first})" & F "photo({then})")',
        holds,
    )


def _end_in(room: str) -> Demand:
    return Demand(
        f"End by flying into the {room}.",
        f'F ("fly({room})" & last)',
        lambda steps: steps[-1:] == [f"fly({room})"],
    )


def _never_in(room: str) -> Demand:
    return Demand(
        f"Never fly into the {room}.", f'G !"fly({room})"', lambda steps: f"fly({room})" not in steps
    )


def _photo_at_once(room: str) -> Demand:
    def holds(steps: Steps) -> bool:
        return all(
            steps[at + 1 : at + 2] == [f"photo({room})"]
            for at, step in enumerate(steps)
            if step == f"fly({room})"
        )

    return Demand(
        f"Whenever you fly into the {room}, take a photo there next.",
        f'G ("fly({room})" -> X "photo({room})")',
        holds,
    )


def _not_twice(room: str) -> Demand:
    return Demand(
        f"Do not fly into the {room} more than once.",
        f'G ("fly({room})" -> N G !"fly({room})")',
        lambda steps: list(steps).count(f"fly({room})") <= 1,
    )


# -- the table

THINGS = ("red block", "green block", "blue block", "cup", "spoon")
PLACES = ("tray", "shelf", "box")
_HAND = "hand"


def move(state: tuple[str, ...], step: Any) -> tuple[str, ...] | None:
    """The table's world: a state says where each thing is."""
    thing = THINGS.index(step["thing"])
    if step.name == "pick":
        return None if _HAND in state else (*state[:thing], _HAND, *state[thing + 1 :])
    if state[thing] != _HAND:
        return None
    there = step["place"]
    if there == "tray" and state.count("tray") >= 2:  # it holds two things
        return None
    return (*state[:thing], there, *state[thing + 1 :])


def _put(thing: str, place: str) -> Demand:
    atom = f"put({thing},{place})"
    return Demand(f"Put the {thing} on the {place}.", f'F "{atom}"', lambda steps: atom in steps)


def _put_in_order(first: str, then: str, place: str) -> Demand:
    before, after = f"put({first},{place})", f"put({then},{place})"

    def holds(steps: Steps) -> bool:
        return after in steps and before in steps[: steps.index(after)]

    return Demand(
        f"Put the {first} on the {place}, and only then the {then}.",
        f'!"{after}" U ("{before}" & F "{after}")',
        holds,
    )


def _never_touch(thing: str) -> Demand:
    return Demand(
        f"Never pick up the {thing}.", f'G !"pick({thing})"', lambda steps: f"pick({thing})" not in steps
    )


def _never_on(place: str) -> Demand:
    atoms = [f"put({thing},{place})" for thing in THINGS]
    formula = "G !(" + " | ".join(f'"{atom}"' for atom in atoms) + ")"
    return Demand(f"Never put anything on the {place}.", formula, lambda steps: not set(atoms) & set(steps))


def _first_touch(first: str, then: str) -> Demand:
    def holds(steps: Steps) -> bool:
        if f"pick({then})" not in steps:
            return True
        return f"pick({first})" in steps[: steps.index(f"pick({then})")]

    return Demand(
        f"Do not pick up the {then} before the {first}.", f'!"pick({then})" W "pick({first})"', holds
    )


# -- tasks


def _drawn(
    domain: Domain, goals: Sequence[Callable[..., Demand]], rules: Sequence[Callable[..., Demand]], names: Any
) -> None:
    """Tasks that can be done, by a fixed seed."""
    chance = random.Random(7)
    seen = set()
    while len(domain.tasks) < TASKS:
        wanted = tuple(names(chance, demand) for demand in chance.sample(goals, chance.choice([1, 1, 2])))
        never = tuple(names(chance, demand) for demand in chance.sample(rules, chance.choice([0, 1, 1, 2])))
        task = Task(wanted, never)
        if task.sentence in seen:
            continue
        seen.add(task.sentence)
        try:
            sg.plan(domain.actions, task.formulas, environment=domain.world, max_steps=domain.max_steps)
        except sg.StructgenError:
            continue
        domain.tasks.append(task)


def _rooms(chance: random.Random, make: Callable[..., Demand]) -> Demand:
    return make(*chance.sample(ROOMS[1:], make.__code__.co_argcount))


def _things(chance: random.Random, make: Callable[..., Demand]) -> Demand:
    things, places = chance.sample(THINGS, 2), chance.sample(PLACES, 1)
    given = {"thing": things[0], "first": things[0], "then": things[1], "place": places[0]}
    code = make.__code__
    return make(*(given[name] for name in code.co_varnames[: code.co_argcount]))


def _house() -> Domain:
    doors = "; ".join(f"{room} - {neighbour}" for room, neighbour in DOORS)
    domain = Domain(
        actions={"fly": {"room": ROOMS}, "photo": {"room": ROOMS}},
        world=sg.ltl.World("hall", fly),
        description=_DESCRIPTIONS["drone"].format(doors=doors),
        example=("Take a photo of the pantry.", "fly kitchen\nfly pantry\nphoto pantry"),
        max_steps=14,
    )
    goals: list[Callable[..., Demand]] = [_photo, _photos_in_order, _end_in]
    _drawn(domain, goals, [_never_in, _photo_at_once, _not_twice], _rooms)
    return domain


def _table() -> Domain:
    domain = Domain(
        actions={"pick": {"thing": THINGS}, "put": {"thing": THINGS, "place": PLACES}},
        world=sg.ltl.World(("table",) * len(THINGS), move),
        description=_DESCRIPTIONS["table"].format(things=", ".join(THINGS), places=", ".join(PLACES)),
        example=("Put the spoon on the shelf.", "pick spoon\nput spoon shelf"),
        max_steps=12,
    )
    _drawn(domain, [_put, _put_in_order], [_never_touch, _never_on, _first_touch], _things)
    return domain


WORLDS: dict[str, Callable[[], Domain]] = {"drone": _house, "table": _table}
