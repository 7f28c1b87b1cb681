"""Parse formulas.

There are three dialects, since tools disagree about the meaning of some letters:

    structgen   `X` is the strong next, `N` or `WX` the weak one
    ltlf2dfa    the same; `tt`, `ff`; R binds tighter than U
    spot        `X` is the weak next, as in `from_ltlf`, and `X[!]` the strong one; `<>`, `[]`, `xor`, `1`, `0`

All of them accept `! ~ not`, `& && and`, `| || or`, `-> =>`, `<-> <=>`, `F <>`, `G []`, `U W R M`, `last`, `true`,
`false`. Only the meaning of `X` and the other reserved words depend on the dialect. Unary operators bind tightest, then
U W R M (right-associative), then and, or, implication (right-associative), equivalence.

Names may have arguments: `go(kitchen)` as a whole is a name. Other names are written in double quotes.
Cost: linear in the text; depth and size are limited (`formula`).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

from structgen.argument_names import checks_names
from structgen.errors import FormulaSyntaxError, OptionError

from .formula import FALSE, LAST, TRUE, Formula, Op, all_of, any_of, atom, install_parser, make

__all__ = ["Dialect", "parse"]

Dialect = Literal["structgen", "ltlf2dfa", "spot"]

_MOST_CHARACTERS = 100_000

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<quoted>"(?:[^"\\]|\\.)*")
    |(?P<sign><->|<=>|->|=>|<>|\[\]|&&|\|\||[!~&|()])
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\[!\])?|[01](?![A-Za-z0-9_]))""",
    re.VERBOSE,
)
_ARGUMENTS = re.compile(r"\([^()\"\s]*\)")
_SAME = {
    "~": "!", "not": "!", "&&": "&", "and": "&", "||": "|", "or": "|", "=>": "->", "<=>": "<->",
    "<>": "F", "[]": "G",
}  # fmt: skip
_UNARY: dict[str, Op] = {"!": "not", "X": "X", "N": "N", "F": "F", "G": "G"}
_BINARY: dict[str, Op] = {
    "->": "implies", "<->": "iff", "xor": "iff", "U": "U", "W": "W", "R": "R", "M": "M",
}  # fmt: skip
_BINDING = {"<->": 1, "xor": 1, "->": 2, "|": 3, "&": 4, "U": 5, "W": 5, "R": 5, "M": 5}
_UNARY_BINDING = 7
_TO_THE_RIGHT = frozenset(["->", "|", "&", "U", "W", "R", "M"])
_CONSTANTS = {"true": TRUE, "false": FALSE, "last": LAST}
_MOST_OPEN = 10_000
_PAST = frozenset(["Y", "S", "O", "H"])


class _Token(NamedTuple):
    text: str
    """The operator in its canonical spelling; "name" for an atom, "" at the end."""
    at: int
    end: int
    name: str = ""


@checks_names
def parse(text: str, *, dialect: Dialect = "structgen") -> Formula:
    """Parse a formula, without simplifying it.

    Args:
        text: The formula.
        dialect: The notation: "structgen", "ltlf2dfa" or "spot".

    Raises:
        FormulaSyntaxError: The text is not a formula. The error shows the position and what was expected there.
    """
    if not isinstance(text, str):
        raise OptionError(f"a formula must be a text, not {text!r:.60}")
    if dialect not in get_args(Dialect):
        raise OptionError(f"dialect is {dialect!r:.40}; it must be one of {', '.join(get_args(Dialect))}")
    if len(text) > _MOST_CHARACTERS:
        raise FormulaSyntaxError(f"the formula has {len(text)} characters; the limit is {_MOST_CHARACTERS}")
    return _Parser(text, dialect).formula()


class _Parser:
    """An operator-precedence parser with an explicit stack, so that nesting does not use Python's."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._tokens = _tokens(text, dialect)
        self._binding = {**_BINDING, "R": 6} if dialect == "ltlf2dfa" else _BINDING
        self._operators: list[_Token] = []
        self._operands: list[Formula] = []
        self._open = 0

    def formula(self) -> Formula:
        """Parse the whole text."""
        wants_operand = True
        for token in self._tokens:
            if wants_operand:
                wants_operand = self._operand(token)
            elif token.text in self._binding:
                self._reduce(self._binding[token.text])
                self._operators.append(token)
                wants_operand = True
            elif token.text == ")" and self._open:
                self._reduce(0)
                self._operators.pop()
                self._open -= 1
            elif token.text or self._open:
                raise self._unexpected(token)
        self._reduce(0)
        (formula,) = self._operands
        return formula

    def _operand(self, token: _Token) -> bool:
        """Read a token where an operand is expected. Return whether an operand is still expected."""
        if token.text in _UNARY:
            self._operators.append(token)
            return True
        if token.text == "(":
            self._operators.append(token)
            self._open += 1
            if self._open > _MOST_OPEN:
                raise _fault(f"more than {_MOST_OPEN} parentheses are open", self._text, token.at)
            return True
        if token.text == "name":
            self._operands.append(atom(token.name))
        elif token.text in _CONSTANTS:
            self._operands.append(_CONSTANTS[token.text])
        else:
            raise self._unexpected(token, "a formula")
        return False

    def _reduce(self, binding: int) -> None:
        """Apply the operators on the stack that bind tighter, back to a parenthesis."""
        operators, operands = self._operators, self._operands
        while operators and operators[-1].text != "(":
            op = operators[-1].text
            own = _UNARY_BINDING if op in _UNARY else self._binding[op]
            if own < binding or (own == binding and op in _TO_THE_RIGHT):
                return
            operators.pop()
            if op in _UNARY:
                operands.append(make(_UNARY[op], operands.pop()))
                continue
            parts = [operands.pop(), operands.pop()]
            if op in ("&", "|"):  # all of a row at once
                while operators and operators[-1].text == op:
                    operators.pop()
                    parts.append(operands.pop())
                operands.append((all_of if op == "&" else any_of)(reversed(parts)))
                continue
            right, left = parts
            formula = make(_BINARY[op], left, right)
            operands.append(~formula if op == "xor" else formula)

    def _unexpected(self, token: _Token, expected: str = "") -> FormulaSyntaxError:
        shown = "the end" if not token.text else f"`{self._text[token.at : token.end]}`"
        if not expected:
            opened = next((operator for operator in reversed(self._operators) if operator.text == "("), None)
            more = "the end of the formula" if opened is None else f"`)` for the `(` at position {opened.at}"
            expected = f"an operator or {more}"
        hint = None
        index = self._tokens.index(token)
        before = self._tokens[index - 1] if index else token
        if token.text == "(" and before.text == "name":
            hint = "Write the arguments of an action directly after its name: go(kitchen)."
        if any(neighbour.text == "name" and neighbour.name in _PAST for neighbour in (before, token)):
            hint = "Past operators (Y, S, O, H) are not supported. Write atoms of these names in quotes."
        for one in (token, before):
            hint = hint or (_ENGLISH.get(one.name.lower()) if one.text == "name" else None)
        return _fault(f"expected {expected}, found {shown}", self._text, token.at, token.end, hint)


_BEFORE = "`a` before `b` is `!b W a`. Add `F a` and `F b` if both must occur. Other positions are free."
_ENGLISH = {
    "before": _BEFORE,
    "after": _BEFORE,
    "then": "`b` at some point after `a` is `F (a & X F b)`; right after it, `F (a & X b)`. Other positions are free.",
    "until": "Until is the operator U: `a U b`.",
    "always": "Always is the operator G: `G a`.",
    "globally": "Globally is the operator G: `G a`.",
    "never": "Never is `G !a`.",
    **dict.fromkeys(("eventually", "finally", "sometime"), "At some point is the operator F: `F a`."),
    "next": "Next is the operator X: `X a`.",
    "implies": "Implies is the operator `->`.",
    "once": "`a` exactly once is `F a & G (a -> N G !a)`; at most once, `G (a -> N G !a)`.",
}
"""Hints for English words in a formula with a syntax error."""


def _tokens(text: str, dialect: Dialect) -> list[_Token]:
    words = _words(dialect)
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown_character(text, at)
        start, at = at, match.end()
        if match.lastgroup == "space":
            continue
        token = match.group()
        if match.lastgroup == "quoted":
            name = re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
            if not name:
                raise _fault("the name of an atom is empty", text, start, at)
            tokens.append(_Token("name", start, at, name))
            continue
        if match.lastgroup == "name" and token not in words:
            if token.endswith("[!]"):
                raise _fault(
                    f"`{token}` is not an operator of the dialect {dialect!r}",
                    text,
                    start,
                    at,
                    'X[!] is the strong next of dialect="spot"; here it is X.',
                )
            if token in ("0", "1"):
                raise _fault("write `true` or `false`", text, start)
            arguments = _ARGUMENTS.match(text, at)
            if arguments is not None:
                at = arguments.end()
            tokens.append(_Token("name", start, at, text[start:at]))
            continue
        tokens.append(_Token(words.get(token, _SAME.get(token, token)), start, at))
    return [*tokens, _Token("", len(text), len(text))]


def _words(dialect: Dialect) -> dict[str, str]:
    words = {word: word for word in ("true", "false", "last", "F", "G", "U", "W", "R", "M")}
    words.update({word: _SAME[word] for word in ("not", "and", "or")})
    if dialect == "spot":
        words.update({"X": "N", "X[!]": "X", "V": "R", "xor": "xor", "1": "true", "0": "false"})
    else:
        words.update({"X": "X", "N": "N", "WX": "N"})
    if dialect == "ltlf2dfa":
        words.update({"tt": "true", "ff": "false"})
    return words


def _unknown_character(text: str, at: int) -> FormulaSyntaxError:
    if text[at] == '"':
        return _fault("this quote is not closed", text, at)
    return _fault(
        f"`{text[at]}` has no meaning in a formula",
        text,
        at,
        hint='Write a name with other characters in double quotes: "go to room 1".',
    )


def _fault(
    message: str, text: str, at: int, end: int | None = None, hint: str | None = None
) -> FormulaSyntaxError:
    return FormulaSyntaxError(message, formula=text, position=at, end=end, hint=hint)


install_parser(parse)
