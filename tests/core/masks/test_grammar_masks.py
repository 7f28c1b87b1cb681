"""Masks of real grammars over real vocabularies allow the same tokens as single steps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lark.indenter import PythonIndenter

from structgen.constraints.grammar.builders import gbnf, lark
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.ir.grammar import Indentation
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.real_tokenizers import NAMES, tokenizer_path

from ..small_vocabulary import EOS, allowed

SHELF = Path(__file__).parents[3] / "grammars"
TEXTS = {
    "json.gbnf": '{"a": [1, -2.5e3, true, null, "x\\n"],\n  "b": {}}',
    "toml.gbnf": '# c\ntitle = "x"\n[a.b]\nc = [1, 2.0, 1979-05-27T07:32:00Z]\n',
    "graphql.lark": 'query Q($a: Int = 1) { f(x: $a, y: "s") @d { ...on T { id } } } # end\n',
    "sql.lark": "SELECT a, count(*) AS n FROM t LEFT JOIN u ON t.id = u.id WHERE a LIKE 'x%' GROUP BY 1;",
    "python.lark": "class A(B):\n  def f(self, *a):\n    if a:  # c\n        return [x for x in a]\n\n  y = 1\n",
}


def shelf_grammar(name: str) -> GrammarConstraint:
    source = (SHELF / name).read_text()
    if name.endswith("gbnf"):
        return gbnf(source)
    if name == "python.lark":
        return lark(source, lexer="longest", start="file_input", indenter=PythonIndenter)
    return lark(source, lexer="longest")


@pytest.fixture(scope="module", params=NAMES)
def known(request: pytest.FixtureRequest) -> Vocabulary:
    transformers = pytest.importorskip("transformers")
    return Vocabulary.from_tokenizer(
        transformers.AutoTokenizer.from_pretrained(tokenizer_path(request.param))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_masks_are_what_steps_allow(known: Vocabulary, name: str) -> None:
    rng = random.Random(name)
    constraint = shelf_grammar(name)
    matcher = Matcher(constraint, known)
    tokens = known.encode(TEXTS[name])
    assert tokens is not None
    for token in tokens:
        mask = allowed(matcher.mask())
        assert token in mask, (matcher.text, known.token_bytes(token))
        sample = rng.sample(range(known.size), 300) + rng.sample(sorted(mask), min(len(mask), 100))
        for i in sample:
            data = known.token_bytes(i)
            if data:
                assert (i in mask) == (matcher.viable_bytes(data) == len(data)), (matcher.text, data)
        assert matcher.advance(token)
    assert matcher.is_complete()
    assert matcher.unproven == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json.gbnf", "sql.lark", "python.lark"])
def test_random_walks_can_always_be_completed(known: Vocabulary, name: str) -> None:
    rng = random.Random(name)
    constraint = shelf_grammar(name)
    for _ in range(3):
        matcher = Matcher(constraint, known)
        for _ in range(12):
            onwards = sorted(allowed(matcher.mask()) - set(known.eos_ids))
            if not onwards:
                break
            assert matcher.advance(rng.choice(onwards))
        rest = matcher.witness()
        assert rest is not None, matcher.text
        for token in rest:
            assert matcher.advance(token), matcher.text
        assert matcher.is_complete()


def wordy_vocabulary() -> Vocabulary:
    """Thousands of tokens that go on with a word and leave it everywhere, as those of source code do."""
    rng = random.Random(7)
    tokens = {bytes([byte]) for byte in range(256)}
    while len(tokens) < 6000:
        word = "".join(rng.choices("abAB_19é", [9, 9, 2, 2, 2, 2, 2, 1], k=rng.randint(1, 6)))
        end = rng.choice(["", "", "", "(", ")", ".", ".a", "(b", "()", " a", "-", "\n", " (", "=1"])
        tokens.add((rng.choice(["", "", " ", " ", "  ", "("]) + word + end).encode())
    return Vocabulary.from_tokens([*sorted(tokens), b""], eos_ids=[len(tokens)])


@pytest.mark.parametrize(
    "grammar",
    [
        lark('start: call+\ncall: N ("." N)* "(" (call ("," call)*)? ")"\nN: /[A-Za-z_][A-Za-z0-9_]*/\n%ignore " "'),
        lark('start: (NAME | "a" | "ab" | "-")+\nNAME: /[A-Za-z_][0-9A-Z_a-z]*/\n%ignore /[ \\n]/', lexer="longest"),
        lark('start: (NAME "=" NAME)+\nNAME: /[a-zA-Z0-9_]+/\n%ignore " "', lexer="longest", contextual=True),
        lark('start: (NAME | WORD "-")*\nNAME: /[a-z_]+/\nWORD: /[0-9]+[a-zA-Z0-9_]*/\n%ignore " "', lexer="longest"),
        lark('start: NAME+\nNAME: /\\w+\\(/\n%ignore " "', lexer="longest"),
        gbnf('root ::= name ("." name | "(" root ")" | " "+ name)*\nname ::= [A-Za-z_] [A-Za-z0-9_]*'),
        gbnf('root ::= (name | "(" | ")")+\nname ::= [A-Za-z0-9_]+'),
        gbnf('root ::= ([A-Za-z0-9_]+ "." " "?)+ "b" root?'),
    ],
)  # fmt: skip
def test_words_end_where_steps_end_them(grammar: GrammarConstraint) -> None:
    vocabulary = wordy_vocabulary()
    rng = random.Random(3)
    for _ in range(4):
        matcher = Matcher(grammar, vocabulary)
        for _ in range(5):
            mask = allowed(matcher.mask())
            for i in range(vocabulary.size - 1):
                data = vocabulary.token_bytes(i)
                assert data is not None
                assert (i in mask) == (matcher.viable_bytes(data) == len(data)), (matcher.text, data)
            onwards = sorted(mask - set(vocabulary.eos_ids))
            if not onwards or not matcher.advance(rng.choice(onwards)):
                break


def agree(matcher: Matcher) -> set[int]:
    """The mask and single steps allow the same; which tokens."""
    single = {i for i in range(len(EOS), matcher.vocabulary.size) if matcher.fork().advance(i)}
    assert allowed(matcher.mask()) - set(EOS) == single, matcher.text
    return single


def test_words_that_many_characters_beyond_ascii_follow() -> None:
    """More of them than are merged: the node turns, and what overlaps there is found from there."""
    pieces = [b"foo", b"fooend;", b"fooend;]", *(f"foo{chr(0xE0 + i)}x".encode() for i in range(28))]
    pieces += [b"foo" + bytes([a, b]) for a in b"abcdfgh" for b in b"qrstuvwxyz"]
    vocabulary = Vocabulary.from_tokens([None, None, *(bytes([i]) for i in range(256)), *pieces], EOS)
    grammar = gbnf('root ::= name tail\nname ::= [a-zA-Z0-9_]+\ntail ::= "end;" tail "]" | "("\n')
    matcher = Matcher(grammar, vocabulary)
    assert len(EOS) + 257 in agree(matcher)
    assert matcher.advance(len(EOS) + ord("a"))
    assert len(EOS) + 257 in agree(matcher)


def test_what_follows_a_bracket_depends_on_whether_it_was_the_last_one() -> None:
    """Masks of places that differ in the number of open brackets alone, in both orders."""
    source = (
        'start: x\nx: OPEN x CLOSE A | "d"\nA: /a+/\nOPEN: "("\nCLOSE: /\\)(c|b[a\\t]*)/\n_NL: /(\\n *)+/\n'
        '%declare _INDENT _DEDENT\nunused: _INDENT _DEDENT OPEN CLOSE _NL A\n%ignore "\\t"\n'
    )
    letters = "ab()\n cd\t"
    grammar = lark(
        source, lexer="longest", indenter=Indentation("_NL", "_INDENT", "_DEDENT", ("OPEN",), ("CLOSE",))
    )
    for texts in (["(d)", "((d)", "((d)c\ta)"], ["((d)c\ta)", "((d)", "(d)"]):
        vocabulary = Vocabulary.from_tokens([None, None, *(letter.encode() for letter in letters)], EOS)
        for text in texts:
            matcher = Matcher(grammar, vocabulary)
            assert all(matcher.advance(len(EOS) + letters.index(letter)) for letter in text)
            agree(matcher)


@pytest.mark.parametrize(
    "source",
    [
        "start: x B B | B\nx: x x | A\nA: /a/\nB: /b+/\n",
        'start: x B B | B\nx: "(" x ")" | A\nA: /a/\nB: /b+/\n',
        "start: x B B | B\nx: A x | A\nA: /a/\nB: /b+/\n",
        "start: (A (A)*)+ B B | (B)* | B B ((B A)?)*\nA: /a[bc]?/\nB.1: /[bc]+/\n%ignore /b/\n",
    ],
)
def test_endless_contexts_are_followed_up_to_a_limit(source: str) -> None:
    matcher = Matcher(lark(source, lexer="longest", contextual=True), Vocabulary.of_bytes())
    matcher.mask()
    assert matcher.unproven > 0


def test_patterns_compete_only_where_the_grammar_allows_them() -> None:
    grammar = lark('start: A | "(" B ")"\nA: /a+/\nB: /[ab]b*/\n', contextual=True)
    vocabulary = Vocabulary.of_bytes()

    def takes(text: bytes) -> bool:
        matcher = Matcher(grammar, vocabulary)
        return matcher.viable_bytes(text) == len(text) and matcher.witness_text(text) == b""

    assert takes(b"aa") and takes(b"(ab)") and takes(b"(a)")
    assert not takes(b"b") and not takes(b"(aa)")


def test_completions_of_ambiguous_texts_are_searched_up_to_a_limit() -> None:
    """Its sets grow with the text, in all ways to write it; there is no completion, which is not proven."""
    source = (
        "start: B start y | y start (B)* | C A A\nx: C | A\ny: (B y)? | B B A | x A\n"
        'A.1: /[ab]+/\nB.1: /bc/\nC: "abc"\n'
    )
    matcher = Matcher(lark(source, lexer="longest", contextual=True), Vocabulary.of_bytes())
    assert matcher.witness_text() is None
    assert matcher.unproven > 0
