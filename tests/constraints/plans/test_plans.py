"""Plans: the texts are exactly those that the world and the formulas allow, and each live prefix can be finished."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.plans import Action, PlanFormat, Step, World, plan
from structgen.constraints.plans.actions import as_steps
from structgen.constraints.plans.world_steps import WorldSteps
from structgen.errors import ConstraintError, EmptyConstraint, OptionError, UnsatisfiableFormula
from structgen.formulas import Formula, all_of, conflict, parse, satisfiable
from structgen.formulas.product import NEVER, Product, ProductState

from ...oracles.trace_semantics import holds
from ...strategies.formulas import formulas

BYTES = sg.Vocabulary.of_bytes()
PAIRS = sg.Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"a\n", b"\nb", b"a\nb", b"b\nc\n", b"c\na\nb", None], [261]
)
ATOMS = ("a", "b", "c")


def fits(constraint: sg.Constraint, text: str, vocabulary: Any = BYTES) -> bool:
    matcher = sg.Matcher(constraint, vocabulary)
    return all(matcher.advance(byte) for byte in text.encode()) and matcher.is_complete()


@st.composite
def worlds(draw: st.DrawFn) -> World | None:
    """Return tables of up to three states; None is the world in which every step is possible."""
    size = draw(st.integers(0, 3))
    if not size:
        return None
    table = {
        state: {
            name: there
            for name in ATOMS
            if (there := draw(st.sampled_from([None, *range(size)]))) is not None
        }
        for state in range(size)
    }
    labels = (
        {state: ["here"] for state in range(size) if draw(st.booleans())} if draw(st.booleans()) else None
    )
    return World.from_table(table, 0, labels)


def is_plan(world: World | None, formula: Formula, steps: Sequence[str]) -> bool:
    """Return the plans, by the definitions."""
    trace, state = [], None if world is None else world.start
    for name in steps:
        atoms = {name}
        if world is not None:
            state = world.follow(state, Step(name))
            if state is None:
                return False
            atoms |= set(world.labels(state)) if world.labels else set()
        trace.append(frozenset(atoms))
    return bool(trace) and holds(formula, trace)


@settings(max_examples=150, deadline=None)
@given(
    worlds(), st.lists(formulas((*ATOMS, "here"), leaves=5), max_size=3), st.sampled_from([None, 1, 2, 3, 4])
)
def test_exactly_the_plans(world: World | None, wanted: list[Formula], most: int | None) -> None:
    if world is None or world.labels is None:
        wanted = [one for one in wanted if "here" not in one.atoms]
    every = [steps for length in range(1, 5) for steps in itertools.product(ATOMS, repeat=length)]
    good = {steps for steps in every if is_plan(world, all_of(wanted), steps)}
    within = {steps for steps in good if most is None or len(steps) <= most}
    try:
        found = plan(ATOMS, wanted, environment=world, max_steps=most)
    except ConstraintError:
        assert not within
        return
    for steps in every:
        assert fits(found, "\n".join(steps)) == (steps in within), steps
    assert found.unproven == 0
    for vocabulary in (BYTES, PAIRS):
        end = vocabulary.eos_ids[0]
        matcher, chance = sg.Matcher(found, vocabulary), random.Random(0)
        for _ in range(40):
            allowed = [
                token for token in range(vocabulary.size) if matcher.mask()[token // 32] >> (token % 32) & 1
            ]
            assert allowed, matcher.text
            token = chance.choice(allowed)
            if token == end:
                break
            assert matcher.advance(token)
    shortest = found.shortest()
    if within:
        assert shortest is not None and len(shortest) == min(map(len, within))
        assert tuple(map(str, shortest)) in within


@settings(max_examples=100, deadline=None)
@given(worlds(), st.lists(formulas(ATOMS, leaves=5), max_size=4))
@example(None, [parse("X a"), parse("F !b")])  # the second formula needs a step without its atoms
def test_distances(world: World | None, wanted: list[Formula]) -> None:
    """Distances against breadth-first search, from every visited state."""
    moves = None if world is None else WorldSteps(world, as_steps(ATOMS))
    product = Product([frozenset([name]) for name in ATOMS], wanted, moves, budget=200_000)
    places = [product.start]
    for place in places:
        places += [there for _, there in product.after(place) if there not in places]
        if len(places) > 300:
            return
    truth = {place: 0 for place in places if place.ends}
    for distance in range(len(places)):
        for place in places:
            if place not in truth and any(truth.get(there) == distance for _, there in product.after(place)):
                truth[place] = distance + 1
    order = list(places)
    random.Random(1).shuffle(order)
    for place in order:
        way = product.find_completion(place)
        assert (way is None) == (place not in truth)
        if way is not None:
            assert ends(product, place, way)
        for most in (0, 1, 2, 5):
            assert product.can_finish(place, most) == (truth.get(place, NEVER) <= most)
            finishing, unknown = product.finishable_steps(place, most)
            assert not unknown
            assert finishing == [
                (number, there) for number, there in product.after(place) if truth.get(there, NEVER) <= most
            ]
        assert product.fewest(place) == truth.get(place, NEVER)
        way = product.shortest_completion(place)
        assert (way is None) == (place not in truth)
        if way is not None:
            assert len(way) == truth[place] and ends(product, place, way)


def ends(product: Product, place: ProductState, way: Sequence[int]) -> bool:
    for number in way:
        place = dict(product.after(place))[number]
    return place.ends


def test_evicted_states_are_reached_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long-lived plan keeps only what its states need."""
    names = [f"a{number}" for number in range(8)]
    wanted = [f"F {name}" for name in names] + ["!a1 U a0", "G(a2 -> F a3)"]
    texts: list[list[str]] = []
    for most in (1_000_000, 300):
        monkeypatch.setattr("structgen.formulas.product._MOST_KEPT", most)
        found = plan(names, wanted, max_steps=9)
        chance = random.Random(0)
        texts.append([])
        for _ in range(20):
            matcher = sg.Matcher(found, BYTES)
            while not matcher.is_finished:
                tokens = [token for token in range(257) if matcher.mask()[token // 32] >> (token % 32) & 1]
                assert matcher.advance(chance.choice(tokens))
            texts[-1].append(matcher.text)
        assert found._source.product.expanded > 100
    assert texts[0] == texts[1] and len(found._source.product._states) < 2_000


@pytest.mark.parametrize("count", [18, 100])
def test_many_formulas(count: int) -> None:
    """Few steps are tried, whether the formulas are satisfiable or two of them contradict each other."""
    names = [f"a{number}" for number in range(count)]
    each = [f"F {name}" for name in names]
    found = plan(names, each)
    assert found._source.product.tried < 40 * count
    assert len(found.shortest() or []) == count
    if count < 50:
        matcher = sg.Matcher(found, BYTES)
        assert matcher.accepts(list(b"a3\na1")) == 5 and found.unproven == 0
    with pytest.raises(UnsatisfiableFormula) as caught:
        plan(names, [*each, *(f"G(a{one} -> X a{one + 1})" for one in range(count - 1)), "G !a5", "F a5"])
    assert set(caught.value.core) == {"G !a5", "F a5"}
    assert satisfiable(each) and satisfiable([*each, *(f"G(z{name} -> F {name})" for name in names)])
    assert conflict([*each, "F z", "G !z"]) == [count, count + 1]


ROOMS = ("hall", "kitchen", "bedroom", "bathroom")
DOORS = {("hall", "kitchen"), ("hall", "bedroom"), ("bedroom", "bathroom")}


def walk(state: Any, step: Step) -> Any:
    there = step["room"]
    return there if (state, there) in DOORS or (there, state) in DOORS else None


HOUSE = World("hall", walk)
GO = {"go": {"room": ROOMS}}


def test_a_house() -> None:
    tour = plan(GO, "F go(bathroom) & F go(kitchen)", environment=HOUSE)
    assert fits(tour, "go kitchen\ngo hall\ngo bedroom\ngo bathroom")
    assert not fits(tour, "go bathroom\ngo kitchen") and not fits(tour, "go kitchen")
    assert [step["room"] for step in tour.shortest() or []] == ["kitchen", "hall", "bedroom", "bathroom"]
    rest = tour.shortest(["go(bedroom)"])
    assert rest is not None and [step["room"] for step in rest] == ["bathroom", "bedroom", "hall", "kitchen"]
    assert tour.read("go kitchen\ngo hall")[1] == Step("go", (("room", "hall"),))
    assert tour.write(["go(hall)", "go(kitchen)"]) == "go hall\ngo kitchen"
    short = plan(GO, ["F go(bathroom)", "F go(kitchen)"], environment=HOUSE, max_steps=4)
    matcher = sg.Matcher(short, BYTES)
    assert (
        all(matcher.advance(byte) for byte in b"go ")
        and matcher.forced_bytes() == b"kitchen\ngo hall\ngo bedroom\ngo bathroom"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lines", "go bedroom\ngo bathroom"),
        ("calls", 'go("bedroom")\ngo("bathroom")'),
        ("json", '[{"action": "go", "room": "bedroom"}, {"action": "go", "room": "bathroom"}]'),
    ],
)
def test_formats(name: Any, text: str) -> None:
    found = plan(GO, "F go(bathroom)", environment=HOUSE, format=name)
    assert fits(found, text) and found.write(found.read(text)) == text
    assert [str(step) for step in found.read(text)] == ["go(bedroom)", "go(bathroom)"]
    if name == "json":
        json.loads(text)
    assert pickle.loads(pickle.dumps(found)).write(["go(hall)"]) == found.write(["go(hall)"])


def test_a_format_of_ones_own() -> None:
    layout = PlanFormat(lambda step: f"- {step['room']}", separator="\n", open="Plan:\n", close="\nDone.")
    found = plan(GO, "F go(bathroom)", environment=HOUSE, format=layout)
    assert fits(found, "Plan:\n- bedroom\n- bathroom\nDone.")
    assert not fits(found, "Plan:\n- bedroom\nDone.")
    with pytest.raises(OptionError, match="both written as 'go'"):
        plan(GO, format=PlanFormat(lambda step: step.name))
    with pytest.raises(OptionError, match="contains the separator"):
        plan(GO, format=PlanFormat(str, separator="o"))


def test_composed() -> None:
    found = plan(GO, "F go(bathroom)", environment=HOUSE)
    whole = "Plan: " + found + sg.choice(["", "\nDone."])
    assert fits(whole, "Plan: go bedroom\ngo bathroom\nDone.") and not fits(whole, "Plan: go bedroom\nDone.")
    assert fits(found & sg.regex("(.|\n){5,30}"), "go bedroom\ngo bathroom")
    with pytest.raises(EmptyConstraint):
        sg.Matcher(found & sg.regex("(.|\n){0,20}"), BYTES)
    thought = sg.reasoning(found, max_chars=50)
    assert fits(thought, "<think>hm</think>\n\ngo bedroom\ngo bathroom")
    either = found | sg.choice(["I cannot."])
    assert fits(either, "I cannot.") and fits(either, "go bedroom\ngo bathroom")


def test_many_locations_without_the_automaton() -> None:
    places = [f"place {number}" for number in range(20)]
    order = [f'!"visit({after})" U "visit({before})"' for before, after in itertools.pairwise(places)]
    found = plan(
        {"visit": {"where": places}}, [*order, *(f'F "visit({one})"' for one in places)], max_steps=25
    )
    shortest = found.shortest()
    assert shortest is not None and [step["where"] for step in shortest] == places
    assert fits(found, found.write(shortest))
    assert found.expanded < 500


def test_conflicts_are_reported_before_generation() -> None:
    with pytest.raises(
        UnsatisfiableFormula, match=r"no plan satisfies F go\(kitchen\); G !go\(kitchen\) together"
    ) as caught:
        plan(GO, ["F go(bedroom)", "F go(kitchen)", "G !go(bathroom)", "G !go(kitchen)"])
    assert caught.value.core == ("F go(kitchen)", "G !go(kitchen)")
    with pytest.raises(UnsatisfiableFormula, match="the shortest plan has 4 steps, but max_steps is 3"):
        plan(GO, "F go(bathroom) & F go(kitchen)", environment=HOUSE, max_steps=3)
    with pytest.raises(UnsatisfiableFormula, match="in this environment"):
        plan(GO, "go(bathroom)", environment=HOUSE)
    with pytest.raises(ConstraintError, match="no step is possible in the start"):
        plan(["a"], environment=World.from_table({0: {}}, 0))


def test_bad_input() -> None:
    with pytest.raises(OptionError, match=r"'go\(kitchn\)' is not an action") as caught:
        plan(GO, "F go(kitchn)")
    assert "Did you mean go(kitchen)" in str(caught.value)
    with pytest.raises(OptionError, match="a plan needs at least one action"):
        plan([])
    with pytest.raises(OptionError, match="max_steps is 0"):
        plan(GO, max_steps=0)
    with pytest.raises(OptionError, match="format is 'xml'"):
        plan(GO, format="xml")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="which is not a state of the table"):
        World.from_table({0: {"a": 1}}, 0)
    with pytest.raises(OptionError, match="the values 'hall'"):
        Action("go", room="hall")

    def broken(state: Any, step: Step) -> Any:
        raise KeyError("door")

    with pytest.raises(OptionError, match=r"the environment failed at a in the state 0: KeyError: 'door'"):
        plan(["a"], environment=World(0, broken))
    with pytest.raises(OptionError, match="the environment failed"):
        plan(["a"], environment=World(0, lambda state, step: [state]))


def test_unknown_atoms() -> None:
    world = sg.ltl.World(0, lambda state, step: 1 - state, lambda state: ["lit"] if state else [])
    with pytest.raises(OptionError, match="not an action or a label"):
        sg.plan({"go": {"to": ["a", "b"]}}, "G !go(c)", environment=world)
    with pytest.warns(UserWarning, match="Did you mean lit") as said:
        sg.plan({"go": {"to": ["a", "b"]}}, "G !litt", environment=world)
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.plan(
            {"go": {"to": ["a", "b"]}}, "G !danger", environment=world
        )  # a label that is never met, perhaps
    for wrong in (None, 3):
        with pytest.raises(OptionError, match="formula is"):
            sg.plan(["a"], wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="not hashable"):
        sg.plan(["a"], environment=sg.ltl.World([], lambda state, step: state))


def test_ends_beyond_max_steps_and_the_budget() -> None:
    far = sg.ltl.World(0, lambda state, step: state + 1, lambda state: ["done"] if state == 10**9 else [])
    with pytest.raises(UnsatisfiableFormula, match="no plan of 50 steps"):
        sg.plan(["go"], "F done", environment=far, max_steps=50, budget=1_000)


def test_an_environment_that_fails_late() -> None:
    def follow(state: int, step: Step) -> int:
        if state == 2:
            raise RuntimeError("no way")
        return state + 1

    found = plan(["a", "b"], "a", environment=World(0, follow))
    matcher = sg.Matcher(found, BYTES)
    with pytest.raises(OptionError, match="no way"):
        all(matcher.advance(byte) for byte in b"a\na\na\na")


def test_an_environment_that_uses_the_same_vocabulary() -> None:
    """It would deadlock; an error reports that."""

    def follow(state: int, step: Step) -> int:
        if state > 1:
            sg.Matcher(sg.regex("a+"), BYTES).mask()
        return state + 1

    found = plan(["a", "b"], "a", environment=World(0, follow))
    matcher = sg.Matcher(found, BYTES)
    with pytest.raises(Exception, match="used a constraint on the same vocabulary"):
        all(matcher.advance(byte) for byte in b"a\na\na\na")


def test_a_search_that_exceeds_its_budget_is_counted() -> None:
    places = [str(number) for number in range(12)]
    doors = {(one, (7 * one + 3) % 12) for one in range(12)} | {(one, (one + 1) % 12) for one in range(12)}
    world = World(0, lambda state, step: int(step["to"]) if (state, int(step["to"])) in doors else None)
    found = plan({"go": {"to": places}}, [f"F go({one})" for one in places], environment=world, budget=3)
    matcher = sg.Matcher(found, BYTES)
    assert matcher.advance(ord("g"))
    assert found.unproven > 0


def test_ambiguous_steps() -> None:
    with pytest.raises(sg.StructgenError, match="both written"):
        sg.plan([sg.ltl.Action("go", x=["a,b"]), sg.ltl.Action("go", x=["a"], y=["b"])], "true")
    with pytest.raises(sg.StructgenError, match="separator"):
        sg.plan(["a"], "true", format=sg.ltl.PlanFormat(str, separator="aa"))


def test_an_unknown_completion_is_not_returned() -> None:
    """The search stops at its budget. The core then receives no text, and nothing hangs."""

    def far(state: int) -> list[str]:
        return ["far"] if state == 300 else []

    plan = sg.plan(
        ["inc", "dec"],
        "F far",
        environment=sg.ltl.World(
            0, lambda state, step: state + (1 if step.name == "inc" else -1), labels=far
        ),
        budget=10,
    )
    matcher = sg.Matcher(plan, sg.Vocabulary.of_bytes())
    assert matcher.accepts(list(b"inc\ninc\n")) == 8
    text = matcher.witness_text()
    assert text is None or plan.read(text.decode())[-1].name == "inc"
    for message in ("kitchen", None, 5):
        with pytest.raises(sg.StructgenError, match="labels"):
            sg.plan(
                ["a"],
                "F kitchen",
                environment=sg.ltl.World(0, lambda s, a: 0, labels=lambda s, message=message: message),
            )


@pytest.mark.parametrize(
    ("text", "keyword", "said"),
    [
        ("fly", "", ""),
        ("go attic\n", "environment", "possible in the environment"),
        ("go bedroom\ngo bathroom", "formula", "must satisfy G !go(bathroom)"),
        ("go kitchen\ngo hall\ngo bed", "formula", "must satisfy F go(attic) within 5 steps"),
        ("go kitchen\ngo attic\ngo kitchen\ngo hall\ngo kitchen\n", "max_steps", "within 5 steps"),
    ],
)
def test_why_a_step_is_refused(text: str, keyword: str, said: str) -> None:
    doors = {("hall", "kitchen"), ("hall", "bedroom"), ("bedroom", "bathroom"), ("kitchen", "attic")}

    def follow(room: str, step: Step) -> str | None:
        there = step["room"]
        return there if (room, there) in doors or (there, room) in doors else None

    rooms = ["hall", "kitchen", "bedroom", "bathroom", "attic"]
    tour = sg.plan(
        {"go": {"room": rooms}},
        ["F go(kitchen)", "G !go(bathroom)", "F go(attic)"],
        environment=sg.ltl.World("hall", follow),
        max_steps=5,
    )
    message = sg.Matcher(tour, sg.Vocabulary.of_bytes()).explain(text)
    assert not message.viable
    assert {one.keyword for one in message.rules} == ({keyword} if keyword else set())
    assert any(said in one.message for one in message.rules) == bool(said)


def test_blame_where_the_world_has_no_end() -> None:
    """Without `max_steps`, the search for an impossible continuation would not terminate."""
    odd = sg.ltl.World(
        0, lambda state, step: state + len(step.name), lambda state: ["done"] if state == 3 else []
    )
    plan = sg.plan(["a", "bb"], "F done", environment=odd, max_steps=10)
    message = sg.Matcher(plan, sg.Vocabulary.of_bytes()).explain("bb\nbb")
    assert [one.message for one in message.rules] == ["the plan must satisfy F done within 10 steps"]


def test_labels_are_collected_only_within_max_steps() -> None:
    asked = []

    def follow(state: int, step: Step) -> int:
        asked.append(state)
        if state >= 5:
            raise ValueError("beyond")
        return state + 1

    labels = {1: ["here"], 2: ["done"], 3: []}
    world = sg.ltl.World(0, follow, lambda state: labels[state])  # the start is never visited
    assert sg.plan(["go"], "F done", environment=world, max_steps=3).shortest() is not None
    assert max(asked) < 5
    asked.clear()
    wide = sg.ltl.World(
        0, lambda state, step: asked.append(0) or state + 1, lambda state: ["done"] * (state == 2)
    )
    sg.plan([f"a{number}" for number in range(20)], "F done", environment=wide, budget=100, max_steps=9)
    assert len(asked) < 2_000


def test_formulas_that_refuse_a_step_only_together() -> None:
    both = sg.plan(["a", "b", "c"], ["G(a -> F b)", "G(a -> G !b) | F c", "G(a -> G !c)"])
    message = sg.Matcher(both, sg.Vocabulary.of_bytes()).explain("b\na")
    assert [(one.keyword, "together" in one.message) for one in message.rules] == [("formula", True)]


@pytest.mark.parametrize(
    ("actions", "what", "hint"),
    [
        ("ab", "actions is the text 'ab'", "['ab']"),
        ({"go": []}, "the action 'go' has the parameters []", "a list of values"),
        ({"go": 5}, "the action 'go' has the parameters 5", "a list of values"),
        ({"go": True}, "the action 'go' has the parameters True", "a list of values"),
        ({"go": "hall"}, "the action 'go' has the parameters 'hall'", "a list of values"),
        ({"go": {1: ["a"]}}, "the parameter 1, an int; names must be texts", ""),
        ({"go": {"room": 5}}, "the parameter room of the action go has the values 5", "Pass a list"),
        (
            {"go": {"room": "hall"}},
            "the parameter room of the action go has the values 'hall'",
            "Pass a list",
        ),
    ],
)
def test_odd_actions(actions: Any, what: str, hint: str) -> None:
    with pytest.raises(OptionError) as caught:
        plan(actions)
    assert what in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_list_is_the_values_of_one_parameter() -> None:
    short = plan({"go": ["hall", "kitchen"]}, format="json")
    long = plan({"go": {"value": ["hall", "kitchen"]}}, format="json")
    assert short.steps == long.steps and short.steps[0]["value"] == "hall"


def test_sets_have_one_order() -> None:
    names = {f"step{number}" for number in range(20)}
    assert [step.text for step in plan(names).steps] == sorted(names)
    assert [step["at"] for step in plan({"go": {"at": names}}).steps] == sorted(names)
