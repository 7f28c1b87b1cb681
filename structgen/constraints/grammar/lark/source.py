"""Split the text of a Lark grammar into tokens (*pieces*) with their offsets.

Why: extensions of Lark's language are rewritten before lark reads the text (`dialect`), and lark's messages contain
names without positions. Both need the tokens, so that they do not mistake the content of a string or a comment.
Invariant: the joined pieces are the text. Splitting is linear: a string or pattern that is not closed, which would take
lark exponential time, is an error here.
Cost: about a microsecond a piece.
Source: Lark's grammar reference; llguidance, docs/syntax.md, for blocks of JSON and special tokens.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, NamedTuple, NoReturn

from structgen.errors import GrammarSyntaxError, GrammarUnsupported, LimitExceeded
from structgen.ir.grammar import Position, position_at

__all__ = ["LENGTH", "Piece", "Source"]

LENGTH = 1_000_000
"""The most characters of a grammar."""

Kind = Literal[
    "space", "newline", "comment", "string", "regexp", "special", "block", "name", "number", "sign"
]

_PIECE = re.compile(
    r"""(?P<newline>\r?\n)
    |(?P<space>[ \t\f\r]+|\\[ ]*\n)
    |(?P<comment>//[^\n]*|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*"i?)
    |(?P<regexp>/(?!/)(?:[^/\\]|\\.)*/[imslux]*)
    |(?P<special><[^<>\s]+>)
    |(?P<name>[%@]?[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*)
    |(?P<number>[+-]?[0-9]+)
    |(?P<sign>->|\.\.|::|.)""",
    re.VERBOSE | re.DOTALL,
)
_BLOCKS = frozenset(["%json", "%regex", "%llguidance", "%grammar_options"])
_BLOCK_START = re.compile(r"\s*(?=\{)")
_DECODER = json.JSONDecoder()


class Piece(NamedTuple):
    """A token: its text and offset. For a block, `content` is the offset of its JSON."""

    kind: Kind
    text: str
    offset: int
    content: int = 0


class Source:
    """The text of a grammar. For a nested grammar, `outer` is the source around it and the offset there."""

    def __init__(self, text: str, outer: tuple[Source, int] | None = None) -> None:
        self.text = text
        self.outer = outer
        if len(text) > LENGTH:
            raise LimitExceeded(
                f"the grammar has {len(text)} characters, more than {LENGTH}",
                limit="grammar_length",
                hint="Split it into several constraints.",
            )

    @cached_property
    def pieces(self) -> list[Piece]:
        """All tokens of the text."""
        text = self.text
        result: list[Piece] = []
        position = 0
        while position < len(text):
            match = _PIECE.match(text, position)
            assert (
                match is not None and match.lastgroup is not None
            )  # the last alternative matches any character
            kind: Kind = match.lastgroup  # type: ignore[assignment]
            piece = Piece(kind, match[0], position)
            if match[0] in _BLOCKS:
                piece = self._block(piece)
            elif match[0] == "%lark":
                piece = self._nested(piece)
            elif match[0] == '"':
                self.fail(
                    "this text is not closed", position, hint='Add the missing ", or write \\" for a quote.'
                )
            elif match[0] == "/":
                hint = "Add the missing /, or write \\/ for a slash in the pattern."
                self.fail("this pattern is not closed", position, hint=hint)
            result.append(piece)
            position += len(piece.text)
        return result

    def _block(self, name: Piece) -> Piece:
        """Return the piece of a directive and the JSON object after it."""
        start = name.offset + len(name.text)
        brace = _BLOCK_START.match(self.text, start)
        if brace is None:
            hint = f'For example {name.text} {{"type": "object"}}.'
            self.fail(
                f"{name.text} needs an object in braces after it", name.offset, len(name.text), hint=hint
            )
        try:
            _, end = _DECODER.raw_decode(self.text, brace.end())
        except json.JSONDecodeError as error:
            self.fail(
                f"this is not JSON: {error.msg}",
                error.pos,
                hint=f"Write one JSON value after {name.text}.",
            )
        except ValueError:  # Python limits the digits of a whole number
            raise LimitExceeded(
                "a number in the JSON of the grammar has too many digits",
                limit="number_digits",
                hint="Write it with fewer digits, or with an exponent: 1e5000.",
            ) from None
        except RecursionError:
            raise LimitExceeded(
                "the JSON in the grammar is nested too deeply", limit="grammar_depth", hint="Flatten it."
            ) from None
        return Piece("block", self.text[name.offset : end], name.offset, brace.end())

    def _nested(self, name: Piece) -> Piece:
        """Return the piece of ``%lark`` and its grammar in braces; braces in texts and comments do not count."""
        start = name.offset + len(name.text)
        brace = _BLOCK_START.match(self.text, start)
        if brace is None:
            hint = 'For example %lark {\n  start: "a" | "b"\n}.'
            self.fail("%lark needs a grammar in braces after it", name.offset, len(name.text), hint=hint)
        depth, position = 0, brace.end()
        while position < len(self.text):
            match = _PIECE.match(self.text, position)
            assert match is not None
            depth += (match[0] == "{") - (match[0] == "}")
            position = match.end()
            if not depth:
                return Piece("block", self.text[name.offset : position], name.offset, brace.end())
        raise self.error(
            "this brace is not closed", brace.end(), hint="Add the } that ends the grammar of %lark."
        )

    # -- positions

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset in the outermost text."""
        if self.outer is not None:
            source, start = self.outer
            return source.position(start + offset)
        return position_at(self.text, offset)

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and column."""
        start = 0
        for _ in range(line - 1):
            start = self.text.find("\n", start) + 1
            if not start:
                return len(self.text)
        return min(start + max(column, 1) - 1, len(self.text))

    def index(self, defined: dict[str, int], used: dict[str, int], written: dict[str, int]) -> None:
        """Set the offsets of names and texts, from a reader that already knows them."""
        self._names = defined, used
        self._written = written

    @cached_property
    def _written(self) -> dict[str, int]:
        """The first offset of each piece by its text."""
        found: dict[str, int] = {}
        for piece in self.pieces:
            found.setdefault(piece.text, piece.offset)
        return found

    def written(self, text: str) -> int | None:
        """Return the first offset of a text in quotes or a pattern in slashes."""
        return self._written.get(text)

    @cached_property
    def _names(self) -> tuple[dict[str, int], dict[str, int]]:
        """The offset of the first definition of each name, and of its first other use."""
        defined: dict[str, int] = {}
        used: dict[str, int] = {}
        fresh, heading = True, False
        for piece in self.pieces:
            if piece.kind == "newline":
                fresh = True
            elif piece.kind == "name":
                if piece.text[0] == "%":
                    heading = piece.text in ("%override", "%extend")
                    fresh = fresh and heading
                elif fresh:
                    defined.setdefault(piece.text, piece.offset)
                    fresh = False
                else:
                    used.setdefault(piece.text, piece.offset)
            elif piece.kind not in ("space", "comment") and piece.text not in ("?", "!"):
                fresh = False
        return defined, used

    @property
    def names(self) -> frozenset[str]:
        """All names of rules and terminals that the text mentions."""
        defined, used = self._names
        return frozenset([*defined, *used])

    def definition(self, name: str) -> int | None:
        """Return the offset of a definition, or of the first use if the definition is in another file."""
        defined, used = self._names
        return defined.get(name, used.get(name))

    def use(self, name: str) -> int | None:
        """Return the offset of the first use of a rule or terminal."""
        defined, used = self._names
        return used.get(name, defined.get(name))

    def definitions(self, name: str) -> list[int]:
        """Return all offsets where a line starts with this name."""
        pattern = re.compile(
            rf"^[ \t]*(?:%(?:override|extend)[ \t]+)?[?!]*({re.escape(name)})\b", re.MULTILINE
        )
        starts = {piece.offset for piece in self.pieces if piece.kind == "name"}
        return [match.start(1) for match in pattern.finditer(self.text) if match.start(1) in starts]

    def near(self, name: str) -> str | None:
        """Return a similar name that may have been meant, or None."""
        defined, used = self._names
        known = [
            other for other in {**defined, **used} if other != name and other.isupper() == name.isupper()
        ]
        known = [other for other in known if other in defined or used[other] != self.use(name)]
        matches = get_close_matches(name, known, n=1, cutoff=0.6)
        return matches[0] if matches else None

    # -- errors

    def error(
        self, message: str, offset: int | None, length: int = 1, hint: str | None = None
    ) -> GrammarSyntaxError:
        """Return the error of a mistake; without an offset, of the grammar as a whole."""
        return GrammarSyntaxError(message, **self._where(offset, length), hint=hint)

    def unsupported(
        self, message: str, offset: int | None, length: int = 1, hint: str | None = None
    ) -> GrammarUnsupported:
        """Return the error of something that is not supported."""
        return GrammarUnsupported(message, **self._where(offset, length), hint=hint)

    def _where(self, offset: int | None, length: int) -> dict[str, Any]:
        line, column = (0, 0) if offset is None else self.position(offset)
        source = self
        while source.outer is not None:
            source = source.outer[0]
        return {"source": source.text, "line": line, "column": column, "length": length}

    def fail(self, message: str, offset: int | None, length: int = 1, hint: str | None = None) -> NoReturn:
        """Raise the error of a mistake."""
        raise self.error(message, offset, length, hint)
