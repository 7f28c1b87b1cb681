"""The reader of plain Lark grammars against lark's own loader: the same grammar, or none."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lark.exceptions import LarkError
from lark.lexer import Token
from lark.load_grammar import _literal_to_pattern

from structgen.constraints.grammar.lark.dialect import rewrite
from structgen.constraints.grammar.lark.lark_loader import Loaded, load
from structgen.constraints.grammar.lark.literals import literal_pattern
from structgen.constraints.grammar.lark.plain_reader import read_plain
from structgen.constraints.grammar.lark.rule_bodies import rule_bodies
from structgen.constraints.grammar.lark.source import Source
from structgen.errors import StructgenError

ROOT = Path(__file__).parents[4]
FILES = sorted([*ROOT.glob("grammars/*.lark"), *ROOT.glob("bench/grammars/*.lark")])


def content(loaded: Loaded) -> Any:
    bodies = {name: ("terminal", name) for name in loaded.all_terminals}
    return (
        [(one.name, one.pattern, one.pattern.raw, one.priority) for one in loaded.terminals],
        [(one.name, one.pattern, one.priority) for one in loaded.all_terminals.values()],
        list(rule_bodies(loaded, bodies, {}).items()),
        loaded.ignore,
        loaded.declared,
    )


def agree(text: str, start: str = "start", keep: tuple[str, ...] = ()) -> bool:
    """Return whether the grammar is plain; fail if the two readers differ."""
    try:
        plain = read_plain(Source(text), start, keep)
    except StructgenError:
        return False
    if plain is None:
        return False
    assert content(plain) == content(load(rewrite(Source(text)), start, keep, ()))
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_reads_files_as_lark_does(path: Path) -> None:
    plain = agree(path.read_text("utf-8"))
    assert plain or path.name in ("sql.lark", "python.lark")


PLAIN = [
    'start: "a"',
    'start: "a" | "b"\n\n    // why\n    | "c" -> d // so\n\n# end',
    'start: a b\r\na: "x"\r\n | "y"\r\nb: /z/i\r\n',
    "start: \\\n  A\nA: /x/\n",
    '?start: a\n!a: "x"\n!?b: "y"\n?!c: "z"\n_d: b c',
    'start.2: A\nA.-3: "a"\nB.4 : "b" A',
    'start: "if" "IF" "If"i IF\nIF: "x"',
    'start: "+" "++" "\\n" "é" "ñandú" "x y" "_" "1a"',
    'start: [a] (b | [c "d"])~2..3 "e"~4 | \na: "a"?\nb: "b"*\nc: ("c" | "dd" "e")+',
    'start: (("a" "b")* /c/)+ "d" [/e/] -> x\n  | /f/ [("g" /h/)~1] -> y',
    'start: A\nA: B~2 C? | "ccc" | D~1..3\nB: "b"i\nC: /c+/x\nD: "0".."9" ["d"]',
    'start: "a".."f" | "x" .. "z"\n%ignore " "\n%ignore WS\n%ignore /#.*/ | ";"\nWS: /\\s/',
    "%import common.INT\n%import common.WS -> SPACE\n%import common (CNAME, WORD)\nstart: INT CNAME\n%ignore SPACE",
    'start: start "a" | start | b\nb: b "x"\nc: c+ "y"\nd: d~3 "w"\ne: e~60 "v"\nf: "u"',
    'start: A\nA: /a\\/\\"\\\'\\n\\\\/ "\\\\\\"\\t\\d" /\\x41\\u0042/',
    'start: A B\nA: "a" B\nB: "b" |',
    "start: (A)\n%ignore B\nA: (((B)))\nB: /b/ | (/c/)",
]


@pytest.mark.parametrize("text", PLAIN)
def test_reads_plain_grammars(text: str) -> None:
    assert agree(text)
    assert agree(text + "\n") and agree("\n// first\n" + text)


@pytest.mark.parametrize(
    "text",
    ["", "start", 'start: ""', "!start: ?", 'start: A\nA.+4: "a"',
     "start: b", 'start: "a"\nstart: "b"', "start: A\nA: B\nB: A", "start: A\nA: a\na: /x/", "start: A\nA:",
     'start: "a"?b\nb: "c"', "start: a-b\na-b: /x/", "start: x{A}\nx{y}: y\nA: /a/", "%declare A\nstart: A",
     'start: /a\nb/', 'start: "a"~3..2', "start: [a", "start: a]\na: /x/", "start: aB\naB: /x/", "start: __x\n__x: /a/",
     "start: /a/\n| /b/ /c/)", 'start: "a" : "b"', "?_x: /a/\nstart: _x",
     'start: "a"\n%ignore', 'start: "a"\n%ignore // c', 'start: "\x00".."b"',
     'start: "__anon_1" /x/ /y/', 'start: "\ud800".."\udfff"', "start: @x", 'start: %json {"type": "null"}',
     "start: <|x|>", "start: A & B\nA: /a/\nB: /a/", "start: A\nA: ~B\nB: /b/", 'start: "a"{2}', "% ignore /x/",
     "start: A -> B\nA: /a/", "start: A\nA: /a/ -> b", "start: (A -> b)\nA: /a/", "%import common.NO\nstart: NO",
     "%import common.INT\nINT: /x/\nstart: INT", "%import python.NAME\nstart: NAME", "start: A\n%ignore B\nA: /a/",
     'start: "a" .. "bc"', "start: A\nA.99999999999: /a/", "start[lazy]: /a/", "start: A\n%extend A: /b/\nA: /a/"],
)  # fmt: skip
def test_leaves_all_else_to_lark(text: str) -> None:
    assert read_plain(Source(text), "start", ()) is None


def test_patterns_that_write_each_other_out_are_bounded() -> None:
    lines = [f"A{n}: A{n + 1} A{n + 1}" for n in range(40)]
    assert read_plain(Source("\n".join(["start: A0", *lines, "A40: /a/"])), "start", ()) is None


def test_import_paths_come_before_larks_own_modules() -> None:
    source = Source("%import common.INT\nstart: INT")
    assert read_plain(source, "start", (), imports=False) is None


@given(st.text(st.sampled_from("\\\"'/nxut0d aé\x00\n"), max_size=8))
@example('\\\\"')
def test_literals_are_those_of_lark(text: str) -> None:
    for kind, literal in (("STRING", f'"{text}"'), ("REGEXP", f"/{text}/x"), ("STRING", f'"{text}"i')):
        try:
            expected = _literal_to_pattern(Token(kind, literal))
        except LarkError:
            with pytest.raises(LarkError):
                literal_pattern(literal)
        except UnicodeDecodeError:
            continue
        else:
            found = literal_pattern(literal)
            assert found == expected and found.raw == expected.raw


LEAVES = ["a", "b", "start", "A", "B", "C", '"if"', '"IF"', '"+"', '"++"', '"b"', '"b"i', "/b/", "/c|d+/", "/[a-z]/i",
          '"0".."9"', '"\\n"', "/\\//", '"é"']  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn, leaves: list[str], depth: int = 3) -> str:
    def part() -> str:
        kind = draw(st.integers(0, 9 if depth else 4))
        if kind < 5:
            return draw(st.sampled_from(leaves))
        inner = draw(bodies(leaves, depth - 1))
        if kind < 7:
            return f"[{inner}]" if kind == 5 else f"({inner})"
        return f"({inner}){draw(st.sampled_from(['?', '*', '+', '~2', '~1..3', '~0..60', '~1', '~0']))}"

    alternatives = [
        " ".join(part() for _ in range(draw(st.integers(0, 3)))) for _ in range(draw(st.integers(1, 3)))
    ]
    return draw(st.sampled_from([" | ", "|", "\n  | ", "  // x\n|"])).join(alternatives)


@st.composite
def grammars(draw: st.DrawFn) -> str:
    lines = []
    for name in ("start", "a", "b"):
        head = draw(st.sampled_from([name, name, f"?{name}", f"!{name}", f"{name}.2"]))
        alias = draw(st.sampled_from(["", "", " -> z"]))
        lines.append(f"{head}: {draw(bodies(LEAVES))}{alias}")
    inner = [leaf for leaf in LEAVES if not leaf.islower() or leaf[0] in '"/']
    for name, later in (("A", "BC"), ("B", "C"), ("C", "")):
        usable = [leaf for leaf in inner if leaf not in "ABC" or leaf in later]
        priority = draw(st.sampled_from(["", "", ".1", ".-1"]))
        lines.append(f"{name}{priority}: {draw(bodies(usable, 2))}")
    lines += draw(
        st.lists(
            st.sampled_from(['%ignore " "', "%ignore A", "%ignore A B", "%import common.INT"]), max_size=2
        )
    )
    return "\n".join(draw(st.permutations(lines)))


@given(grammars(), st.sampled_from([(), ("C",)]))
def test_random_grammars_are_read_as_lark_does(text: str, keep: tuple[str, ...]) -> None:
    agree(text, keep=keep)


@given(st.sampled_from(FILES), st.randoms(use_true_random=False))
def test_files_with_mistakes_are_read_as_lark_does_or_left_to_it(path: Path, chance: random.Random) -> None:
    lines = path.read_text("utf-8").splitlines()
    lines = ['start: "a" "b"?'] + [line for line in lines if line.strip()]
    kept = lines[:1] + chance.sample(lines[1:], 6)
    text = "\n".join(kept)
    for _ in range(chance.randrange(3)):
        place = chance.randrange(len(text))
        text = (
            text[:place]
            + chance.choice(["", " ", "\n", "|", '"', "/", "(", ")", "?", ":", "~2", "A", "%"])
            + text[place + 1 :]
        )
    names = {piece.text for piece in safe_pieces(text) if piece.kind == "name"}
    text += "".join(
        f'\n{name}: "x"' for name in sorted(names) if f"\n{name}:" not in text and name != "start"
    )
    agree(text)


def safe_pieces(text: str) -> list[Any]:
    try:
        return Source(text).pieces
    except StructgenError:
        return []
