"""Monitored matchers against a slow reference of the same world: masks, refusals, rollback, forks, distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import OptionError
from structgen.matcher import open_matcher
from structgen.models.memory import DistributionModel
from structgen.monitors import Context, Fault, Monitor, Names, after, monitored

from .test_answers import read
from .worlds import (
    EOS,
    MEMBERS,
    SMALL,
    TOKENS,
    Members,
    is_beginning,
    is_whole,
    next_probabilities,
    vocabulary,
)

VOCABULARY = vocabulary()
BYTES = sg.Vocabulary.of_bytes()
PATIENT: dict[str, Any] = {"patience": 600.0}
"""A patience that late answers meet on any busy machine."""


def _allowed(matcher: sg.Matcher) -> set[int]:
    bits = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def _slow(text: str, members: Mapping[str, Sequence[str]] = MEMBERS) -> set[int]:
    after = {i for i, token in enumerate(TOKENS) if token and is_beginning(text + token.decode(), members)}
    return after | ({EOS} if is_whole(text, members) else set())


@given(choices=st.lists(st.integers(0, 10**6), max_size=12), later=st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_text_goes_on_with_what_the_world_knows(choices: list[int], later: bool) -> None:
    # Late answers report dead ends too late, so receivers without members are left out: see the tests of dead ends.
    members = {name: some for name, some in MEMBERS.items() if some or not later}
    matcher = open_matcher(
        monitored(None, Members(members, later=later), language=SMALL, **PATIENT), VOCABULARY
    )
    text = ""
    for choice in choices:
        right = _slow(text, members)
        allowed = _allowed(matcher)
        assert right <= allowed
        taken = {token for token in allowed if token != EOS and matcher.accepts([token])}
        assert taken == right - {EOS}, text
        assert _allowed(matcher) == right, "what was refused is in no later mask"
        assert matcher.is_complete() == is_whole(text, members)
        if not taken:
            break
        token = sorted(taken)[choice % len(taken)]
        assert matcher.advance(token)
        text += TOKENS[token].decode()
        assert matcher.text == text.encode()


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_rollback_and_forks_restore_active_suggestions(data: st.DataObject) -> None:
    constraint = monitored(None, Members(), language=SMALL)
    matchers = [open_matcher(constraint, VOCABULARY)]
    for _ in range(data.draw(st.integers(1, 14))):
        matcher = matchers[data.draw(st.integers(0, len(matchers) - 1))]
        kind = data.draw(st.sampled_from(["advance", "advance", "advance", "rollback", "fork", "accepts"]))
        if kind == "rollback":
            matcher.rollback(data.draw(st.integers(0, len(matcher.tokens))))
        elif kind == "fork":
            matchers.append(matcher.fork())
        else:
            token = data.draw(st.integers(0, len(TOKENS) - 2))
            text = matcher.text.decode()
            right = is_beginning(text + TOKENS[token].decode())
            assert bool(matcher.accepts([token]) if kind == "accepts" else matcher.advance(token)) == right
    for matcher in matchers:
        fresh = open_matcher(constraint, VOCABULARY)
        for token in matcher.tokens:
            assert fresh.advance(token)
        for one in (matcher, fresh):
            one.accepts([])
            for token in range(len(TOKENS) - 1):
                one.accepts([token])
        assert _allowed(matcher) == _allowed(fresh) == _slow(matcher.text.decode())


@given(choices=st.lists(st.integers(0, 10**6), max_size=10))
@settings(max_examples=60, deadline=None)
def test_cut_masks_allow_only_tokens_that_are_accepted(choices: list[int]) -> None:
    members = {name: some for name, some in MEMBERS.items() if some}
    matcher = open_matcher(monitored(None, Members(members), language=SMALL, crossing="cut"), VOCABULARY)
    text = ""
    for choice in choices:
        allowed = sorted(_allowed(matcher) - {EOS})
        assert all(matcher.accepts([token]) for token in allowed)
        # Every text can still be generated as single bytes, where these are tokens.
        singles = {i for i in _slow(text, members) - {EOS} if len(TOKENS[i]) == 1}
        assert singles <= set(allowed)
        if not allowed:
            break
        token = allowed[choice % len(allowed)]
        assert matcher.advance(token)
        text += TOKENS[token].decode()
    assert matcher.report.refused == 0


@pytest.mark.parametrize("speculate", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_a_draw_is_that_of_an_exact_mask(speculate: bool, later: bool) -> None:
    """With the noise of one seed, a token that is refused after it was drawn changes no later draw."""
    model = DistributionModel(VOCABULARY, lambda tokens: next_probabilities(tokens))
    for seed in range(40):
        constraint = monitored(None, Members(later=later), language=SMALL, **PATIENT)
        result = sg.run(model, "", constraint, seed=seed, max_tokens=12, speculate=speculate)
        text, tokens = "", []
        noise = _noise_of(seed)
        while len(tokens) < 12:
            ids = np.array(sorted(_slow(text)))
            token = int(
                ids[
                    (
                        np.log(next_probabilities(tokens)[ids]) + noise(ids, position=len(tokens), branch=0)
                    ).argmax()
                ]
            )
            if token == EOS:
                break
            tokens.append(token)
            text += TOKENS[token].decode()
        assert result.tokens == tokens
        assert is_beginning(result.text)
        assert result.log_weight is None


def _is_likely(found: Sequence[int], expected: Sequence[float]) -> bool:
    """Return whether chi-squared is below its quantile of 1 - 1e-4 (approximation of Wilson and Hilferty)."""
    statistic = sum((count - mean) ** 2 / mean for count, mean in zip(found, expected, strict=True))
    freedom = len(found) - 1
    return bool(statistic < freedom * (1 - 2 / (9 * freedom) + 3.719 * np.sqrt(2 / (9 * freedom))) ** 3)


def _noise_of(seed: int):  # type: ignore[no-untyped-def]
    from structgen.generation.options import row_seed
    from structgen.generation.random_streams import GumbelNoise

    return GumbelNoise(row_seed(seed, 0))


def test_uniform_noise_draws_from_the_distribution_of_an_exact_mask() -> None:
    """One step after ``x``: chi-squared of 4,000 draws; it fails by chance once in 10^4 seeds."""
    model = DistributionModel(VOCABULARY, lambda tokens: next_probabilities(tokens))
    constraint = monitored(None, Members(), language=SMALL, before="x")
    counts: dict[int, int] = {}
    draws = 4_000
    for seed in range(draws):
        result = sg.run(model, "", constraint, seed=seed, max_tokens=1, noise="uniform", speculate=False)
        token = result.tokens[0] if result.tokens else EOS
        counts[token] = counts.get(token, 0) + 1
    right = sorted(i for i, token in enumerate(TOKENS) if token and is_beginning("x" + token.decode()))
    right.append(EOS)
    assert set(counts) <= set(right)
    mass = next_probabilities([])[right]
    assert _is_likely([counts.get(i, 0) for i in right], mass / mass.sum() * draws)


@pytest.mark.parametrize("noise", ["gumbel", "uniform"])
@pytest.mark.parametrize("options", [{"top_k": 2}, {"top_k": 4}, {"min_p": 0.6}])
def test_truncation_applies_to_the_allowed_tokens(noise: str, options: dict[str, float]) -> None:
    """One step after ``x``: chi-squared of 1,500 draws; it fails by chance once in 10^4 seeds."""
    model = DistributionModel(VOCABULARY, lambda tokens: next_probabilities(tokens))
    constraint = monitored(None, Members(), language=SMALL, before="x")
    draws = 1_500
    counts: dict[int, int] = {}
    for seed in range(draws):
        result = sg.run(
            model, "", constraint, seed=seed, max_tokens=1, noise=noise, speculate=False, **options
        )
        token = result.tokens[0] if result.tokens else EOS
        counts[token] = counts.get(token, 0) + 1
    right = [i for i, token in enumerate(TOKENS) if token and is_beginning("x" + token.decode())] + [EOS]
    masses = {i: float(next_probabilities([])[i]) for i in right}
    best = sorted(masses, key=lambda i: -masses[i])
    if "top_k" in options:
        best = best[: int(options["top_k"])]
    else:
        best = [i for i in best if masses[i] >= options["min_p"] * masses[best[0]]]
    assert set(counts) <= set(best)
    left = sum(masses[i] for i in best)
    if len(best) > 1:
        assert _is_likely([counts.get(i, 0) for i in best], [masses[i] / left * draws for i in best])


def test_samplers_draw_texts_of_the_world() -> None:
    model = DistributionModel(VOCABULARY, lambda tokens: next_probabilities(tokens))
    within = sg.regex(r"[xy]\.[abc]{1,3}")
    for sampler in ("exact", "rejection", "awrs", "smc", "asap"):
        constraint = monitored(within, Members(), language=SMALL)
        drawn = sg.sample(model, "", constraint, n=20, sampler=sampler, seed=4)
        texts = {model.decode(one.tokens) for one in drawn.draws}
        assert texts <= {"x.a", "x.ab", "y.b"}
        assert texts
    found = sg.inference.beam(model, "", monitored(within, Members(), language=SMALL), width=3)
    assert {one.text for one in found} == {"x.a", "x.ab", "y.b"}


def test_exact_samples_have_the_conditional_distribution() -> None:
    """Chi-squared of 2,000 draws against enumeration; it fails by chance once in 10^4 seeds."""
    model = DistributionModel(VOCABULARY, lambda tokens: next_probabilities(tokens))
    constraint = monitored(sg.regex(r"[xy]\.[abc]{1,3}"), Members(), language=SMALL)
    drawn = sg.sample(model, "", constraint, n=2_000, sampler="exact", seed=8)
    mass: dict[str, float] = {}
    open_ways = [((), 1.0)]
    while open_ways:
        tokens, chance = open_ways.pop()
        text = b"".join(TOKENS[i] for i in tokens).decode()
        if text in ("x.a", "x.ab", "y.b"):
            mass[text] = mass.get(text, 0.0) + chance * next_probabilities(tokens)[EOS]
        open_ways += [
            ((*tokens, i), chance * next_probabilities(tokens)[i])
            for i, token in enumerate(TOKENS)
            if token and any(one.startswith(text + token.decode()) for one in ("x.a", "x.ab", "y.b"))
        ]
    texts = [model.decode(one.tokens) for one in drawn.draws]
    total = sum(mass.values())
    expected = [mass[text] / total * len(texts) for text in sorted(mass)]
    assert _is_likely([texts.count(text) for text in sorted(mass)], expected)


def test_excluded_and_optional_names() -> None:
    class Some(Members):
        def suggest(self, context):  # type: ignore[no-untyped-def, override]
            return {"x": Names(["a", "ab"], excluded=True), "y": Names(["b"], optional=True)}.get(
                context.receiver
            )

    matcher = open_matcher(monitored(None, Some(), language=SMALL), VOCABULARY)
    index = {token: i for i, token in enumerate(TOKENS)}
    assert matcher.advance(index[b"x."])
    assert matcher.accepts([index[b"abc"]])
    assert matcher.accepts([index[b"ab"], index[b"c"], index[b" "]]) == 3
    assert matcher.accepts([index[b"ab"], index[b" "]]) == 1
    assert not matcher.accepts([index[b")"]])
    matcher.reset()
    matcher.advance(index[b"y"])
    matcher.advance(index[b"."])
    assert matcher.accepts([index[b")"]])
    assert matcher.accepts([index[b"b"], index[b")"]]) == 2
    assert not matcher.accepts([index[b"a"]])


def test_forced_text_is_reported() -> None:
    long = Members({"x": ["abcabc"]})
    matcher = open_matcher(monitored(None, long, language=SMALL), VOCABULARY)
    index = {token: i for i, token in enumerate(TOKENS)}
    matcher.advance(index[b"x."])
    assert matcher.forced_bytes() == b"abcabc"
    matcher.advance(index[b"abc"])
    assert matcher.witness() == [index[b"abc"]]
    matcher.advance(index[b"ab"])
    assert matcher.forced() == [index[b"c"]]
    assert MEMBERS["x"] == ("a", "ab")


def test_no_token_leads_into_a_dead_end() -> None:
    """Active suggestions are intersected with a regular constraint and with one another."""
    index = {token: i for i, token in enumerate(TOKENS)}
    members = Members({"x": ["abc", "b"], "y": ["abc"]})
    matcher = open_matcher(monitored(sg.regex(r"[xy]\.(a|ab|b)\n"), members, language=SMALL), VOCABULARY)
    assert matcher.advance(index[b"x."])
    assert _allowed(matcher) == {index[b"b"]}
    assert matcher.forced() == [index[b"b"], index[b"\n"], EOS]
    matcher.rollback(1)
    assert matcher.accepts([index[b"x"], index[b".a"]]) == 1, (
        "only abc begins so, which the constraint has not"
    )
    assert matcher.advance(index[b"y"])
    assert not matcher.accepts([index[b"."]]), "nothing may come after it"
    both = monitored(
        None, [Members({"x": ["ab", "b"]}), Members({"x": ["abc", "b"]})], language=SMALL, before="x."
    )
    assert _allowed(open_matcher(both, VOCABULARY)) == {index[b"b"]}


def test_a_token_costs_its_own_bytes_and_not_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference implementation of monitor-guided decoding scans the whole vocabulary for each token."""
    asked: list[int] = []
    plain = sg.Vocabulary.token_bytes

    def counted(self: sg.Vocabulary, token: int) -> bytes | None:
        asked.append(token)
        return plain(self, token)

    matcher = open_matcher(monitored(None, Members(), language=SMALL), VOCABULARY)
    index = {token: i for i, token in enumerate(TOKENS)}
    tokens = [
        index[one] for one in (b"x.", b"ab", b" ", b"y.b", b"\n", b"x", b".a", b" ", b"y", b".", b"b", b" ")
    ]
    monkeypatch.setattr(sg.Vocabulary, "token_bytes", counted)
    for token in tokens:
        matcher.mask()
        assert matcher.advance(token)
    assert asked == tokens
    assert matcher.report.triggers == 4, "those in the middle of a token are found, too"


@pytest.mark.parametrize(
    ("pattern", "text", "asked"),
    [
        ("", "ab", ["", "a", "ab"]),
        ("^", "ab", [""]),
        ("x*", "axx", ["", "a", "ax", "axx"]),
        ("go ", "go go ", ["go ", "go go "]),
        ("go(?!x)", "go ", ["go"]),
    ],
)
def test_a_pattern_queries_wherever_it_matches(pattern: str, text: str, asked: list[str]) -> None:
    seen: list[str] = []
    constraint = monitored(None, after(pattern, lambda context: seen.append(context.text)), language="text")
    assert read(constraint, text) == text
    assert sorted(set(seen)) == asked


def test_a_pattern_that_can_never_match() -> None:
    with pytest.raises(OptionError, match="matches nothing that a text ends with"):
        monitored(None, after("go(?= )", lambda context: None), language="text")


def test_many_patterns_are_one_automaton() -> None:
    """Each pattern queries where it matches; all share one stored state."""
    seen: list[tuple[int, str]] = []

    def asks(number: int) -> Monitor:
        return after(f"(go|{number}){number} ", lambda context: seen.append((number, context.text)))

    constraint = monitored(None, list(map(asks, range(50))), language="text")
    text = "go7 hello 33 go1 "
    for _ in range(20):
        assert read(constraint, text) == text
    assert set(seen) == {(7, "go7 "), (3, "go7 hello 33 "), (1, text)}
    assert len(constraint.scanner._known) <= len(text) + 1


def nothing_fits(said: Any) -> Any:
    return monitored(sg.regex(r"[ab]{1,2} is \w{1,3}\."), after(r"is ", lambda context: said))


@pytest.mark.parametrize("said", [[], [""], False, ["???"], sg.regex("oak")])
def test_a_monitor_that_allows_nothing_ends_the_text_soon_and_is_named(said: Any) -> None:
    """A vocabulary in which thousands of tokens go on after the place."""
    words = [f"is {a}{b}{c}".encode() for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"]
    known = sg.Vocabulary.from_tokens([None, *(bytes([b]) for b in range(256)), *words], [0])
    model = DistributionModel(known, lambda tokens: np.full(known.size, 1 / known.size))
    result = sg.run(model, "", nothing_fits(said), max_tokens=20, seed=1, max_backtracks=4)
    assert result.finish == "dead_end" and result.monitors.refused < 500
    assert "monitors refused" in str(result.error)


@pytest.mark.parametrize("token", [b"x", b"o"])
def test_an_invalid_late_answer_is_an_error_at_each_call(token: bytes) -> None:
    future: Future[Any] = Future()
    matcher = nothing_fits(future).open_matcher(BYTES)
    assert all(map(matcher.advance, b"ab is "))
    future.set_result(42)
    for _ in range(3):
        with pytest.raises(OptionError, match="suggested 42"):
            matcher.mask()
        with pytest.raises(OptionError, match="suggested 42"):
            matcher.advance(ord(token))
        assert matcher.text == b"ab is "


def test_forks_that_return_to_a_passed_place_query_there() -> None:
    judging = Judge(["good"])
    first = monitored(None, judging, language=SMALL, mode="fallback").open_matcher(BYTES)
    assert all(map(first.advance, b"x."))
    second = first.fork()
    for one in (first, second):
        assert all(map(one.advance, b"bad"))
    first.on_repair()
    for one in (first, second):
        one.rollback(3)
        assert not one.advance(ord("b")) and one.advance(ord("g"))


def test_a_place_before_the_text_is_queried_after_blanks() -> None:
    for before, text, is_right in (
        ("to:", "hall", True), ("to: ", "hall", True), ("to: ", "zzz", False), ("to:  ha", "ll", True),
        ("to: zz", "z", True), ("to: hall ", "zzz", True),
    ):  # fmt: skip
        constraint = monitored(None, after("to:", lambda context: ["hall"]), before=before)
        assert read(constraint, text + "\n").endswith("\n") == is_right, (before, text)


def test_errors_in_what_stands_before_are_counted() -> None:
    class Failing(Monitor):
        def committed(self, context: Context, name: str) -> Any:
            raise ValueError(name)

    failing = Failing("failing", ("member",))
    matcher = monitored(None, failing, language=SMALL, before="x.a\ny.b\n").open_matcher(BYTES)
    assert matcher.report.failures == 2 and matcher.report.causes == {"ValueError: a": 1, "ValueError: b": 1}


class Judge(Monitor):
    """Suggests names after a dot, and judges finished texts."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("judge", ("member",))
        self.names = names

    def suggest(self, context: Context) -> Any:
        return self.names

    def faults(self, context: Context) -> Sequence[Fault]:
        return [Fault(0, "wrong")] if "bad" in context.text else []


def test_an_invalid_answer_leaves_the_text_unchanged() -> None:
    matcher = nothing_fits(42).open_matcher(BYTES)
    assert all(map(matcher.advance, b"ab is"))
    text = matcher.text
    for _ in range(2):
        with pytest.raises(OptionError, match="suggested 42"):
            matcher.forced()
        with pytest.raises(OptionError, match="suggested 42"):
            matcher.advance(ord(" "))
        assert matcher.text == text
