"""White space between the tokens of a JSON text: a small frozen value, `Whitespace`.

Why: a model should write JSON as it has read it, and a program that compares or signs texts wants the very bytes
of one writer. So there are two kinds: *written*, the text that `json.dumps` makes of the value with the same
`indent` and `separators`, and *flexible*, what any pretty-printer writes, within bounds; and what patterns match.
Invariant: equal values lower to equal IR; a name such as ``"compact"`` is short for one value.
Cost: none at run time; the automaton keeps one counter per gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from structgen.argument_names import checks_names_of_init
from structgen.errors import OptionError

from .whitespace_patterns import compile_patterns

__all__ = ["WHITESPACE_NAMES", "Whitespace", "WhitespaceName"]

WhitespaceName = Literal["flexible", "compact", "json.dumps", "indented"]

_SEPARATOR = re.compile("( {0,8})[,:]( {0,8})")
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|\[\]|\{\}|[\[\]{},:]|[^\[\]{},:"]+')
"""Of a compact JSON text; an empty container is one."""
_MOST_INDENT = 16
_MOST_BLANKS = 10_000


@checks_names_of_init
@dataclass(frozen=True)
class Whitespace:
    """Made by `Whitespace.written`, `.indented`, `.compact` and `.flexible`."""

    indent: str | None = None
    """What a line is indented by for each container around it; None: everything on one line."""
    separators: tuple[str, str] | None = (", ", ": ")
    """Between items, and between a key and its value; None: as much as the bounds below allow."""
    blanks: int = 4
    """Flexible: most blanks in a row on a line."""
    indentation: int = 64
    """Flexible: most blanks after a line end."""
    patterns: tuple[str | None, str, str] | None = None
    """Of the white space in a gap, and of the separators of items and of keys; None: it is one of the kinds above."""

    def __post_init__(self) -> None:
        if self.patterns is not None:
            compile_patterns(*self.patterns)
        object.__setattr__(self, "indent", _indent(self.indent))
        if self.separators is not None:
            object.__setattr__(self, "separators", _separators(self.separators))
        for name in ("blanks", "indentation"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_BLANKS:
                raise OptionError(f"{name}={value!r} is not a number of blanks from 0 to {_MOST_BLANKS:,}")

    @staticmethod
    def written(
        indent: int | str | None = None, separators: tuple[str, str] | list[str] | None = None
    ) -> Whitespace:
        """As ``json.dumps(value, indent=indent, separators=separators)`` writes, with its defaults."""
        if separators is None:
            separators = (", ", ": ") if indent is None else (",", ": ")
        return Whitespace(_indent(indent), _separators(separators))

    @staticmethod
    def indented(indent: int | str = 2) -> Whitespace:
        """One item a line, `indent` spaces (or this string) deeper for each open container."""
        return Whitespace.written(indent)

    @staticmethod
    def compact() -> Whitespace:
        """None at all."""
        return Whitespace.written(separators=(",", ":"))

    @staticmethod
    def flexible(blanks: int = 4, indentation: int = 64) -> Whitespace:
        """In each gap at most `blanks` blanks, and perhaps a line end with at most `indentation` blanks after it."""
        return Whitespace(None, None, blanks, indentation)

    @staticmethod
    def matching(
        gap: str | None = r"\s+", *, item_separator: str = ",", key_separator: str = ":"
    ) -> Whitespace:
        """White space as patterns say, in the notation of `structgen.regex`.

        Args:
            gap: Matches the white space in a gap between two tokens, which may also be empty; None: no gap holds any.
                A pattern without a bound lets a model write white space for ever.
            item_separator: Matches a comma with white space; it stands between items, with gaps around it.
            key_separator: The same with a colon.

        Raises:
            OptionError: A pattern cannot be read, or matches other text.
            LimitExceeded: The patterns have more than 2,000 states.
        """
        for name, pattern in (("item_separator", item_separator), ("key_separator", key_separator)):
            if not isinstance(pattern, str):
                raise OptionError(f"{name} is {pattern!r:.40}; it is a pattern")
        if gap is not None and not isinstance(gap, str):
            raise OptionError(f"gap is {gap!r:.40}; it is a pattern or None")
        return Whitespace(None, None, 0, 0, (gap or None, item_separator, key_separator))

    @staticmethod
    def of(value: Any) -> Whitespace:
        """`value`, which is one already or the name of one."""
        if isinstance(value, Whitespace):
            return value
        if isinstance(value, str) and value in WHITESPACE_NAMES:
            return WHITESPACE_NAMES[value]
        raise OptionError(
            f"JSON Schema option 'whitespace' is {value!r}; choose one of "
            f"{', '.join(map(repr, WHITESPACE_NAMES))} or make a structgen.Whitespace"
        )

    @property
    def is_flexible(self) -> bool:
        return self.separators is None and self.patterns is None

    def lower(self) -> tuple[object, ...]:
        """What the native automaton reads."""
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
        """The least white space of this kind in a compact JSON text; numbers and strings stay as they are spelled."""
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
        """As a caller would write it: a name, or the call that makes it."""
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
        indent = " " * indent if 0 <= indent <= _MOST_INDENT else None
    if not isinstance(indent, str) or set(indent) - set(" \t") or len(indent) > _MOST_INDENT:
        raise OptionError(
            f"an indentation is a number of spaces up to {_MOST_INDENT}, or a string of so many spaces and tabs"
        )
    return indent


def _separators(separators: Any) -> tuple[str, str]:
    if (
        isinstance(separators, (tuple, list))
        and [separator.strip(" ") if isinstance(separator, str) else None for separator in separators]
        == [",", ":"]
        and all(map(_SEPARATOR.fullmatch, separators))
    ):
        return (separators[0], separators[1])
    raise OptionError(
        f"separators={separators!r} are not a comma and a colon, each with at most 8 spaces on either side",
        hint='Write them as for json.dumps: (", ", ": ") or (",", ":").',
    )


WHITESPACE_NAMES: dict[str, Whitespace] = {
    "flexible": Whitespace.flexible(),
    "compact": Whitespace.compact(),
    "json.dumps": Whitespace.written(),
    "indented": Whitespace.indented(),
}
"""The value that each name is short for."""
