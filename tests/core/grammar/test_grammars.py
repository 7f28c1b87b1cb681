"""Grammars compared with enumeration: texts, prefixes and masks, under both lexer rules and without a lexer.

All random grammars have fixed seeds. The alphabet is small and the grammars are hard: left and right recursion, cycles,
empty rules, ambiguity, overlapping terminals, rules that no text satisfies.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import Any, NamedTuple

import pytest

from structgen import _core
from structgen.vocabulary import Vocabulary
from tests.oracles.grammar_twin import derives, lexemes, texts_of

from ..small_vocabulary import allowed

EOS = 0
Productions = tuple[tuple[int, ...], ...]


def vocabulary(letters: str, *tokens: bytes) -> Vocabulary:
    return Vocabulary.from_tokens([None, *(letter.encode() for letter in letters), *tokens], [EOS])


class Case(NamedTuple):
    patterns: list[str]
    ignore: list[int]
    productions: Productions
    ir: tuple[str, dict[str, Any]]
    within: str | None = None


def literal(text: str) -> tuple[Any, ...]:
    return ("literal", text)


AB = ("class", ((97, 98),))
EXPRESSIONS: dict[str, tuple[Any, ...]] = {
    "a": literal("a"),
    "b": literal("b"),
    r"\(": literal("("),
    "ab": literal("ab"),
    "aab": literal("aab"),
    "a+": ("repeat", literal("a"), 1, None),
    "a*": ("repeat", literal("a"), 0, None),
    "b?": ("repeat", literal("b"), 0, 1),
    "[ab]": AB,
    "[ab]+": ("repeat", AB, 1, None),
    "(?:a|ab)": ("alternate", (literal("a"), literal("ab"))),
    "(?:aa|b)": ("alternate", (literal("aa"), literal("b"))),
    "a{2,3}": ("repeat", literal("a"), 2, 3),
    "a(?:ba)?": ("concat", (literal("a"), ("repeat", literal("ba"), 0, 1))),
    "ab*": ("concat", (literal("a"), ("repeat", literal("b"), 0, None))),
    r"\([ab]*\(": ("concat", (literal("("), ("repeat", AB, 0, None), literal("("))),
    "a a": literal("a a"),
    " +": ("repeat", literal(" "), 1, None),
    " ": literal(" "),
    r"\(a*": ("concat", (literal("("), ("repeat", literal("a"), 0, None))),
}
SCANNERLESS = ["a", "b", r"\(", "ab", "a+", "a*", "b?", "[ab]", "[ab]+", "(?:a|ab)", "a{2,3}"]
LEXED = ["a", "b", "ab", "a+", "[ab]+", "a(?:ba)?", "ab*", r"\(", r"\([ab]*\(", "(?:aa|b)", "aab", "a a"]
IGNORED = [" +", " ", r"\(a*"]
ANY = ("repeat", ("class", ((0, 0x10FFFF),)), 0, None)
WITHIN: dict[str, tuple[Any, ...]] = {
    ".{0,4}": ("repeat", ("class", ((0, 0x10FFFF),)), 0, 4),
    ".{3,}": ("repeat", ("class", ((0, 0x10FFFF),)), 3, None),
    "(?:..)*": ("repeat", ("repeat", ("class", ((0, 0x10FFFF),)), 2, 2), 0, None),
    "(?!.*ab).*": ("complement", ("concat", (ANY, literal("ab"), ANY))),
    ".*a": ("concat", (ANY, literal("a"))),
    "[^a]*a[^a]*": (
        "concat",
        (
            ("repeat", ("class", ((0, 96), (98, 0x10FFFF))), 0, None),
            literal("a"),
            ("repeat", ("class", ((0, 96), (98, 0x10FFFF))), 0, None),
        ),
    ),
    "(?:ab|b)*": ("repeat", ("alternate", (literal("ab"), literal("b"))), 0, None),
}


def ir_of(
    lexing: str, patterns: list[str], ignore: list[int], productions: Productions, within: str | None = None
) -> tuple[str, dict[str, Any]]:
    rules = max(max(production) for production in productions) + 1
    expressions = [EXPRESSIONS[pattern] for pattern in patterns]
    return (
        "grammar",
        {
            "lexing": lexing,
            "contextual": False,
            "start": 0,
            "rules": tuple(f"r{i}" for i in range(rules)),
            "terminals": tuple(
                ("text", patterns[i], expression, i) for i, expression in enumerate(expressions)
            ),
            "scanners": tuple(expressions) if lexing == "ordered" else (),
            "ignore": tuple(ignore),
            "lazy": (),
            "keywords": (),
            "indentation": None,
            "productions": productions,
            "within": None if within is None else WITHIN[within],
        },
    )


def random_case(rng: random.Random, lexing: str, within: str | None = None) -> Case:
    rules = rng.randint(1, 4)
    patterns = rng.sample(SCANNERLESS if lexing == "scannerless" else LEXED, rng.randint(1, 4))
    ignore: list[int] = []
    if lexing != "scannerless" and rng.random() < 0.6:
        pattern = rng.choice(IGNORED)
        patterns.insert(rng.randint(0, len(patterns)), pattern)
        ignore = [patterns.index(pattern)]
    used = [i for i in range(len(patterns)) if i not in ignore]
    productions = [
        (
            rule,
            *(
                rng.choice([rng.randrange(rules), ~rng.choice(used), ~rng.choice(used)])
                for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))
            ),
        )
        for rule in range(rules)
        for _ in range(rng.randint(1, 3))
    ]
    ir = ir_of(lexing, patterns, ignore, tuple(productions), within)
    return Case(patterns, ignore, tuple(productions), ir, within)


def language(case: Case, texts: list[str], lexing: str) -> set[str]:
    found = all_texts(case, texts, lexing)
    return {text for text in found if case.within is None or re.fullmatch(case.within, text)}


def all_texts(case: Case, texts: list[str], lexing: str) -> set[str]:
    if lexing == "scannerless":
        longest = max(map(len, texts))
        sets = [frozenset(t for t in texts if re.fullmatch(pattern, t)) for pattern in case.patterns]
        return set(texts_of(case.productions, 0, sets, longest))
    found = set()
    for text in texts:
        cut = lexemes(text, case.patterns, lexing)
        if cut is not None and derives(case.productions, 0, [t for t in cut if t not in case.ignore]):
            found.add(text)
    return found


def check_texts(program: Any, letters: str, texts: list[str], inside: set[str], case: Case) -> None:
    beginnings = {text[:i] for text in inside for i in range(len(text) + 1)}
    for text in texts:
        matcher = _core.Matcher(program)
        read = sum(1 for _ in itertools.takewhile(matcher.advance, (1 + letters.index(c) for c in text)))
        complete = read == len(text) and matcher.is_complete()
        assert complete == (text in inside), (text, case)
        if text in beginnings:
            assert read == len(text), (text, case)


def check_masks(program: Any, known: Vocabulary, rng: random.Random, case: Case, missing: list[Case]) -> None:
    """The mask is what single steps allow, every byte that may come leads on, and what stops is complete.

    A completion that is not found goes to `missing`."""
    matcher = _core.Matcher(program)
    for _ in range(6):
        expected = {
            i
            for i in range(1, known.size)
            if matcher.viable_bytes(data := known.token_bytes(i) or b"") == len(data)
        }
        for i in range(1, known.size):
            assert matcher.fork().advance(i) == (i in expected), (matcher.text, i, case)
        if matcher.is_complete():
            expected.add(EOS)
        assert allowed(matcher.mask()) == expected, (matcher.text, case)
        assert expected, (matcher.text, case)
        completion = matcher.witness()
        if completion is None:
            missing.append(case)
        else:
            assert matcher.next_bytes(completion)[1], (matcher.text, completion, case)
        onwards = sorted(expected - {EOS})
        if not onwards:
            return
        matcher.advance(rng.choice(onwards))


@pytest.mark.parametrize("lexing", ["scannerless", "longest", "ordered"])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("intersected", [False, True])
def test_random_grammars_have_the_texts_that_enumeration_finds(
    lexing: str, seed: int, intersected: bool
) -> None:
    rng = random.Random(f"{lexing} {seed}" + " within" * intersected)
    letters = "ab(" if lexing == "scannerless" else "ab ("
    known = vocabulary(
        letters, b"aa", b"ab", b"ba", b"(a", b"a(", b"((", b"aab", b"abab", b"b(a", b"aaaa",
        *([b" a", b"a ", b"  ", b"a b", b" ab", b"b ("] if " " in letters else []),
    )  # fmt: skip
    longest = 5 if lexing == "scannerless" else 4
    texts = ["".join(p) for n in range(longest + 1) for p in itertools.product(letters, repeat=n)]
    missing: list[Case] = []
    for _ in range(12):
        case = random_case(rng, lexing, rng.choice(sorted(WITHIN)) if intersected else None)
        inside = language(case, texts, lexing)
        program = known.engine.compile(case.ir)
        if program.empty_parts() is not None:
            assert not inside, case
            continue
        sample = rng.sample(texts, 60) + rng.sample(sorted(inside), min(len(inside), 30))
        check_texts(program, letters, sample, inside, case)
        for _ in range(2):
            check_masks(program, known, rng, case, missing)
        assert program.unproven == 0
    assert not missing


def test_two_adjacent_names_have_no_text_with_a_lexer() -> None:
    known = vocabulary("ab ")
    names: Productions = ((0, -1, -1),)
    assert known.engine.compile(ir_of("longest", ["a+"], [], names)).empty_parts() is not None
    assert known.engine.compile(ir_of("ordered", ["a+"], [], names)).empty_parts() is not None
    assert known.engine.compile(ir_of("scannerless", ["a+"], [], names)).empty_parts() is None
    apart = known.engine.compile(ir_of("longest", ["a+", " +"], [1], names))
    matcher = _core.Matcher(apart)
    assert matcher.viable_bytes(b"aa aa ") == 6
    assert matcher.next_bytes(b"a") == (b" a", False)


def test_right_recursion_is_linear() -> None:
    """The states of a long right-recursive text stay as small as those of a short one."""
    known = vocabulary("ab")
    program = known.engine.compile(
        ir_of("scannerless", ["a", "b"], [], ((0, -1, 0), (0, -2), (0, -1, 0, -2)))
    )
    assert _core.Matcher(program).viable_bytes(b"a" * 200 + b"b" * 201) == 401
    program = known.engine.compile(ir_of("scannerless", ["a", "b"], [], ((0, -1, 0), (0, -1, -2))))
    matcher = _core.Matcher(program)
    for _ in range(20_000):
        assert matcher.advance(1)
    assert matcher.next_bytes(b"b") == (b"", True)
    assert matcher.memory < 20_000 * 700


def test_the_end_of_a_text_is_not_mistaken_for_its_start() -> None:
    """The set at the end has no items; under a hash it once was the start's, and had its mask."""
    known = Vocabulary.from_tokens([None, None, b"a"], [EOS], specials={"<x>": 1})
    ir = ir_of("scannerless", ["a"], [], ((0, -1),))
    special = {**ir[1], "terminals": (("special", "<x>", "<x>", 0),)}
    matcher = _core.Matcher(known.engine.compile(("grammar", special)))
    assert allowed(matcher.mask()) == {1}
    assert matcher.advance(1)
    assert allowed(matcher.mask()) == {EOS}


def with_constraint(
    inner: tuple[str, Any], productions: Productions, *patterns: str
) -> tuple[str, dict[str, Any]]:
    """Terminal 0 is a constraint, those after it have these patterns."""
    kind, content = ir_of("longest", list(patterns), [], productions)
    shifted = (("constraint", "inner", inner, 0), *content["terminals"])
    return kind, {**content, "terminals": shifted}


def test_a_constraint_with_the_empty_text_may_be_repeated() -> None:
    """It once began itself for ever."""
    known = vocabulary("ab.", b"aa", b"a.")
    balanced = ir_of("scannerless", ["a", "b"], [], ((0, -1, 0, -2), (0,)))
    for inner, good, bad in ((("regex", EXPRESSIONS["b?"]), b"bbb", b"a"), (balanced, b"aabbab", b"b")):
        program = known.engine.compile(with_constraint(inner, ((0,), (0, 0, -1))))
        matcher = _core.Matcher(program)
        assert matcher.is_complete()
        assert matcher.viable_bytes(bad) == 0
        assert matcher.next_bytes(good)[1]
        check = {i for i in range(1, known.size) if matcher.fork().advance(i)}
        assert allowed(matcher.mask()) == check | {EOS}


NO_TEXT = ("intersect", (literal("a"), literal("b")))


@pytest.mark.parametrize("seed", range(12))
def test_constraints_as_terminals_have_their_texts(seed: int) -> None:
    """Regular ones, however they are put together: with no text, with the empty one, with others."""
    rng = random.Random(f"constraints {seed}")
    known = vocabulary("ab(", b"aa", b"ab", b"(a", b"((", b"abab")
    texts = ["".join(p) for n in range(5) for p in itertools.product("ab(", repeat=n)]
    for _ in range(12):
        case = random_case(rng, "scannerless")
        kind, content = case.ir
        terminals = list(content["terminals"])
        patterns = list(case.patterns)
        for i, (_, name, expression, _) in enumerate(content["terminals"]):
            regex: Any = ("regex", expression)
            nothing: Any = ("regex", NO_TEXT)
            empty: Any = ("regex", literal(""))
            choices = [
                (patterns[i], regex),
                (patterns[i], ("union", (regex, nothing))),
                (patterns[i], ("sequence", (empty, regex))),
                (patterns[i], ir_of("scannerless", [patterns[i]], [], ((0, -1),))),
                ("", empty),
                ("(?!)", nothing),
                ("(?!)", ("sequence", (regex, nothing))),
                ("(?!)", ir_of("scannerless", [patterns[i]], [], ((0, -1, 0),))),
            ]
            if rng.random() < 0.7:
                patterns[i], inner = rng.choice(choices)
                terminals[i] = ("constraint", name, inner, 0)
        changed = case._replace(patterns=patterns, ir=(kind, {**content, "terminals": tuple(terminals)}))
        inside = language(changed, texts, "scannerless")
        program = known.engine.compile(changed.ir)
        if program.empty_parts() is not None:
            assert not inside, changed
            continue
        check_texts(program, "ab(", rng.sample(texts, 60), inside, changed)
        check_masks(program, known, rng, changed, [])
        assert program.unproven == 0


def test_what_must_not_follow_a_lexeme_must_not_begin_a_constraint_either() -> None:
    known = vocabulary("a(", b"((", b"(a")
    inner = ("regex", ("concat", (literal("("), EXPRESSIONS["a*"])))
    ir = with_constraint(inner, ((0, -2, -3), (0, -1), (0, 0, 0), (0, -4)), r"\(", "a", r"\([ab]*\(")
    matcher = _core.Matcher(known.engine.compile(ir))
    for token in (2, 1):  # "(a"
        if not matcher.advance(token):
            return
    assert allowed(matcher.mask()) - {EOS} == {i for i in range(1, known.size) if matcher.fork().advance(i)}


def test_nothing_is_reused_from_a_deleted_grammar() -> None:
    """Which lexemes are alive everywhere was remembered by an address, at which the next grammar lay."""
    known = vocabulary("ab ")
    separable = ir_of("ordered", ["[ab]+", " +"], [1], ((0, -1, -1),))
    inseparable = ir_of("ordered", ["[ab]+"], [], ((0, -1, -1), (0,)))
    for _ in range(5):
        for ir, wanted in ((separable, {1, 2, 3}), (inseparable, {EOS})):
            assert allowed(_core.Matcher(known.engine.compile(ir)).mask()) == wanted
