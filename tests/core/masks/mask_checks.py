"""Check every bit of a mask, and walk from mask to mask."""

from __future__ import annotations

import random
from collections.abc import Iterator

from structgen.matcher import Matcher
from tests.core.small_vocabulary import allowed


def check_mask(matcher: Matcher, tokens: list[int] | None = None) -> set[int]:
    """Compare every bit of the mask, or those of `tokens`, with `viable_bytes`, `accepts` and `advance`."""
    vocabulary = matcher.vocabulary
    mask = matcher.mask()
    ids = allowed(mask)
    assert len(ids) == matcher.allowed_count()
    complete = matcher.is_complete()
    for token in range(vocabulary.words * 32) if tokens is None else tokens:
        piece = vocabulary.token_bytes(token)
        if token in vocabulary.eos_ids:
            alive = complete
        else:
            alive = bool(piece) and matcher.viable_bytes(piece or b"") == len(piece or b"")
        assert (token in ids) == alive, (token, piece, matcher.text)
        assert matcher.accepts([token]) == alive, (token, piece, matcher.text)
        other = matcher.fork()
        assert other.advance(token) == alive, (token, piece, matcher.text)
        assert other.tokens == matcher.tokens + [token] * alive
    assert matcher.mask() is mask or (matcher.mask() == mask).all()
    assert not mask.flags.writeable
    return ids


def walk(matcher: Matcher, steps: int, source: random.Random) -> Iterator[None]:
    """Advance by random tokens of the masks, often long ones, and pause before each step."""
    for _ in range(steps):
        yield
        ids = sorted(allowed(matcher.mask()) - set(matcher.vocabulary.eos_ids))
        if not ids:
            return
        some = source.choices(ids, k=source.choice((1, 3)))
        assert matcher.advance(max(some, key=lambda token: len(matcher.vocabulary.token_bytes(token) or b"")))
