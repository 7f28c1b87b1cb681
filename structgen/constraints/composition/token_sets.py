"""Constraints of one token of a set, given by number or by text.

Why: engines and model authors name tokens by number: reserved tokens, tokens that start or end a region, all tokens but
a few. Such a token is read as a whole, independent of its bytes, so these constraints belong to one tokenizer.
Invariant: a set contains a token that ends a sequence only if that token is named itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from structgen.argument_names import checks_names
from structgen.constraints.grammar.token_sets import MOST_NUMBER, Member, shown_tokens, tokens_body
from structgen.errors import ConstraintError, with_kind
from structgen.ir.grammar import Body

from .composed import Composition

__all__ = ["Tokens", "token", "tokens", "tokens_of"]

_HINT = 'Pass numbers, texts and ranges of tokens: tokens([5, range(10, 13), "<|end|>"]).'
_Named = int | str | range


class Tokens(Composition):
    """One token of a set; `token` and `tokens` build it."""

    __slots__ = ()

    def __init__(self, body: Body) -> None:
        super().__init__(body, f"one token of {shown_tokens(body[1])}")

    def __repr__(self) -> str:
        return f"tokens({shown_tokens(self.body[1])})"


@checks_names
def token(which: int | str) -> Tokens:
    """Return the constraint of one token, which is read as a whole.

    Args:
        which: The number of any token, also of ordinary text; or a text. A text is the special token of that name, or
            a token with exactly these bytes.

    Raises:
        ConstraintError: `which` is neither. A vocabulary without the token raises an error when a matcher is created.

    Example:
        ``sg.token(128010) + sg.json_schema({...}) + sg.token("<|eom_id|>")``
    """
    return tokens_of([which], (), "token()")


@checks_names
def tokens(
    allowed: Iterable[_Named] | _Named | None = None, *, exclude: Iterable[_Named] | _Named = ()
) -> Tokens:
    """Return the constraint of one token of a set, which is read as a whole.

    Args:
        allowed: Numbers, texts and ranges of numbers. None: all tokens that are text or have a name, except those that
            end a sequence. A range contains no such token, and numbers beyond the vocabulary are ignored.
        exclude: The tokens that are left out, in the same form.

    Raises:
        ConstraintError: A member is not a number, text or range.

    Example:
        ``sg.repeat(sg.tokens(exclude="</think>")) + sg.token("</think>")``
    """
    return tokens_of(allowed, exclude, "tokens()")


def tokens_of(
    allowed: Iterable[_Named] | _Named | None, exclude: Iterable[_Named] | _Named, where: str
) -> Tokens:
    """Return `tokens`, with `where` as the origin in errors."""
    members = None if allowed is None else _members(allowed, where)
    return Tokens(tokens_body(members, _members(exclude, where), where))


def _members(tokens_given: Iterable[_Named] | _Named, where: str) -> list[Member]:
    named = (
        tokens_given
        if isinstance(tokens_given, Iterable) and not isinstance(tokens_given, (str, range))
        else (tokens_given,)
    )
    return [member for token_given in named for member in _member(token_given, where)]


def _member(token_given: object, where: str) -> list[Member]:
    if isinstance(token_given, str):
        if not token_given:
            raise ConstraintError(f"{where} cannot name a token by the empty text", hint=_HINT)
        if any("\ud800" <= character <= "\udfff" for character in token_given):
            raise ConstraintError(
                f"{token_given!r:.60} contains a lone surrogate, so no token has this text", hint=_HINT
            )
        return [token_given]
    if isinstance(token_given, range):
        if not token_given:
            return []
        if token_given.step != 1:
            raise ConstraintError(
                f"{where} takes ranges of tokens without a step, not {token_given!r:.60}", hint=_HINT
            )
        _check_number(token_given[0], where)
        _check_number(token_given[-1], where)
        return [(token_given[0], token_given[-1])]
    _check_number(token_given, where)
    return [(token_given, token_given)]  # type: ignore[list-item]


def _check_number(number: object, where: str) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ConstraintError(
            f"{where} names tokens by number or text, not by {with_kind(number)}", hint=_HINT
        )
    if not 0 <= number <= MOST_NUMBER:
        raise ConstraintError(f"no token has the number {with_kind(number)}", hint=_HINT)
