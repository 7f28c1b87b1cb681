"""Sets of tokens, as Lark (llguidance) and GBNF (llama.cpp) write them: ``<[5]>``, ``<[5,10-12]>``, ``<[^5]>``.

Why: a grammar may name tokens of one tokenizer. They are read as a whole, independent of their bytes. The core
determines the tokens of a set for each vocabulary.
Invariant: a set has exactly the tokens that it names, except numbers beyond the vocabulary. A set of all tokens, or of
all but some, has those with text or a name, and none that ends a sequence.
Cost: linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from structgen.ir.grammar import Body

from . import bodies

__all__ = [
    "MOST_NUMBER",
    "TOKENS_HINT",
    "Member",
    "dispatch_body",
    "shown_tokens",
    "token_set",
    "tokens_body",
]

Member = tuple[int, int] | str
"""The first and the last number of a range, or the text of a token."""

MOST_NUMBER = 2**32 - 2
"""The largest token number."""

TOKENS_HINT = (
    "The forms are numbers and ranges, <[5,10-12]>; all but some, <[^5]>; all, <[*]>; or the text of one token, "
    "<|name|>."
)

_SET = re.compile(r"<\[\s*+(\^?)(.*)\]>", re.DOTALL)
_RANGE = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?")
_MOST_DIGITS = 10
_MOST_SHOWN = 8


def tokens_body(
    allowed: Iterable[Member] | None,
    excluded: Iterable[Member] = (),
    where: str = "",
    *,
    may_be_spelled: bool = False,
) -> Body:
    """Return the body of one token of a set.

    Args:
        allowed: The tokens of the set; None: all.
        excluded: The tokens that are left out.
        where: Where the set is written, for the error if a vocabulary lacks a token.
        may_be_spelled: Whether other tokens may spell the text if no token has it. The set must be one text then.
    """
    members = None if allowed is None else tuple(dict.fromkeys(allowed))
    return ("tokens", (members, tuple(dict.fromkeys(excluded)), where, may_be_spelled))


def token_set(written: str, where: str, *, negated: bool = False) -> Body:
    """Return the body of a set in brackets; with `negated`, of all other tokens.

    Raises:
        ValueError: This is not a set. The message is for the user and states no position.
    """
    match = _SET.fullmatch(written)
    if match is None:
        raise ValueError("this is not a set of token numbers")
    if match[1] and negated:
        raise ValueError("this set is negated twice")
    if match[2].strip() == "*":
        if match[1] or negated:
            raise ValueError("the set of all tokens is negated, so it is empty")
        return tokens_body(None, where=where)
    members = [_member(part) for part in match[2].split(",")]
    return tokens_body(None, members, where) if match[1] or negated else tokens_body(members, (), where)


def _member(part: str) -> Member:
    span = _RANGE.fullmatch(part)
    if span is None:
        shown = part.strip()[:40]
        why = ": * must be alone, as in <[*]>" if shown == "*" else ""
        raise ValueError(f"{shown!r} is not a token number{why}")
    first, last = span[1].lstrip("0") or "0", (span[2] or span[1]).lstrip("0") or "0"
    if max(len(first), len(last)) > _MOST_DIGITS or max(int(first), int(last)) > MOST_NUMBER:
        raise ValueError("no token has a number this large")
    if int(first) > int(last):
        raise ValueError(f"the range {part.strip()} is reversed")
    return int(first), int(last)


def shown_tokens(content: tuple[Sequence[Member] | None, Sequence[Member], str, bool]) -> str:
    """Return a set as messages show it."""
    allowed, excluded, _, _ = content
    if allowed is None:
        return f"<[^{_listed(excluded)}]>" if excluded else "<[*]>"
    if len(allowed) == 1 and isinstance(allowed[0], str) and not excluded:
        return allowed[0]
    return f"<[{_listed(allowed)}]>" + (f" without <[{_listed(excluded)}]>" if excluded else "")


def _listed(members: Sequence[Member]) -> str:
    shown = []
    for member in members[:_MOST_SHOWN]:
        if isinstance(member, str):
            shown.append(member if len(member) <= 40 else f"{member[:37]}...")
        else:
            shown.append(str(member[0]) if member[0] == member[1] else f"{member[0]}-{member[1]}")
    return ",".join(shown) + (",..." if len(members) > _MOST_SHOWN else "")


def dispatch_body(
    calls: Mapping[Member, Body],
    excluded: Iterable[Member],
    loops: bool,
    where: str,
    *,
    at_once: bool = False,
) -> Body:
    """Return the body of free tokens with tags: each tag is a token that starts a body.

    Args:
        calls: The body that follows each tag.
        excluded: Tokens that may not occur among the free tokens.
        loops: Whether free tokens and tags may follow the body of a tag. If not, there is one tag at most.
        where: Where the dispatch is written, for the error if a vocabulary lacks a token.
        at_once: Whether a tag comes first, without free tokens before it.
    """
    free = ("repeat", tokens_body(None, [*calls, *excluded], where), 0, None)
    some = [bodies.sequence([tokens_body([tag], (), where), call]) for tag, call in calls.items()]
    if not some:
        return free
    call = some[0] if len(some) == 1 else bodies.choice(some)
    if loops:
        more = ("repeat", bodies.sequence([free, call]), 0, None)
        return bodies.sequence([*([call] if at_once else []), more, free])
    return call if at_once else bodies.sequence([free, bodies.repeat(call, 0, 1)])
