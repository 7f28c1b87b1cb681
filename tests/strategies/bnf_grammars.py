"""Random grammars in GBNF and EBNF: the meaning, and one of many sources with that meaning.

A drawn grammar is a body of simple nodes without any simplification, and a source for it with blanks, comments,
newlines, needless groups and escapes wherever the notation allows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from structgen.ir.grammar import Body, Grammar, Rule

Notation = Literal["gbnf", "ebnf"]

NAMES = ("root", "b", "long-name", "X9")
_SETS: list[tuple[str, tuple[tuple[int, int], ...]]] = [
    ("a", ((97, 97),)),
    ("a-b", ((97, 98),)),
    ("ab", ((97, 97), (98, 98))),
    ("-b", ((45, 45), (98, 98))),
    ("c-e", ((99, 101),)),
    ("\\u0061-\\U00000062", ((97, 98),)),
    ("\\n\\]\\-b", ((10, 10), (93, 93), (45, 45), (98, 98))),
]
_COUNTS: list[tuple[str, int, int | None]] = [
    ("*", 0, None),
    ("+", 1, None),
    ("?", 0, 1),
    ("{2}", 2, 2),
    ("{0}", 0, 0),
    ("{1,}", 1, None),
    ("{2,}", 2, None),
    ("{0,2}", 0, 2),
    ("{1,3}", 1, 3),
    ("{ 1 , 2 }", 1, 2),
]


@dataclass(frozen=True)
class Drawn:
    source: str
    grammar: Grammar


_MACROS: list[tuple[str, Body]] = [
    (
        'Regex("a+b?")',
        ("concat", (("repeat", ("literal", "a"), 1, None), ("repeat", ("literal", "b"), 0, 1))),
    ),
    ('Regex("(\\?i)B|a", flags="")', ("class", ((65, 66), (97, 98)))),
    ("Regex( \n'ab' )".replace("'", '"'), ("literal", "ab")),
    ('Substring("ab", "", "a")', ("substring", ("ab", "a"), True)),
    ('Substring("a","b" , "a", "b")', ("substring", "abab", True)),
    ("Substring()", ("literal", "")),
]
"""Calls of macros that stand for regular languages."""


def grammars(notation: Notation, *, recursive: bool = True, additions: bool = False) -> SearchStrategy[Drawn]:
    """Return grammars of up to three rules; those that are not recursive are also nested less.

    Args:
        notation: The notation of the sources.
        recursive: Whether rules may use themselves.
        additions: Whether there are macros and assertions, which only late versions of XGrammar read.
    """
    return _grammars(notation, recursive, additions)


@st.composite
def _grammars(draw: DrawFn, notation: Notation, recursive: bool, additions: bool) -> Drawn:
    names = NAMES[: draw(st.integers(1, 3))]
    bodies = []
    lines = []
    for index, name in enumerate(names):
        writer = _Writer(draw, notation, names if recursive else names[index + 1 :], additions)
        body, text = writer.alternatives(3 if recursive else 2, inside=False)
        if additions and writer.pick(True, False, False):
            text += writer.wide() + writer.pick('(= "a")', "(=[a-b] root*)", '(="a" (root)+)')
        bodies.append(Rule(name, body))
        between = draw(st.sampled_from([" ", "", "  # c\n" if notation == "ebnf" else "\t"]))
        lines.append(f"{name}{between}::={writer.wide()}{text}")
    ends = draw(st.sampled_from(["\n", "\r\n", "\n\n", " # c\n", "\n# a ::= b\n  "]))
    return Drawn(ends.join(lines) + draw(st.sampled_from(["", "\n", " # c"])), Grammar(tuple(bodies), "root"))


class _Writer:
    def __init__(self, draw: DrawFn, notation: Notation, names: Sequence[str], additions: bool) -> None:
        self.draw = draw
        self.additions = additions
        self.gbnf = notation == "gbnf"
        self.names = names

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def wide(self) -> str:
        """Return a blank where newlines are allowed."""
        return self.pick(" ", " ", "\n", "  # c |\n\t", "\r\n")

    def blank(self, inside: bool) -> str:
        return self.wide() if inside or not self.gbnf else self.pick(" ", " ", "\t", "  ")

    def alternatives(self, depth: int, inside: bool) -> tuple[Body, str]:
        parts = [self.sequence(depth, inside) for _ in range(self.pick(1, 1, 2, 3))]
        if not inside and not parts[-1][1]:  # a newline would not end the rule here
            parts[-1] = (parts[-1][0], '""')
        text = parts[0][1]
        for _, following in parts[1:]:
            text += f"{self.blank(inside)}|{self.wide()}{following}"
        return ("choice", tuple(body for body, _ in parts)), text

    def sequence(self, depth: int, inside: bool) -> tuple[Body, str]:
        items = [self.item(depth, inside) for _ in range(self.pick(0, 1, 1, 2, 2, 3))]
        if not items:
            return ("sequence", ()), self.pick("", '""', "()") if self.gbnf else self.pick('""', "()", "( )")
        text = items[0][1]
        for _, following in items[1:]:
            text += self.blank(inside) + following
        return ("sequence", tuple(body for body, _ in items)), text

    def item(self, depth: int, inside: bool) -> tuple[Body, str]:
        body, text = self.leaf() if depth == 0 or self.pick(True, True, False) else self.group(depth)
        if self.pick(True, True, False):
            return body, text
        written, low, high = self.pick(*_COUNTS)
        body, text = ("repeat", body, low, high), text + self.pick("", " ") + written
        if depth and self.pick(True, False, False, False):
            again, low, high = self.pick(*_COUNTS)
            return ("repeat", body, low, high), text + again if self.gbnf else f"({text}){again}"
        return body, text

    def group(self, depth: int) -> tuple[Body, str]:
        body, text = self.alternatives(depth - 1, inside=True)
        return body, f"({self.pick('', ' ', self.wide())}{text}{self.pick('', self.wide())})"

    def leaf(self) -> tuple[Body, str]:
        kind = self.pick("text", "text", "set", "name", "any", *(["macro"] if self.additions else []))
        if kind == "macro":
            call, expression = self.pick(*_MACROS)
            return ("text", expression), call
        if kind == "name" and self.names:
            name = self.pick(*self.names)
            return ("rule", name), name
        if kind == "any":
            return ("text", ("any",)), "." if self.gbnf else "[^]"
        if kind == "set":
            written, ranges = self.pick(*_SETS)
            if self.pick(True, True, False):
                return ("text", ("class", ranges)), f"[{written}]"
            other = ("intersect", (("any",), ("complement", ("class", ranges))))
            return ("text", other), f"[^{written}]"
        text = self.pick("a", "b", "ab", "ba", "bb", '"', "|")
        return ("text", ("literal", text)), '"' + "".join(map(self.character, text)) + '"'

    def character(self, character: str) -> str:
        code = ord(character)
        # EBNF's \x takes all the digits that follow.
        hexadecimal = [f"\\x{code:02x}"] if self.gbnf else []
        plain = '\\"' if character == '"' else character
        return str(self.pick(plain, plain, f"\\u{code:04X}", f"\\U{code:08x}", *hexadecimal))


_PIECES = [
    *'"[](){}|*+?.,^-\\:=#<>!/ \n\r\t\0é😀\ufeff\ud800',
    *(
        "::=",
        "root",
        "a ::= b\n",
        "{2}",
        "{2,1}",
        "{,3}",
        "{99999999999999999999}",
        "\\x",
        "\\ud800",
        "\\U00110000",
    ),
    *('"a"', "[a-z]", "[z-a]", "[]", "[^]", "<a>", "<[1]>", "!<a>", "(=", "()", "(" * 300, "*" * 300),
    *(
        "TagDispatch(",
        'TagDispatch(("a", root))',
        "excludes=(",
        "loop_after_dispatch=true",
        "Token(1)",
        "Regex",
        'Regex("a|b+", flags="i")',
        'Substring("ab", "a")',
        '(= "a")',
    ),
    "[temperature=1] ::=",
    "[lazy, max_chars=3] ::=",
]


@st.composite
def mutations(draw: DrawFn, sources: Sequence[str]) -> str:
    """Return one of the sources, damaged at a few positions."""
    text = draw(st.sampled_from(sources))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 6)))
        piece = draw(st.sampled_from(_PIECES) | st.just(text[start:end] * 2) | st.text(max_size=3))
        text = text[:start] + piece + text[end:]
    return text
