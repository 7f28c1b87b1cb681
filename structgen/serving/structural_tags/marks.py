"""Tokens that structural tags name, by number or by text.

What: a text names the special token with that text, or a token with exactly these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from structgen.constraints.composition import Special, Tokens, special
from structgen.constraints.grammar.token_sets import MOST_NUMBER, Member, tokens_body
from structgen.errors import ConstraintError, a_kind
from structgen.serving.structural_tags.fields import check_fields

__all__ = ["TokenMark", "member_of", "members_of", "read_mark", "shown", "text_ends", "token_begin"]


class TokenMark(str):
    """A token that is the begin or an end of a tag.

    As a str it is the text of the token, or the form in which messages show a number.
    """

    __slots__ = ("is_number", "member", "where")

    member: Member
    is_number: bool
    where: str

    @classmethod
    def of(cls, token: object, where: str) -> TokenMark:
        """Read a token, a number or a text."""
        member = member_of(token, where)
        made = cls(member if isinstance(member, str) else f"<[{member[0]}]>")
        made.member, made.where, made.is_number = member, where, not isinstance(member, str)
        return made

    def constraint(self, specials: Any) -> Special | Tokens:
        """Return the token as a constraint; `specials` is a pattern of all special tokens, None if unknown."""
        if not self.is_number and (specials is None or specials.fullmatch(self)):
            return special(str(self))
        return Tokens(tokens_body([self.member], (), self.where))


def read_mark(form: Mapping[str, Any], where: str) -> TokenMark:
    """Return the token of a format ``{"type": "token"}``."""
    check_fields(form, {"type", "token"}, where)
    if "token" not in form:
        raise ConstraintError('"token" is missing', where=where)
    return TokenMark.of(form["token"], f"{where}.token")


def text_ends(ends: Iterable[str]) -> tuple[str, ...]:
    """Return those ends of a region that are texts, or tokens whose text is given."""
    return tuple(end for end in ends if not (isinstance(end, TokenMark) and end.is_number))


def token_begin(where: str) -> ConstraintError:
    """Return the error for a tag of triggered_tags whose begin is a token, other than a special token by its text."""
    return ConstraintError(
        "a tag of triggered_tags begins with a text, not with a token",
        where=f"{where}.begin",
        hint="Use token_triggered_tags.",
    )


def members_of(given: Sequence[object], where: str) -> list[Member]:
    """Return the tokens of a list, checked. Raises `ConstraintError` with the place of a wrong one."""
    return [member_of(token, f"{where}[{index}]") for index, token in enumerate(given)]


def member_of(token: object, where: str) -> Member:
    """Return one token, checked: its text, or its number as a range of one."""
    if isinstance(token, str):
        if not token:
            raise ConstraintError("no token has the empty text", where=where)
        return token
    if not isinstance(token, int) or isinstance(token, bool):
        raise ConstraintError(f"a token is a number or a text, not {a_kind(token)}", where=where)
    if not 0 <= token <= MOST_NUMBER:
        raise ConstraintError(f"tokens have numbers from 0 to {MOST_NUMBER:,}", where=where)
    return token, token


def shown(member: Member) -> str:
    """Return a token as an error message shows it."""
    return f"{member!r:.60}" if isinstance(member, str) else str(member[0])
