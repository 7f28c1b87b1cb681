"""Nested repetitions: they have the texts of their slow twin, and cost no more than a single repetition."""

from __future__ import annotations

import random

import pytest

from structgen import _core
from structgen.constraints.expressions import nullable
from structgen.constraints.grammar.builders import gbnf, lark
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.ir.grammar import Body, Grammar, Rule
from structgen.matcher import Matcher
from tests.core.small_vocabulary import EOS, byte_vocabulary
from tests.oracles import grammar_texts as twin

BYTES = byte_vocabulary()
X: Body = ("rule", "x")
Y: Body = ("rule", "y")
RULES = (
    Rule("x", ("choice", (("text", ("literal", "a")), ("sequence", (("text", ("literal", "b")), X, ("rule", "z")))))),
    Rule("y", ("repeat", X, 0, None)),
    Rule("z", ("choice", (("sequence", ()), ("sequence", (("rule", "z"), Y)), ("rule", "z")))),
)  # fmt: skip


def star(body: Body, low: int = 0, high: int | None = None) -> Body:
    return ("repeat", body, low, high)


def simplified(body: Body) -> Body:
    return _core.simplified({rule.name: rule.body for rule in (*RULES, Rule("root", body))}, body, nullable)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (star(star(X)), star(X)),
        (star(star(X, 0, 1)), star(X)),
        (star(star(X, 1)), star(X)),
        (star(star(X), 1), star(X)),
        (star(star(X, 1), 1), star(X, 1)),
        (star(star(star(X, 0, 1), 1), 0, 1), star(X)),
        (star(star(X, 0, 1), 2, 5), star(X, 0, 5)),
        (star(star(X, 2, 3), 2, 2), star(X, 4, 6)),
        (star(star(X, 2, 3), 0, 1), star(star(X, 2, 3), 0, 1)),
        (star(star(X, 2), 0, None), star(star(X, 2), 0, None)),
        (star(star(X, 2), 1, None), star(X, 2, None)),
        (star(("sequence", (star(X), star(("rule", "w"))))), star(("choice", (X, ("rule", "w"))))),
        (star(("choice", (star(X), star(("rule", "w"), 1))), 1), star(("choice", (X, ("rule", "w"))))),
        (star(Y), star(X)),
        (star(("rule", "z")), star(X)),
        (star(("sequence", (Y, X))), star(("sequence", (Y, X)))),
        (star(("sequence", ())), ("sequence", ())),
        (star(("choice", ()), 1), ("choice", ())),
        (star(X, 3, 2), ("choice", ())),
        (star(Y, 0, 1), star(Y, 0, 1)),
        (star(star(X, 2, None), 0, 1), star(star(X, 2, None), 0, 1)),
        (star(("sequence", (star(X), star(Y))), 0, 1), ("sequence", (star(X), star(Y)))),
        (star(("sequence", (X,)), 1, 1), X),
    ],
)  # fmt: skip
def test_one_repetition_for_several(body: Body, wanted: Body) -> None:
    found = simplified(body)
    assert found == wanted
    assert found[0] != "repeat" or simplified(found) == found


def random_body(rng: random.Random, depth: int) -> Body:
    kind = (
        rng.choice(["rule", "text", "repeat", "repeat", "repeat", "sequence", "choice"]) if depth else "rule"
    )
    if kind == "rule":
        return rng.choice([X, X, Y, ("rule", "z"), ("rule", "root")])
    if kind == "text":
        return ("text", rng.choice([("literal", "b"), ("repeat", ("literal", "b"), 0, 1), ("literal", "")]))
    if kind == "repeat":
        low = rng.choice([0, 0, 0, 1, 1, 2, 3])
        return star(random_body(rng, depth - 1), low, rng.choice([None, None, low, low + 1, low + 3, 1]))
    return (kind, tuple(random_body(rng, depth - 1) for _ in range(rng.choice([0, 1, 2, 2, 3]))))


@pytest.mark.parametrize("seed", range(60))
def test_the_language_stays_the_same(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        body = star(random_body(rng, 3), rng.choice([0, 1]), rng.choice([None, 1, 3]))
        plain = Grammar((Rule("root", body), *RULES), "root")
        wanted = twin.language(plain, "ab", 4)
        assert twin.language(Grammar((Rule("root", simplified(body)), *RULES), "root"), "ab", 4) == wanted, (
            body
        )
        constraint = GrammarConstraint(plain, "a drawn one")
        ids = {text: [len(EOS) + byte for byte in text.encode()] for text in twin.words("ab", 4)}
        matcher = Matcher(constraint, BYTES) if wanted else None
        for text, tokens in ids.items():
            fork = None if matcher is None else matcher.fork()
            read = fork is not None and all(map(fork.advance, tokens)) and fork.is_complete()
            assert read == (text in wanted), (text, body)


NESTED = [
    "(x*)*",
    "(x?)*",
    "(x*)+",
    "(x* y*)*",
    "((x+)*)+",
    "(x{0,3})*",
    "(x | y* | )+",
    "(x{0,1000}){0,1000}",
    "o*",
    "(o o)+",
]
NOT_REGULAR = '\nx ::= "a" | "(" x ")"\ny ::= "b" | "[" y "]"\no ::= x* | y* o'


@pytest.mark.parametrize("source", NESTED)
def test_a_long_text_keeps_few_items(source: str) -> None:
    matcher = Matcher(gbnf(f"root ::= {source}{NOT_REGULAR}"), BYTES.with_limits(earley_items=40))
    for _ in range(300):
        assert matcher.advance(len(EOS) + ord("a"))
        matcher.mask()
    assert matcher.is_complete()


def test_a_lexer_changes_nothing_about_it() -> None:
    source = 'start: (a* b*)*\na: "a" | "(" a ")"\nb: "b" start? "c"'
    matcher = Matcher(lark(source), BYTES.with_limits(earley_items=40))
    for letter in b"a" * 100 + b"bc" * 100 + b"baabc":
        assert matcher.advance(len(EOS) + letter)
    assert not matcher.is_complete()


def test_chains_of_repeated_rules_are_taken_apart_so_far() -> None:
    count = 3_000
    chain = "\n".join(f"r{i} ::= r{i + 1}* x?" for i in range(count))
    starts = " | ".join(f"r{i}" for i in range(count))
    matcher = Matcher(gbnf(f"root ::= {starts}\n{chain}\nr{count} ::= x{NOT_REGULAR}"), BYTES)
    assert matcher.advance(len(EOS) + ord("a"))


def test_rules_are_not_copied_into_every_repetition_of_them() -> None:
    count = 3_000
    starts = " | ".join(f'"v{i}" ("u{i}" | b)*' for i in range(count))
    source = f"start: {starts}\nb: | " + " | ".join(f'"w{i}"' for i in range(count))
    grammar = lark(source, lexer="longest").lower()[1]
    assert sum(map(len, grammar["productions"])) < 20 * count


def test_bodies_that_are_made_of_one_another_are_bounded_in_depth() -> None:
    body: Body = ("terminal", "T")
    rules = {}
    for level in range(100):
        for i in range(900):
            body = ("sequence", (body, ("terminal", f"T{i}")))
        rules[f"d{level}"] = body
    with pytest.raises(RecursionError):
        _core.lower_bodies({**rules, "s": body}, "s", [], nullable)


SEPARATED = [
    "x (sep x)*",
    "x y (sep x y)*",
    "o (sep o)*",
    "(x sep?)? (x sep?)*",
    "x x*",
    "x (sep x)* (sep x)*",
    "x (x (sep x)*)*",
    "(x (sep x)* sep)* x",
    "x (sep sep x)* (sep x)?",
    "x (sep x){0,3}",
]


@pytest.mark.parametrize("source", SEPARATED)
def test_lists_mean_what_is_written(source: str) -> None:
    text = f'root ::= {source}\nx ::= "a" | "a" x "b"\ny ::= "b" | "a" y\no ::= x? | o x\nsep ::= "b" | x "b" "b"'
    constraint = gbnf(text)
    wanted = twin.language(constraint.grammar, "ab", 7)
    matcher = Matcher(constraint, BYTES)
    for word in twin.words("ab", 7):
        fork = matcher.fork()
        read = all(map(fork.advance, [len(EOS) + byte for byte in word.encode()])) and fork.is_complete()
        assert read == (word in wanted), word
