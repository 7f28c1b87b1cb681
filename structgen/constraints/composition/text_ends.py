"""Decide how the texts of a body may begin and end, for texts that may reach across that boundary.

Why: a text that is forbidden in free text may begin inside the body before it. This module decides whether that can
happen, and in which texts of the body.
Invariant: `may_begin` and `may_end` never miss a possibility. They are exact for regular parts and over-approximate
others: JSON by its first and last letters, other constraints by the letters of their terminals. `split_by_end` is exact
or raises `CombinationError`.
Cost: a few small searches for each forbidden text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from structgen import _core
from structgen.constraints.base import IR, Constraint
from structgen.constraints.expressions import (
    EPSILON,
    NOTHING,
    RE,
    TEXT,
    alternate,
    complement,
    concat,
    intersect,
    literal,
    literals,
)
from structgen.constraints.failures import limit_exceeded
from structgen.constraints.grammar.bodies import EMPTY, choice_of, sequence_of
from structgen.constraints.json_schema.nodes import ALL_TYPES
from structgen.errors import CombinationError
from structgen.ir.grammar import Body

from .emptiness import accepts_empty

__all__ = ["may_begin", "may_end", "split_by_end"]

_JSON_LETTERS = (
    (1, "n", "l"),
    (2, "tf", "e"),
    (4, "{", "}"),
    (8, "[", "]"),
    (16, "-0123456789", "0123456789"),
    (32, '"', '"'),
)
"""The bits of the JSON types, and the letters that their texts begin and end with."""


def may_begin(body: Body, text: str) -> bool:
    """Return whether a text of `body`, possibly with text after it, can begin with `text`."""
    can_begin, rests = _Overlap(forwards=True).body(body, text)
    return can_begin or bool(rests)


def may_end(body: Body, text: str, before: str) -> bool:
    """Return whether a text of `body` after `before` can end with `text`, which reaches into `before` at most."""
    can_end, rests = _Overlap(forwards=False).body(body, text)
    return can_end or any(before.endswith(rest) for rest in rests)


def split_by_end(body: Body, before: str, ends: Iterable[str]) -> dict[str, Body]:
    """Split `body` by the longest of `ends` that `before` plus a text of it ends with; the key is "" for none."""
    possible = _possible_ends(body, before, ends)
    if not possible:
        return {"": body}
    kind = body[0]
    if kind == "text":
        return _split_text(body[1], before, possible)
    if kind == "special":
        spelled = before + body[1]
        return {next((end for end in possible if spelled.endswith(end)), ""): body}
    if kind == "named":
        return {
            end: ("named", body[1], part) for end, part in split_by_end(body[2], before, possible).items()
        }
    if kind == "choice":
        return _merge_splits(split_by_end(part, before, possible) for part in body[1])
    if kind == "repeat":
        return _split_repeat(body, before, possible)
    if kind == "sequence":
        return _split_sequence(body[1], before, possible)
    if kind == "constraint":
        return _split_constraint(body[1], before, possible)
    raise _undecidable(body, possible[0])


def _possible_ends(body: Body, before: str, ends: Iterable[str]) -> list[str]:
    """Return the ends that a text of `body` may have, longest first; the last letter rules most of them out."""
    fixed = _fixed_ends(body)
    if fixed is not None:
        ends = [end for end in ends if any(end.endswith(text) or text.endswith(end) for text in fixed)]
    last: dict[str, list[str]] = {}
    for end in ends:
        last.setdefault(end[-1], []).append(end)
    likely = [end for letter, same in last.items() if may_end(body, letter, before) for end in same]
    return sorted((end for end in likely if may_end(body, end, before)), key=len, reverse=True)


def _split_text(expression: RE, before: str, ends: Sequence[str]) -> dict[str, Body]:
    parts = {end: intersect([expression, _with_longest_end(end, before, ends)]) for end in (*ends, "")}
    return {end: ("text", part) for end, part in parts.items() if _is_live(part)}


def _with_longest_end(end: str, before: str, ends: Sequence[str]) -> RE:
    """Return the texts for which `end` is the longest of `ends` that `before` plus the text ends with."""
    longer = [_ending(other, before) for other in ends if other.endswith(end) and other != end]
    return intersect([_ending(end, before), *map(complement, longer)])


def _ending(end: str, before: str) -> RE:
    """Return the texts that, after `before`, end with `end`."""
    cut = [end[index:] for index in range(1, len(end) + 1) if before.endswith(end[:index])]
    return alternate([concat([TEXT, literal(end)]), literals(cut)] if cut else [concat([TEXT, literal(end)])])


def _split_sequence(parts: Sequence[Body], before: str, ends: Sequence[str]) -> dict[str, Body]:
    if not parts:
        return _split_text(literal(""), before, ends)
    index = len(parts)
    while index and parts[index - 1][0] == "text":
        index -= 1
    texts = parts[index:]
    last: Body = ("text", concat(part[1] for part in texts)) if texts else parts[-1]
    rest = sequence_of(parts[:index] if texts else parts[:-1])
    if rest == EMPTY:
        return split_by_end(last, before, ends)
    reach = _Overlap(forwards=False)
    for end in ends:
        if any(may_end(rest, left, before) for left in reach.body(last, end)[1]):
            raise _undecidable(rest, end)
    return {end: sequence_of((rest, part)) for end, part in split_by_end(last, "", ends).items()}


def _split_repeat(body: Body, before: str, ends: Sequence[str]) -> dict[str, Body]:
    """Split a repetition as the empty text, if allowed, or as one round less followed by the last round."""
    _, inner, low, high = body
    alternatives: list[Body] = [] if low else [EMPTY]
    if high is None or high > 1:
        alternatives.append(("sequence", (("repeat", inner, max(low - 1, 0), high and high - 1), inner)))
    else:
        alternatives.append(inner)
    return _merge_splits(split_by_end(alternative, before, ends) for alternative in alternatives)


def _split_constraint(constraint: Constraint, before: str, ends: Sequence[str]) -> dict[str, Body]:
    parts: dict[str, Body] = {}
    for end in (*ends, ""):
        try:
            part = constraint._within(intersect([complement(EPSILON), _with_longest_end(end, before, ends)]))
        except CombinationError:
            part = None
        if part is None:
            raise _undecidable(("constraint", constraint), ends[0])
        parts[end] = ("constraint", part)
    if accepts_empty(constraint.lower()):  # separate, since it ends as the text before it ends
        return _merge_splits([parts, split_by_end(EMPTY, before, ends)])
    return parts


def _merge_splits(splits: Iterable[dict[str, Body]]) -> dict[str, Body]:
    alternatives: dict[str, list[Body]] = {}
    for split in splits:
        for end, part in split.items():
            alternatives.setdefault(end, []).append(part)
    return {end: choice_of(parts) for end, parts in alternatives.items()}


def _undecidable(body: Body, end: str) -> CombinationError:
    what = body[1].describe() if body[0] == "constraint" else "a part that is not regular"
    return CombinationError(
        f"it cannot be decided which texts of {what:.80} end with {end!r:.60}",
        hint="End the constraint after the trigger with a fixed text, such as json_schema(...) + '</call>'.",
    )


class _Overlap:
    """Matches the texts of a body against a text, from its beginning (`forwards`) or from its end."""

    def __init__(self, forwards: bool) -> None:
        self.forwards = forwards

    def body(self, body: Body, text: str) -> tuple[bool, set[str]]:
        """Return whether a text of `body` can begin (end) with all of `text`, and the rests after shorter texts."""
        kind = body[0]
        if kind == "text":
            return self._text(body[1], text)
        if kind == "special":
            return self._text(literal(body[1]), text)
        if kind == "named":
            return self.body(body[2], text)
        if kind == "choice":
            results = [self.body(part, text) for part in body[1]]
            return any(matches for matches, _ in results), {rest for _, rests in results for rest in rests}
        if kind == "sequence":
            return self._sequence(body[1], text)
        if kind == "repeat":
            return self._repeat(body, text)
        if kind != "constraint":
            return True, set()
        ir = body[1].lower()
        letter = text[0] if self.forwards else text[-1]
        return _has_letter(ir, letter, self.forwards), {text} if accepts_empty(ir) else set()

    def _text(self, expression: RE, text: str) -> tuple[bool, set[str]]:
        fixed = _fixed_text(expression, self.forwards)
        if fixed and not self._agrees(fixed, text):
            return False, set()
        around = [literal(text), TEXT] if self.forwards else [TEXT, literal(text)]
        if _is_live(intersect([expression, concat(around)])):
            return True, set()
        rests = set()
        for cut in range(len(text)):
            index = cut if self.forwards else len(text) - cut
            sides = text[:index], text[index:]
            part, rest = sides if self.forwards else sides[::-1]
            if _is_live(intersect([expression, literal(part)])):
                rests.add(rest)
        return False, rests

    def _agrees(self, fixed: str, text: str) -> bool:
        if self.forwards:
            return text.startswith(fixed) or fixed.startswith(text)
        return text.endswith(fixed) or fixed.endswith(text)

    def _sequence(self, parts: Sequence[Body], text: str) -> tuple[bool, set[str]]:
        pending = {text}
        for part in parts if self.forwards else reversed(parts):
            results = [self.body(part, rest) for rest in pending]
            if any(matches for matches, _ in results):
                return True, set()
            pending = {left_over for _, rests in results for left_over in rests}
        return False, pending

    def _repeat(self, body: Body, text: str) -> tuple[bool, set[str]]:
        """Match any number of repetitions; counts are ignored."""
        if body[3] == 0:
            return False, {text}
        seen, pending = {text}, [text]
        while pending:
            matches, rests = self.body(body[1], pending.pop())
            if matches:
                return True, set()
            pending += rests - seen
            seen |= rests
        return False, seen


def _fixed_ends(body: Body) -> set[str] | None:
    """Return the possible ends of the texts of a body, as fixed texts; None if they are not known at once."""
    kind = body[0]
    if kind == "text":
        fixed = _fixed_text(body[1], forwards=False)
        return {fixed} if fixed else None
    if kind == "named":
        return _fixed_ends(body[2])
    if kind == "sequence":
        return _fixed_ends(body[1][-1]) if body[1] else None
    if kind != "choice":
        return None
    found: set[str] = set()
    for part in body[1]:
        fixed_ends = _fixed_ends(part)
        if fixed_ends is None:
            return None
        found |= fixed_ends
    return found


def _fixed_text(expression: RE, forwards: bool) -> str:
    """Return the literal that all texts begin (end) with; empty if unknown."""
    while expression[0] == "concat":
        expression = expression[1][0 if forwards else -1]
    return str(expression[1]) if expression[0] == "literal" else ""


def _has_letter(ir: IR, letter: str, forwards: bool) -> bool:
    """Return whether a text of a plan can begin (end) with this letter."""
    kind, content = ir
    around = [literal(letter), TEXT] if forwards else [TEXT, literal(letter)]
    if kind == "regex":
        return _is_live(intersect([content, concat(around)]))
    if kind == "json":
        root = content["nodes"][content["root"]]
        types = root.get("types", ALL_TYPES) if isinstance(root, dict) else ALL_TYPES
        return any(
            types & bit and letter in (first if forwards else last) for bit, first, last in _JSON_LETTERS
        )
    if kind == "union":
        return any(_has_letter(part, letter, forwards) for part in content)
    if kind == "sequence":
        for part in content if forwards else reversed(content):
            if _has_letter(part, letter, forwards):
                return True
            if not accepts_empty(part):
                return False
        return False
    if kind == "counted" and not content[2]:  # cut, it may end with any letter
        return _has_letter(content[0], letter, forwards)
    if kind == "grammar":
        return any(_terminal_has(part, letter, around, forwards) for part in content["terminals"])
    return True


def _terminal_has(terminal: tuple[str, str, Any, int], letter: str, around: list[RE], forwards: bool) -> bool:
    kind, _, content, _ = terminal
    if kind == "text":
        return _is_live(intersect([content, concat(around)]))
    if kind == "special":
        return bool(content[0 if forwards else -1] == letter)
    return kind != "constraint" or _has_letter(content, letter, forwards)


def _is_live(expression: RE) -> bool:
    """Return whether an expression has a text."""
    if expression == NOTHING:
        return False
    try:
        space = _core.RegexSpace()
        return bool(space.alive(space.compile(expression)))
    except _core.LimitError as error:
        raise limit_exceeded(error, hint="Simplify the constraints after the triggers.") from None
