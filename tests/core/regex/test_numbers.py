"""The number machine compared with exact fractions.

A text is accepted if and only if it has an allowed form and its value satisfies the constraint. A state is live if and
only if an accepted completion exists. A state does not hold bounds that no longer constrain it.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen._core._native import NumberMachine, RegexSpace, number_language
from structgen.errors import LimitExceeded

ALPHABET = "01259-.e+"
BYTES = b"0123456789-+.eE"
FORM = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
Bounds = dict[str, str | bool]


def has_form(text: str, *, any_exponent: bool, max_exponent: int = 400, max_fraction: int = 16) -> bool:
    match = FORM.fullmatch(text)
    if match is None:
        return False
    integer, fraction, tail = match.groups(default="")
    if not tail:
        return True
    digits = tail.lstrip("eE+-")
    if (len(digits) > 2 and digits[0] == "0") or int(digits) > max_exponent:
        return False
    if any_exponent or fraction == "":
        return any_exponent or len(integer) == 1
    return fraction == ".0" if integer == "0" else len(integer) == 1 and len(fraction) - 1 <= max_fraction


@cache
def value(text: str) -> Fraction:
    return Fraction(text)


def satisfies(number: Fraction, bounds: Bounds) -> bool:
    checks: dict[str, Callable[[Any], bool]] = {
        "minimum": lambda bound: number >= value(bound),
        "maximum": lambda bound: number <= value(bound),
        "exclusive_minimum": lambda bound: number > value(bound),
        "exclusive_maximum": lambda bound: number < value(bound),
        "multiple_of": lambda bound: (number / value(bound)).denominator == 1,
        "integer": lambda wanted: not wanted or number.denominator == 1,
    }
    return all(checks[key](bound) for key, bound in bounds.items())


def run(machine: NumberMachine, state: int, text: str) -> int:
    for byte in text.encode():
        state = machine.step(state, byte)
    return state


def accepts(machine: NumberMachine, state: int, text: str) -> bool:
    return bool(machine.accepts(run(machine, state, text)))


def prefixes(machine: NumberMachine, start: int, length: int) -> Iterator[tuple[str, int]]:
    """Every text over the alphabet up to a length that the machine keeps alive, with its state."""
    layer = [("", start)] if start else []
    for _ in range(length + 1):
        yield from layer
        layer = [
            (text + symbol, after)
            for text, state in layer
            for symbol in ALPHABET
            if (after := machine.step(state, ord(symbol)))
        ]


@cache
def number_texts(length: int, any_exponent: bool, max_exponent: int, max_fraction: int) -> list[str]:
    return [
        text
        for text in prefixes_of_form(length)
        if has_form(text, any_exponent=any_exponent, max_exponent=max_exponent, max_fraction=max_fraction)
    ]


@cache
def prefixes_of_form(length: int) -> list[str]:
    return [
        "".join(symbols)
        for size in range(1, length + 1)
        for symbols in itertools.product(ALPHABET, repeat=size)
        if FORM.fullmatch("".join(symbols))
    ]


def random_decimal(random: random.Random) -> str:
    form = random.choice(["small", "small", "fraction", "tiny", "long", "scientific"])
    sign = random.choice(["", "", "-"])
    if form == "small":
        return sign + str(random.choice([0, 1, 2, 5, 9, 10, 19, 20, 25, 99, 100, 101, 255, 1000, 5999]))
    if form == "fraction":
        return (
            sign + str(random.randrange(30)) + "." + random.choice(["0", "1", "5", "25", "09", "99", "125"])
        )
    if form == "tiny":
        return sign + random.choice(["0.001", "0.0125", "0.00009", "0.5", "1e-5", "2.5E-2"])
    if form == "long":
        return sign + str(random.randrange(10**6))
    return sign + random.choice(["1e2", "1.5e1", "9e0", "2e-1", "1e5", "5.5e+2", "1e400", "1e-400", "0e5"])


def random_bounds(random: random.Random) -> Bounds:
    bounds: Bounds = {}
    for key in ("minimum", "maximum", "exclusive_minimum", "exclusive_maximum"):
        if random.random() < 0.4:
            bounds[key] = random_decimal(random)
    if random.random() < 0.4:
        bounds["multiple_of"] = random.choice(
            [
                "1",
                "2",
                "3",
                "5",
                "7",
                "10",
                "12",
                "25",
                "100",
                "0.1",
                "0.5",
                "0.25",
                "0.3",
                "1.5",
                "0.01",
                "1e-5",
            ]
        )
    if random.random() < 0.3:
        bounds["integer"] = True
    return bounds


def check_exhaustively(
    bounds: Bounds,
    length: int,
    any_exponent: bool = False,
    max_exponent: int = 400,
    max_fraction: int = 16,
) -> None:
    machine = NumberMachine(any_exponent=any_exponent, max_exponent=max_exponent, max_fraction=max_fraction)
    start = machine.language(**bounds)
    found = {text for text, state in prefixes(machine, start, length) if machine.accepts(state)}
    texts = number_texts(length, any_exponent, max_exponent, max_fraction)
    expected = {text for text in texts if satisfies(value(text), bounds)}
    assert found == expected, (bounds, sorted(found ^ expected)[:10])


def can_complete(machine: NumberMachine, state: int, budget: int = 20_000) -> bool:
    """A search that trusts only `step` and `accepts`."""
    seen, queue = {state}, deque([state])
    while queue and len(seen) < budget:
        state = queue.popleft()
        if machine.accepts(state):
            return True
        for byte in BYTES:
            after = machine.step(state, byte)
            if after and after not in seen:
                seen.add(after)
                queue.append(after)
    return False


SPECIAL: list[Bounds] = [
    {},
    {"integer": True},
    {"minimum": "0"},
    {"exclusive_minimum": "0"},
    {"maximum": "0"},
    {"exclusive_maximum": "0"},
    {"minimum": "0", "maximum": "0"},
    {"minimum": "0", "maximum": "100"},
    {"minimum": "-1", "maximum": "1", "multiple_of": "0.1"},
    {"minimum": "5.25", "maximum": "5.25"},
    {"minimum": "100", "maximum": "100"},
    {"exclusive_minimum": "99", "exclusive_maximum": "100"},
    {"exclusive_minimum": "0", "exclusive_maximum": "0.001"},
    {"minimum": "1e-5", "maximum": "1e5"},
    {"minimum": "999", "maximum": "1e3", "integer": True},
    {"multiple_of": "25", "minimum": "26", "maximum": "99"},
    {"multiple_of": "0.01", "exclusive_minimum": "0", "exclusive_maximum": "0.03"},
    {"multiple_of": "1e2"},
    {"multiple_of": "7", "minimum": "1", "maximum": "6"},
]


@pytest.mark.parametrize("bounds", SPECIAL, ids=str)
@pytest.mark.parametrize("any_exponent", [False, True])
def test_exact_on_every_short_text(bounds: Bounds, any_exponent: bool) -> None:
    check_exhaustively(bounds, 5, any_exponent)


@pytest.mark.parametrize("seed", range(40))
def test_exact_on_every_short_text_for_random_bounds(seed: int) -> None:
    generator = random.Random(seed)
    max_exponent = generator.choice([0, 2, 11, 400])
    length = 6 if seed % 10 == 0 else 5
    check_exhaustively(random_bounds(generator), length, seed % 3 == 0, max_exponent, seed % 4)


@pytest.mark.parametrize("seed", range(150))
def test_live_states_are_completable(seed: int) -> None:
    generator = random.Random(1000 + seed)
    bounds = generator.choice(SPECIAL) if seed < 30 else random_bounds(generator)
    machine = NumberMachine(
        any_exponent=seed % 3 == 0, max_exponent=generator.choice([1, 3, 12]), max_fraction=seed % 5
    )
    start = machine.language(**bounds)
    for state in {state for _, state in prefixes(machine, start, 3)}:
        assert can_complete(machine, state), (bounds, state)


decimals = st.builds(
    lambda sign, integer, fraction, exponent: sign + integer + fraction + exponent,
    st.sampled_from(["", "-"]),
    st.one_of(st.just("0"), st.from_regex(r"[1-9][0-9]{0,25}", fullmatch=True)),
    st.one_of(st.just(""), st.from_regex(r"\.[0-9]{1,25}", fullmatch=True)),
    st.one_of(st.just(""), st.from_regex(r"[eE][+-]?[1-3]?[0-9]{1,2}", fullmatch=True)),
)


def shifted(text: str) -> str:
    """The same value with the point elsewhere and zeros added, or off by one in the last digit."""
    mantissa, _, exponent = text.lower().partition("e")
    return f"{mantissa}{'0' if '.' in mantissa else '.0'}" + (f"e{exponent}" if exponent else "")


@settings(max_examples=600, deadline=None)
@given(
    bound=decimals,
    number=decimals,
    key=st.sampled_from(["minimum", "maximum", "exclusive_minimum", "exclusive_maximum"]),
    any_exponent=st.booleans(),
)
def test_long_decimals_against_one_bound(bound: str, number: str, key: str, any_exponent: bool) -> None:
    machine = NumberMachine(any_exponent=any_exponent)
    start = machine.language(**{key: bound})
    for text in (number, bound, shifted(bound), shifted(number)):
        expected = has_form(text, any_exponent=any_exponent) and satisfies(value(text), {key: bound})
        assert accepts(machine, start, text) == expected


@settings(max_examples=400, deadline=None)
@given(
    multiple=st.decimals(min_value="0.000001", max_value=10**12, places=6).filter(lambda d: d > 0),
    number=decimals,
    times=st.integers(-(10**20), 10**20),
)
def test_long_multiples(multiple: object, number: str, times: int) -> None:
    machine = NumberMachine(any_exponent=True)
    text = f"{multiple:f}"
    start = machine.language(multiple_of=text)
    product = Fraction(text) * times
    exact = f"{'-' if product < 0 else ''}{abs(product.numerator) * 10**6 // product.denominator}e-6"
    for candidate in (number, exact):
        expected = (value(candidate) / value(text)).denominator == 1
        assert accepts(machine, start, candidate) == expected
    assert accepts(machine, start, exact)


@pytest.mark.parametrize("text", ["1e3", "1000", "1.0e+3", "1E03", "1000.000"])
def test_equal_values_of_different_texts(text: str) -> None:
    machine = NumberMachine()
    assert accepts(machine, machine.language(minimum="1000", maximum="1e3"), text)


@pytest.mark.parametrize("text", ["0", "-0", "0.0", "-0.000", "0e5", "0E-5", "0.0e+400"])
def test_zero_has_many_texts(text: str) -> None:
    machine = NumberMachine()
    for bounds in (
        {"minimum": "0"},
        {"maximum": "0"},
        {"minimum": "-0.0", "maximum": "0e9"},
        {"integer": True},
    ):
        assert accepts(machine, machine.language(**bounds), text)
    assert not accepts(machine, machine.language(exclusive_minimum="0"), text)
    assert not accepts(machine, machine.language(exclusive_maximum="0"), text)


def test_bounds_beyond_doubles_are_exact() -> None:
    machine = NumberMachine()
    above = machine.language(minimum="9007199254740993")
    assert accepts(machine, above, "9007199254740993") and not accepts(machine, above, "9007199254740992")
    huge = machine.language(maximum="1e400")
    assert accepts(machine, huge, "1e400") and not accepts(machine, huge, "1.0000001e400")
    assert accepts(machine, huge, "9" * 400) and not accepts(machine, huge, "1" + "0" * 399 + "10")


def reachable(machine: NumberMachine, start: int) -> set[int]:
    seen, queue = {start}, [start]
    while queue:
        state = queue.pop()
        for byte in BYTES:
            after = machine.step(state, byte)
            if after and after not in seen:
                seen.add(after)
                queue.append(after)
    return seen


@pytest.mark.parametrize(
    ("bounds", "limit"),
    [
        ({}, 33),
        ({"minimum": "0"}, 37),
        ({"exclusive_maximum": "0"}, 37),
        ({"minimum": "0", "maximum": "100"}, 64),
        ({"integer": True}, 221),
        ({"minimum": "1", "maximum": "65535", "integer": True}, 200),
    ],
    ids=str,
)
def test_few_states(bounds: Bounds, limit: int) -> None:
    machine = NumberMachine()
    assert len(reachable(machine, machine.language(**bounds))) <= limit


def test_decided_bounds_leave_the_state() -> None:
    machine = NumberMachine()
    free = machine.language()
    non_negative = machine.language(minimum="0")
    assert run(machine, non_negative, "1") == run(machine, free, "1")
    assert run(machine, non_negative, "0.5") == run(machine, free, "0.5")
    port = machine.language(minimum="1", maximum="65535")
    assert run(machine, port, "12") == run(machine, machine.language(maximum="99999"), "23")
    assert run(machine, port, "12345.") == run(machine, free, "55.")
    assert run(machine, machine.language(minimum="-10"), "-5") == run(
        machine, machine.language(maximum="10"), "5"
    )


def test_plain_form_of_integers_is_small() -> None:
    machine = NumberMachine()
    plain = machine.language(integer=True, plain=True)
    assert len(reachable(machine, plain)) <= 8
    for text, expected in {"12": True, "1.0": True, "1e2": False, "1.5e1": False, "-0": True}.items():
        assert accepts(machine, plain, text) == expected
    assert run(machine, plain, "12") == run(machine, machine.language(integer=True), "12")


@pytest.mark.parametrize("seed", range(60))
def test_an_intersection_satisfies_both(seed: int) -> None:
    generator = random.Random(2000 + seed)
    first, second = random_bounds(generator), random_bounds(generator)
    machine = NumberMachine()
    a, b = machine.language(**first), machine.language(**second)
    both = machine.meet(a, b)
    assert both is not None
    for text in number_texts(4, False, 400, 16):
        expected = satisfies(value(text), first) and satisfies(value(text), second)
        assert accepts(machine, both, text) == expected, (first, second, text)


def test_meet_gives_the_state_of_the_merged_bounds() -> None:
    machine = NumberMachine()
    low, high = machine.language(minimum="0"), machine.language(maximum="100", integer=True)
    assert machine.meet(low, high) == machine.language(minimum="0", maximum="100", integer=True)
    assert machine.meet(machine.language(multiple_of="1.5"), machine.language(integer=True)) == (
        machine.language(multiple_of="3")
    )
    assert (
        machine.meet(machine.language(multiple_of="1e-17"), machine.language(multiple_of="999999999999"))
        is None
    )
    assert machine.meet(low, machine.language(maximum="-1")) == 0


def test_a_wider_constraint_includes_a_narrower_one_at_every_prefix() -> None:
    machine = NumberMachine()
    wide = machine.language(minimum="3", multiple_of="0.5")
    narrow = machine.language(minimum="5", maximum="90", integer=True)
    for text in ["", "1", "12", "5.", "6.0", "6e", "6e+"]:
        assert machine.includes(run(machine, wide, text), run(machine, narrow, text)), text
    assert not machine.includes(narrow, wide)
    assert not machine.includes(machine.language(multiple_of="0.2"), machine.language(multiple_of="0.5"))


def test_a_free_number_includes_the_rest_of_any_other() -> None:
    machine = NumberMachine()
    free, bounded = machine.language(), machine.language(minimum="5", multiple_of="0.1")
    for text in ["", "-", "1", "12", "0", "6.", "6.5", "12.5", "6e", "6e-"]:
        assert machine.includes(run(machine, free, text), run(machine, bounded, text)), text
    assert not machine.includes(bounded, free)
    assert not machine.includes(run(machine, bounded, "6."), run(machine, free, "6."))


def test_unsatisfiable_bounds_are_dead_at_the_start() -> None:
    machine = NumberMachine()
    assert machine.language(minimum="2", maximum="1") == 0
    assert machine.language(exclusive_minimum="1", maximum="1") == 0
    assert machine.language(exclusive_minimum="1", exclusive_maximum="2", integer=True) == 0
    assert machine.language(minimum="1", maximum="6", multiple_of="7") == 0
    assert machine.language(minimum="1", maximum="7", multiple_of="7") != 0


@pytest.mark.parametrize("text", ["", "-", "01", "1.", ".5", "1e", "+1", "NaN", "1 ", "0x1", "1e5.0"])
def test_bad_bounds_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a JSON number"):
        NumberMachine().language(minimum=text)


@pytest.mark.parametrize("text", ["0", "-1", "0.0"])
def test_multiples_must_be_positive(text: str) -> None:
    with pytest.raises(ValueError, match="multipleOf must be above zero"):
        NumberMachine().language(multiple_of=text)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"minimum": "1" * 1001}, "more than 1000 digits"),
        ({"maximum": "1e10001"}, "beyond 1e10000"),
        ({"multiple_of": "1234567890123456789"}, "more than 18 digits"),
        ({"multiple_of": "1e18"}, "more than 18 digits"),
    ],
)
def test_limits_name_themselves(bounds: Bounds, message: str) -> None:
    with pytest.raises(LimitExceeded, match=message):
        NumberMachine().language(**bounds)


@pytest.mark.parametrize("seed", range(30))
def test_number_leaves_combine_in_a_space(seed: int) -> None:
    generator = random.Random(3000 + seed)
    first, second, third = (random_bounds(generator) for _ in range(3))
    space = RegexSpace()
    a, b, c = (number_language(space, **bounds) for bounds in (first, second, third))
    combined = space.intersect(space.alternate(a, b), space.complement(c))
    for text in number_texts(3, False, 400, 16):
        number = value(text)
        expected = (satisfies(number, first) or satisfies(number, second)) and not satisfies(number, third)
        assert space.matches(combined, text.encode()) == expected, (first, second, third, text)
    assert space.unproven == 0
    if witness := space.witness(combined):
        assert space.matches(combined, witness)
    assert (witness is not None) == space.alive(combined)


def test_equal_languages_are_one_leaf() -> None:
    space = RegexSpace()
    assert number_language(space, integer=True) == number_language(space, multiple_of="1.0")
    low, high = number_language(space, minimum="1"), number_language(space, exclusive_maximum="1e2")
    assert space.intersect(low, high) == number_language(space, minimum="1", exclusive_maximum="100")
    assert number_language(space, minimum="2", maximum="1") == RegexSpace.EMPTY
