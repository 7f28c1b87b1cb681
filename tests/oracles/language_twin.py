"""The regex IR, evaluated in the obvious slow way: the set of positions at which a match of each node can end."""

from __future__ import annotations

import random
from typing import Any

Language = tuple[Any, ...]


def matches(language: Language, text: str) -> bool:
    """Is the whole text in the language?"""
    return len(text) in _Run(text).ends(language, 0)


class _Run:
    def __init__(self, text: str) -> None:
        self.text = text
        self.known: dict[tuple[int, int], set[int]] = {}

    def ends(self, language: Language, start: int) -> set[int]:
        key = (id(language), start)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = _RULES[language[0]](self, start, *language[1:])
        return found

    def any(self, start: int) -> set[int]:
        return {start + 1} if start < len(self.text) else set()

    def text_(self, start: int) -> set[int]:
        return set(range(start, len(self.text) + 1))

    def empty(self, start: int) -> set[int]:
        return set()

    def literal(self, start: int, text: str) -> set[int]:
        return {start + len(text)} if self.text.startswith(text, start) else set()

    def literals(self, start: int, texts: tuple[str, ...]) -> set[int]:
        return set().union(*[self.literal(start, text) for text in texts])

    def class_(self, start: int, ranges: tuple[tuple[int, int], ...]) -> set[int]:
        inside = start < len(self.text) and any(low <= ord(self.text[start]) <= high for low, high in ranges)
        return {start + 1} if inside else set()

    def concat(self, start: int, parts: tuple[Language, ...]) -> set[int]:
        places = {start}
        for part in parts:
            places = {end for place in places for end in self.ends(part, place)}
        return places

    def alternate(self, start: int, parts: tuple[Language, ...]) -> set[int]:
        return set().union(*[self.ends(part, start) for part in parts])

    def intersect(self, start: int, parts: tuple[Language, ...]) -> set[int]:
        return set.intersection(*[self.ends(part, start) for part in parts])

    def complement(self, start: int, part: Language) -> set[int]:
        return self.text_(start) - self.ends(part, start)

    def repeat(self, start: int, part: Language, low: int, high: int | None) -> set[int]:
        places = {start}
        for _ in range(low):
            places = {end for place in places for end in self.ends(part, place)}
        found = set(places)
        count = low
        while places and (high is None or count < high):
            places = {end for place in places for end in self.ends(part, place)} - found
            found |= places
            count += 1
        return found

    def look(self, start: int, ahead: bool, negative: bool, part: Language) -> set[int]:
        if ahead:
            holds = bool(self.ends(part, start))
        else:
            holds = any(start in self.ends(part, place) for place in range(start + 1))
        return {start} if holds != negative else set()


_RULES: dict[str, Any] = {
    "any": _Run.any,
    "text": _Run.text_,
    "empty": _Run.empty,
    "literal": _Run.literal,
    "literals": _Run.literals,
    "class": _Run.class_,
    "concat": _Run.concat,
    "alternate": _Run.alternate,
    "intersect": _Run.intersect,
    "complement": _Run.complement,
    "repeat": _Run.repeat,
    "look": _Run.look,
}


def draw(language: Language, source: random.Random) -> str | None:
    """A random text of the language; None where an intersection or complement was not met by luck."""
    kind = language[0]
    if kind == "class":
        low, high = source.choice(language[1])
        return chr(source.randint(low, high))
    if kind == "literal":
        return str(language[1])
    if kind == "literals":
        return str(source.choice(language[1]))
    if kind in ("any", "text"):
        return "".join(source.choice("a-é.0") for _ in range(1 if kind == "any" else source.randint(0, 3)))
    if kind == "concat":
        return _joined([draw(part, source) for part in language[1]])
    if kind == "alternate":
        return draw(source.choice(language[1]), source)
    if kind == "repeat":
        low, high = language[2], language[3]
        count = source.randint(low, min(low + 4, low + 4 if high is None else high))
        return _joined([draw(language[1], source) for _ in range(count)])
    if kind == "intersect":
        drawn = draw(language[1][0], source)
        return drawn if drawn is not None and matches(language, drawn) else None
    return None


def _joined(parts: list[str | None]) -> str | None:
    texts = [part for part in parts if part is not None]
    return "".join(texts) if len(texts) == len(parts) else None
