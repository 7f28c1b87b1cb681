"""`check_grammar` reports positions, unused rules, rules without a text, and terminals that compete."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.grammar.builders import LexerRule
from structgen.constraints.grammar.checking import check_grammar
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.constraints.grammar.ebnf.reader import read_ebnf
from structgen.constraints.grammar.gbnf import read_gbnf
from structgen.errors import EmptyConstraint
from structgen.ir.grammar import Grammar, Rule
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

BYTES = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], [256], size=257)


def reported(constraint: GrammarConstraint) -> list[str]:
    found = check_grammar(constraint).findings
    return [f"{one.position.line}: {one.kind} {one.subject}" for one in found if one.position is not None]


def test_unused_rules_and_terminals_of_lark() -> None:
    source = """
start: list{item} "// no comment: x"
list{one}: one ("," one)*
item: NAME -> old
old: "x"          // not used by anything: item
DIGIT: /[0-9]/
NAME: /[a-z]/ DIGIT*
HEX: /[0-9a-f]+/
%import common.WS
%import common (INT, CNAME)
%import common.NEWLINE -> LINE
%ignore WS
%extend item: INT
"""
    assert reported(sg.lark(source)) == [
        "5: unused old",
        "8: unused HEX",
        "10: unused CNAME",
        "11: unused LINE",
    ]
    assert "5: unused old" not in [
        f"{one.position.line}: {one.kind} {one.subject}"
        for one in check_grammar(sg.lark(source), starts=["old"]).findings
        if one.position
    ]


def test_unused_and_endless_rules_of_gbnf() -> None:
    constraint = sg.gbnf('root ::= "a" b | "c"\nb ::= "d" b\ne ::= f\nf ::= "g"')
    assert reported(constraint) == ["2: endless b", "3: unused e", "4: unused f"]
    assert set(check_grammar(constraint).regular) == {"root", "b", "e", "f"}


def test_regular_rules() -> None:
    report = check_grammar(
        sg.lark('start: list ";"\nlist: NAME ("," NAME)* | nest\nnest: "(" nest? ")"\nNAME: /[a-z]/')
    )
    assert report.regular == () and (report.rules, report.findings) == (3, ())
    assert check_grammar(sg.lark('start: list ";"\nlist: NAME ("," NAME)*\nNAME: /[a-z]/')).regular == (
        "start",
        "list",
    )


@pytest.mark.parametrize(
    ("source", "lexer", "messages"),
    [
        (
            "start: A B\nA: /[a-z]+/\nB: /[a-y]{2}/",
            "longest",
            ["terminal `B` never matches: others take all of its texts; 'aa' is read as `A`"],
        ),
        (
            "start: A B\nA: /[a-z]+/\nB: /[a-b0-9]+/",
            "longest",
            ["terminals `B` and `A` both match 'a'; it is read as `B`"],
        ),
        ('start: A "if" "else"i\nA: /[a-z]+/', "lark", ["terminal `A` matches 'ELSE', 'if', too"]),
        (
            "start: A B\nA.2: /a/\nB: /ab+/",
            "lark",
            ["terminal `B` never matches: others end its texts early"],
        ),
        ("start: A B\nA: /a/\nB: /b/", "lark", []),
    ],
)
def test_terminals_that_compete(source: str, lexer: LexerRule, messages: list[str]) -> None:
    found = check_grammar(sg.lark(source, lexer=lexer)).findings
    assert [one.message for one in found if one.kind != "endless"] == messages


def test_pairs_without_time_are_counted() -> None:
    constraint = sg.lark("start: A B C\nA: /[a-c]+/\nB: /[b-d]+/\nC: /[c-e]+/")
    assert check_grammar(constraint, seconds=0).skipped == 3
    assert [one.kind for one in check_grammar(constraint).findings] == ["overlap"] * 3


PIECES = ["a", "b", "a+", "[ab]+", "ab", "b?a", "(ab)+", "a{2}", "[ab]{1,2}", "aba"]


@pytest.mark.parametrize("lexer", ["lark", "longest"])
@pytest.mark.parametrize("seed", range(40))
def test_dead_terminals_are_those_of_the_core(seed: int, lexer: LexerRule) -> None:
    """The slow twin: a grammar of one terminal is empty if and only if the lexer never produces the terminal."""
    source = random.Random(seed)
    names = "ABCD"[: source.randint(2, 4)]
    rules = "\n".join(f"{name}.{source.randint(0, 1)}: /{source.choice(PIECES)}/" for name in names)
    grammar = sg.lark(f"start: {' | '.join(names)}\n{rules}", lexer=lexer).grammar
    constraint = GrammarConstraint(grammar, "Lark")
    never = {one.subject for one in check_grammar(constraint).findings if one.kind == "never"}
    assert grammar.lexer is not None
    for terminal in grammar.lexer.terminals:
        body = ("terminal", terminal.name)
        alone = Grammar((Rule("start", body),), "start", grammar.lexer)
        try:
            Matcher(GrammarConstraint(alone, "Lark"), BYTES)
            is_dead = False
        except EmptyConstraint:
            is_dead = True
        assert is_dead == (terminal.name in never), (rules, terminal.name)


@pytest.mark.parametrize(
    ("constraint", "reported"),
    [
        (sg.lark("start: NAME NAME\nNAME: /[a-z]+/"), "structgen check --lark FILE"),
        (
            GrammarConstraint(read_gbnf('root ::= "a" root "b"', "root"), "GBNF"),
            "structgen check --gbnf FILE",
        ),
        (GrammarConstraint(read_ebnf('root ::= "a" root', "root"), "EBNF"), "structgen check --ebnf FILE"),
        (sg.regex("a") & "b", "contradict each other"),
    ],
)
def test_grammars_without_a_text_lead_to_the_check(constraint: sg.Constraint, reported: str) -> None:
    with pytest.raises(EmptyConstraint) as caught:
        Matcher(constraint, BYTES)
    assert reported in str(caught.value)


@pytest.mark.parametrize("lexer", ["lark", "longest"])
@pytest.mark.parametrize(
    ("source", "circle", "place"),
    [
        ('start: "a" start', "start -> start", "line 1, column 1"),
        ('start: start "a"', "start -> start", "line 1, column 1"),
        ('start: "a" b | "c" d\nb: "d" start\nd: d', "start -> b -> start", "line 1, column 1"),
        ('start: "a" b\nb: "d" c+\nc: "(" b ")"', "start -> b -> c -> b", "line 1, column 1"),
    ],
)
def test_an_unproductive_start_is_refused(source: str, circle: str, place: str, lexer: Any) -> None:
    with pytest.raises(EmptyConstraint, match="has no finite text") as caught:
        sg.lark(source, lexer=lexer)
    assert circle in caught.value.message and caught.value.where == place
    for make in (sg.gbnf, sg.ebnf):
        with pytest.raises(EmptyConstraint, match="has no finite text") as caught:
            make(re.sub("start", "root", re.sub(r"^(\w+):", r"\1 ::=", source, flags=re.MULTILINE)))
        assert circle.replace("start", "root") in caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        'start: "a" start | "b"',
        'start: "a" start?',
        'start: "a" start*',
        'start: b\nb: "(" b ")" |',
        'start: "a" | b\nb: "c" b',
    ],
)
def test_productive_starts_are_accepted(source: str) -> None:
    for lexer in ("lark", "longest"):
        assert Matcher(sg.lark(source, lexer=lexer), BYTES).witness() is not None  # type: ignore[arg-type]


def test_a_long_chain_before_an_unproductive_rule_is_checked_quickly() -> None:
    many = 20_000  # in an order in which a pass over all rules decides one of them
    chain = "".join(f"c{i} ::= c{i + 1}\n" for i in range(many)) + f'c{many} ::= "x"\n'
    with pytest.raises(EmptyConstraint, match="root -> e -> e\n"):
        sg.gbnf('root ::= c0 e\ne ::= "a" e\n' + chain)
    with pytest.raises(EmptyConstraint, match=r"root -> c0 -> c1 -> c2 -> c3 -> c4 -> \.\.\. -> c19996"):
        sg.gbnf("root ::= c0\n" + chain.replace('"x"', "c0"))
