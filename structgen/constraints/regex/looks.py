r"""Anchors, word boundaries and look-around, turned into intersection and complement where that is possible.

Why: the core decides emptiness of plain expressions best, and a plain expression means the same wherever it
stands. On the text that follows, ``X(?=B)Y`` is ``X(Y & B.*)`` and ``X(?!B)Y`` is ``X(Y & ~(B.*))``; ``$`` is
the case "nothing follows"; look-behind is the mirror image. That covers looks in the sequence of a whole
pattern, in alternatives and in simple repetitions next to its ends. What remains (looks deep inside
repetitions, mostly) stays as "look" nodes.
Invariant: the language over whole texts never changes; the result holds no "boundary" nodes.
Cost: linear in the pattern, except that alternatives with looks copy what is beside them, at most `_COPIES`
nodes each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from structgen.constraints.expressions import (
    ANY,
    EPSILON,
    NOTHING,
    RE,
    TEXT,
    Ranges,
    alternate,
    character_class,
    complement,
    concat,
    has_look,
    intersect,
    nullable,
    repeat,
)
from structgen.errors import LimitExceeded

from .parser import END, START

__all__ = ["close"]

_COPIES = 64
"""An alternative's neighbours are copied into it only if they are smaller than this."""

_CONDITIONS = 200
"""Anchors, boundaries and looks that one sequence may have; each costs a pass over the sequence."""

_SOMETHING: RE = ("concat", (ANY, TEXT))
"""Every text but the empty one."""


def close(expression: RE, around: RE, looks: bool) -> RE:
    """The texts in which `expression` is found with `around` (TEXT or EPSILON) before and after it.

    `looks`: whether there are any anchors, boundaries or looks in the expression.
    """
    if not looks:
        if around == EPSILON:
            return expression
        return alternate(_absorb([TEXT, *_parts(branch), TEXT]) for branch in _branches(expression))
    return alternate(_close_branch(branch, around, around) for branch in _branches(expression))


def _branches(expression: RE) -> tuple[RE, ...]:
    """The alternatives, an optional part counting as one that may be empty."""
    if expression[0] == "alternate":
        return expression[1]  # type: ignore[no-any-return]
    if expression[0] == "repeat" and expression[2:] == (0, 1):
        return (EPSILON, *_branches(expression[1]))
    return (expression,)


def _parts(expression: RE) -> tuple[RE, ...]:
    return expression[1] if expression[0] == "concat" else (expression,)


def _close_branch(branch: RE, before: RE, after: RE) -> RE:
    parts = [before, *_ordered(_parts(branch)), after]
    unknown = _resolve_boundaries(parts)
    cases = _boundary_cases(parts, unknown) if len(unknown) <= 2 else [parts]
    return alternate(_close_parts([_expanded(part) for part in case[1:-1]], before, after) for case in cases)


def _close_parts(parts: list[RE], before: RE, after: RE) -> RE:
    """Conditions at the very start and end of the text are about all of it, so they come off first."""
    first = next((place for place, part in enumerate(parts) if part[0] != "look"), len(parts))
    last = next((place for place in range(len(parts), first, -1) if parts[place - 1][0] != "look"), first)
    opening, middle, closing = parts[:first], parts[first:last], parts[last:]
    if START in opening:
        before = EPSILON
    if END in closing or (END in opening and not middle):
        after = EPSILON
    conditions: list[RE] = []
    if before == EPSILON:
        opening = [part for part in opening if not _pulled(part, True, conditions)]
    if after == EPSILON:
        closing = [part for part in closing if not _pulled(part, False, conditions)]
    body = _close_left(before, _close_right([*opening, *middle, *closing], after))
    return intersect([body, *conditions]) if conditions else body


def _pulled(part: RE, ahead: bool, conditions: list[RE]) -> bool:
    """Turns a look ahead from the start, or behind from the end, into a condition on the whole text."""
    if part[1] != ahead:
        return part == START if ahead else part == END
    if part in (START, END):
        return False
    before, after = (EPSILON, TEXT) if ahead else (TEXT, EPSILON)
    condition = alternate(_close_branch(branch, before, after) for branch in _branches(part[3]))
    if has_look(condition):
        return False
    conditions.append(complement(condition) if part[2] else condition)
    return True


# -- looking ahead, from the right; looking behind, from the left


def _close_right(parts: Iterable[RE], after: RE) -> list[RE]:
    """Parts without looks ahead at their top, whose last part ends the text."""
    rest: list[RE] = [after]  # reversed
    budget = _CONDITIONS
    for part in reversed(list(parts)):
        if part[0] == "look" and part[1]:
            condition = _ahead(part[3])
            # subtle: the operands of an intersection see nothing around them, so looks must not get in there.
            if condition is not None and not any(map(has_look, rest)):
                rest = [intersect([_absorb(rest[::-1]), complement(condition) if part[2] else condition])]
                continue
        elif _has_direction(part, ahead=True):
            budget = _spend(budget)
            replaced = _into(part, _absorb(rest[::-1]), _right_of)
            if replaced is not None:
                rest = [replaced]
                continue
        rest.append(part)
    rest.reverse()
    return rest


def _close_left(before: RE, parts: list[RE]) -> RE:
    """The mirror image: the first part begins the text."""
    front: list[RE] = [before]
    budget = _CONDITIONS
    for part in parts:
        if part[0] == "look" and not part[1]:
            condition = _behind(part[3])
            if condition is not None and not any(map(has_look, front)):
                front = [intersect([_absorb(front), complement(condition) if part[2] else condition])]
                continue
        elif _has_direction(part, ahead=False):
            budget = _spend(budget)
            replaced = _into(part, _absorb(front), _left_of)
            if replaced is not None:
                front = [replaced]
                continue
        front.append(part)
    return _absorb(front)


def _spend(budget: int) -> int:
    if not budget:
        raise LimitExceeded(
            f"the pattern has more than {_CONDITIONS} anchors, word boundaries and look-arounds in a row",
            limit="pattern_conditions",
            hint="Split it into alternatives, or join several constraints with &.",
        )
    return budget - 1


@lru_cache(maxsize=64)
def _ahead(body: RE) -> RE | None:
    """The texts that begin with a match of `body`, or None if that depends on what is before them."""
    condition = alternate(_absorb(_close_right(_plain(branch), TEXT)) for branch in _branches(body))
    return None if has_look(condition) else condition


@lru_cache(maxsize=64)
def _behind(body: RE) -> RE | None:
    """The texts that end with a match of `body`."""
    condition = alternate(_close_left(TEXT, _plain(branch)) for branch in _branches(body))
    return None if has_look(condition) else condition


def _plain(branch: RE) -> list[RE]:
    parts = [NOTHING, *_ordered(_parts(branch)), NOTHING]
    _resolve_boundaries(parts)
    return [_expanded(part) for part in parts[1:-1]]


def _right_of(branch: RE, after: RE) -> RE:
    return _absorb(_close_right(_ordered(_parts(branch)), after))


def _left_of(branch: RE, before: RE) -> RE:
    return _close_left(before, _ordered(_parts(branch)))


def _into(part: RE, neighbour: RE, join: Callable[[RE, RE], RE]) -> RE | None:
    """Moves the whole rest of the text on one side into alternatives, or into a simple repetition."""
    if part[0] == "concat":
        return join(part, neighbour)
    if part[0] == "alternate" or (part[0] == "repeat" and part[2:] == (0, 1)):
        if not _smaller(neighbour, _COPIES):
            return None
        return alternate(join(branch, neighbour) for branch in _branches(part))
    if part[0] != "repeat":
        return None
    _, body, low, high = part
    if neighbour == TEXT and low <= 1:
        return join(body, TEXT) if low else TEXT
    if neighbour != EPSILON:
        return None
    ahead = join is _right_of
    return (_tempered(body, low, high) if ahead else None) or _with_anchors(body, low, high, ahead)


def _tempered(body: RE, low: int, high: int | None) -> RE | None:
    """``(?:(?!B).)*`` and ``(?:.(?!B))*`` at the end of the text: no suffix begins with B."""
    parts = _parts(body)
    places = [place for place, part in enumerate(parts) if part[0] != "look"]
    if len(places) != 1 or len(parts) < 2 or not _is_character(parts[places[0]]):
        return None
    excluded: list[RE] = []
    for place, part in enumerate(parts):
        if place == places[0]:
            continue
        _, ahead, negative, inner = part
        condition = _ahead(inner) if ahead else None
        if condition is None:
            return None
        wrong = condition if negative else complement(condition)
        if place < places[0]:
            excluded.append(concat([TEXT, intersect([wrong, _SOMETHING])]))
        else:
            excluded.append(concat([ANY, TEXT, wrong]))
    return intersect([repeat(parts[places[0]], low, high), *map(complement, excluded)])


def _with_anchors(body: RE, low: int, high: int | None, ahead: bool) -> RE | None:
    """``(?:X(?:,|$))*`` at the end of the text: only the last round can meet the anchor; mirrored, ``^``.

    subtle: rounds after that one are empty; where an empty round exists, no number of rounds is too small.
    """
    inner = _without(END if ahead else START, body)
    outer = _right_of(body, EPSILON) if ahead else _left_of(body, EPSILON)
    if has_look(inner) or has_look(outer):
        return None
    fewest = 0 if nullable(inner) or nullable(outer) else max(low - 1, 0)
    rounds = repeat(inner, fewest, None if high is None else high - 1)
    return alternate([repeat(inner, low, high), concat([rounds, outer] if ahead else [outer, rounds])])


def _without(anchor: RE, part: RE) -> RE:
    """The part where the anchor does not hold."""
    if part == anchor:
        return NOTHING
    if part[0] == "concat":
        return concat(_without(anchor, one) for one in part[1])
    if part[0] == "alternate":
        return alternate(_without(anchor, one) for one in part[1])
    if part[0] == "repeat":
        return repeat(_without(anchor, part[1]), part[2], part[3])
    return part


def _absorb(parts: Iterable[RE]) -> RE:
    """Concatenation in which TEXT swallows the repetitions next to it that need not be there."""
    result: list[RE] = []
    for outer in parts:
        for part in _parts(outer):
            if result and result[-1] == TEXT:
                part = _least(part)
            elif part == TEXT:
                while result and _least(result[-1]) == EPSILON:
                    result.pop()
                if result:
                    result[-1] = _least(result[-1])
            if part != EPSILON:
                result.append(part)
    return concat(result)


def _least(part: RE) -> RE:
    """What is left of a part next to TEXT: of X{2,5} just X{2}."""
    if part[0] == "repeat" and part[3] != part[2]:
        return repeat(part[1], part[2], part[2])
    return part


# -- word boundaries


def _ordered(parts: Iterable[RE]) -> list[RE]:
    """Conditions on one place in the order: behind, boundary, ahead; they all hold there, in any order."""
    result: list[RE] = []
    run: list[RE] = []
    budget = _CONDITIONS
    for part in parts:
        if part[0] == "look" or part[0] == "boundary":
            budget = _spend(budget)
            run.append(part)
            continue
        if run:
            result.extend(sorted(run, key=_direction))
            run = []
        result.append(part)
    result.extend(sorted(run, key=_direction))
    return result


def _direction(part: RE) -> int:
    return 1 if part[0] == "boundary" else 2 if part[1] else 0


def _resolve_boundaries(parts: list[RE]) -> list[int]:
    """Replaces boundaries one side of which is known by the condition on the other; the others' places."""
    unknown: list[int] = []
    for place, part in enumerate(parts):
        if part[0] != "boundary":
            continue
        _, negative, word = part
        left = _word_before(parts, place, word)
        right = _word_after(parts, place, word)
        if left is None and right is None:
            unknown.append(place)
        elif left is not None and right is not None:
            parts[place] = EPSILON if (left == right) == negative else NOTHING
        elif left is not None:
            parts[place] = ("look", True, left != negative, character_class(word))
        else:
            parts[place] = ("look", False, right != negative, character_class(word))
    return unknown


def _boundary_cases(parts: list[RE], unknown: list[int]) -> list[list[RE]]:
    """The sequence once for each way in which the boundaries at these places can hold."""
    cases = [parts]
    for place in reversed(unknown):  # from the right, as each boundary becomes two parts
        _, negative, word = parts[place]
        one = character_class(word)
        cases = [
            [*case[:place], ("look", False, not left, one), ("look", True, left != negative, one)]
            + case[place + 1 :]
            for case in cases
            for left in (False, True)
        ]
    return cases


def _word_before(parts: list[RE], place: int, word: Ranges) -> bool | None:
    for part in reversed(parts[:place]):
        if part == START:
            return False
        if part != EPSILON and part[0] not in ("look", "boundary"):
            return _edge(part, word, last=True)
    return False if parts[0] == EPSILON else None


def _word_after(parts: list[RE], place: int, word: Ranges) -> bool | None:
    for part in parts[place + 1 :]:
        if part == END:
            return False
        if part != EPSILON and part[0] not in ("look", "boundary"):
            return _edge(part, word, last=False)
    return False if parts[-1] == EPSILON else None


def _edge(part: RE, word: Ranges, last: bool) -> bool | None:
    """Is the first (or last) character of every match of `part` one of `word`? None if that varies."""
    kind = part[0]
    if kind == "literal" and part[1]:
        return _inside(((ord(part[1][-last]), ord(part[1][-last])),), word)
    if kind == "class":
        return _inside(part[1], word)
    if kind == "repeat" and part[2] > 0 and nullable(part[1]) is False:
        return _edge(part[1], word, last)
    if kind == "concat":
        edge = part[1][-1 if last else 0]
        return _edge(edge, word, last) if edge[0] not in ("look", "boundary") else None
    if kind in ("alternate", "literals"):
        inner = [("literal", text) for text in part[1]] if kind == "literals" else part[1]
        answers = {_edge(branch, word, last) for branch in inner}
        return answers.pop() if len(answers) == 1 else None
    return None


def _inside(ranges: Ranges, word: Ranges) -> bool | None:
    if all(any(a <= low and high <= b for a, b in word) for low, high in ranges):
        return True
    if not any(a <= high and low <= b for a, b in word for low, high in ranges):
        return False
    return None


def _expanded(part: RE) -> RE:
    """Boundaries that are left, spelled out as looks; inside groups the neighbours help as well."""
    kind = part[0]
    if kind == "boundary":
        one = character_class(part[2])
        cases = [(False, False), (True, True)] if part[1] else [(True, False), (False, True)]
        pairs = [(("look", False, not left, one), ("look", True, not right, one)) for left, right in cases]
        return ("alternate", tuple(("concat", pair) for pair in pairs))
    if not has_look(part):
        return part
    if kind == "concat":
        inner = [NOTHING, *_ordered(part[1]), NOTHING]
        _resolve_boundaries(inner)
        return concat(_expanded(one) for one in inner[1:-1])
    if kind == "alternate":
        return alternate(_expanded(branch) for branch in part[1])
    if kind == "repeat":
        return repeat(_expanded(part[1]), part[2], part[3])
    if kind == "look":
        return (*part[:3], _expanded(part[3]))
    return part


# -- measures


def _has_direction(part: RE, ahead: bool) -> bool:
    """Is there a look in this direction, outside the bodies of others?"""
    pending = [part]
    while pending:
        node = pending.pop()
        if node[0] == "look":
            if node[1] == ahead:
                return True
        elif node[0] in ("concat", "alternate"):
            pending.extend(node[1])
        elif node[0] == "repeat":
            pending.append(node[1])
    return False


def _smaller(part: RE, limit: int) -> bool:
    pending = [part]
    count = 0
    while pending:
        count += 1
        if count > limit:
            return False
        node = pending.pop()
        if node[0] in ("concat", "alternate", "intersect"):
            pending.extend(node[1])
        elif node[0] in ("repeat", "complement"):
            pending.append(node[1])
    return True


def _is_character(part: RE) -> bool:
    return part[0] in ("class", "any") or (part[0] == "literal" and len(part[1]) == 1)
