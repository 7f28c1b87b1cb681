"""The formats of structural tags that are about tokens: `token`, `exclude_token`, `any_tokens`, `token_triggered_tags`
and `token_dispatch`.

Why: models mark their regions by tokens that are no text, and engines let clients name these by number.
What: a token is a number, or a text. A text is the special token of that name, or a token with just these bytes.
Invariant: as XGrammar 0.2 documents them. A region of any tokens never has the token that ends the tag around it, where
that end is a token; a trigger or an excluded token is never free. Every field has its type, or an error with its path.
Cost: linear in the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from structgen.constraints.base import Constraint
from structgen.constraints.composition import Composition, Special, Tokens, body_of, repeat, special
from structgen.constraints.grammar.bodies import choice_of
from structgen.constraints.grammar.token_numbers import MOST_NUMBER, Member, dispatch_body, tokens_body
from structgen.errors import ConstraintError, a_kind

from .tag_fields import check_fields, flag, items, whole

__all__ = ["TOKEN_FORMATS", "TokenMark", "read_mark", "text_ends", "token_begin"]

_MOST_REPEATED = 2**31 - 1


class TokenMark(str):
    """A token at the begin or the end of a tag.

    As a str it is the text of the token, or what messages show of a number.
    """

    __slots__ = ("is_number", "member", "where")

    member: Member
    is_number: bool
    where: str

    @classmethod
    def of(cls, token: object, where: str) -> TokenMark:
        """Read a token, a number or a text."""
        member = _member(token, where)
        made = cls(member if isinstance(member, str) else f"<[{member[0]}]>")
        made.member, made.where, made.is_number = member, where, not isinstance(member, str)
        return made

    def constraint(self, specials: Any) -> Special | Tokens:
        """The token as a constraint; `specials` is a pattern of all special tokens, None where they are not known."""
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
    """Return the error for a tag of triggered_tags whose begin is a token that is no special token by its text."""
    return ConstraintError(
        "a tag of triggered_tags begins with a text, not with a token",
        where=f"{where}.begin",
        hint="Use token_triggered_tags.",
    )


class _Reading(Protocol):
    """What is used of the reading of a tag."""

    def format(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint: ...

    def _tag_parts(self, form: Any, where: str, depth: int) -> tuple[str, Constraint]: ...


def _exclude_token(reading: _Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "exclude_tokens"}, where)
    return Tokens(tokens_body(None, _excluded(form, ends, where), where))


def _any_tokens(reading: _Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "exclude_tokens", "max_tokens"}, where)
    most = whole(form, "max_tokens", where)
    if most is not None and most > _MOST_REPEATED:
        raise ConstraintError(f'"max_tokens" is at most {_MOST_REPEATED:,}', where=f"{where}.max_tokens")
    return repeat(Tokens(tokens_body(None, _excluded(form, ends, where), where)), 0, most)


def _token_triggered_tags(
    reading: _Reading, form: Any, ends: tuple[str, ...], where: str, depth: int
) -> Constraint:
    check_fields(
        form, {"type", "trigger_tokens", "tags", "exclude_tokens", "at_least_one", "stop_after_first"}, where
    )
    triggers = _members(items(form, "trigger_tokens", where), f"{where}.trigger_tokens")
    after: dict[Member, list[Constraint]] = {member: [] for member in triggers}
    for place, one in enumerate(items(form, "tags", where)):
        path = f"{where}.tags[{place}]"
        begin, rest = reading._tag_parts(one, path, depth)
        if not isinstance(begin, TokenMark):
            raise ConstraintError(
                "a tag of token_triggered_tags begins with a token",
                where=f"{path}.begin",
                hint='Write {"type": "token", "token": ...}, or use triggered_tags.',
            )
        if begin.member not in after:
            raise ConstraintError(
                f"the tag that begins with {begin!r:.60} has no trigger",
                where=path,
                hint="Name the token that it begins with in trigger_tokens, in the same form.",
            )
        after[begin.member].append(rest)
    for place, (member, rests) in enumerate(after.items()):
        if not rests:
            raise ConstraintError(
                f"no tag begins with the trigger {_shown(member)}", where=f"{where}.trigger_tokens[{place}]"
            )
    at_once, once = flag(form, "at_least_one", where), flag(form, "stop_after_first", where)
    return _dispatched(after, form, ends, where, at_once, once)


def _token_dispatch(
    reading: _Reading, form: Any, ends: tuple[str, ...], where: str, depth: int
) -> Constraint:
    check_fields(form, {"type", "rules", "loop", "exclude_tokens"}, where)
    after: dict[Member, list[Constraint]] = {}
    for place, rule in enumerate(items(form, "rules", where)):
        path = f"{where}.rules[{place}]"
        if not isinstance(rule, (list, tuple)) or len(rule) != 2:
            raise ConstraintError("a rule is a token and a format", where=path)
        after.setdefault(_member(rule[0], f"{path}[0]"), []).append(
            reading.format(rule[1], (), f"{path}[1]", depth)
        )
    return _dispatched(after, form, ends, where, False, not flag(form, "loop", where, True))


def _dispatched(
    after: Mapping[Member, Sequence[Constraint]],
    form: Mapping[str, Any],
    ends: tuple[str, ...],
    where: str,
    at_once: bool,
    once: bool,
) -> Constraint:
    """Free tokens with calls, the first of them at once if wanted, and no other if `once`."""
    for place, member in enumerate(_excluded(form, (), where)):
        if member in after:
            raise ConstraintError(
                f"the trigger {_shown(member)} is excluded, too", where=f"{where}.exclude_tokens[{place}]"
            )
    calls = {member: choice_of(map(body_of, rests)) for member, rests in after.items()}
    # What ends the tag around it is a trigger here, at most.
    excluded = [one for one in _excluded(form, ends, where) if one not in calls]
    body = dispatch_body(calls, excluded, not once, where, at_once=at_once)
    name = "free tokens with " + " or ".join(map(_shown, list(after)[:4]))
    return Composition(body, name, parts=[one for rests in after.values() for one in rests])


def _excluded(form: Mapping[str, Any], ends: Iterable[str], where: str) -> list[Member]:
    """The tokens that free tokens are not: those that are excluded, each once, then those that end the region."""
    given = form.get("exclude_tokens")
    if given is None:
        given = ()
    if not isinstance(given, (list, tuple)):
        raise ConstraintError(
            f'"exclude_tokens" is a list of tokens, not {a_kind(given)}', where=f"{where}.exclude_tokens"
        )
    marks = [end.member for end in ends if isinstance(end, TokenMark)]
    return list(dict.fromkeys([*_members(given, f"{where}.exclude_tokens"), *marks]))


def _members(given: Sequence[object], where: str) -> list[Member]:
    return [_member(one, f"{where}[{place}]") for place, one in enumerate(given)]


def _member(token: object, where: str) -> Member:
    if isinstance(token, str):
        if not token:
            raise ConstraintError("no token has the empty text", where=where)
        return token
    if not isinstance(token, int) or isinstance(token, bool):
        raise ConstraintError(f"a token is a number or a text, not {a_kind(token)}", where=where)
    if not 0 <= token <= MOST_NUMBER:
        raise ConstraintError(f"no token has the number {token}", where=where)
    return token, token


def _shown(member: Member) -> str:
    return f"{member!r:.60}" if isinstance(member, str) else str(member[0])


TOKEN_FORMATS = {
    "exclude_token": _exclude_token,
    "any_tokens": _any_tokens,
    "token_triggered_tags": _token_triggered_tags,
    "token_dispatch": _token_dispatch,
}
"""What reads each of these formats."""
