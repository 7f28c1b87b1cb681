"""Read the token macros of XGrammar's EBNF: `Token`, `ExcludeToken` and `TokenTagDispatch`.

Why: XGrammar's structural tags print their token formats with them, and grammars for one tokenizer name tokens by
number.
What: a token is given by its number, or by its text as a string.

    Token(1, "text", ...)         one of these tokens
    ExcludeToken(1, "text", ...)  any token but these and those that end a sequence
    TokenTagDispatch((1, rule), ("text", rule), ..., loop_after_dispatch=true, excludes=(2, "text", ...))
                                  free tokens (neither tags nor excluded); after a tag its rule; then free tokens again

Invariant: the macros mean what is documented. A tag that is also excluded is an error.
Cost: linear in the text.
"""

from __future__ import annotations

from structgen.ir.grammar import Body, position_at

from ..bnf_reader import Reader
from ..token_sets import MOST_NUMBER, Member, dispatch_body, tokens_body
from .arguments import NAME, NUMBER, STRING, ArgumentReader

__all__ = ["TOKEN_MACROS", "read_token_macro"]

TOKEN_MACROS = ("Token", "ExcludeToken", "TokenTagDispatch")

_FORMS = {
    "Token": 'Token(1, 2) or Token("text")',
    "ExcludeToken": 'ExcludeToken(1, 2) or ExcludeToken("text")',
    "TokenTagDispatch": "TokenTagDispatch((1, rule), ..., loop_after_dispatch=true, excludes=(2, 3))",
}


def read_token_macro(reader: Reader, name: str, position: int, end: int) -> tuple[Body, int]:
    """Return the body of a macro whose name is at `position`, and the offset after the call."""
    macro = _Macro(reader, name, position, end)
    body = macro.dispatch() if name == "TokenTagDispatch" else macro.one(name == "ExcludeToken")
    return body, macro.end


class _Macro(ArgumentReader):
    """Reads the arguments of a macro and builds its body."""

    def __init__(self, reader: Reader, name: str, position: int, end: int) -> None:
        super().__init__(reader, name, _FORMS[name], end)
        at = position_at(reader.source, position)
        self.where = f"line {at.line}, column {at.column}"

    def one(self, is_excluding: bool) -> Body:
        """Return the body of a `Token` or an `ExcludeToken`."""
        self.take("(", "its tokens in parentheses")
        members: list[Member] = []
        if self.peek() != ")" or not is_excluding:
            members.append(self._token()[0])
            while self.peek() == ",":
                self.take(",", "")
                if self.peek() == ")":
                    break
                members.append(self._token()[0])
        self.take(")", "a comma or the closing parenthesis")
        return (
            tokens_body(None, members, self.where) if is_excluding else tokens_body(members, (), self.where)
        )

    def dispatch(self) -> Body:
        """Return the body of a `TokenTagDispatch`."""
        tags: dict[Member, tuple[Body, int]] = {}
        excluded: dict[Member, int] | None = None
        loops: bool | None = None
        self.take("(", "its arguments in parentheses")
        while self.peek() != ")":
            if self.peek() == "(":
                self.take("(", "")
                tag, at = self._token()
                if tag in tags:
                    raise self.fault(f"the tag {_shown(tag)} is given twice", at)
                self.take(",", "a comma and the name of the tag's rule")
                name, name_at = self.take(NAME, "the name of the tag's rule")
                tags[tag] = self.reader.reference(name, name_at), at
                self._close_tuple()
            else:
                option, at = self.take(NAME, "a pair of a tag and its rule, (1, rule), or an option")
                if option not in ("loop_after_dispatch", "excludes"):
                    raise self.fault(
                        f"TokenTagDispatch has no option {option!r:.60}", at, len(option),
                        "Its options are loop_after_dispatch and excludes.",
                    )  # fmt: skip
                if (loops if option == "loop_after_dispatch" else excluded) is not None:
                    raise self.fault(f"{option} is given twice", at, len(option), "Remove one of them.")
                self.take("=", f"{option}=...")
                if option == "excludes":
                    excluded = self._excludes()
                else:
                    value, at = self.take(NAME, "true or false")
                    if value not in ("true", "false"):
                        raise self.fault("TokenTagDispatch needs true or false here", at, len(value))
                    loops = value == "true"
            if self.peek() != ",":
                break
            self.take(",", "")
        self.take(")", "a comma or the closing parenthesis")
        for member, at in (excluded or {}).items():
            if member in tags:
                raise self.fault(
                    f"the tag {_shown(member)} is also excluded", at, 1, "Remove one of the two."
                )
        return dispatch_body(
            {tag: rule for tag, (rule, _) in tags.items()}, excluded or (), loops is not False, self.where
        )

    def _excludes(self) -> dict[Member, int]:
        members: dict[Member, int] = {}
        self.take("(", "a tuple of tokens")
        while self.peek() != ")":
            member, at = self._token()
            members.setdefault(member, at)
            if self.peek() != ",":
                break
            self.take(",", "")
        self.take(")", "a comma or the closing parenthesis")
        return members

    def _token(self) -> tuple[Member, int]:
        if self.next()[0] == STRING:
            raw, at = self.take(STRING, "")
            text = self.reader.string(raw, at)
            if not text:
                raise self.fault("no token has the empty text", at, len(raw))
            return text, at
        digits, at = self.take(NUMBER, "a token: its number, or its text in quotes")
        number = digits.lstrip("0") or "0"
        if len(number) > 10 or int(number) > MOST_NUMBER:
            raise self.fault("no token has a number this large", at, len(digits))
        return (int(number), int(number)), at

    def _close_tuple(self) -> None:
        if self.peek() == ",":
            self.take(",", "")
        self.take(")", "a closing parenthesis")


def _shown(token: Member) -> str:
    return f"{token!r:.60}" if isinstance(token, str) else str(token[0])
