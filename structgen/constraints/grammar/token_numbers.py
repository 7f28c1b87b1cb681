"""Special tokens by their numbers, as Lark (llguidance) and GBNF (llama.cpp) write them: ``<[5]>``, ``<[5,10-12]>``.

Why: a number means a token of one tokenizer only. The core checks, for each vocabulary, that it is a special token.
Invariant: a set that is read is exactly the tokens that it names. Sets that hold all other tokens are refused: most of
those are text, and this library reads text as text, however it is cut into tokens.
Cost: linear in the text and in the number of tokens, which is bounded.
"""

from __future__ import annotations

import re

from structgen.errors import LimitExceeded

__all__ = ["MOST_TOKENS", "TOKENS_HINT", "token_numbers"]

MOST_TOKENS = 1_000
"""Tokens that one set may name."""

TOKENS_HINT = (
    "Name special tokens by number or range, as in <[5,10-12]>, or by text, as in <|name|>; text itself is "
    "written in quotes or as a pattern."
)

_SET = re.compile(r"<\[\s*(\^?)(.*?)\s*\]>", re.DOTALL)
_RANGE = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?")
_MOST_DIGITS = 10


def token_numbers(written: str) -> list[int]:
    """The numbers of a set, each once, in order.

    Raises `NotImplementedError` for the set of all tokens and for negated sets, `ValueError` for what is no set, and
    `LimitExceeded` for a set of more than `MOST_TOKENS`; the messages are for the user, without a place.
    """
    found = _SET.fullmatch(written)
    if found is None:
        raise ValueError("this is not a set of token numbers")
    if found[1]:
        raise NotImplementedError("negated sets of tokens are not supported: they hold tokens that are text")
    if found[2] == "*":
        raise NotImplementedError("the set of all tokens is not supported: it holds tokens that are text")
    numbers: set[int] = set()
    for part in found[2].split(","):
        span = _RANGE.fullmatch(part)
        if span is None:
            raise ValueError(f"{part.strip()[:40]!r} is not a token's number")
        first, last = span[1].lstrip("0") or "0", (span[2] or span[1]).lstrip("0") or "0"
        if max(len(first), len(last)) > _MOST_DIGITS or max(int(first), int(last)) >= 2**32 - 1:
            raise ValueError("no token has a number this large")
        if int(first) > int(last):
            raise ValueError(f"the range {part.strip()} is reversed")
        if int(last) - int(first) >= MOST_TOKENS or len(numbers) > MOST_TOKENS:
            raise _too_many()
        numbers.update(range(int(first), int(last) + 1))
    if len(numbers) > MOST_TOKENS:
        raise _too_many()
    return sorted(numbers)


def _too_many() -> LimitExceeded:
    return LimitExceeded(
        f"a set names more than {MOST_TOKENS} tokens",
        limit="token_set",
        hint="Name the special tokens that are meant, or write text as text.",
    )
