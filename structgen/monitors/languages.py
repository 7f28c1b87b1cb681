"""What a lexer has to know of a language: its strings, its comments, its words.

Why: a monitor is queried at positions such as "after a dot after an expression", and a dot in a string, in a comment or
in a number is no such position. That much of a language is a table.
Not supported: nested block comments, here-documents, JSX texts, and macros. Where a lexer is wrong, a monitor is
queried too often or too rarely, and its unknown answers leave the text unconstrained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from structgen.errors import OptionError

__all__ = ["LANGUAGES", "Language", "Quotes", "language_of"]


class Quotes(NamedTuple):
    """One kind of string."""

    close: bytes
    escapes: bool = True
    """Whether a backslash escapes the next byte."""
    lines: bool = False
    """Whether it may span several lines."""
    interpolates: bytes = b""
    """What begins code inside: ``{`` (where ``{{`` is a brace) or ``${``."""


@dataclass(frozen=True)
class Language:
    """The lexical table of a language; words are lower case where `folds`."""

    name: str
    quotes: dict[bytes, Quotes] = field(default_factory=dict)
    """Strings by the byte that opens them; the lexer handles `tripled` and prefixes."""
    tripled: bool = False
    """Whether three quotes open a string, too."""
    line_comments: tuple[bytes, ...] = ()
    block_comments: bool = False
    """``/* ... */``."""
    regexes: bool = False
    """``/.../`` where an operand is expected."""
    folds: bool = False
    """Whether words are the same in upper and lower case."""
    extra: bytes = b""
    """Bytes of identifiers other than letters, digits, ``_`` and what is not ASCII."""
    optional_members: bool = False
    """``?.`` and ``!.``."""
    line_statements: bool = False
    """Whether a statement ends with its line where no bracket is open."""
    keywords: frozenset[bytes] = frozenset()
    """Words that are no operands: a bracket after one opens no call."""
    declares: frozenset[bytes] = frozenset()
    """Words that are followed by a new name; a bracket after that name opens no call."""
    imports: bool = False
    """``import a`` and ``from a import b``."""

    def __hash__(self) -> int:
        return hash(self.name)


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


_PYTHON = Language(
    "python",
    {b'"': Quotes(b'"'), b"'": Quotes(b"'")},
    tripled=True,
    line_comments=(b"#",),
    line_statements=True,
    keywords=_words(
        "and as assert async await break class continue def del elif else except finally for from global if "
        "import in is lambda nonlocal not or pass raise return try while with yield"
    ),
    declares=_words("def class"),
    imports=True,
)
_C_LIKE = {b'"': Quotes(b'"'), b"'": Quotes(b"'"), b"`": Quotes(b"`", lines=True, interpolates=b"${")}
_TYPESCRIPT_WORDS = (
    "as async await break case catch class const continue debugger default delete do else enum export extends finally "
    "for function if implements import in instanceof interface keyof let namespace new of private protected public "
    "readonly return satisfies static switch throw try type typeof var void while with yield"
)
_TYPESCRIPT = Language(
    "typescript",
    _C_LIKE,
    line_comments=(b"//",),
    block_comments=True,
    regexes=True,
    extra=b"$#",
    optional_members=True,
    keywords=_words(_TYPESCRIPT_WORDS),
    declares=_words("function class interface enum"),
)
_SQL = Language(
    "sql",
    {b"'": Quotes(b"'", escapes=False, lines=True), b'"': Quotes(b'"', escapes=False, lines=True)},
    line_comments=(b"--",),
    block_comments=True,
    folds=True,
    extra=b"$",
    keywords=_words(
        "add all alter and as asc between by case create cross delete desc distinct drop else end except exists from "
        "full group having in inner insert intersect into is join key left like limit not null offset on or order "
        "outer primary references right select set table then union unique update using values view when where with"
    ),
    declares=_words("into table"),
)

LANGUAGES: dict[str, Language] = {
    "python": _PYTHON,
    "typescript": _TYPESCRIPT,
    "javascript": Language(**{**vars(_TYPESCRIPT), "name": "javascript"}),
    "sql": _SQL,
    "text": Language("text"),
}


def language_of(name: str | Language) -> Language:
    """Return the lexical table of a language by its name. Raise `OptionError` for an unknown one."""
    if isinstance(name, Language):
        return name
    language = LANGUAGES.get(name) if isinstance(name, str) else None
    if language is None:
        raise OptionError(
            f"language is {name!r:.60}; there is no lexer for it",
            hint=f"There are {', '.join(LANGUAGES)}; others can be described as a structgen.monitors.Language.",
        )
    return language
