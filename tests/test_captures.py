"""Captures of small grammars, against a slow twin that tries everything."""

from __future__ import annotations

import itertools
import random
import re
from functools import cache

import pytest

import structgen as sg
from structgen.constraints.expressions import concat, literal, repeat
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.errors import EmptyConstraint, GrammarUnsupported, LimitExceeded
from structgen.ir.grammar import Body, Grammar, Lexer, Rule, Terminal
from tests.oracles.scripted_model import ScriptedModel

BYTES = sg.Vocabulary.of_bytes()
PIECES = {"a": literal("a"), "b": literal("b"), "ab": literal("ab"), "a*": repeat(literal("a"), 0, None)}
"""Texts of terminals, as patterns of `re` and as expressions."""
PIECES["(ab)+b?"] = concat([repeat(literal("ab"), 1, None), repeat(literal("b"), 0, 1)])


def random_body(rnd: random.Random, leaves: list[Body], rules: list[str], depth: int) -> Body:
    kind = rnd.choice(["leaf", "rule", "sequence", "choice", "choice", "repeat"])
    if rules and kind == "rule":
        return ("rule", rnd.choice(rules))
    if depth == 0 or kind in ("leaf", "rule"):
        return rnd.choice(leaves)
    if kind == "repeat":
        low, high = rnd.choice([(0, None), (1, None), (0, 1), (2, 3), (1, 2)])
        return ("repeat", random_body(rnd, leaves, rules, depth - 1), low, high)
    return (kind, tuple(random_body(rnd, leaves, rules, depth - 1) for _ in range(rnd.randint(2, 3))))


class Twin:
    """The slow twin: find the parse of a text that counts. `units` are the terminals of the text, or None."""

    def __init__(self, grammar: Grammar, text: str) -> None:
        self.rules = {rule.name: rule for rule in grammar.rules}
        self.text = text
        self.is_circular = False
        self.open: set[tuple[int, int, int]] = set()
        self.best = cache(self.best)  # type: ignore[method-assign]
        self.fits = cache(self.fits)  # type: ignore[method-assign]

    def fits(self, body: Body, i: int, j: int) -> bool:
        return self.best(body, i, j) is not None

    def best(self, body: Body, i: int, j: int) -> tuple[tuple[str, int, int], ...] | None:
        """Return the captures between two positions; None if the body has no such text."""
        kind = body[0]
        if kind in ("text", "terminal"):
            pattern = body[1] if kind == "terminal" else next(p for p, e in PIECES.items() if e == body[1])
            return () if re.fullmatch(pattern, self.text[i:j]) else None
        key = (id(body), i, j)
        if key in self.open:
            self.is_circular = True
            return None
        self.open.add(key)
        try:
            return self.inner(body, i, j)
        finally:
            self.open.discard(key)

    def inner(self, body: Body, i: int, j: int) -> tuple[tuple[str, int, int], ...] | None:
        kind = body[0]
        if kind == "rule":
            rule = self.rules[body[1]]
            inside = self.best(rule.body, i, j)
            if inside is None:
                return None
            return ((rule.capture, i, j), *inside) if rule.capture else inside
        if kind == "choice":
            return next((found for one in body[1] if (found := self.best(one, i, j)) is not None), None)
        if kind == "sequence":
            return self.sequence(body[1], i, j)
        return self.rounds(body[1], body[2], body[3], i, j)

    def sequence(self, parts: tuple[Body, ...], i: int, j: int) -> tuple[tuple[str, int, int], ...] | None:
        if not parts:
            return () if i == j else None
        for k in range(j, i - 1, -1):
            rest = self.sequence(parts[1:], k, j)
            if rest is not None and (first := self.best(parts[0], i, k)) is not None:
                return first + rest
        return None

    def rounds(
        self, body: Body, low: int, high: int | None, i: int, j: int
    ) -> tuple[tuple[str, int, int], ...] | None:
        if i == j:
            return () if low <= 0 or self.fits(body, i, i) else None
        if high == 0:
            return None
        for k in range(j, i, -1):
            rest = self.rounds(body, low - 1, None if high is None else high - 1, k, j)
            if rest is not None and (first := self.best(body, i, k)) is not None:
                return first + rest
        return None


def read(constraint: sg.Constraint, text: str) -> sg.Matcher | None:
    matcher = sg.Matcher(constraint, BYTES)
    return matcher if all(map(matcher.advance, text.encode())) else None


def compare(grammar: Grammar, texts: list[str]) -> int:
    """Return how many of the texts are complete texts of the grammar."""
    try:
        constraint = GrammarConstraint(grammar, "EBNF")
        sg.Matcher(constraint, BYTES)
    except EmptyConstraint:
        return 0
    whole = 0
    for text in texts:
        twin = Twin(grammar, text)
        expected = twin.best(("rule", grammar.start), 0, len(text))
        matcher = read(constraint, text)
        if not twin.is_circular:
            assert (matcher is not None and matcher.is_complete()) == (expected is not None), (grammar, text)
        if matcher is None or not matcher.is_complete():
            if matcher is not None:
                matcher.captures()
            continue
        whole += 1
        found = matcher.captures()
        assert all(one.text == text[one.start : one.end] for one in found)
        if not twin.is_circular:
            assert [(one.name, one.start, one.end) for one in found] == list(expected or ()), (grammar, text)
    return whole


def random_rules(rnd: random.Random, leaves: list[Body]) -> tuple[Rule, ...]:
    """Return three rules that may use each other, most with a capture."""
    names = ["start", "x", "y"]
    used = {"start": ["x", "y"], "x": rnd.choice([["y"], names]), "y": rnd.choice([[], names])}
    return tuple(
        Rule(name, random_body(rnd, leaves, used[name], 2), capture=rnd.choice([None, name, name]))
        for name in names
    )


def test_scannerless_grammars() -> None:
    rnd = random.Random(5)
    texts = ["".join(letters) for n in range(6) for letters in itertools.product("ab", repeat=n)]
    leaves: list[Body] = [("text", expression) for expression in PIECES.values()]
    whole = 0
    for _ in range(150):
        rules = random_rules(rnd, leaves)
        whole += compare(Grammar(rules, "start"), rnd.sample(texts, 24))
    assert whole > 300


@pytest.mark.parametrize("contextual", [False, True])
def test_lexed_grammars(contextual: bool) -> None:
    rnd = random.Random(6)
    texts = ["".join(letters) for n in range(6) for letters in itertools.product("ab", repeat=n)]
    leaves: list[Body] = [("terminal", "a"), ("terminal", "b")]
    lexer = Lexer(
        "longest", (Terminal("a", literal("a")), Terminal("b", literal("b"))), contextual=contextual
    )
    whole = 0
    for _ in range(100):
        rules = random_rules(rnd, leaves)
        whole += compare(Grammar(rules, "start", lexer), rnd.sample(texts, 24))
    assert whole > 60


def lark(source: str, **options: object) -> sg.Constraint:
    return sg.lark(source, lexer="longest", contextual=True, **options)  # type: ignore[arg-type]


def captured(constraint: sg.Constraint, text: str) -> list[tuple[str, str]]:
    matcher = read(constraint, text)
    assert matcher is not None
    for one in matcher.captures():
        assert 0 <= one.start <= one.end <= len(text.encode())
    return [(one.name, one.text) for one in matcher.captures()]


CASES = [
    ('start: "a" v "b"\nv[capture]: /[0-9]+/', "a123b", [("v", "123")]),
    ('start: outer\nouter[capture="o"]: "x" inner "!"\ninner[capture="i"]: /[a-z]+/', "xabc!",
     [("o", "xabc!"), ("i", "abc")]),
    ('start: (i ",")* i\ni[capture]: /[0-9]+/', "1,22,333", [("i", "1"), ("i", "22"), ("i", "333")]),
    ('start: l\nl[capture]: I "," l | I\nI: /[0-9]+/', "1,2,3", [("l", "1,2,3"), ("l", "2,3"), ("l", "3")]),
    ('start: l\nl[capture]: l "," I | I\nI: /[0-9]+/', "1,2,3", [("l", "1,2,3"), ("l", "1,2"), ("l", "1")]),
    ('start[capture="o"]: r "z"\nr[capture="i", suffix="!", stop_capture="e"]: /[a-z]*/', "xy!z",
     [("o", "xy!z"), ("i", "xy"), ("e", "!")]),
    ('start[capture="o"]: r "z"\nr[capture="i", stop="💥", stop_capture="e"]: /[a-z]*/', "xy💥z",
     [("o", "xyz"), ("i", "xy"), ("e", "💥")]),
    ('start[capture="o"]: i i "z"\ni[stop="!"]: /[ab]*/', "a!b!z", [("o", "abz")]),
    ('start[capture="o"]: i i "z"\ni[suffix="!"]: /[ab]*/', "a!b!z", [("o", "a!b!z")]),
    ('start: r "Z"\nr[capture, suffix=/b?a/, stop_capture="e"]: "b"', "baZ", [("r", "b"), ("e", "a")]),
    ('start: r\nr[capture, suffix=/b?a/, stop_capture="e"]: /[ab]*/', "ba", [("r", ""), ("e", "ba")]),
    ('start: r "!"\nr[max_chars=2, capture, stop=">", stop_capture="e"]: /(.|\\n)*/', "aa!", [("r", "aa")]),
    ('start: r "!"\nr[max_chars=2, capture, stop=">", stop_capture="e"]: /(.|\\n)*/', "a>!", [("r", "a"), ("e", ">")]),
    ('start: a b\na[capture]: "x" "y"\nb[capture]: "z"\n%ignore " "', "  x y  z ", [("a", "x y"), ("b", "z")]),
    ('start: "x" a b "y"\na[capture]: "a"*\nb[capture]: "b"*\n%ignore " "', "x  bb y", [("a", ""), ("b", "bb")]),
    ('start: "v=" d ";"\nd[capture]: %json {"type": "array"}', "v=[1, {}];", [("d", "[1, {}]")]),
    ('start: t* T\nT: /(.|\\n)*/\nh[lazy]: T "<c>"\nt: h a "</c>"\na[capture]: /[0-9]+/', "x<c>4</c>y<c>7</c>z",
     [("a", "4"), ("a", "7")]),
    ('start: r s\nr[lazy, capture]: /[a-z]+/\ns: /[a-z]*/', "abc", [("r", "a")]),
    ('start: r s\nr[capture]: /[a-z]+/\ns: /[a-z]*/', "abc", [("r", "abc")]),
    ('start: a-b\na-b[capture]: "x"', "x", [("a-b", "x")]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "text", "expected"), CASES)
def test_grammars(source: str, text: str, expected: list[tuple[str, str]]) -> None:
    assert captured(lark(source), text) == expected


def test_texts_that_are_not_complete() -> None:
    constraint = lark('start: outer "." \nouter[capture="o"]: (i ",")* i\ni[capture]: /[0-9]+/')
    assert captured(constraint, "1") == []
    assert captured(constraint, "1,22") == [("i", "1")]
    assert captured(constraint, "1,22,") == [("i", "1"), ("i", "22")]
    assert captured(constraint, "1,22.") == [("o", "1,22"), ("i", "1"), ("i", "22")]
    inner = lark('start: "<" n ">"\nn[capture]: /[0-9]+/')
    assert captured(lark('start: "x" @sub "y"', constraints={"sub": inner}), "x<12>") == [("n", "12")]


def test_constraints_made_of_grammars() -> None:
    number = lark('start: "[" n "]"\nn[capture]: /[0-9]+/')
    assert captured("é" + number + "-" + number, "é[1]-[23]") == [("n", "1"), ("n", "23")]
    assert captured(number | sg.regex("x"), "[7]") == [("n", "7")]
    assert captured(sg.repeat(number, separator=","), "[1],[2]") == [("n", "1"), ("n", "2")]
    plain = sg.lark('start: "[" n "]"\nn[capture]: /[0-9]+/', lexer="longest")
    assert captured(sg.regex(r"\[1.*") & plain, "[17]") == [("n", "17")]
    assert captured(sg.lark('start: "a"'), "a") == []
    assert not sg.lark('start: "a"').holds_captures()


def test_a_matcher_that_moves() -> None:
    matcher = read(lark('start: "a" v "b"\nv[capture]: /[0-9]+/'), "a12b")
    assert matcher is not None
    fork = matcher.fork()
    matcher.rollback(2)
    assert all(map(matcher.advance, b"9b"))
    assert [one.text for one in matcher.captures()] == ["19"]
    assert [one.text for one in fork.captures()] == ["12"]
    assert fork.advance(BYTES.eos_ids[0])
    assert fork.captures() == [sg.captures.Capture("v", "12", 1, 3)]
    tokens = list(b"a12b")
    assert sg.captures.captures_of(fork.constraint, BYTES, tokens) == fork.captures()


def test_special_tokens() -> None:
    vocabulary = sg.Vocabulary.from_tokens(
        [*(bytes([b]) for b in range(256)), None, None], [256], specials={"<|t|>": 257}
    )
    constraint = lark('start: w "!"\nw[capture]: "a" <|t|> "b"')
    matcher = sg.Matcher(constraint, vocabulary)
    assert all(map(matcher.advance, [*b"a", 257, *b"b!"]))
    assert matcher.captures() == [sg.captures.Capture("w", "ab", 0, 2)]
    spelled = sg.captures.captures_of(constraint, vocabulary, [*b"a", 257, *b"b!"], spells_specials=True)
    assert spelled == [sg.captures.Capture("w", "a<|t|>b", 0, 7)]


def test_results_have_captures() -> None:
    constraint = lark('start: "a" v "b"\nv[capture]: /[0-9]+/')
    result = sg.run(ScriptedModel("a12b"), "?", constraint)
    assert list(result.captures) == [sg.captures.Capture("v", "12", 1, 3)]
    stream = sg.stream(ScriptedModel("a12b"), "?", constraint)
    assert list(stream)[-1] == "a12b"
    assert stream.result is not None and stream.result.captures == result.captures
    cut = sg.run(ScriptedModel("a1234b"), "?", constraint, max_tokens=4, exact_weight=False)
    assert cut.finish == "length" and list(cut.captures) == []
    assert list(sg.run(ScriptedModel("x"), "?", sg.regex("x")).captures) == []


def test_texts_that_are_not_read_by_bytes_have_none() -> None:
    source = 'start: "<" r ">"\nr[max_tokens=3, capture]: /[a-z]{5}/'
    whole = sg.Matcher(sg.lark(source), sg.Vocabulary.from_tokens([b"<", b">", b"abc", b"de", None], [4]))
    assert all(map(whole.advance, (0, 2, 3, 1))) and [one.text for one in whole.captures()] == ["abcde"]
    cut = sg.Matcher(sg.lark(source), sg.Vocabulary.of_bytes())
    assert all(map(cut.advance, b"<abc>"))
    with pytest.raises(GrammarUnsupported, match="from byte 4 on"):
        cut.captures()


def test_limits_of_tokens() -> None:
    """A parse by bytes that breaks a limit, or does not exist without one, is refused."""
    vocabulary = sg.Vocabulary.of_bytes()

    def after(constraint: sg.Constraint, text: str) -> sg.Matcher:
        matcher = sg.Matcher(constraint, vocabulary)
        assert all(map(matcher.advance, text.encode()))
        return matcher

    ambiguous = lark(
        'start: a b\na[capture, max_tokens=2]: (X | Y)+\nb[capture]: (X | Y | Z)+\nX: "x"\nY: "y"\nZ: "z"'
    )
    with pytest.raises(GrammarUnsupported, match="from byte 0 on"):
        after(ambiguous, "xyxyz").captures()
    empty = sg.lark(
        "start: t u\nt[max_tokens=2, capture]: /[a-z]+/\nu[capture]: /[a-z]+/",
        lexer="longest",
        contextual=True,
    )
    with pytest.raises(GrammarUnsupported):
        after(empty, "abcd").captures()
    part = lark("start: w\nw[capture]: /[a-z]+/")
    limited = "<" + sg.limit_tokens(part, 4) + ">"
    assert [one.text for one in after(limited, "<abc>").captures()] == ["abc"]


def test_captures_are_computed_on_first_access(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.constraints.grammar.parsing.STEPS", 2)
    result = sg.run(ScriptedModel("a12b"), "?", lark('start: "a" v "b"\nv[capture]: /[0-9]+/'))
    assert result.finish == "complete"
    with pytest.raises(LimitExceeded):
        _ = result.captures


def test_captures_that_cannot_be_computed_raise_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = Rule("start", ("repeat", ("text", literal("a")), 0, None), capture="start")
    joined = GrammarConstraint(Grammar((letters,), "start"), "EBNF") & sg.regex("a{2}")
    with pytest.raises(GrammarUnsupported, match="captures of"):
        captured(joined, "aa")
    monkeypatch.setattr("structgen.constraints.grammar.parsing.STEPS", 5_000)
    ambiguous = read(lark('start: x\nx[capture]: x x x | "a"?'), "a" * 60)
    assert ambiguous is not None
    with pytest.raises(LimitExceeded, match="takes more than 5000 steps") as caught:
        ambiguous.captures()
    assert caught.value.limit == "capture_steps"


def test_long_texts_take_linear_time() -> None:
    constraint = lark('start: (i ",")* i\ni[capture]: /[0-9]+/')
    matcher = read(constraint, ",".join(["12"] * 3_000))
    assert matcher is not None
    assert len(matcher.captures()) == 3_000
