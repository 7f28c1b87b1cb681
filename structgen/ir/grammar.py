"""Grammars as data: rules and terminals as front ends read them, and productions as the core takes them.

Why: Lark, GBNF, EBNF and compositions of constraints differ in notation only. Front ends build a `Grammar`;
`structgen.constraints.grammar.lowering` turns it into a `GrammarIR`, once for all of them.
Invariant: frozen, hashable data. Each rule that a body names is in `Grammar.rules`, each terminal in `Lexer.terminals`.
Cost: one small tuple for each item of a rule.
Read by: `structgen/_core/bind/lowering.cpp` (bodies) and `structgen/_core/bind/grammar_ir.cpp` (`GrammarIR`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

from .regex import RE

if TYPE_CHECKING:
    from structgen.constraints.base import Constraint

__all__ = [
    "Body",
    "ChoiceBody",
    "ConstraintBody",
    "Ending",
    "Grammar",
    "GrammarFields",
    "GrammarIR",
    "Indentation",
    "IndentationIR",
    "Keyword",
    "KeywordIR",
    "Lexer",
    "NamedBody",
    "Position",
    "Production",
    "RepeatBody",
    "Rule",
    "RuleBody",
    "SequenceBody",
    "SpecialBody",
    "Terminal",
    "TerminalBody",
    "TerminalIR",
    "TextBody",
    "TokenMember",
    "TokenSet",
    "TokensBody",
    "position_at",
    "subbodies",
]

Body: TypeAlias = tuple[Any, ...]
"""Any body below. Consumers branch on its first item, which type checkers cannot follow through a variable."""

TokenMember: TypeAlias = tuple[int, int] | str
"""A range of token numbers, both ends included, or the text of a token."""
TokenSet: TypeAlias = tuple[tuple[TokenMember, ...] | None, tuple[TokenMember, ...], str, bool]
"""A set of tokens: its members (None: all), those left out, where the user wrote it, and whether a text that is no
token of the tokenizer may be spelled by others."""

RuleBody: TypeAlias = tuple[Literal["rule"], str]
"""A reference to a rule."""
TerminalBody: TypeAlias = tuple[Literal["terminal"], str]
"""A reference to a terminal of the lexer."""
TextBody: TypeAlias = tuple[Literal["text"], RE]
"""A text of a regular expression, in scannerless grammars."""
SpecialBody: TypeAlias = tuple[Literal["special"], str]
"""A special token, by its text. A tokenizer without it spells the text."""
TokensBody: TypeAlias = tuple[Literal["tokens"], TokenSet]
"""One token of a set."""
ConstraintBody: TypeAlias = tuple[Literal["constraint"], "Constraint"]
"""A text of another constraint."""
SequenceBody: TypeAlias = tuple[Literal["sequence"], tuple[Body, ...]]
"""The items one after the other. ``("sequence", ())`` is the empty text."""
ChoiceBody: TypeAlias = tuple[Literal["choice"], tuple[Body, ...]]
"""Any of the alternatives. ``("choice", ())`` is no text at all."""
RepeatBody: TypeAlias = tuple[Literal["repeat"], Body, int, int | None]
"""The body, the least and the most repetitions; None: no upper bound."""
NamedBody: TypeAlias = tuple[Literal["named"], str, Body]
"""A body that becomes a rule of this name. Only compositions contain it."""


def subbodies(body: Body) -> Iterator[Body]:
    """Yield a body and all bodies inside it."""
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


class Position(NamedTuple):
    """A line and a column of a source text, both counted from 1."""

    line: int
    column: int


def position_at(text: str, offset: int) -> Position:
    """Return the line and the column of an offset."""
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


@dataclass(frozen=True, slots=True)
class Ending:
    """How the text of a rule with a stop or a suffix is divided: the text before the ending, and the ending itself.

    The body of such a rule is one terminal, whose texts end where they first match. The ending is as long as possible.
    """

    before: RE
    """Texts before the ending."""
    text: RE
    """Texts of the ending. A text of the rule may also be one of `before` alone, where a bound cut it off."""
    capture: str | None = None
    """The name under which the ending is captured."""
    hidden: bool = False
    """Whether captures of the rules around this one leave the ending out, too. The rule's own capture always does."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A nonterminal."""

    name: str
    body: Body
    offset: int | None = field(default=None, compare=False)
    """Where it is defined in `Grammar.source`."""
    capture: str | None = None
    """The name under which texts of the rule are captured (see `structgen.captures`)."""
    temperature: float | None = None
    """The sampling temperature inside the rule. Rules inside it may have their own."""
    ending: Ending | None = None
    token_limit: tuple[int, bool] | None = None
    """The most tokens of a text of the rule, and whether the text is cut there (see `grammar.token_limits`)."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal of a grammar with a lexer.

    `language` is the set of its texts where no other terminal competes. `scanner` is the index in `Lexer.scanners` of
    the pattern that finds it (rule ``"ordered"``). A keyword that a name's pattern finds first has the name's scanner,
    and its language is a subset of the scanner's.
    """

    name: str
    language: RE
    scanner: int = 0
    offset: int | None = field(default=None, compare=False)
    """Where it is defined, or first written, in `Grammar.source`."""
    lazy: bool = False
    """Whether the lexeme ends where it first matches, even if another terminal could match more."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A text that patterns also match, with rule ``"ordered"`` and a contextual lexer.

    Where the parser allows one of these patterns, the pattern finds the keyword. Each of `finders` is the terminal that
    is found then, the terminal of the pattern, and whether the keyword's own scanner is skipped there. `own` is the
    terminal that the keyword's own scanner finds.
    """

    own: str
    finders: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True)
class Indentation:
    """Indentation as lark's `Indenter` reads it.

    After a `newline` lexeme, the column decides how many `indent` or `dedent` terminals follow, which have no text of
    their own.
    """

    newline: str
    indent: str
    dedent: str
    open_brackets: tuple[str, ...]
    """Terminals after which newlines are ignored until one of `close_brackets`."""
    close_brackets: tuple[str, ...]
    tab_width: int = 8


@dataclass(frozen=True, slots=True)
class Lexer:
    """How a text is cut into lexemes, from left to right.

    ``"longest"``: the longest lexeme that any terminal matches. If several terminals match it, the first of `terminals`
    wins. ``"ordered"``: the first of `scanners` that matches at all decides the length, by its own longest match. The
    lexeme's terminal is the first one with this scanner whose language contains the lexeme.

    Lazy terminals come before both rules: where the first of them matches, the lexeme ends, and stands for each of the
    lazy terminals that match it.
    """

    rule: Literal["longest", "ordered"]
    terminals: tuple[Terminal, ...]
    """In order of preference."""
    scanners: tuple[RE, ...] = ()
    """The patterns of rule ``"ordered"``, in the order in which they are tried."""
    ignore: tuple[str, ...] = ()
    """Terminals that may occur between any two others."""
    contextual: bool = False
    """Whether only those terminals compete that the parser allows at the position, and those to ignore."""
    keywords: tuple[Keyword, ...] = ()
    indentation: Indentation | None = None


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules and a start symbol. Without a lexer the grammar is scannerless: its terminals are ``("text", RE)``."""

    rules: tuple[Rule, ...]
    start: str
    lexer: Lexer | None = None
    source: str = field(default="", compare=False)
    """The user's text, for messages."""

    def position(self, symbol: Rule | Terminal) -> Position | None:
        """Return where a rule or terminal is defined in the source."""
        return None if symbol.offset is None else position_at(self.source, symbol.offset)


TerminalIR: TypeAlias = tuple[Literal["text", "constraint", "special", "tokens", "declared"], str, Any, int]
"""A terminal for the core: its type, its name in messages, its content, and the index of its scanner.

The content is a regular expression (``text``), a plan (``constraint``), the text of a special token (``special``), a
`TokenSet` (``tokens``) or None (``declared``: only the indentation produces it)."""
KeywordIR: TypeAlias = tuple[int, tuple[tuple[int, int, bool], ...]]
"""A `Keyword` with indices of terminals in place of names."""
IndentationIR: TypeAlias = tuple[int, int, int, tuple[int, ...], tuple[int, ...], int]
"""An `Indentation` with indices of terminals: newline, indent, dedent, opening and closing brackets, tab width."""
Production: TypeAlias = tuple[int, ...]
"""The index of a rule, then the symbols that it derives: a rule's index, or ``~index`` of a terminal."""


class GrammarFields(TypedDict, total=False):
    """The fields of a `GrammarIR`; ``temperatures`` may be absent."""

    lexing: Literal["scannerless", "longest", "ordered"]
    contextual: bool
    start: int
    rules: tuple[str, ...]
    """The names of the rules. Rules that the lowering adds have names, too."""
    terminals: tuple[TerminalIR, ...]
    scanners: tuple[RE, ...]
    ignore: tuple[int, ...]
    lazy: tuple[int, ...]
    keywords: tuple[KeywordIR, ...]
    indentation: IndentationIR | None
    productions: tuple[Production, ...]
    within: RE | None
    """A regular language that the whole text must belong to as well."""
    temperatures: tuple[tuple[int, float], ...]
    """Rules, and the sampling temperature inside each."""


class GrammarIR(dict[str, Any]):
    """A grammar for the core: the fields of `GrammarFields` as one value that never changes and can be hashed."""

    __slots__ = ("_hash",)

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash  # type: ignore[no-any-return,has-type]
        except AttributeError:
            productions = self["productions"]
            self._hash = hash((self["rules"], len(productions), productions[:8], self["terminals"][:8]))
            return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return GrammarIR, (dict(self),)
