"""A small alphabet with tokens of several letters, twice: with special tokens, and without them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from structgen.constraints.base import Constraint
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

__all__ = [
    "LETTERS",
    "PLAIN",
    "WITH_SPECIALS",
    "accepted",
    "check_walks",
    "texts",
    "tokenisations",
]

LETTERS = "ab<>"
_PIECES = ["ab", "ba", "aa", "<a", "a>", "<a>", "b<", ">a", "><", "aab", "<a>b"]
SPECIALS = {"<a>": 1, "aa": 2, "</a>": 3}
_TOKENS: list[bytes | None] = [None, None, None, None, *(text.encode() for text in [*LETTERS, *_PIECES])]
PLAIN = Vocabulary.from_tokens(_TOKENS, [0])
WITH_SPECIALS = Vocabulary.from_tokens(_TOKENS, [0], specials=SPECIALS)


def texts(longest: int) -> list[str]:
    return ["".join(letters) for n in range(longest + 1) for letters in itertools.product(LETTERS, repeat=n)]


def tokenisations(vocabulary: Vocabulary, text: str, *, specials: bool) -> Iterator[list[int]]:
    """Return every tokenization of a text, optionally with special tokens."""
    if not text:
        yield []
        return
    for i in range(vocabulary.size):
        piece = vocabulary.spelled([i])
        if piece and text.startswith(piece) and (specials or vocabulary.token_bytes(i)):
            for rest in tokenisations(vocabulary, text[len(piece) :], specials=specials):
                yield [i, *rest]


def accepted(constraint: Constraint, vocabulary: Vocabulary, ids: list[int]) -> bool:
    matcher = Matcher(constraint, vocabulary)
    return matcher.accepts(ids) == len(ids) and all(map(matcher.advance, ids)) and matcher.is_complete()


def check_walks(constraint: Constraint, vocabulary: Vocabulary, rng: random.Random, steps: int = 12) -> str:
    """Return the text of a random walk through masks, completed shortly after some steps.

    At each step the mask equals single steps, and the state continues or ends.
    """
    matcher = Matcher(constraint, vocabulary)
    for _ in range(steps):
        mask = matcher.mask()
        allowed = [i for i in range(vocabulary.size) if mask[i // 32] >> (i % 32) & 1]
        assert allowed == [i for i in range(vocabulary.size) if matcher.fork().advance(i)], matcher.tokens
        assert allowed, matcher.tokens
        choice = rng.choice(allowed)
        if choice in vocabulary.eos_ids:
            return vocabulary.spelled(matcher.tokens)
        assert matcher.advance(choice)
    return vocabulary.spelled(_closed(matcher).tokens)


def _closed(matcher: Matcher) -> Matcher:
    """Return a completion with the fewest letters and special tokens."""
    states = [matcher]
    while states:
        for state in states:
            if state.is_complete():
                return state
        after = [(state.fork(), i) for state in states for i in range(1, 4 + len(LETTERS))]
        states = [state for state, i in after if state.advance(i)]
        assert len(states) < 50_000, matcher.tokens
    raise AssertionError(f"no text begins with {matcher.tokens}")
