"""Tools of many shapes, vocabularies of bytes, and random walks through the masks of a turn."""

from __future__ import annotations

import functools
import random
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.tools import FORMATS, ToolFormat
from structgen.tools.turn import ToolTurn

__all__ = ["DEFINITION", "FUNCTIONS", "plain", "walk", "with_specials"]

Word = Annotated[str, Field(max_length=6)]


class Place(BaseModel):
    name: Word
    indoors: bool = False


def weather(city: Word, unit: Literal["c", "f"] = "c", days: Annotated[int, Field(ge=1, le=9)] = 1) -> str:
    """Tell the weather of a city."""
    return f"{city} {unit} {days}"


def switch(on: bool, level: Annotated[float, Field(ge=0, le=1)] | None = None) -> str:
    """Switch the light."""
    return f"{on} {level}"


def visit(
    places: Annotated[list[Place], Field(max_length=2)],
    flags: Annotated[list[bool], Field(min_length=1, max_length=3)],
    note: Word | None = None,
) -> int:
    """Visit places."""
    return len(places) + len(flags) + len(note or "")


def stop() -> str:
    """Stop everything."""
    return "stopped"


FUNCTIONS = [weather, switch, visit, stop]
DEFINITION: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look-up.v2",
        "description": "Look something up.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 8},
                "kind": {"enum": ["all", "some", None, True, 3]},
                "limit": {"type": ["integer", "null"], "minimum": 0, "maximum": 99},
            },
            "required": ["query"],
        },
    },
}

_BYTES = [bytes([byte]) for byte in range(256)]
_END = 256
_SIGNS = set(b'"{}[](),:<>/=\n')


@functools.cache
def plain() -> sg.Vocabulary:
    """Return a vocabulary with one token for each byte, and an end of text."""
    return sg.Vocabulary.from_tokens([*_BYTES, None], [_END])


@functools.cache
def with_specials(name: str) -> sg.Vocabulary:
    """Return `plain` with the special tokens of the format. The end of a harmony call ends a text, as in gpt-oss."""
    format: ToolFormat = FORMATS[name]
    thinks = [mark for mark in format.think if not any(special in mark for special in format.specials)]
    marks = dict.fromkeys((*format.specials, *(() if format.marks_answers else thinks)))
    specials = {mark: _END + 1 + place for place, mark in enumerate(marks)}
    ends = [_END, *(specials[mark] for mark in ("<|call|>", "<|return|>") if mark in specials)]
    return sg.Vocabulary.from_tokens([*_BYTES, *[None] * (len(marks) + 1)], ends, specials=specials)


def walk(constraint: Constraint, vocabulary: sg.Vocabulary, rng: random.Random, most: int = 3000) -> str:
    """Return the text of a random walk that prefers the bytes of tool calls."""
    matcher = sg.Matcher(constraint, vocabulary)
    for _ in range(most):
        mask = matcher.mask()
        allowed = [i for i in range(vocabulary.size) if mask[i // 32] >> (i % 32) & 1]
        assert allowed, matcher.text
        ends = [i for i in allowed if i >= _END]
        signs = [i for i in allowed if i in _SIGNS]
        usual = [i for i in allowed if 32 <= i < 127 or i in (10, 0xC3, 0xA9)] or allowed
        kinds = [kind for kind in (ends, signs, usual) if kind]
        token = rng.choice(rng.choice(kinds))
        if token in vocabulary.eos_ids and matcher.is_complete():
            break
        assert matcher.advance(token), (token, matcher.text)
        if token in vocabulary.eos_ids:
            break  # a turn may end with a token that ends texts
    assert matcher.is_complete(), matcher.text
    tokens = matcher.tokens
    text = vocabulary.spelled(tokens[:-1] if tokens and tokens[-1] in vocabulary.eos_ids else tokens)
    if isinstance(constraint, ToolTurn):
        assert constraint.read(text) == constraint.read(vocabulary.spelled(tokens))
    return text
