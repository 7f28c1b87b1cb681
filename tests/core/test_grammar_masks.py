"""Masks of real grammars over real vocabularies are what single steps allow, token by token."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lark.indenter import PythonIndenter

from structgen.constraints.grammar.constraint import GrammarConstraint, gbnf, lark
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

from ..real_tokenizers import NAMES, tokenizer_path
from .small_vocabulary import allowed

SHELF = Path(__file__).parents[2] / "grammars"
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
def test_words_are_left_where_steps_leave_them(grammar: GrammarConstraint) -> None:
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
