"""A grammar as its front ends hand it over, whatever it was written in.

Why: Lark, GBNF, EBNF and the compositions of constraints differ in how they are written and not in what they say;
what happens to a grammar afterwards (`lowering`) happens once.
Invariant: frozen, hashable data. Every rule that a body names is in `rules`, every terminal in `lexer.terminals`.
Cost: one small tuple for each thing that was written.

    Body = ("rule", name) | ("terminal", name)           the second in lexed grammars only
         | ("text", RE)                                  a regular expression (scannerless grammars)
         | ("special", text)                             a special token of the tokenizer, by its text
         | ("special", (number, where))                  or by its number, and where that is written
         | ("constraint", Constraint)                    a text of another constraint
         | ("sequence", (Body, ...)) | ("choice", (Body, ...))
         | ("repeat", Body, lo, hi or None)              None: unbounded
         | ("named", name, Body)                         in compositions, which make rules of them

The empty sequence is the empty text; a choice of nothing is no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from structgen.constraints.expressions import RE
from structgen.errors import LimitExceeded

__all__ = [
    "Body",
    "Ending",
    "Grammar",
    "Indentation",
    "Keyword",
    "Lexer",
    "Place",
    "Rule",
    "Terminal",
    "parts_of",
    "place_at",
    "too_deep",
]

Body = tuple[Any, ...]


def parts_of(body: Body) -> Iterator[Body]:
    """A body and all that it is made of."""
    pending = [body]
    while pending:
        one = pending.pop()
        yield one
        if one[0] in ("sequence", "choice"):
            pending.extend(one[1])
        elif one[0] == "repeat":
            pending.append(one[1])
        elif one[0] == "named":
            pending.append(one[2])


class Place(NamedTuple):
    """Where something is written: a line and a column, both from 1."""

    line: int
    column: int


def place_at(text: str, offset: int) -> Place:
    """The line and the column of an offset."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def too_deep() -> LimitExceeded:
    """The error for bodies in bodies in bodies, wherever they are met."""
    return LimitExceeded(
        "the grammar is nested too deeply",
        limit="grammar_depth",
        hint="Name parts of it as rules of their own.",
    )


@dataclass(frozen=True, slots=True)
class Ending:
    """How the text of a rule with a stop or a suffix is divided: the text before it, and the ending itself.

    The body of such a rule is one leaf, whose texts end where they first match. The ending is as long as it can be.
    """

    before: RE
    """Texts before the ending."""
    text: RE
    """Texts of the ending. A text of the rule may also be one of `before` alone, where a bound cut it off."""
    capture: str | None = None
    """The name under which the ending is captured."""
    hidden: bool = False
    """Is the ending left out of the captures of all rules around this one, too? Its own never has it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A nonterminal."""

    name: str
    body: Body
    offset: int | None = field(default=None, compare=False)
    """Where it is defined in `Grammar.source`."""
    capture: str | None = None
    """The name under which texts of the rule are captured (see `captures`)."""
    temperature: float | None = None
    """The temperature at which its texts are sampled; rules inside it may have their own."""
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Terminal:
    """A kind of lexeme.

    `language` are the texts that have this kind where nothing competes. `scanner` is the index, in
    `Lexer.scanners`, of the pattern that finds it (rule ``"ordered"``): a keyword that a name's pattern finds first
    has the name's scanner. `language` is then within that of the scanner.
    """

    name: str
    language: RE
    scanner: int = 0
    offset: int | None = field(default=None, compare=False)
    """Where it is defined, or first written, in `Grammar.source`."""
    lazy: bool = False
    """Does the lexeme end where it first matches, whatever other terminal could go on?"""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A text that patterns also match, with rule ``"ordered"`` and a contextual lexer.

    Where one of the patterns may come it finds the keyword: each of `finders` is the terminal that it finds, the
    terminal of the pattern, and whether the keyword's own scanner is then not tried. `own` is what that one finds.
    """

    own: str
    finders: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True)
class Indentation:
    """Lark's `Indenter`: after a `newline` lexeme the column decides which of the other two follow."""

    newline: str
    indent: str
    dedent: str
    open_brackets: tuple[str, ...]
    """Terminals after which newlines mean nothing, until one of `close_brackets`."""
    close_brackets: tuple[str, ...]
    tab_width: int = 8


@dataclass(frozen=True, slots=True)
class Lexer:
    """How a text is cut into lexemes, left to right.

    ``"longest"``: the longest lexeme that any terminal matches; of terminals that match the same one, the first of
    `terminals`. ``"ordered"``: the first of `scanners` that matches here at all decides how long the lexeme is (its
    own longest match), and terminals with this scanner whose language holds it, the first of them, what it is.

    Lazy terminals come before both rules: where the first of them matches, the lexeme ends, and is each of the lazy
    terminals that match there.
    """

    rule: Literal["longest", "ordered"]
    terminals: tuple[Terminal, ...]
    """Best first."""
    scanners: tuple[RE, ...] = ()
    """Of rule ``"ordered"``, first match first."""
    ignore: tuple[str, ...] = ()
    """Terminals that may stand between any two others."""
    contextual: bool = False
    """Only terminals that the grammar allows at the place compete (and those to ignore)."""
    keywords: tuple[Keyword, ...] = ()
    indentation: Indentation | None = None


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules and a start; without a lexer the grammar is scannerless: its terminals are ``("text", RE)``."""

    rules: tuple[Rule, ...]
    start: str
    lexer: Lexer | None = None
    source: str = field(default="", compare=False)
    """What the user wrote, for messages."""

    def place(self, one: Rule | Terminal) -> Place | None:
        """Where it is defined."""
        return None if one.offset is None else place_at(self.source, one.offset)
