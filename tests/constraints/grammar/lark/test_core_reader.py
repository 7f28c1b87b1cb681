"""The core's reader of Lark grammars: it returns the IR of the other readers, or nothing."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from structgen.constraints.grammar.builders import lark
from structgen.constraints.grammar.constraint import GrammarConstraint
from structgen.constraints.grammar.lark.core_reader import lower_plain
from structgen.constraints.grammar.lark.reader import read_lark
from structgen.constraints.grammar.lowering import lower
from structgen.errors import GrammarError, StructgenError

from .test_plain_reader import FILES, grammars, safe_pieces


def agree(text: str, start: str = "start", contextual: bool = False) -> bool:
    """Return whether the grammar is plain; fail if the two readers differ."""
    direct = lower_plain(text, start, contextual)
    if direct is None:
        return False
    kind, wanted = lower(read_lark(text, start, lexer="longest", contextual=contextual))
    assert kind == "grammar"
    assert dict(direct) == dict(wanted)
    assert hash(direct) == hash(wanted)
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("contextual", [False, True])
def test_files(path: Path, contextual: bool) -> None:
    plain = agree(path.read_text("utf-8"), contextual=contextual)
    assert plain or path.parent.name != "bench"


@pytest.mark.parametrize(
    "text",
    [
        'start: "a" | "b" | "a"',
        'start: ("a" ("b" | ("c" | "b")))* "d"~2..70 e?\ne: | "x" e | (("y"))',
        'start: A "a" B | "b"i "é" "\\n"\nA.2: "a"\nB: /b+/ | A\n%ignore " "+',
        'start: "__x" "if" IF "," "->" ";" COMMA\nIF: "if"\nCOMMA: ";"',
        'start: "x" unused2\nunused2: "y" unused2 | B\nunused: "z" unused C\nB: "b"\nC: "c"\nalone: D*\nD: "d"',
        'start: again+ "x"\nagain: again "y"\nother: other* "z"',
        'start: A B B A\nA: "if"\nB: "if"',
        'start: NAME "if" NUMBER "1" WORD\n%import common.CNAME -> NAME\n%import common (NUMBER, WORD)\n'
        "%ignore NAME\n%ignore NAME",
        'start: /a/ /a/i "a"i /[b-d]/x "b".."d"',
    ],
)
def test_plain_grammars(text: str) -> None:
    assert agree(text)


@pytest.mark.parametrize(
    "text",
    [
        'start: A\nA: "a"*',  # a terminal with the empty text is optional
        "start: A\nA: /a+?b/",
        "start: A\nA: /a(?=b)/",
        'start: A\nA: "a" & "b"',
        'start: "a" nothing',
        'start: "a" A\nA: /(/',
        'start: "__ANON_0"',
        'other: "a"',
        'start: A\n%ignore B\nA: "a"',
        'start: A\nA: B\nB: A',
    ],
)  # fmt: skip
def test_leaves_other_grammars_to_the_other_readers(text: str) -> None:
    assert lower_plain(text, "start", False) is None


@example('start: a | ("x" a)~3\na: (b)\nb: A A? [A]\nA: /y/')
@given(grammars())
def test_random_grammars(text: str) -> None:
    try:
        lower(read_lark(text, lexer="longest"))
    except StructgenError:
        assert lower_plain(text, "start", False) is None
    else:
        agree(text)


@given(st.sampled_from(FILES), st.randoms(use_true_random=False))
def test_files_with_mistakes(path: Path, chance: random.Random) -> None:
    text = path.read_text("utf-8")
    pieces = [piece.text for piece in safe_pieces(text)]
    place = chance.randrange(len(pieces))
    if chance.random() < 0.5:
        del pieces[place]
    else:
        pieces.insert(place, chance.choice(pieces))
    changed = "".join(pieces)
    try:
        agree(changed)
    except StructgenError:
        assert lower_plain(changed, "start", False) is None


def test_the_grammar_is_read_on_first_access() -> None:
    text = 'start: "a" other*\nother: /[b-c]/ | "d"'
    made = lark(text, lexer="longest")
    assert made.describe() == "the Lark grammar of `start`"
    copy = pickle.loads(pickle.dumps(made))
    assert copy == made == GrammarConstraint(read_lark(text, lexer="longest"), "Lark")
    assert [rule.name for rule in made.grammar.rules] == ["start", "other"]
    assert made.grammar is made.grammar
    assert repr(copy) == "<Lark grammar, start 'start', 2 rules>"
    with pytest.raises(GrammarError):
        lark('start: "a" missing', lexer="longest")
