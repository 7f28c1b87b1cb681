"""Texts and recorded events through a matcher, token by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import structgen as sg

from .vocabularies import data

__all__ = ["Broken", "Outcome", "allowed", "feed", "replay", "walk"]


class Broken(Exception):
    """structgen contradicts itself: the mask says one thing, reading the token another."""


def allowed(matcher: sg.Matcher) -> list[int]:
    """The tokens in the mask, in ascending order."""
    bits = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def _in_mask(matcher: sg.Matcher, token: int) -> bool:
    return bool(int(matcher.mask()[token >> 5]) >> (token & 31) & 1)


def feed(matcher: sg.Matcher, tokens: Sequence[int], end: int) -> tuple[int, bool]:
    """Read tokens; how many are read, and whether the text may end there."""
    for place, token in enumerate(tokens):
        offered = _in_mask(matcher, token)
        read = matcher.advance(token)
        if offered != read:
            raise Broken(f"token {token} after {matcher.text!r}: mask {offered}, advance {read}")
        if not read:
            return place, False
    may_end = _in_mask(matcher, end)
    if may_end != matcher.is_complete():
        raise Broken(f"end of text after {matcher.text!r}: mask {may_end}, is_complete {not may_end}")
    return len(tokens), may_end


def walk(matcher: sg.Matcher, ends: Sequence[int], rng: np.random.Generator, most: int = 60) -> str:
    """A text drawn from the masks, uniformly over tokens, and completed where it grows long."""
    for _ in range(most):
        if matcher.is_complete() and rng.random() < 0.3:
            break
        tokens = allowed(matcher)
        token = tokens[int(rng.integers(len(tokens)))]
        if not matcher.advance(token):
            raise Broken(f"token {token} after {matcher.text!r}: in the mask, and refused")
        if token in ends:
            break
    if not matcher.is_complete() and not matcher.is_finished:
        for token in matcher.witness() or ():
            assert matcher.advance(token)
    return matcher.text.decode("utf-8", "replace")


class Outcome(NamedTuple):
    """What structgen did at an event; `text` says where."""

    equal: bool
    text: str
    want: Any = None
    got: Any = None


def replay(
    matcher: sg.Matcher, record: Mapping[str, Any], texts: Sequence[str | None], stops: Sequence[int]
) -> Iterator[Outcome]:
    """Repeat what a peer's test did to its matcher, and compare what the peer answered.

    Ends at the first token about which the two differ: what follows would be another text.
    """
    sizes: list[int] = []
    vocabulary = matcher.vocabulary
    for place, (event, *rest) in enumerate(record["events"]):
        where = f"event {place}, after {matcher.text!r}"
        if event == "mask":
            yield _compare_masks(allowed(matcher), rest[0], vocabulary, where, texts)
        elif event in ("accept_token", "accept_string"):
            tokens = _spelled(event, rest[0], vocabulary)
            if tokens is None:
                return
            known = all(0 <= token < vocabulary.size for token in tokens)
            read = known and matcher.accepts(tokens) == len(tokens)
            yield Outcome(read == rest[1], where, rest[1], read)
            if read != rest[1]:
                return
            if read:
                sizes.append(sum(1 for token in tokens if matcher.advance(token)))
        elif event == "rollback":
            for _ in range(rest[0]):
                matcher.rollback(sizes.pop())
            yield Outcome(True, where)
        elif event == "reset":
            matcher.reset()
            sizes = []
            yield Outcome(True, where)
        elif event in ("completed", "terminated"):
            needs_stop = event == "terminated" and not record["opts"].get("terminate_without_stop_token")
            got: Any = matcher.is_finished if needs_stop else matcher.is_complete()
            yield Outcome(got == rest[0], where, rest[0], got)
        elif event == "jump":
            got = matcher.forced_bytes().decode("utf-8", "replace")
            yield Outcome(got == rest[0], where, rest[0], got)
        else:
            raise ValueError(f"an unknown event: {event}")


def _compare_masks(
    found: list[int], wanted: Any, vocabulary: sg.Vocabulary, where: str, texts: Sequence[str | None]
) -> Outcome:
    if wanted == "all":  # XGrammar: no mask to apply
        missing = [
            token for token in range(vocabulary.size) if vocabulary.token_bytes(token) and token not in found
        ]
        return Outcome(not missing, where, "all", {"missing": [texts[token] for token in missing]})
    named = [token for token in wanted if token < vocabulary.size]
    missing = [texts[token] for token in named if token not in found]
    extra = [texts[token] for token in found if token not in named]
    return Outcome(found == named, where, "mask", {"missing": missing, "extra": extra})


def _spelled(event: str, given: Any, vocabulary: sg.Vocabulary) -> list[int] | None:
    if event == "accept_token":
        return [given]
    return _greedy(data(given), vocabulary)


def _greedy(text: bytes, vocabulary: sg.Vocabulary) -> list[int] | None:
    """The longest token at each place; `None` if some place has no token."""
    by_text = {vocabulary.token_bytes(token): token for token in range(vocabulary.size)}
    tokens, place = [], 0
    while place < len(text):
        fitting = [length for length in range(1, 41) if text[place : place + length] in by_text]
        if not fitting:
            return None
        tokens.append(by_text[text[place : place + fitting[-1]]])
        place += fitting[-1]
    return tokens
