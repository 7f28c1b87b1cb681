"""Temperatures of rules: what the matcher says, against all parses of small grammars; what generation does."""

from __future__ import annotations

import itertools
import random
import warnings

import numpy as np
import pytest

import structgen as sg
from structgen.constraints.expressions import literal, repeat
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.errors import EmptyConstraint, OptionError, TemperatureNotApplied
from structgen.generation import SamplingOptions, generate_tokens
from structgen.ir.grammar import Body, Grammar, Lexer, Rule, Terminal
from structgen.matcher import warn_of_temperatures
from tests.oracles.toy_model import ToyModel

BYTES = sg.Vocabulary.of_bytes()
LEXER = Lexer("longest", (Terminal("a", literal("a")), Terminal("b", literal("b"))))


def lark(source: str, **options: object) -> sg.Constraint:
    return sg.lark(source, lexer="longest", contextual=True, **options)  # type: ignore[arg-type]


def said(constraint: sg.Constraint, text: str) -> list[float | None]:
    """What a matcher says before each byte of a text and after it."""
    matcher = sg.Matcher(constraint, BYTES)
    found = [matcher.temperature]
    for byte in text.encode():
        assert matcher.advance(byte)
        found.append(matcher.temperature)
    return found


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ('start: "a" v "z"\nv[temperature=0.6]: /x+/', "axxz", [None, 0.6, 0.6, 0.6, None]),
        ('start[temperature=0.3]: "a" v "z"\nv[temperature=0.6]: /x+/', "axz", [0.3, 0.6, 0.6, None]),
        ('start: l | r\nl[temperature=0.2]: "a"+\nr[temperature=0.9]: "a" "b"', "aa", [0.9, 0.9, 0.2]),
        ('start: v "z"\nv[temperature=0.6]: "x"\n%ignore " "', "x z", [0.6, None, None, None]),
        ('start: v*\nv[temperature=0]: "a"? "b"?', "ab", [0, 0, 0]),
        ('start: "a" v "z"\nv[temperature=0.6]: %json {"type": "array"}', "a[1]z", [None, 0.6, 0.6, 0.6, None, None]),
        ('start: "a" v\nv[temperature=2, suffix="!"]: /.*/', "axy!", [None, 2, 2, 2, None]),
        ('start: "a" "b"', "ab", [None, None, None]),
    ],
)  # fmt: skip
def test_what_a_matcher_says(source: str, text: str, expected: list[float | None]) -> None:
    constraint = lark(source)
    assert said(constraint, text) == expected
    assert sg.Matcher(constraint, BYTES).sets_temperature == any(one is not None for one in expected)


def test_grammars_in_grammars() -> None:
    inner = lark('start: "[" n "]"\nn[temperature=0.1]: /[0-9]+/')
    outer = lark('start: "a" v "z"\nv[temperature=0.6]: @sub', constraints={"sub": inner})
    assert said(outer, "a[12]z") == [None, 0.6, 0.1, 0.1, 0.1, None, None]
    assert said("x" + inner + "y", "x[1]y") == [None, None, 0.1, 0.1, None, None]


def random_body(rnd: random.Random, rules: list[str], depth: int) -> Body:
    kind = rnd.choice(["leaf", "rule", "sequence", "choice", "repeat"])
    if rules and kind == "rule":
        return ("rule", rnd.choice(rules))
    if depth == 0 or kind in ("leaf", "rule"):
        return ("terminal", rnd.choice("ab"))
    if kind == "repeat":
        return ("repeat", random_body(rnd, rules, depth - 1), *rnd.choice([(0, 1), (1, 2)]))
    return (kind, tuple(random_body(rnd, rules, depth - 1) for _ in range(2)))


class Twin:
    """The temperatures at which each letter of a text may stand, of all parses; None where it is not a text."""

    def __init__(self, rules: dict[str, Rule], text: str) -> None:
        self.rules = rules
        self.text = text

    def of(self, body: Body, i: int, j: int, now: float | None) -> list[set[float | None]] | None:
        kind = body[0]
        if kind == "terminal":
            return [{now}] if self.text[i:j] == body[1] else None
        if kind == "rule":
            rule = self.rules[body[1]]
            return self.of(rule.body, i, j, now if rule.temperature is None else rule.temperature)
        if kind == "choice":
            return self.any([self.of(one, i, j, now) for one in body[1]])
        if kind == "repeat":
            counts = range(body[2], body[3] + 1)
            return self.any([self.row([body[1]] * count, i, j, now) for count in counts])
        return self.row(list(body[1]), i, j, now)

    def row(self, parts: list[Body], i: int, j: int, now: float | None) -> list[set[float | None]] | None:
        if not parts:
            return [] if i == j else None
        found = []
        for k in range(i, j + 1):
            first, rest = self.of(parts[0], i, k, now), self.row(parts[1:], k, j, now)
            found.append(None if first is None or rest is None else first + rest)
        return self.any(found)

    @staticmethod
    def any(found: list[list[set[float | None]] | None]) -> list[set[float | None]] | None:
        those = [one for one in found if one is not None]
        return [set().union(*sets) for sets in zip(*those, strict=True)] if those else None


def test_against_all_parses() -> None:
    rnd = random.Random(3)
    texts = ["".join(letters) for n in range(7) for letters in itertools.product("ab", repeat=n)]
    compared = 0
    for _ in range(70):
        used = {"start": ["x", "y"], "x": ["y"], "y": []}
        rules = {
            name: Rule(name, random_body(rnd, inner, 2), temperature=rnd.choice([None, 0.0, 0.5, 1.5]))
            for name, inner in used.items()
        }
        expected: dict[str, set[float | None]] = {}
        for text in texts:
            for at, temperatures in enumerate(
                Twin(rules, text).of(("rule", "start"), 0, len(text), None) or []
            ):
                expected.setdefault(text[:at], set()).update(temperatures)
        if not expected or max(map(len, expected)) > 4:
            continue  # there may be longer texts
        try:
            constraint = GrammarConstraint(Grammar(tuple(rules.values()), "start", LEXER), "Lark")
        except EmptyConstraint:
            continue
        for text, temperatures in expected.items():
            known = [one for one in temperatures if one is not None]
            assert said(constraint, text)[-1] == max(known, default=None), (rules, text)
            compared += 1
    assert compared > 100


LETTERS = sg.Vocabulary.from_tokens([b"a", b"b", None], [2])


def texts_of(source: str, temperature: float, draws: int = 250, **options: object) -> list[str]:
    """What is drawn where a always has 0.7 of the probability and b the rest."""
    model = ToyModel(LETTERS, lambda tokens: (0.7, 0.3, 0.0) if len(tokens) < 3 else (0.0, 0.0, 1.0))
    matchers = [sg.Matcher(lark(source), LETTERS) for _ in range(draws)]
    chosen = SamplingOptions(temperature=temperature, seed=5, **options)  # type: ignore[arg-type]
    found = generate_tokens(model, [[0]] * draws, matchers, chosen)
    return [one.text for one in found]


def test_rules_sample_at_their_temperature() -> None:
    greedy = texts_of("start: x y x\nx: /[ab]/\ny[temperature=1]: /[ab]/", 0)
    assert set(greedy) == {"aaa", "aba"}
    assert 0.22 < greedy.count("aba") / len(greedy) < 0.38
    drawn = texts_of("start: x y x\nx: /[ab]/\ny[temperature=0]: /[ab]/", 1)
    assert set(drawn) == {"aaa", "aab", "baa", "bab"}
    hot = texts_of("start: x y x\nx: /[ab]/\ny[temperature=100]: /[ab]/", 1, noise="gumbel")
    assert 0.42 < sum(text[1] == "b" for text in hot) / len(hot) < 0.58
    assert 0.22 < sum(text[0] == "b" for text in hot) / len(hot) < 0.38


def test_weights_are_those_of_the_temperature() -> None:
    model = ToyModel(LETTERS, lambda tokens: (0.7, 0.3, 0.0) if len(tokens) < 2 else (0.0, 0.0, 1.0))
    for source in ('start: "b" x\nx[temperature=2]: "a"', 'start: "b" x\nx[temperature=2]: "a" | "b"'):
        matcher = sg.Matcher(lark(source), LETTERS)
        [found] = generate_tokens(model, [[0]], [matcher], SamplingOptions(temperature=1, exact_weight=True))
        root = np.sqrt([0.7, 0.3])
        second = 0.0 if "|" in source else float(np.log(root[0] / root.sum()))
        assert found.log_weight == pytest.approx(np.log(0.3) + second)


def test_exact_samplers_refuse_and_engines_warn() -> None:
    constraint = lark('start: x\nx[temperature=2]: "a" | "b"')
    model = ToyModel(LETTERS, lambda tokens: (0.7, 0.3, 0.0) if not tokens else (0.0, 0.0, 1.0))
    model.encode = lambda prompt: [0]  # type: ignore[attr-defined]
    for call in (sg.sample, sg.inference.beam):
        with pytest.raises(OptionError, match="rules of the grammar set temperatures"):
            call(model, "x", constraint)
    with pytest.warns(TemperatureNotApplied, match="some engine samples at one temperature"):
        warn_of_temperatures(sg.Matcher(constraint, LETTERS), "some engine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_temperatures(sg.Matcher(lark('start: "a"'), LETTERS), "some engine")


def test_grammars_without_a_lexer() -> None:
    value = Rule("value", ("text", repeat(literal("x"), 1, None)), temperature=0.6)
    root = Rule("root", ("sequence", (("text", literal("a")), ("rule", "value"), ("text", literal("z")))))
    assert said(GrammarConstraint(Grammar((root, value), "root"), "EBNF"), "axxz") == [
        None,
        0.6,
        0.6,
        0.6,
        None,
    ]
    whole = Rule("root", ("text", literal("ab")), temperature=1.5)
    constraint = GrammarConstraint(Grammar((whole,), "root"), "EBNF")
    assert said(constraint, "ab") == [1.5, 1.5, None]
    assert said("x" + constraint, "xab") == [None, 1.5, 1.5, None]
    assert constraint != GrammarConstraint(Grammar((Rule("root", whole.body),), "root"), "EBNF")
