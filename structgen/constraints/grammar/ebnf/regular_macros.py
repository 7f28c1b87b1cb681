"""Read the macros of XGrammar's EBNF that denote regular languages: `Regex` and `Substring`.

Why: XGrammar writes patterns and runs of chunks as calls in a rule's body.
Invariant: the expression has exactly the macro's texts. An argument that a macro cannot take is an error at its
position.
Cost: linear in the arguments.
Source: XGrammar 0.2.6, "EBNF Grammar", sections Macros and Accepted Arguments.

    Regex("pattern", flags="is", json_string=true)    the texts of a pattern (`regex.xgrammar`)
    Substring("chunk", ...)                           any run of neighbouring chunks, also the empty one
"""

from __future__ import annotations

from typing import NamedTuple

from structgen.constraints.expressions import RE, substring
from structgen.constraints.regex.xgrammar import FLAGS, xgrammar_pattern
from structgen.errors import LimitExceeded, RegexError
from structgen.ir.grammar import position_at

from ..bnf_reader import Reader
from .arguments import NAME, NUMBER, STRING, ArgumentReader

__all__ = ["REGULAR_MACROS", "read_regular_macro"]

_FORMS = {
    "Regex": 'Regex("pattern"), with flags="is" and json_string=true where they are needed',
    "Substring": 'Substring("chunk", "chunk", ...)',
}
REGULAR_MACROS = frozenset(_FORMS)


class _Value(NamedTuple):
    """An argument as it is written: a string with its quotes, a name or a number."""

    kind: int
    raw: str
    position: int


class _Call(ArgumentReader):
    """The positional and named arguments of one call."""

    def __init__(self, reader: Reader, macro: str, end: int) -> None:
        super().__init__(reader, macro, _FORMS[macro], end)
        self.positional: list[_Value] = []
        self.named: dict[str, _Value] = {}
        self.take("(", "the arguments in parentheses")
        if self.peek() != ")":
            self._argument()
            while self.peek() == ",":
                self.take(",", "a comma")
                self._argument()
        self.take(")", "a comma or the closing parenthesis")

    def _value(self) -> _Value:
        kind, raw, position = self.next()
        if kind not in (STRING, NUMBER, NAME):
            raise self.fault(f"{self.macro} needs an argument here", position, max(1, len(raw)))
        self.end = position + len(raw)
        return _Value(kind, raw, position)

    def _argument(self) -> None:
        first = self._value()
        if first.kind != NAME or self.peek() != "=":
            if self.named:
                raise self.fault("a positional argument follows a named one", first.position, len(first.raw))
            self.positional.append(first)
            return
        if first.raw in self.named:
            raise self.fault(
                f"{first.raw} is given twice", first.position, len(first.raw), "Remove one of them."
            )
        self.take("=", "a value")
        self.named[first.raw] = self._value()

    def text(self, value: _Value, what: str) -> str:
        """Return the text of a string argument."""
        if value.kind != STRING:
            raise self.fault(f"{what} must be a string in double quotes", value.position, len(value.raw))
        return self.reader.string(value.raw, value.position)

    def boolean(self, value: _Value, what: str) -> bool:
        """Return the value of a boolean argument."""
        if value.raw not in ("true", "false"):
            raise self.fault(f"{what} must be true or false", value.position, len(value.raw))
        return value.raw == "true"


def read_regular_macro(reader: Reader, macro: str, position: int, end: int) -> tuple[RE, int]:
    """Read a call of one of `REGULAR_MACROS`.

    Args:
        reader: The grammar.
        macro: The name of the macro.
        position: The offset of the name.
        end: The offset after the name.

    Returns:
        The expression, and the offset after the call.
    """
    call = _Call(reader, macro, end)
    return (_regex if macro == "Regex" else _substring)(call, position), call.end


def _regex(call: _Call, position: int) -> RE:
    for name, value in call.named.items():
        if name not in ("flags", "json_string"):
            at = call.reader.source.rindex(name, 0, value.position)
            raise call.fault(f"Regex has no argument {name:.60}", at, len(name))
    if len(call.positional) != 1:
        at = call.positional[1].position if call.positional else position
        raise call.fault("Regex takes one pattern", at, 1 if call.positional else len("Regex"))
    [pattern] = call.positional
    flags = call.named.get("flags")
    letters = None if flags is None else call.text(flags, "flags")
    for letter in letters or "":
        if flags is not None and letter not in FLAGS:
            raise call.fault(
                f"Regex has no flag {letter!r}", flags.position, len(flags.raw), "The flags are i, s and u."
            )
    json_string = call.named.get("json_string")
    whole = json_string is not None and call.boolean(json_string, "json_string")
    try:
        return xgrammar_pattern(call.text(pattern, "the pattern"), letters, json_string=whole)
    except (RegexError, LimitExceeded) as error:
        line_and_column = position_at(call.reader.source, position)
        where = f"Regex at line {line_and_column.line}, column {line_and_column.column}"
        error.where = f"{where}, {error.where}" if error.where else where
        raise


def _substring(call: _Call, position: int) -> RE:
    for name, value in call.named.items():
        at = call.reader.source.rindex(name, 0, value.position)
        raise call.fault(f"Substring has no argument {name:.60}", at, len(name))
    return substring([call.text(value, "a chunk") for value in call.positional])
