"""Formulas, their syntax, simplification and automata, against the definition on traces."""

from __future__ import annotations

import itertools
import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import FormulaSyntaxError, LimitExceeded, OptionError
from structgen.formulas import (
    FALSE,
    LAST,
    TRUE,
    Formula,
    all_of,
    atom,
    automaton,
    conflict,
    difference,
    equivalent,
    example,
    holds_on_empty,
    parse,
    satisfiable,
    simplify,
)
from structgen.formulas.automaton import Alphabet
from structgen.formulas.formula import make
from structgen.formulas.progression import Progression
from tests.oracles.trace_semantics import holds, on_stretch
from tests.strategies.formulas import ATOMS, formulas, one_hot_traces, traces

LETTERS = [
    frozenset(name for name, bit in zip(ATOMS, bits, strict=True) if bit)
    for bits in itertools.product((0, 1), repeat=3)
]
ONE_HOT = [frozenset([name]) for name in ATOMS] + [frozenset()]


@settings(max_examples=1000, deadline=None)
@given(formulas(), traces())
def test_values_are_those_of_the_definition(formula: Formula, trace: list[frozenset[str]]) -> None:
    progression = Progression(formula)
    state = progression.start
    assert not progression.accepting(state)
    for length, letter in enumerate(trace, 1):
        state = progression.step(state, letter)
        assert progression.accepting(state) == holds(formula, trace[:length])


def test_ten_thousand_values() -> None:
    """Formulas of up to 14 operators and traces of up to 8 positions, the same in every run."""
    random = Random(20_26)
    unary, binary = ["not", "X", "N", "F", "G"], ["and", "or", "implies", "iff", "U", "W", "R", "M"]

    def made(operators: int) -> Formula:
        if not operators:
            return random.choice([*map(atom, ATOMS), *map(atom, ATOMS), TRUE, FALSE, LAST])
        if random.random() < 0.4:
            return make(random.choice(unary), made(operators - 1))
        left = random.randrange(operators)
        return make(random.choice(binary), made(left), made(operators - 1 - left))

    verdicts = 0
    for _ in range(2_000):
        formula = made(random.randrange(15))
        progression = Progression(formula)
        for _ in range(5):
            trace = [random.choice(LETTERS) for _ in range(random.randint(1, 8))]
            state = progression.start
            for letter in trace:
                state = progression.step(state, letter)
            assert progression.accepting(state) == holds(formula, trace), (str(formula), trace)
            verdicts += 1
    assert verdicts == 10_000


@settings(max_examples=300, deadline=None)
@given(formulas(), traces(), one_hot_traces())
def test_automata(formula: Formula, trace: list[frozenset[str]], one_hot: list[frozenset[str]]) -> None:
    assert automaton(formula, alphabet="propositional").accepts(trace) == holds(formula, trace)
    assert automaton(formula).accepts(one_hot) == holds(formula, one_hot)


@settings(max_examples=200, deadline=None)
@given(formulas(leaves=5), st.sampled_from(["one-hot", "propositional"]))
def test_automata_are_minimal(formula: Formula, alphabet: Alphabet) -> None:
    """No two states are equivalent: some trace distinguishes them."""
    found = automaton(formula, alphabet=alphabet, atoms=ATOMS)
    letters = ONE_HOT if alphabet == "one-hot" else LETTERS
    apart = {
        (one, other)
        for one in range(len(found))
        for other in range(one)
        if found.accepting[one] != found.accepting[other]
    }
    while True:
        more = {
            (one, other)
            for one in range(len(found))
            for other in range(one)
            for letter in letters
            if (pair := sorted((found.step(one, letter), found.step(other, letter)), reverse=True))
            and tuple(pair) in apart
        }
        if more <= apart:
            break
        apart |= more
    assert len(apart) == len(found) * (len(found) - 1) // 2


@settings(max_examples=300, deadline=None)
@given(formulas(leaves=5), formulas(leaves=5), st.sampled_from(["one-hot", "propositional"]))
def test_queries(one: Formula, other: Formula, alphabet: Alphabet) -> None:
    letters = ONE_HOT if alphabet == "one-hot" else LETTERS
    trace = example(one, alphabet=alphabet)
    assert (trace is not None) == satisfiable(one, alphabet=alphabet)
    short = [list(word) for length in (1, 2) for word in itertools.product(letters, repeat=length)]
    if trace is None:
        assert not any(holds(one, word) for word in short)
    else:
        assert holds(one, trace)
        assert not any(holds(one, word) for word in short if len(word) < len(trace))
    apart = difference(one, other, alphabet=alphabet)
    same = automaton(one, alphabet=alphabet, atoms=ATOMS) == automaton(other, alphabet=alphabet, atoms=ATOMS)
    assert same == (apart is None) == equivalent(one, other, alphabet=alphabet)
    if apart is not None:
        assert holds(one, apart) != holds(other, apart)


@settings(max_examples=500, deadline=None)
@given(formulas(), traces())
def test_simpler_formulas_mean_the_same(formula: Formula, trace: list[frozenset[str]]) -> None:
    simple = simplify(formula)
    assert simple.size <= formula.size
    assert all(
        holds(simple, trace[:length]) == holds(formula, trace[:length]) for length in range(1, len(trace) + 1)
    )


@settings(max_examples=300, deadline=None)
@given(formulas())
def test_what_is_written_is_read(formula: Formula) -> None:
    assert parse(str(formula)) is _flat(formula)
    assert pickle.loads(pickle.dumps(formula)) is formula


def _flat(formula: Formula) -> Formula:
    """Return the formula as the parser reads it: `f & g & h` is one conjunction."""
    return parse(str(formula))


@pytest.mark.parametrize(
    ("simple", "formula"),
    [
        ("F a", "F F a"),
        ("false", "X false"),
        ("true", "N true"),
        ("!last", "X true"),
        ("last", "N false"),
        ("F (a | b)", "F a | F b"),
        ("G (a & b)", "G a & G b"),
        ("X (a & b)", "X a & X b"),
        ("G F a", "F G a"),
        ("N !a", "!X a"),
        ("false", "G (a & X true)"),
        ("a", "a & (a | b)"),
        ("F b", "F (a U b)"),
        ("false", "G !last"),
        ("true", "F last"),
        ("a", "a U a"),
    ],
)
def test_simplified(simple: str, formula: str) -> None:
    assert str(simplify(formula)) == simple


def test_on_finite_traces() -> None:
    assert equivalent("G F a", "F G a", alphabet="propositional")
    assert not equivalent("!X a", "X !a")
    assert equivalent("!X a", "N !a", alphabet="propositional")
    assert equivalent("last", "N false") and equivalent("!last", "X true")
    assert not satisfiable("G X a") and satisfiable("G N a")
    assert not satisfiable("a & b") and satisfiable("a & b", alphabet="propositional")


def test_dialects() -> None:
    assert parse("X a", dialect="spot") is parse("N a") is parse("WX a", dialect="ltlf2dfa")
    assert parse("X[!] a", dialect="spot") is parse("X a")
    assert parse("[](p -> <>q)") is parse("G (p -> F q)", dialect="spot")
    assert parse("tt & a", dialect="ltlf2dfa") is parse("true & a")
    assert parse("a xor 1", dialect="spot") is parse("!(a <-> true)")
    assert parse("a R b U c", dialect="ltlf2dfa") is parse("(a R b) U c")
    assert parse("a R b U c") is parse("a R (b U c)")
    assert parse("a V b", dialect="spot") is parse("a R b")
    assert parse("not a and b or c => d <=> e") is parse("!a & b | c -> d <-> e")
    assert parse("a -> b -> c") is parse("a -> (b -> c)")
    assert parse("a U b U c") is parse("a U (b U c)")
    assert parse("V & tt") is all_of([atom("V"), atom("tt")])
    assert parse('go(kitchen) & "pick up"').atoms == {"go(kitchen)", "pick up"}
    assert parse("Fa") is atom("Fa") and parse("F(a)") is parse("F a")


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("G (a -> ", "expected a formula, found the end", 8),
        ("G a)", "expected an operator or the end of the formula, found `)`", 3),
        ("(a & b", "expected an operator or `)` for the `(` at position 0, found the end", 6),
        ("a % b", "`%` has no meaning in a formula", 2),
        ('a & "b', "this quote is not closed", 4),
        ("a & &b", "expected a formula, found `&`", 4),
        ("a Y b", "expected an operator or the end of the formula, found `Y`", 2),
        ("X[!] a", "not an operator of the dialect 'structgen'", 0),
        ("", "expected a formula, found the end", 0),
        ('""', "the name of an atom is empty", 0),
        ("a & 1", "write `true` or `false`", 4),
    ],
)
def test_syntax_errors(text: str, message: str, caret: int) -> None:
    with pytest.raises(FormulaSyntaxError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.position == caret
    if text:
        line = str(caught.value).splitlines()[3]
        assert line.index("^") in (4 + caret, 4 + len(text))


def test_limits() -> None:
    for text in ("(" * 5000 + "a", "! " * 5000 + "a", "a " + "U a " * 5000, "a" * 200_000):
        with pytest.raises((FormulaSyntaxError, OptionError)):
            parse(text)
    many = all_of([parse(f"F a{place}") for place in range(20)])
    with pytest.raises(LimitExceeded, match="more than 1000 states"):
        automaton(many, most=1000)
    with pytest.raises(LimitExceeded, match="formula_variables|temporal parts"):
        automaton(all_of([parse(f"F a{place}") for place in range(500)]))
    with pytest.raises(OptionError, match="alphabet is 'both'"):
        automaton("a", alphabet="both")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="dialect is"):
        parse("a", dialect="ltl")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a one-hot letter has one atom"):
        automaton("a & F b").accepts([{"a", "b"}])


def test_conflicts() -> None:
    formulas_ = ["F a", "G !c", "a -> F b", "G (b -> F c)", "F b"]
    assert conflict(formulas_) == [1, 3, 4]
    assert conflict(formulas_[:4]) is None
    assert conflict(["a & b"]) == [0]


def test_formulas_are_one_object() -> None:
    a, b = atom("a"), atom("b")
    assert (a & b) is all_of([a, b]) and (a & a) is a and all_of([]) is TRUE
    assert (a >> "F b") is parse("a -> F b")
    assert ~FALSE is not TRUE and simplify(~FALSE) is TRUE and LAST.atoms == frozenset()
    with pytest.raises(AttributeError):
        a.name = "b"
    with pytest.raises(OptionError):
        atom("")
    assert repr(a | b) == "Formula('a | b')"


@settings(max_examples=500, deadline=None)
@given(formulas())
def test_the_empty_trace(formula: Formula) -> None:
    assert holds_on_empty(formula) == on_stretch(formula, [])
    assert holds_on_empty(~formula) != holds_on_empty(formula)


@pytest.mark.parametrize(
    "text", ["!delete W backup", "G (open -> F close)", "N a", "last", "!X a", "!a", "a -> b"]
)
def test_the_empty_trace_violates_no_weak_formula(text: str) -> None:
    assert holds_on_empty(text)
    assert not holds_on_empty(f"F a & ({text})")


@pytest.mark.parametrize(
    "name", ["F(a)", "X(a)", "WX(a)", "not(x)", "not", "and", "or", "xor", "last(a)", "U", "true"]
)
def test_atoms_that_look_like_operators_are_quoted(name: str) -> None:
    for formula in (atom(name), make("G", atom(name))):
        assert parse(str(formula)) is formula


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a before b", "`!b W a`"),
        ("b after a", "`!b W a`"),
        ("a and then b", "`F (a & X F b)`"),
        ("not b until a", "operator U"),
        ("Always a", "operator G"),
        ("a & never b", "`G !a`"),
        ("eventually a", "operator F"),
        ("once a", "G (a -> N G !a)"),
    ],
)
def test_english_words_get_a_hint(text: str, hint: str) -> None:
    with pytest.raises(FormulaSyntaxError) as caught:
        parse(text)
    assert hint in str(caught.value.hint)


def test_formulas_that_hints_recommend() -> None:
    once = automaton("F a & G (a -> N G !a)")
    assert once.accepts(["b", "a", "b"]) and not once.accepts(["a", "b", "a"]) and not once.accepts(["b"])
    before = automaton("!b W a")
    assert (
        before.accepts(["c", "a", "c", "b", "a"]) and before.accepts(["c"]) and not before.accepts(["b", "a"])
    )
    only = automaton("a U b")
    assert only.accepts(["a", "a", "b", "c"]) and not only.accepts(["a", "c", "b"])
