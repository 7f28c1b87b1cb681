"""Drive a compiled constraint at random, and check its invariants.

A front end may accept an input and pass something on that the core cannot follow; that shows when masks are computed.

The invariants: a mask allows a token if and only if a fork accepts it; a rollback restores the mask; a text drawn with
tokens of several bytes can be read byte by byte; an offered completion completes the text. Cost: some dozens of masks
for each input, over vocabularies of 257 and some 600 tokens.
"""

from __future__ import annotations

import random

import numpy as np

from structgen.constraints.base import Constraint
from structgen.generation.distributions import allowed_ids
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

__all__ = ["Broken", "a_text", "check_matcher", "vocabularies"]

_PIECES = (  # noqa: SIM905  (short enough to be read as one text)
    '{"|":|": "|"}|{"a":|, "|"a"|"b"|[]|[1|],|true|false|null|10|0.5|-1|e+|1e|\\u00|\\n|\\"|é|€|😀|  |\n  |'
    "ab|abc|the |==|->|//|/*|*/|def |x = |(a|)\n|foo|12|"
    "2024-|-01|T00:|Z|@a.|http|://|::|.+|\t|\r\n|'a'|select|SELECT | from |<a>|</"
).split("|")
_STEPS = 24
_PROBES = 24


class Broken(AssertionError):
    """An invariant that does not hold; `invariant` names it."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    """One of bytes, one with tokens of several bytes, some of which end inside a character."""
    pieces = [piece.encode() for piece in dict.fromkeys(_PIECES) if piece]
    cut = [piece[:-1] for piece in pieces if piece[-1] >= 0x80]
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    tokens += [*pieces, *cut, *(a + b for a in pieces[::3] for b in pieces[1::9])]
    return Vocabulary.of_bytes(), Vocabulary.from_tokens([*tokens, None], [len(tokens)])


def a_text(matcher: Matcher, rng: random.Random) -> bytes | None:
    """A finished text: what the matcher has read and a short completion; None where none is found."""
    rest = matcher.witness_text()
    return None if rest is None else matcher.text + rest


def check_matcher(
    constraint: Constraint, known: tuple[Vocabulary, Vocabulary], rng: random.Random
) -> bytes | None:
    """Walk at random and check the invariants. Return a finished text, if one was found.

    Raises `Broken`, or an error of structgen's where a limit is met or nothing satisfies the constraint.
    """
    by_bytes, by_pieces = known
    matcher = Matcher(constraint, by_pieces)
    reader = Matcher(constraint, by_bytes)
    for _ in range(_STEPS):
        mask = matcher.mask().copy()
        allowed = allowed_ids(mask, by_pieces.size)
        _probe(matcher, mask, rng)
        onwards = [int(i) for i in allowed if i not in by_pieces.eos_ids]
        if matcher.is_complete() != (len(onwards) < len(allowed)):
            raise Broken("an end is allowed iff the text is complete", repr(matcher.text))
        if not onwards:
            break
        token = rng.choice(onwards)
        if rng.random() < 0.5:  # the longer tokens are the more interesting ones
            token = max(
                rng.sample(onwards, min(4, len(onwards))), key=lambda i: len(by_pieces.token_bytes(i) or b"")
            )
        if not matcher.advance(token):
            raise Broken("a token that the mask allows is taken", f"{matcher.text!r}, then token {token}")
        if rng.random() < 0.2:
            matcher.rollback(1)
            if not np.array_equal(mask, matcher.mask()):
                raise Broken("going back brings the mask back", repr(matcher.text))
            matcher.advance(token)
    if matcher.names_text_tokens:  # what it reads depends on tokens, not on text alone
        rest = matcher.witness()
        if rest is not None and not (all(map(matcher.advance, rest)) and matcher.is_complete()):
            raise Broken("a completion completes", f"{matcher.text!r}, tokens {rest}")
        return None
    read = reader.viable_bytes(matcher.text)
    if read != len(matcher.text):
        raise Broken("what tokens spell can be read byte by byte", f"{matcher.text!r} up to {read}")
    text = a_text(matcher, rng)
    if text is None:
        return None
    for byte in text:
        if not reader.advance(byte):
            raise Broken(
                "a completion can be read", f"{text!r} after {matcher.text!r}, stuck at {reader.text!r}"
            )
    if not reader.is_complete():
        raise Broken("a completion completes", repr(text))
    return text


def _probe(matcher: Matcher, mask: np.ndarray[tuple[int], np.dtype[np.int32]], rng: random.Random) -> None:
    """Compares the mask with what forks take, for some tokens."""
    for token in rng.sample(range(matcher.vocabulary.size), _PROBES):
        allowed = bool(mask[token >> 5] >> (token & 31) & 1)
        if matcher.fork().advance(token) != allowed:
            raise Broken(
                "the mask allows a token iff it is taken",
                f"after {matcher.text!r}, token {token} ({matcher.vocabulary.token_bytes(token)!r}), mask {allowed}",
            )
