"""Tokens that continue after the same position, where a monitor has already answered.

Why: where a monitor allows little or nothing, thousands of tokens with the same beginning would otherwise be drawn and
refused one by one.
Invariant: a token is listed only if reading it would refuse it.
Cost: one reading of each rest; the vocabulary is sorted once.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left

from structgen.constraints.expressions import RE
from structgen.vocabulary import Vocabulary

from .restrictions import open_restriction

__all__ = ["refused_with"]

_sorted: weakref.WeakKeyDictionary[Vocabulary, list[tuple[bytes, int]]] = weakref.WeakKeyDictionary()


def refused_with(head: bytes, expression: RE, vocabulary: Vocabulary) -> set[int]:
    """Return the tokens that extend `head` by a rest with which no text of `expression` begins."""
    tokens = _sorted.get(vocabulary)
    if tokens is None:
        texts = ((vocabulary.token_bytes(token), token) for token in range(vocabulary.size))
        tokens = _sorted[vocabulary] = sorted((text, token) for text, token in texts if text)
    known: dict[bytes, bool] = {}
    refused = set()
    for index in range(bisect_left(tokens, (head, -1)), len(tokens)):
        text, token = tokens[index]
        if not text.startswith(head):
            break
        rest = text[len(head) :]
        if rest and rest not in known:
            known[rest] = open_restriction(expression, rest, 0, vocabulary) is None
        if rest and known[rest]:
            refused.add(token)
    return refused
