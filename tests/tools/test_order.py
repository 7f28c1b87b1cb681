"""Tool calls under temporal logic: exactly the turns that the definition allows, and no call into a dead end."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import ConstraintError, LimitExceeded, OptionError, UnsatisfiableFormula
from structgen.formulas import Formula, all_of, automaton
from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolFormat, tools
from structgen.tools.rendering import render_turn

from ..oracles.trace_semantics import on_stretch
from ..strategies.formulas import ATOMS, formulas
from .turns import answer_markers
from .walks import FUNCTIONS, plain, walk, with_specials

BYTES = sg.Vocabulary.of_bytes()
TINY = [{"name": name} for name in ATOMS]
Word = tuple[str, ...]


class Twin:
    """A slow reference for the calls that are possible: by the definition, and by search in the whole automaton."""

    def __init__(
        self, wanted: Sequence[Formula], called: Word, most: int | None, later: int | None, answers: bool
    ) -> None:
        self.whole = all_of(wanted)
        self.automaton = automaton(self.whole, atoms=ATOMS)
        self.called, self.most, self.later, self.answers = called, most, later, answers

    def holds(self, word: Word) -> bool:
        return on_stretch(self.whole, [frozenset([one]) for one in word])

    def needed(self, word: Word) -> int | None:
        """Return the smallest number of further calls after which the formula holds."""
        if self.holds(word):
            return 0
        states = {0}
        for one in word:
            states = {self.automaton.step(state, [one]) for state in states}
        for distance in range(1, len(self.automaton) + 1):
            states = {self.automaton.step(state, [one]) for state in states for one in ATOMS}
            if any(self.automaton.accepting[state] for state in states):
                return distance
        return None

    def may_end(self, word: Word) -> bool:
        needed = self.needed(word)
        return needed is not None and (self.later is None or needed <= self.later)

    def has_turn(self, earlier: Word, start: Word) -> bool:
        """Return whether some turn begins with these calls."""
        if self.most is not None and len(start) > self.most:
            return False
        if not set(start) <= set(self.called):
            return False
        if self.most is None:
            assert self.called == ATOMS  # then every further call can be made in this turn
            return self.needed((*earlier, *start)) is not None
        return any(
            self.may_end((*earlier, *start, *more))
            for length in range(self.most - len(start) + 1)
            for more in itertools.product(self.called, repeat=length)
        )


def written(format: ToolFormat, word: Word) -> str:
    return render_turn(format, AssistantTurn("", tuple([ToolCall(name, {}) for name in word])))


def written_start(format: ToolFormat, word: Word) -> str:
    """Return the text up to the point that identifies the last tool, and its arguments begin."""
    text = written(format, word)
    call = "".join(piece for _, piece in format.pieces)
    after = call.partition("$arguments")[2] + format.end + format.reply[1]
    arguments = {"json": "{}", "bare": "{}"}.get(format.arguments, "")
    return text.removesuffix(after).removesuffix(arguments)


def fits(constraint: sg.Constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, BYTES)
    return begins(matcher, text) and all(map(matcher.advance, text.encode())) and matcher.is_complete()


def begins(matcher: sg.Matcher, text: str) -> bool:
    return matcher.accepts(list(text.encode())) == len(text.encode())


words = st.lists(st.sampled_from(ATOMS), max_size=2).map(tuple)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(formulas(ATOMS, leaves=5), min_size=1, max_size=2),
    words,
    st.sampled_from(list(FORMATS)),
    st.sampled_from(["auto", "auto", "required", "none", "a"]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 0, 1, 2]),
)
def test_a_turn_is_accepted_exactly_if_the_order_allows_it(
    wanted: list[Formula], earlier: Word, name: str, choice: str, most: int | None, later: int | None
) -> None:
    format = FORMATS[name]
    if format.between is None or (most is None and choice == "a"):
        most = 1
    called = {"none": (), "a": ("a",)}.get(choice, ATOMS)
    twin = Twin(wanted, called, most, later, choice in ("auto", "none"))
    answers = twin.answers and twin.holds(earlier)
    calls = bool(called) and any(twin.has_turn(earlier, (one,)) for one in called)
    given: dict[str, Any] = {} if format.between is None else {"max_calls": most}
    try:
        turn = tools(
            TINY, format=name, tool_choice=choice, order=wanted, earlier=earlier, max_later=later, **given
        )
    except ConstraintError as error:
        assert not answers and not calls
        assert isinstance(error, UnsatisfiableFormula) or twin.needed(earlier) is not None
        return
    assert answers or calls
    assert fits(turn, "Done.".join(answer_markers(format))) == answers
    start = sg.Matcher(turn, BYTES)
    for length in range(1, 2 if format.between is None else 4):
        for word in itertools.product(ATOMS, repeat=length):
            if begins(start, written_start(format, word)) != twin.has_turn(earlier, word):
                raise AssertionError(word)
            fit = fits(turn, written(format, word))
            assert fit == (twin.has_turn(earlier, word) and twin.may_end((*earlier, *word))), word
            assert not fit or tuple(call.name for call in turn.read(written(format, word)).calls) == word


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("has_specials", [False, True])
def test_walks_with_arguments(name: str, has_specials: bool) -> None:
    """Each turn alone satisfies the order for any draws; the tools accept the arguments."""
    several = FORMATS[name].between is not None
    order = ["!stop W weather", "G (switch -> X visit)", "F visit"] if several else "weather | stop"
    turn = tools(
        FUNCTIONS,
        format=name,
        max_text=8,
        order=order,
        max_later=0,
        **({"max_calls": 3} if several else {}),
    )
    by_name = {tool.name: tool for tool in turn.tools}
    for seed in range(6):
        text = walk(turn, with_specials(name) if has_specials else plain(), random.Random(seed))
        calls = turn.read(text).calls
        assert on_stretch(
            all_of(map(sg.ltl.parse, [order] if isinstance(order, str) else order)),
            [frozenset([call.name]) for call in calls],
        )
        for call in calls:
            by_name[call.name].validate(call.arguments)


def test_a_turn_may_leave_obligations_to_later_ones() -> None:
    turn = tools(TINY, order="F b")
    assert fits(turn, written(turn.format, ("a",))) and not fits(turn, "Done.")
    assert fits(tools(TINY, order="F b", earlier=["a", ToolCall("b")]), "Done.")
    alone = tools(TINY, order="F b", max_later=0)
    assert not fits(alone, written(turn.format, ("a",))) and fits(alone, written(turn.format, ("a", "b")))
    required = tools(TINY, order="F b", max_later=0, tool_choice="required", parallel=False)
    assert fits(required, written(turn.format, ("b",)))
    assert not begins(sg.Matcher(required, BYTES), written_start(turn.format, ("a",)))


@pytest.mark.parametrize("needed", [1, 2, 3, 4])
@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("later", [None, 0, 1])
def test_one_tool_that_must_be_called(needed: int, most: int, later: int | None) -> None:
    """Its calls alone bring the turn to where later ones can go on; then no other call is written."""
    order = "X " * (needed - 1) + "a"
    fewest = 1 if later is None else max(1, needed - later)
    options: dict[str, Any] = {"order": order, "tool_choice": "a", "max_calls": most, "max_later": later}
    if fewest > most:
        with pytest.raises((UnsatisfiableFormula, OptionError)):
            tools(TINY, **options)
        return
    turn = tools(TINY, **options)
    for calls in range(1, 5):
        assert fits(turn, written(turn.format, ("a",) * calls)) == (fewest <= calls <= most)
    assert not fits(turn, written(turn.format, ("b", "a")))


def test_names_that_are_not_identifiers_are_quoted() -> None:
    named = [{"name": "look-up.v2"}, {"name": "F"}]
    turn = tools(named, order='!"F" W "look-up.v2"')
    assert fits(turn, written(turn.format, ("look-up.v2", "F"))) and not fits(
        turn, written(turn.format, ("F",))
    )


def test_explanations_show_which_calls_may_come() -> None:
    turn = tools(FUNCTIONS, order="!stop W weather & !visit W weather & !switch W weather")
    explanation = str(sg.Matcher(turn, BYTES).explain('<tool_call>\n{"name": "stop"'))
    assert "'weather\"" in explanation and "__" not in explanation
    explanation = str(sg.Matcher(turn, BYTES).explain('<tool_call>\n{"name": "visit"'))
    assert "the order of calls must satisfy !visit W weather:" in explanation


def test_explanations_do_not_blame_the_order_for_other_faults() -> None:
    turn = tools(FUNCTIONS, order="!stop W weather")
    for text in ('<tool_call>\n{"name": "nothing"', '<tool_call>\n{"name": "weather", "arguments": 7'):
        explanation = sg.Matcher(turn, BYTES).explain(text)
        assert not explanation.viable and "order" not in str(explanation)


def test_explanations_are_of_the_turn_as_it_was_made() -> None:
    earlier: list[str] = []
    turn = tools(TINY, order=["!b W a", "F a"], earlier=earlier)
    before = str(sg.Matcher(turn, BYTES).explain('<tool_call>\n{"name": "b"'))
    earlier.append("a")
    assert str(sg.Matcher(turn, BYTES).explain('<tool_call>\n{"name": "b"')) == before


def test_an_ordered_turn_can_be_an_operand() -> None:
    turn = tools(TINY, order="!b W a", tool_choice="required", format="mistral")
    both = "Calls: " + turn + "!"
    assert fits(both, f"Calls: {written(turn.format, ('a', 'b'))}!")
    assert not fits(both, f"Calls: {written(turn.format, ('b',))}!")
    assert turn == tools(TINY, order="!b W a", tool_choice="required", format="mistral") != tools(TINY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "F weahter"}, "'weahter' in the order 'F weahter' is not a tool\nDid you mean weather?"),
        ({"order": "F cook"}, "The tools are weather, switch, visit, stop."),
        ({"order": "F weather(paris)"}, "is not a tool"),
        ({"order": 3}, "order is 3, an int"),
        ({"order": "F stop", "earlier": ["stpo"]}, "'stpo' in earlier is not a tool\nDid you mean stop?"),
        ({"order": "F stop", "earlier": "stop"}, "earlier is 'stop', a str"),
        ({"order": "F stop", "earlier": [3]}, "an earlier call must be a name or a ToolCall, not an int"),
        ({"order": "F stop", "max_later": -1}, "max_later is -1"),
        ({"earlier": ["stop"]}, "earlier is ['stop'] without order"),
        ({"max_later": 0}, "max_later is 0 without order"),
        ({"order": "F stop", "tool_choice": "none"}, "but at first the order 'F stop' does not hold yet"),
        (
            {"order": "!stop W visit", "tool_choice": "stop", "earlier": ["switch"]},
            "tool_choice is 'stop', but after switch no call of it fits",
        ),
        (
            {"order": "G !stop & F stop | G false", "tool_choice": "required"},
            "'required', but at first no call fits",
        ),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        tools(FUNCTIONS, **options)
    assert message in str(caught.value)


def test_conflicts_name_the_formulas() -> None:
    with pytest.raises(UnsatisfiableFormula, match="no tool calls satisfy F a; G !a together") as caught:
        tools(TINY, order=["F b", "F a & G !a"])
    assert caught.value.core == ("F a", "G !a")
    with pytest.raises(UnsatisfiableFormula, match="no tool calls satisfy !b W a after c, b") as caught:
        tools(TINY, order=["F c", "!b W a"], earlier=["c", "b"])
    assert caught.value.core == ("!b W a",)
    with pytest.raises(
        UnsatisfiableFormula, match=r"'F a; F b' needs at least 2 more calls, but only 1 can be made"
    ):
        tools(TINY, order=["F a", "F b"], max_later=0, parallel=False)
    # Without calls the order holds; after one call it can never hold again.
    assert fits(tools(TINY, order="G X a"), "Done.")
    with pytest.raises(UnsatisfiableFormula):
        tools(TINY, order="G X a", earlier=["a"])


def test_many_formulas() -> None:
    """The states that one call leads to are few, though all are very many."""
    names = [f"tool_{number}" for number in range(40)]
    order = [f"!{one} W {other}" for one, other in itertools.pairwise(names)]
    order += [f"F {name}" for name in names[::2]]
    given = [{"name": name} for name in names]
    turn = tools(given, order=order, parallel=False)
    assert fits(turn, written(turn.format, ("tool_39",))) and not fits(
        turn, written(turn.format, ("tool_0",))
    )
    free = [f"!{one} W {other}" for one, other in zip(names[::2], names[1::2], strict=True)]
    with pytest.raises(LimitExceeded, match="max_calls"):
        tools(given, order=free)
    assert fits(tools(given, order=free, max_calls=2), written(turn.format, ("tool_1", "tool_0")))
