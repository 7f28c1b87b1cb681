"""White space between the tokens of a JSON text: the frozen value `Whitespace`.

Why: a model should write JSON as it has seen it, and a program that compares or signs texts needs the exact bytes
of one writer. So there are three forms. *Written* white space is that of `json.dumps` with the same `indent` and
`separators`. *Flexible* white space is that of any pretty-printer, within bounds. The third form is given by
patterns.

Invariant: equal values lower to equal IR; a name such as ``"compact"`` is short for one value.

Cost: none when masks are computed; the automaton keeps one counter per gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from structgen.argument_names import checks_names_of_init
from structgen.errors import OptionError

from .whitespace_patterns import compile_patterns

__all__ = ["WHITESPACE_NAMES", "Whitespace", "WhitespaceName"]

WhitespaceName = Literal["flexible", "compact", "json.dumps", "indented"]

_SEPARATOR = re.compile("( {0,8})[,:]( {0,8})")
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|\[\]|\{\}|[\[\]{},:]|[^\[\]{},:"]+')
"""Tokens of a compact JSON text; an empty container is one token."""
_MAX_INDENT = 16
_MAX_BLANKS = 10_000


@checks_names_of_init
@dataclass(frozen=True)
class Whitespace:
    """White space of JSON texts; made by `written`, `indented`, `compact`, `flexible` and `matching`."""

    indent: str | None = None
    """The indentation of a line for each container around it; None: everything on one line."""
    separators: tuple[str, str] | None = (", ", ": ")
    """The separators of items, and of a key and its value; None: flexible, within the bounds below."""
    blanks: int = 4
    """Flexible: the largest number of consecutive blanks on a line."""
    indentation: int = 64
    """Flexible: the largest number of blanks after a line end."""
    patterns: tuple[str | None, str, str] | None = None
    """Patterns of the white space in a gap, and of the separators of items and of keys; None: one of the other forms.
    """

    def __post_init__(self) -> None:
        if self.patterns is not None:
            compile_patterns(*self.patterns)
        object.__setattr__(self, "indent", _indent(self.indent))
        if self.separators is not None:
            object.__setattr__(self, "separators", _separators(self.separators))
        for name in ("blanks", "indentation"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_BLANKS:
                raise OptionError(f"{name}={value!r} must be a number of blanks from 0 to {_MAX_BLANKS:,}")

    @staticmethod
    def written(
        indent: int | str | None = None, separators: tuple[str, str] | list[str] | None = None
    ) -> Whitespace:
        """Return the white space of ``json.dumps(value, indent=indent, separators=separators)``, with its defaults."""
        if separators is None:
            separators = (", ", ": ") if indent is None else (",", ": ")
        return Whitespace(_indent(indent), _separators(separators))

    @staticmethod
    def indented(indent: int | str = 2) -> Whitespace:
        """Return white space with one item a line, `indent` spaces (or this string) deeper for each open container."""
        return Whitespace.written(indent)

    @staticmethod
    def compact() -> Whitespace:
        """Return no white space at all."""
        return Whitespace.written(separators=(",", ":"))

    @staticmethod
    def flexible(blanks: int = 4, indentation: int = 64) -> Whitespace:
        """Return white space within bounds.

        Args:
            blanks: The largest number of blanks in each gap.
            indentation: The largest number of blanks after a line end; a gap may have one line end.
        """
        return Whitespace(None, None, blanks, indentation)

    @staticmethod
    def matching(
        gap: str | None = r"\s+", *, item_separator: str = ",", key_separator: str = ":"
    ) -> Whitespace:
        """Return white space that patterns describe, in the syntax of `structgen.regex`.

        Args:
            gap: Matches the white space in a gap between two tokens, which may also be empty. None: no gap has any.
                With an unbounded pattern, a model may write white space forever.
            item_separator: Matches a comma with white space. It stands between items, with gaps around it.
            key_separator: The same with a colon.

        Raises:
            OptionError: A pattern cannot be parsed, or matches other text.
            LimitExceeded: The patterns have more than 2,000 states.
        """
        for name, pattern in (("item_separator", item_separator), ("key_separator", key_separator)):
            if not isinstance(pattern, str):
                raise OptionError(f"{name} is {pattern!r:.40}; it must be a pattern")
        if gap is not None and not isinstance(gap, str):
            raise OptionError(f"gap is {gap!r:.40}; it must be a pattern or None")
        return Whitespace(None, None, 0, 0, (gap or None, item_separator, key_separator))

    @staticmethod
    def of(value: object) -> Whitespace:
        """Return `value` if it is white space, or the white space of a name."""
        if isinstance(value, Whitespace):
            return value
        if isinstance(value, str) and value in WHITESPACE_NAMES:
            return WHITESPACE_NAMES[value]
        raise OptionError(
            f"JSON Schema option 'whitespace' is {value!r}; choose one of "
            f"{', '.join(map(repr, WHITESPACE_NAMES))} or pass a structgen.Whitespace"
        )

    @property
    def is_flexible(self) -> bool:
        """Whether optional white space may stand anywhere that JSON allows it, within the limits."""
        return self.separators is None and self.patterns is None

    def lower(self) -> tuple[object, ...]:
        """Return what the core reads."""
        if self.patterns is not None:
            return compile_patterns(*self.patterns).ir
        if self.separators is None:
            return ("flexible", self.blanks, self.indentation)
        around = [
            len(side)
            for separator in self.separators
            for side in _SEPARATOR.fullmatch(separator).groups()  # type: ignore[union-attr]
        ]
        return ("written", self.indent, *around)

    def lay_out(self, compact: str) -> str:
        """Add the least white space of this form to a compact JSON text; the spelling of numbers and strings stays."""
        if self.is_flexible:
            return compact
        pieces: list[str] = []
        depth = 0
        comma, colon = self.separators or compile_patterns(*self.patterns or (None, ",", ":")).separators

        def line() -> str:
            return "" if self.indent is None else "\n" + self.indent * depth

        for token in _TOKENS.findall(compact):
            if token in ("[]", "{}"):
                pieces.append(token)
            elif token in "[{":
                depth += 1
                pieces += token, line()
            elif token in "]}":
                depth -= 1
                pieces += line(), token
            elif token == ",":
                pieces += comma, line()
            else:
                pieces.append(colon if token == ":" else token)
        return "".join(pieces)

    def __str__(self) -> str:
        """Format it as a caller would write it: a name, or the call that makes it."""
        for name, value in WHITESPACE_NAMES.items():
            if self == value:
                return repr(name)
        if self.patterns is not None:
            gap, item, key = self.patterns
            return f"Whitespace.matching({gap!r}, item_separator={item!r}, key_separator={key!r})"
        if self.separators is None:
            return f"Whitespace.flexible({self.blanks}, {self.indentation})"
        indent = self.indent
        shown = len(indent) if indent is not None and set(indent) <= {" "} else indent
        return f"Whitespace.written({shown!r}, {self.separators!r})"


def _indent(indent: int | str | None) -> str | None:
    if indent is None:
        return None
    if isinstance(indent, int) and not isinstance(indent, bool):
        indent = " " * indent if 0 <= indent <= _MAX_INDENT else None
    if not isinstance(indent, str) or set(indent) - set(" \t") or len(indent) > _MAX_INDENT:
        raise OptionError(
            f"an indentation must be a number of spaces up to {_MAX_INDENT}, or a string of as many spaces and tabs"
        )
    return indent


def _separators(separators: object) -> tuple[str, str]:
    if (
        isinstance(separators, (tuple, list))
        and [separator.strip(" ") if isinstance(separator, str) else None for separator in separators]
        == [",", ":"]
        and all(map(_SEPARATOR.fullmatch, separators))
    ):
        return (separators[0], separators[1])
    raise OptionError(
        f"separators={separators!r} must be a comma and a colon, each with at most 8 spaces on either side",
        hint='Pass them as to json.dumps: (", ", ": ") or (",", ":").',
    )


WHITESPACE_NAMES: dict[str, Whitespace] = {
    "flexible": Whitespace.flexible(),
    "compact": Whitespace.compact(),
    "json.dumps": Whitespace.written(),
    "indented": Whitespace.indented(),
}
"""The value of each name."""
