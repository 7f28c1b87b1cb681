"""Read the arguments of macros in XGrammar's EBNF: strings, numbers, names and signs in parentheses."""

from __future__ import annotations

import re

from structgen.errors import GrammarSyntaxError

from ..bnf_reader import WIDE_BLANK, Reader

__all__ = ["NAME", "NUMBER", "STRING", "ArgumentReader"]

STRING, NUMBER, NAME, _SIGN, _END = range(1, 6)
_TOKEN = re.compile(
    rf'{WIDE_BLANK}(?:("(?:[^"\\\r\n]|\\[^\r\n])*+")|([0-9]++)|([A-Za-z_.-][A-Za-z0-9_.-]*+)|([(),=])|(\Z)|(.))',
    re.DOTALL,
)


class ArgumentReader:
    """Reads the arguments of one macro token by token; `end` is the offset of the next token."""

    def __init__(self, reader: Reader, macro: str, form: str, end: int) -> None:
        self.reader = reader
        self.macro = macro
        self.form = form
        self.end = end

    def next(self) -> tuple[int, str, int]:
        """Return the type, the text and the position of the next token."""
        match = _TOKEN.match(self.reader.source, self.end)
        assert match is not None  # the last two groups match the end and any character
        kind = match.lastindex or 0
        return kind, match[kind], match.start(kind)

    def peek(self) -> str:
        """Return the text of the next token."""
        return self.next()[1]

    def take(self, wanted: str | int, meaning: str) -> tuple[str, int]:
        """Consume the next token, which must be a given sign or type; return its text and its position."""
        kind, text, position = self.next()
        if wanted != (text if isinstance(wanted, str) else kind):
            raise self.fault(f"{self.macro} needs {meaning} here", position, max(1, len(text)))
        self.end = position + len(text)
        return text, position

    def fault(
        self, message: str, position: int, length: int = 1, hint: str | None = None
    ) -> GrammarSyntaxError:
        """Return the error of a mistake at a position."""
        return self.reader.fault(message, position, length, hint=hint or f"The form is {self.form}.")
