"""Reduce an input that shows a finding by leaving parts out (Zeller and Hildebrandt's ddmin, shortened).

A person must read the result. Where the input is JSON, structure goes first (members, items, whole sub-values), then
runs of characters, from half of the text down to one.

Cost: one answer of a worker for each attempt. `tries` and `seconds` bound the attempts; the result is the smallest
input so far.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["smallest"]


def smallest(text: str, shows: Callable[[str], bool], *, tries: int = 400, seconds: float = 90.0) -> str:
    """The smallest that was found; `shows` says whether an input still leads to the same finding."""
    until = time.monotonic() + seconds
    left = tries
    known = {text}

    def is_shown(shorter: str) -> bool:
        nonlocal left
        if shorter in known or left <= 0 or time.monotonic() > until:
            return False
        known.add(shorter)
        left -= 1
        return shows(shorter)

    better = True
    while better and left > 0 and time.monotonic() < until:
        better = False
        for shorter in _shorter(text):
            if is_shown(shorter):
                text, better = shorter, True
                break
    return text


def _shorter(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, (dict, list)):
        for smaller in _smaller(value):
            written = json.dumps(smaller)
            if len(written) < len(text):
                yield written
    size = len(text) // 2
    while size:
        for start in range(0, len(text), size):
            yield text[:start] + text[start + size :]
        size //= 2


def _smaller(value: Any, depth: int = 0) -> Iterator[Any]:
    """The value with one part left out, or replaced by a part of its own; the larger changes first."""
    if depth > 40:
        return
    if isinstance(value, dict):
        for key in value:
            yield {name: part for name, part in value.items() if name != key}
        for key, part in value.items():
            yield part
            for smaller in _smaller(part, depth + 1):
                yield {**value, key: smaller}
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield value[:at] + value[at + 1 :]
            yield part
            for smaller in _smaller(part, depth + 1):
                yield [*value[:at], smaller, *value[at + 1 :]]
    elif isinstance(value, str) and value:
        for start, end in ((0, len(value) // 2), (len(value) // 2, len(value))):
            yield value[:start] + value[end:]
        for at in range(min(len(value), 40)):
            yield value[:at] + value[at + 1 :]
