"""The meaning of a body of the grammar IR over tokens, straight from the definition: the slow twin of token sets.

A sequence of tokens is read from a *place*: a token, and the number of its bytes that have been read. Text consumes
bytes across the borders of tokens; a token set consumes one whole token from its start. A token may be read in
every possible way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from tests.oracles import regex_twin

_matches = lru_cache(maxsize=200_000)(regex_twin.accepts)
Place = tuple[int, int]


class Twin:
    """A small vocabulary: `texts[i]` are the bytes of token i, None of a token without text."""

    def __init__(
        self, texts: Sequence[bytes | None], eos_ids: Sequence[int], specials: dict[str, int]
    ) -> None:
        self.texts = [b"" if place in eos_ids else text or b"" for place, text in enumerate(texts)]
        self.eos_ids = set(eos_ids)
        self.specials = specials

    def members(self, content: Any) -> set[int]:
        """The tokens of a set."""
        allowed, excluded, _, _ = content
        if allowed is None:
            named = set(self.specials.values())
            found = {i for i, text in enumerate(self.texts) if (text or i in named) and i not in self.eos_ids}
        else:
            found = self._named(allowed)
        return found - self._named(excluded, leave_out_eos=False)

    def _named(self, members: Iterable[Any], leave_out_eos: bool = True) -> set[int]:
        found: set[int] = set()
        for one in members:
            if isinstance(one, str):
                same = {i for i, text in enumerate(self.texts) if text == one.encode()}
                found |= {self.specials[one]} if one in self.specials else same
            elif one[0] == one[1]:
                found.add(one[0])
            else:
                numbers = set(range(one[0], one[1] + 1)) & set(range(len(self.texts)))
                found |= numbers - (self.eos_ids if leave_out_eos else set())
        return found

    def accepts(self, body: Any, tokens: Sequence[int]) -> bool:
        """Is the whole sequence a text of the body?"""
        return (len(tokens), 0) in self._ends(body, (0, 0), tokens)

    def _ends(self, body: Any, place: Place, tokens: Sequence[int]) -> set[Place]:
        kind = body[0]
        if kind == "text":
            return {
                end for end, read in self._reads(place, tokens) if _matches(body[1], read.decode("latin-1"))
            }
        if kind in ("special", "tokens"):
            at, offset = place
            wanted = {self.specials[body[1]]} if kind == "special" else self.members(body[1])
            return {(at + 1, 0)} if offset == 0 and at < len(tokens) and tokens[at] in wanted else set()
        if kind == "choice":
            return set().union(*(self._ends(part, place, tokens) for part in body[1]))
        if kind == "sequence":
            current = {place}
            for part in body[1]:
                current = {end for one in current for end in self._ends(part, one, tokens)}
            return current
        assert kind == "repeat"
        current, result = {place}, {place} if body[2] == 0 else set()
        most = body[2] + sum(max(1, len(self.texts[t])) for t in tokens) + 1 if body[3] is None else body[3]
        for turn in range(1, most + 1):
            current = {end for one in current for end in self._ends(body[1], one, tokens)}
            if turn >= body[2]:
                result |= current
        return result

    def _reads(self, place: Place, tokens: Sequence[int]) -> Iterator[tuple[Place, bytes]]:
        """Every place that bytes lead to, with these bytes."""
        at, offset = place
        read = b""
        yield place, read
        while at < len(tokens) and self.texts[tokens[at]]:
            text = self.texts[tokens[at]]
            read += text[offset : offset + 1]
            at, offset = (at + 1, 0) if offset + 1 == len(text) else (at, offset + 1)
            yield (at, offset), read

    def texts_of(self, body: Any, longest: int) -> set[tuple[int, ...]]:
        """All sequences of at most so many tokens that the body has."""
        numbers = range(len(self.texts))
        every = itertools.chain.from_iterable(
            itertools.product(numbers, repeat=n) for n in range(longest + 1)
        )
        return {tokens for tokens in every if self.accepts(body, tokens)}
