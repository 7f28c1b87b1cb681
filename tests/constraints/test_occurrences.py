"""Where texts occur, by enumeration over random marks with all their overlaps."""

from __future__ import annotations

import itertools
import random

import pytest

from structgen._core import RegexSpace
from structgen.constraints.expressions import TEXT
from structgen.constraints.occurrences import before, ends_first, without

WORDS = ["".join(letters) for n in range(8) for letters in itertools.product("ab", repeat=n)]


def ends_here(word: str, marks: list[str], forbidden: list[str]) -> str | None:
    """The mark that counts at the end of a word in which none has ended before and nothing forbidden is."""
    for end in range(1, len(word)):
        if any(word[:end].endswith(mark) for mark in marks):
            return None
    if any(other in word for other in forbidden):
        return None
    return max((mark for mark in marks if word.endswith(mark)), key=len, default=None)


@pytest.mark.parametrize("seed", range(40))
def test_first_occurrences(seed: int) -> None:
    rng = random.Random(seed)
    some = ["".join(rng.choices("ab", k=rng.randint(1, 4))) for _ in range(rng.randint(1, 4))]
    marks = list(dict.fromkeys(some))
    forbidden = list(
        dict.fromkeys("".join(rng.choices("ab", k=rng.randint(1, 4))) for _ in range(rng.randint(0, 2)))
    )
    space = RegexSpace()
    free = space.compile(without([*marks, *forbidden]))
    for mark in marks:
        whole = space.compile(ends_first(mark, marks, forbidden))
        part = space.compile(before(mark, marks, forbidden))
        for word in WORDS:
            wanted = ends_here(word, marks, forbidden) == mark
            assert space.matches(whole, word.encode()) == wanted, (word, mark, marks, forbidden)
            if len(word) < 6:
                joined = ends_here(word + mark, marks, forbidden) == mark
                assert space.matches(part, word.encode()) == joined, (word, mark, marks, forbidden)
    for word in WORDS:
        wanted = not any(mark in word for mark in [*marks, *forbidden])
        assert space.matches(free, word.encode()) == wanted


def test_nothing_to_look_for_is_every_text() -> None:
    assert without([]) == TEXT
