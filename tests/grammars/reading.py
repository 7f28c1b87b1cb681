"""What the tests of the shelf's grammars share: a reader for each, texts marked where they end, small random edits.

A text in a test may hold one ``‸``: before it stands what can begin a text of the language, and nothing longer; at
the end it says that the text is unfinished.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable

import structgen as sg
from bench.shelf import Reader, edited

__all__ = ["MARK", "assert_accepted", "assert_rejected", "disagreements", "reader"]

MARK = "‸"


@functools.lru_cache(maxsize=1)  # a grammar of a programming language holds up to 200 MB
def reader(name: str) -> Reader:
    """Reads with the grammar of this name."""
    return Reader(sg.grammar(name))


def assert_accepted(name: str, text: str) -> None:
    """It is a text of the language, so each of its beginnings can go on."""
    assert reader(name).viable(text) == len(text.encode()), "not even its beginning"
    assert reader(name).accepts(text)


def assert_rejected(name: str, marked: str) -> None:
    """It is no text of the language, and ends being the beginning of one at the mark."""
    before, mark, after = marked.partition(MARK)
    assert mark, "where does it end?"
    text = before + after
    assert not reader(name).accepts(text)
    # A character of which only some bytes can stand there cannot stand there.
    alive = text.encode()[: reader(name).viable(text)].decode(errors="ignore")
    assert alive == before


def disagreements(
    name: str,
    texts: Iterable[str],
    is_valid: Callable[[str], bool],
    *,
    seed: int,
    beyond_form: Callable[[str], bool] = lambda text: False,
) -> list[tuple[str, bool]]:
    """Edited texts, and the tool's verdict on them, where the grammar's is another.

    Texts that the tool rejects for a reason that is no matter of form may be accepted.
    """
    source = random.Random(seed)
    found = []
    for text in texts:
        other = edited(text, source)
        verdict = is_valid(other)
        if reader(name).accepts(other) != verdict and (verdict or not beyond_form(other)):
            found.append((other, verdict))
    return found
