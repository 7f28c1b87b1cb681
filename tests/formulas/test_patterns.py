"""Patterns in scopes: a formula holds on a trace if and only if its pattern holds on each segment of the scope."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.formulas import Formula, atom, equivalent, parse
from structgen.formulas import patterns as pt
from tests.oracles.trace_semantics import holds, on_stretch
from tests.strategies.formulas import traces

ATOMS = ("p", "s", "t", "z", "q", "r")
SCOPES = {
    "within": pt.within(),
    "before": pt.before("r"),
    "after": pt.after("q"),
    "between": pt.between("q", "r"),
    "after_until": pt.after_until("q", "r"),
}
MADE = {
    "absence": ("p",),
    "existence": ("p",),
    "universality": ("p",),
    "bounded_existence": ("p", 2),
    "precedence": ("s", "p"),
    "response": ("p", "s"),
    "precedence_by_chain": ("s", "t", "p"),
    "precedence_of_chain": ("s", "p", "t"),
    "response_by_chain": ("p", "s", "t"),
    "response_to_chain": ("p", "t", "s"),
    "constrained_chain": ("p", "s", "t", "z"),
}

Trace = list[frozenset[str]]


def stretches(kind: str, trace: Trace) -> Iterator[Trace]:
    """Return the segments of a scope, by its definition."""
    begins = [place for place, here in enumerate(trace) if "q" in here]
    ends = [place for place, here in enumerate(trace) if "r" in here]
    if kind == "within":
        yield trace
    elif kind == "before" and ends:
        yield trace[: ends[0]]
    elif kind == "after" and begins:
        yield trace[begins[0] :]
    elif kind in ("between", "after_until"):
        for begin in begins:
            end = next((place for place in ends if place >= begin), None)
            if end is None and kind == "between":
                continue
            if end != begin:
                yield trace[begin:end]


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(list(MADE)), st.sampled_from(list(SCOPES)), traces(ATOMS, most=7))
def test_patterns_hold_on_each_stretch(name: str, kind: str, trace: Trace) -> None:
    make = pt.PATTERNS[name]
    assert holds(make(*MADE[name], SCOPES[kind]), trace) == all(
        on_stretch(make(*MADE[name]), stretch) for stretch in stretches(kind, trace)
    )


def pattern_holds(name: str, trace: Trace) -> bool:
    """Return whether a pattern holds on a whole trace, by its definition in words."""
    at = {one: [place for place, here in enumerate(trace) if one in here] for one in ATOMS}

    def later(places: list[int], than: int) -> list[int]:
        return [place for place in places if place > than]

    p, s, t, z = (at[one] for one in "pstz")
    match name:
        case "absence":
            return not p
        case "existence":
            return bool(p)
        case "universality":
            return len(p) == len(trace)
        case "bounded_existence":
            return sum(place - 1 not in p for place in p) <= 2
        case "precedence":
            return all(any(one <= place for one in s) for place in p)
        case "response":
            return all(any(one >= place for one in s) for place in p)
        case "precedence_by_chain":
            return all(any(one < place and any(one < two <= place for two in t) for one in s) for place in p)
        case "precedence_of_chain":
            return all(any(one <= place for one in s) for place in p if later(t, place))
        case "response_by_chain":
            return all(any(one >= place and later(t, one) for one in s) for place in p)
        case "response_to_chain":
            return all(
                any(any(two >= one for two in s) for one in later(t, place)) for place in p if later(t, place)
            )
    return all(
        any(
            one >= place and any(not any(one <= bad < two for bad in z) for two in later(t, one)) for one in s
        )
        for place in p
    )


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(list(MADE)), traces(ATOMS, most=7))
def test_patterns_say_what_they_promise(name: str, trace: Trace) -> None:
    assert holds(pt.PATTERNS[name](*MADE[name]), trace) == pattern_holds(name, trace)


def test_as_they_are_known() -> None:
    """The formulas of the published collection of patterns, where it defines scopes in the same way."""
    known: list[tuple[Formula, str]] = [
        (pt.absence("p", pt.before("r")), "F r -> (!p U r)"),
        (pt.absence("p", pt.after("q")), "G (q -> G !p)"),
        (pt.absence("p", pt.between("q", "r")), "G ((q & !r & F r) -> (!p U r))"),
        (pt.absence("p", pt.after_until("q", "r")), "G (q & !r -> (!p W r))"),
        (pt.existence("p", pt.after("q")), "G !q | F (q & F p)"),
        (pt.existence("p", pt.after_until("q", "r")), "G (q & !r -> (!r U (p & !r)))"),
        (pt.precedence("s", "p", pt.before("r")), "F r -> (!p U (s | r))"),
        (pt.response("p", "s", pt.before("r")), "F r -> (p -> (!r U (s & !r))) U r"),
        (pt.response("p", "s", pt.after("q")), "G (q -> G (p -> F s))"),
        (pt.response("p", "s", pt.between("q", "r")), "G ((q & !r & F r) -> (p -> (!r U (s & !r))) U r)"),
    ]
    for found, text in known:
        assert equivalent(found, parse(text), alphabet="propositional"), text


def test_options() -> None:
    with pytest.raises(OptionError, match="most is -1"):
        pt.bounded_existence("p", -1)
    with pytest.raises(OptionError, match="scope is 'r'"):
        pt.absence("p", "r")  # type: ignore[arg-type]
    assert pt.absence(atom("p")) is parse("G !p")
