"""The token macros of XGrammar's EBNF: `Token`, `ExcludeToken` and `TokenTagDispatch`.

Why: XGrammar's structural tags print their token formats so, and grammars for one tokenizer name tokens by number.
What: a token is a number, or a string that is the text of a token.

    Token(1, "text", ...)         one of these tokens
    ExcludeToken(1, "text", ...)  one token that is none of these, and ends no text
    TokenTagDispatch((1, rule), ("text", rule), ..., loop_after_dispatch=true, excludes=(2, "text", ...))
                                  free tokens, neither tags nor excluded; after a tag its rule; then again

Invariant: as documented; a tag that is excluded, too, is an error.
Cost: linear in the text.
"""

from __future__ import annotations

import re
from typing import Protocol

from structgen.errors import GrammarSyntaxError

from .ir import Body, place_at
from .notation import WIDE_BLANK
from .token_numbers import MOST_NUMBER, Member, dispatch_body, tokens_body

__all__ = ["TOKEN_MACROS", "read_token_macro"]

TOKEN_MACROS = ("Token", "ExcludeToken", "TokenTagDispatch")

_ARGUMENT = re.compile(
    rf'{WIDE_BLANK}(?:("(?:[^"\\\r\n]|\\[^\r\n])*+")|([0-9]++)|([A-Za-z_.-][A-Za-z0-9_.-]*+)|([(),=])|(\Z)|(.))',
    re.DOTALL,
)
_STRING, _NUMBER, _NAME = 1, 2, 3
_FORMS = {
    "Token": 'Token(1, 2) or Token("text")',
    "ExcludeToken": 'ExcludeToken(1, 2) or ExcludeToken("text")',
    "TokenTagDispatch": "TokenTagDispatch((1, rule), ..., loop_after_dispatch=true, excludes=(2, 3))",
}


class _Reader(Protocol):
    """What is used of the notation's reader."""

    source: str

    def string(self, raw: str, position: int) -> str: ...

    def reference(self, name: str, position: int) -> Body: ...

    def fault(self, message: str, position: int, length: int = ..., *, hint: str) -> GrammarSyntaxError: ...


def read_token_macro(reader: _Reader, name: str, position: int, end: int) -> tuple[Body, int]:
    """The body of a macro whose name stands at `position`, and where reading goes on."""
    macro = _Macro(reader, name, position, end)
    body = macro.dispatch() if name == "TokenTagDispatch" else macro.one(name == "ExcludeToken")
    return body, macro.end


class _Macro:
    """Reads the arguments and makes the body."""

    def __init__(self, reader: _Reader, name: str, position: int, end: int) -> None:
        self.reader = reader
        self.name = name
        self.position = position
        self.end = end
        at = place_at(reader.source, position)
        self.where = f"line {at.line}, column {at.column}"

    def one(self, is_excluding: bool) -> Body:
        self._take("(", "its tokens in parentheses")
        members: list[Member] = []
        if self._peek() != ")" or not is_excluding:
            members.append(self._token()[0])
            while self._peek() == ",":
                self._take(",", "")
                if self._peek() == ")":
                    break
                members.append(self._token()[0])
        self._take(")", "a comma or the closing parenthesis")
        return (
            tokens_body(None, members, self.where) if is_excluding else tokens_body(members, (), self.where)
        )

    def dispatch(self) -> Body:
        tags: dict[Member, tuple[Body, int]] = {}
        excluded: dict[Member, int] | None = None
        loops: bool | None = None
        self._take("(", "its arguments in parentheses")
        while self._peek() != ")":
            if self._peek() == "(":
                self._take("(", "")
                tag, at = self._token()
                if tag in tags:
                    raise self._fault(f"the tag {_shown(tag)} is there a second time", at)
                self._take(",", "a comma and the name of the tag's rule")
                name, name_at = self._take(_NAME, "the name of the tag's rule")
                tags[tag] = self.reader.reference(name, name_at), at
                self._close_tuple()
            else:
                option, at = self._take(_NAME, "a pair of a tag and its rule, (1, rule), or an option")
                if option not in ("loop_after_dispatch", "excludes"):
                    raise self._fault(
                        f"TokenTagDispatch has no option {option!r:.60}", at, len(option),
                        "Its options are loop_after_dispatch and excludes.",
                    )  # fmt: skip
                if (loops if option == "loop_after_dispatch" else excluded) is not None:
                    raise self._fault(f"{option} is given a second time", at, len(option), "Give it once.")
                self._take("=", f"{option}=...")
                if option == "excludes":
                    excluded = self._excludes()
                else:
                    value, at = self._take(_NAME, "true or false")
                    if value not in ("true", "false"):
                        raise self._fault("here TokenTagDispatch needs true or false", at, len(value))
                    loops = value == "true"
            if self._peek() != ",":
                break
            self._take(",", "")
        self._take(")", "a comma or the closing parenthesis")
        for one, at in (excluded or {}).items():
            if one in tags:
                raise self._fault(f"the tag {_shown(one)} is excluded, too", at, 1, "Remove one of the two.")
        return dispatch_body(
            {tag: rule for tag, (rule, _) in tags.items()}, excluded or (), loops is not False, self.where
        )

    def _excludes(self) -> dict[Member, int]:
        found: dict[Member, int] = {}
        self._take("(", "a tuple of tokens")
        while self._peek() != ")":
            member, at = self._token()
            found.setdefault(member, at)
            if self._peek() != ",":
                break
            self._take(",", "")
        self._take(")", "a comma or the closing parenthesis")
        return found

    def _token(self) -> tuple[Member, int]:
        match = self._next()
        if match.lastindex == _STRING:
            raw, at = self._take(_STRING, "")
            text = self.reader.string(raw, at)
            if not text:
                raise self._fault("no token has the empty text", at, len(raw))
            return text, at
        digits, at = self._take(_NUMBER, "a token: its number, or its text in quotes")
        number = digits.lstrip("0") or "0"
        if len(number) > 10 or int(number) > MOST_NUMBER:
            raise self._fault("no token has a number this large", at, len(digits))
        return (int(number), int(number)), at

    def _close_tuple(self) -> None:
        if self._peek() == ",":
            self._take(",", "")
        self._take(")", "a closing parenthesis")

    def _next(self) -> re.Match[str]:
        match = _ARGUMENT.match(self.reader.source, self.end)
        assert match is not None  # its last group is any character, the one before it the end
        return match

    def _peek(self) -> str:
        match = self._next()
        return match[match.lastindex or 0]

    def _take(self, wanted: str | int, meaning: str) -> tuple[str, int]:
        """The next piece, a sign or one of a group, and its position."""
        match = self._next()
        kind = match.lastindex or 0
        if wanted != (match[kind] if isinstance(wanted, str) else kind):
            raise self._fault(
                f"here {self.name} needs {meaning}", match.start(kind), max(1, len(match[kind]))
            )
        self.end = match.end()
        return match[kind], match.start(kind)

    def _fault(
        self, message: str, position: int, length: int = 1, hint: str | None = None
    ) -> GrammarSyntaxError:
        return self.reader.fault(message, position, length, hint=hint or f"The form is {_FORMS[self.name]}.")


def _shown(token: Member) -> str:
    return f"{token!r:.60}" if isinstance(token, str) else str(token[0])
