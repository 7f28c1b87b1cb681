"""Parts whose tokens are limited, against a slow reading of all tokenizations over small vocabularies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import structgen as sg
from structgen.errors import CombinationError, LimitExceeded, OptionError
from structgen.vocabulary import Vocabulary

# ---- the oracle: where a form may end, and which beginnings of a text it has
#
# ("text", s) | ("some", form): any number of times | ("all", form, ...): in order | ("any", form, ...): one of them
# ("limit", form, n, at_limit)

Form = tuple[Any, ...]


class Reading:
    """A sequence of tokens, read by forms from any byte on."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.text = b"".join(tokens)
        self.ends = [len(b"".join(tokens[: n + 1])) for n in range(len(tokens))]
        self.known: dict[tuple[Form, int], tuple[frozenset[int], frozenset[int]]] = {}

    def of(self, form: Form, start: int) -> tuple[frozenset[int], frozenset[int]]:
        """Where a text of the form from `start` on may end, and up to where the text is the beginning of one."""
        key = form, start
        if key not in self.known:
            ends, begun = self._of(form, start)
            self.known[key] = frozenset(ends), frozenset(begun | ends)
        return self.known[key]

    def _of(self, form: Form, start: int) -> tuple[set[int], set[int]]:
        kind = form[0]
        if kind == "text":
            whole: bytes = form[1]
            begun = {start + n for n in range(len(whole) + 1) if self.text[start : start + n] == whole[:n]}
            begun = {place for place in begun if place <= len(self.text)}
            return ({start + len(whole)} & begun), begun
        if kind == "any":
            several = [self.of(one, start) for one in form[1:]]
            return set().union(*(ends for ends, _ in several)), set().union(*(begun for _, begun in several))
        if kind == "all":
            ends, begun = {start}, {start}
            for one in form[1:]:
                read = [self.of(one, place) for place in ends]
                ends = set().union(*(after for after, _ in read))
                begun = begun.union(*(more for _, more in read))
            return ends, begun
        if kind == "some":
            ends, begun = {start}, {start}
            pending = [start]
            while pending:
                after, more = self.of(form[1], pending.pop())
                begun |= more
                pending += after - ends
                ends |= after
            return ends, begun
        _, inner, most, at_limit = form
        ends, begun = map(set, self.of(inner, start))
        if most == 0:
            if at_limit == "cut" or start in ends:
                return {start}, {start}
            most = 1
        used = 0
        for place in self.ends:
            if place <= start:
                continue
            used += 1
            if used < most or place not in begun:
                continue
            if at_limit == "complete" and place in ends:
                return {one for one in ends if one <= place}, {one for one in begun if one <= place}
            if at_limit == "cut" and not in_character(self.text[:place]):
                return {one for one in ends if one < place} | {place}, {one for one in begun if one <= place}
        return ends, begun


def in_character(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def constraint(form: Form) -> Any:
    kind = form[0]
    if kind == "text":
        return sg.regex(form[1].decode()) if form[1] else sg.regex("")
    if kind == "some":
        return sg.repeat(constraint(form[1]))
    if kind == "limit":
        return sg.limit_tokens(constraint(form[1]), form[2], at_limit=form[3])
    whole = constraint(form[1])
    for one in form[2:]:
        whole = whole | constraint(one) if kind == "any" else whole + constraint(one)
    return whole


def check(form: Form, texts: list[bytes], most: int) -> int:
    """Compare masks and ends along every sequence of up to `most` tokens that may be read; how many there were."""
    vocabulary = Vocabulary.from_tokens([*texts, None], [len(texts)])
    pending: list[tuple[list[int], sg.Matcher]] = [([], sg.Matcher(constraint(form), vocabulary))]
    count = 0
    while pending:
        path, matcher = pending.pop()
        count += 1
        mask = [bool(int(matcher.mask()[0]) >> token & 1) for token in range(len(texts) + 1)]
        read = [texts[token] for token in path]
        expected = []
        for text in texts:
            reading = Reading([*read, text])
            expected.append(len(reading.text) in reading.of(form, 0)[1])
        reading = Reading(read)
        expected.append(len(reading.text) in reading.of(form, 0)[0])
        assert mask == expected, (form, read, mask, expected)
        assert matcher.is_complete() == expected[-1]
        completion = matcher.witness()
        assert completion is not None
        assert matcher.accepts(completion) == len(completion)
        for token in completion:
            assert matcher.advance(token)
        assert matcher.is_complete()
        matcher.rollback(len(completion))
        for token in [token for token in range(len(texts)) if expected[token]] if len(path) < most else []:
            pending.append(([*path, token], matcher.fork()))
            assert pending[-1][1].advance(token)
    return count


LETTERS = [b"a", b"b", b"c", b"ab", b"ba", b"aab", b"bc"]


def text(value: str) -> Form:
    return "text", value.encode()


def limit(form: Form, most: int, at_limit: str = "complete") -> Form:
    return "limit", form, most, at_limit


AS, ABS = ("some", text("a")), ("some", ("any", text("a"), text("b")))
FORMS: dict[str, Form] = {
    "free text, then an end": ("all", limit(ABS, 2), text("c")),
    "before and after": ("all", text("a"), limit(AS, 2), text("b"), text("c")),
    "nothing but the part": limit(ABS, 2),
    "it cannot end early": ("all", limit(("some", text("ab")), 1), text("c")),
    "no empty text": ("all", limit(text("aab"), 1), text("c")),
    "no tokens": ("all", text("a"), limit(ABS, 0), text("b"), text("c")),
    "no tokens, no empty text": ("all", limit(text("aab"), 0), text("b")),
    "cut": ("all", limit(("some", text("aab")), 2, "cut"), text("c")),
    "cut text": ("all", limit(text("aabaab"), 2, "cut"), text("bc")),
    "again and again": ("all", ("some", limit(("all", text("a"), AS, text("b")), 2)), text("c")),
    "again and again, cut": ("all", ("some", limit(("all", text("a"), text("b"), text("b")), 2, "cut")), text("c")),
    "inside one another": ("all", limit(("all", text("b"), limit(AS, 1), text("b")), 3), text("c")),
    "inside one another, the inner one cut": ("all", limit(("all", text("b"), limit(text("aab"), 1, "cut"), AS), 2), text("c")),
    "inside one another, both cut": ("all", limit(("all", limit(text("aab"), 2, "cut"), text("ba")), 3, "cut"), text("c")),
    "one part or another": ("any", ("all", limit(AS, 1), text("b")), ("all", limit(AS, 3), text("c"))),
    "begins wherever": ("all", ABS, limit(ABS, 1), text("c")),
    "one after the other": ("all", limit(AS, 1), limit(("some", text("b")), 1), limit(("some", text("a")), 2), text("c")),
}


@pytest.mark.parametrize("name", FORMS)
def test_masks_are_those_of_the_slow_reading(name: str) -> None:
    assert check(FORMS[name], LETTERS, 3 if name == "begins wherever" else 4) > 1


def random_form(random: random.Random, depth: int) -> Form:
    kind = random.choice(["text", "text", "some", "all", "any", "limit", "limit"]) if depth else "text"
    if kind == "text":
        return text("".join(random.choices("ab", k=random.randint(1, 2))))
    if kind == "some":
        return "some", random_form(random, depth - 1)
    if kind == "limit":
        return limit(random_form(random, depth - 1), random.randint(0, 3), random.choice(["complete", "cut"]))
    return kind, *(random_form(random, depth - 1) for _ in range(2))


def random_forms(count: int) -> Iterator[Form]:
    chance = random.Random(35)
    for _ in range(count):
        yield "all", random_form(chance, 3), text("c")


def test_masks_of_random_forms_are_those_of_the_slow_reading() -> None:
    for form in random_forms(60):
        check(form, LETTERS[:6], 3)
