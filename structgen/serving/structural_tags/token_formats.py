"""Formats of structural tags that concern tokens: exclude_token, any_tokens, token_triggered_tags, token_dispatch.

Why: models mark regions by tokens that are not text, and engines let clients name them by number.
Invariant: the formats mean what XGrammar 0.2 documents. If the end of the enclosing tag is a token, a region of any
tokens never contains it. Triggers and excluded tokens are never free tokens. A field of the wrong type raises an error
with its path.
Cost: linear in the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from structgen.constraints.base import Constraint
from structgen.constraints.composition import Composition, Tokens, body_of, repeat
from structgen.constraints.grammar.bodies import choice_of
from structgen.constraints.grammar.token_sets import Member, dispatch_body, tokens_body
from structgen.errors import ConstraintError, a_kind
from structgen.serving.structural_tags.fields import check_fields, flag, items, whole

from .combined import tag_parts
from .marks import TokenMark, member_of, members_of, shown
from .reading import Reading

__all__ = ["TOKEN_FORMATS"]

_MOST_REPEATED = 2**31 - 1


def _exclude_token(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "exclude_tokens"}, where)
    return Tokens(tokens_body(None, _excluded(form, ends, where), where))


def _any_tokens(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "exclude_tokens", "max_tokens"}, where)
    most = whole(form, "max_tokens", where)
    if most is not None and most > _MOST_REPEATED:
        raise ConstraintError(f'"max_tokens" is at most {_MOST_REPEATED:,}', where=f"{where}.max_tokens")
    return repeat(Tokens(tokens_body(None, _excluded(form, ends, where), where)), 0, most)


def _token_triggered_tags(
    reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int
) -> Constraint:
    check_fields(
        form, {"type", "trigger_tokens", "tags", "exclude_tokens", "at_least_one", "stop_after_first"}, where
    )
    triggers = members_of(items(form, "trigger_tokens", where), f"{where}.trigger_tokens")
    after: dict[Member, list[Constraint]] = {member: [] for member in triggers}
    for index, tag_form in enumerate(items(form, "tags", where)):
        path = f"{where}.tags[{index}]"
        begin, rest = tag_parts(reading, tag_form, path, depth)
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
    for index, (member, rests) in enumerate(after.items()):
        if not rests:
            raise ConstraintError(
                f"no tag begins with the trigger {shown(member)}", where=f"{where}.trigger_tokens[{index}]"
            )
    at_once, once = flag(form, "at_least_one", where), flag(form, "stop_after_first", where)
    return _dispatched(after, form, ends, where, at_once, once)


def _token_dispatch(reading: Reading, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
    check_fields(form, {"type", "rules", "loop", "exclude_tokens"}, where)
    after: dict[Member, list[Constraint]] = {}
    for index, rule in enumerate(items(form, "rules", where)):
        path = f"{where}.rules[{index}]"
        if not isinstance(rule, (list, tuple)) or len(rule) != 2:
            raise ConstraintError("a rule is a token and a format", where=path)
        after.setdefault(member_of(rule[0], f"{path}[0]"), []).append(
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
    """Return free tokens with calls. The first call comes at once if `at_once`, and is the only one if `once`."""
    for index, member in enumerate(_excluded(form, (), where)):
        if member in after:
            raise ConstraintError(
                f"the trigger {shown(member)} is excluded, too", where=f"{where}.exclude_tokens[{index}]"
            )
    calls = {member: choice_of(map(body_of, rests)) for member, rests in after.items()}
    # A token that ends the enclosing tag may only be a trigger here.
    excluded = [member for member in _excluded(form, ends, where) if member not in calls]
    body = dispatch_body(calls, excluded, not once, where, at_once=at_once)
    name = "free tokens with " + " or ".join(map(shown, list(after)[:4]))
    return Composition(body, name, parts=[part for rests in after.values() for part in rests])


def _excluded(form: Mapping[str, Any], ends: Iterable[str], where: str) -> list[Member]:
    """Return the tokens that are not free: each excluded one once, then those that end the region."""
    given = form.get("exclude_tokens")
    if given is None:
        given = ()
    if not isinstance(given, (list, tuple)):
        raise ConstraintError(
            f'"exclude_tokens" is a list of tokens, not {a_kind(given)}', where=f"{where}.exclude_tokens"
        )
    marks = [end.member for end in ends if isinstance(end, TokenMark)]
    return list(dict.fromkeys([*members_of(given, f"{where}.exclude_tokens"), *marks]))


TOKEN_FORMATS = {
    "exclude_token": _exclude_token,
    "any_tokens": _any_tokens,
    "token_triggered_tags": _token_triggered_tags,
    "token_dispatch": _token_dispatch,
}
"""The reader of each format."""
