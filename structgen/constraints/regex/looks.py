"""Translate anchors, word boundaries and look-arounds into intersection and complement, as far as possible.

Why: the core decides emptiness of plain expressions best, and a plain expression has the same meaning in every
context. On the following text, ``X(?=B)Y`` is ``X(Y & B.*)`` and ``X(?!B)Y`` is ``X(Y & ~(B.*))``; ``$`` is the
case "nothing follows"; look-behind is the mirror image. That covers looks in the sequence of a whole pattern, in
alternatives, and in simple repetitions next to its ends. The others, mostly looks deep inside repetitions, stay as
"look" nodes.

Invariant: the language over whole texts does not change; the result has no "boundary" nodes.

Cost: linear in the pattern, except that alternatives with looks copy their neighbours, at most `_MAX_COPIED_NODES`
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

__all__ = ["remove_looks"]

_MAX_COPIED_NODES = 64
"""Limit on the size of neighbours that are copied into an alternative."""

_MAX_CONDITIONS = 200
"""Limit on the anchors, boundaries and looks of one sequence; each costs a pass over it."""

_NOT_EMPTY: RE = ("concat", (ANY, TEXT))
"""Every text except the empty one."""


def remove_looks(expression: RE, around: RE, looks: bool) -> RE:
    """Return the texts in which `expression` is found between two texts of `around`.

    Args:
        expression: The expression of a pattern.
        around: TEXT for ``search``, EPSILON for ``fullmatch``.
        looks: Whether the expression has any anchors, boundaries or looks.
    """
    if not looks:
        if around == EPSILON:
            return expression
        return alternate(_absorb([TEXT, *_parts(branch), TEXT]) for branch in _branches(expression))
    return alternate(_remove_from_branch(branch, around, around) for branch in _branches(expression))


def _branches(expression: RE) -> tuple[RE, ...]:
    """Return the alternatives; an optional part counts as one that may be empty."""
    if expression[0] == "alternate":
        return expression[1]  # type: ignore[no-any-return]
    if expression[0] == "repeat" and expression[2:] == (0, 1):
        return (EPSILON, *_branches(expression[1]))
    return (expression,)


def _parts(expression: RE) -> tuple[RE, ...]:
    return expression[1] if expression[0] == "concat" else (expression,)


def _remove_from_branch(branch: RE, before: RE, after: RE) -> RE:
    own = _parts(branch)
    if len(own) > 1 and own[0] == START and own[-1] == END and not any(map(has_look, own[1:-1])):
        return _absorb(own[1:-1])  # most patterns
    parts = [before, *_sort_conditions(own), after]
    unknown = _resolve_boundaries(parts)
    cases = _boundary_cases(parts, unknown) if len(unknown) <= 2 else [parts]
    expanded = ([_expand_boundaries(part) for part in case[1:-1]] for case in cases)
    return alternate(_remove_from_parts(case, before, after) for case in expanded)


def _remove_from_parts(parts: list[RE], before: RE, after: RE) -> RE:
    """Remove the conditions at the start and end of the text first, since they concern the whole text."""
    first = next((index for index, part in enumerate(parts) if part[0] != "look"), len(parts))
    last = next((index for index in range(len(parts), first, -1) if parts[index - 1][0] != "look"), first)
    opening, middle, closing = parts[:first], parts[first:last], parts[last:]
    if START in opening:
        before = EPSILON
    if END in closing or (END in opening and not middle):
        after = EPSILON
    conditions: list[RE] = []
    if before == EPSILON:
        opening = [part for part in opening if not _extract_condition(part, True, conditions)]
    if after == EPSILON:
        closing = [part for part in closing if not _extract_condition(part, False, conditions)]
    body = _remove_look_behind(before, _remove_look_ahead([*opening, *middle, *closing], after))
    return intersect([body, *conditions]) if conditions else body


def _extract_condition(part: RE, ahead: bool, conditions: list[RE]) -> bool:
    """Turn a look-ahead at the start, or a look-behind at the end, into a condition on the whole text."""
    if part[1] != ahead:
        return part == START if ahead else part == END
    if part in (START, END):
        return False
    before, after = (EPSILON, TEXT) if ahead else (TEXT, EPSILON)
    condition = alternate(_remove_from_branch(branch, before, after) for branch in _branches(part[3]))
    if has_look(condition):
        return False
    conditions.append(complement(condition) if part[2] else condition)
    return True


# -- look-ahead, from the right; look-behind, from the left


def _remove_look_ahead(parts: Iterable[RE], after: RE) -> list[RE]:
    """Return the parts without looks ahead at their top level; the last part ends the text."""
    rest: list[RE] = [after]  # reversed
    budget = _MAX_CONDITIONS
    for part in reversed(list(parts)):
        if part[0] == "look" and part[1]:
            condition = _look_ahead_condition(part[3])
            # subtle: operands of an intersection do not see the text around them, so looks must not move into one.
            if condition is not None and not any(map(has_look, rest)):
                rest = [intersect([_absorb(rest[::-1]), complement(condition) if part[2] else condition])]
                continue
        elif _has_direction(part, ahead=True):
            budget = _count_condition(budget)
            replaced = _distribute(part, _absorb(rest[::-1]), _right_of)
            if replaced is not None:
                rest = [replaced]
                continue
        rest.append(part)
    rest.reverse()
    return rest


def _remove_look_behind(before: RE, parts: list[RE]) -> RE:
    """Do the same in the other direction: the first part starts the text."""
    front: list[RE] = [before]
    budget = _MAX_CONDITIONS
    for part in parts:
        if part[0] == "look" and not part[1]:
            condition = _look_behind_condition(part[3])
            if condition is not None and not any(map(has_look, front)):
                front = [intersect([_absorb(front), complement(condition) if part[2] else condition])]
                continue
        elif _has_direction(part, ahead=False):
            budget = _count_condition(budget)
            replaced = _distribute(part, _absorb(front), _left_of)
            if replaced is not None:
                front = [replaced]
                continue
        front.append(part)
    return _absorb(front)


def _count_condition(budget: int) -> int:
    if not budget:
        raise LimitExceeded(
            f"the pattern has more than {_MAX_CONDITIONS} anchors, word boundaries and look-arounds in a row",
            limit="pattern_conditions",
            hint="Split it into alternatives, or join several constraints with &.",
        )
    return budget - 1


@lru_cache(maxsize=64)
def _look_ahead_condition(body: RE) -> RE | None:
    """Return the texts that start with a match of `body`, or None if that depends on what precedes them."""
    condition = alternate(
        _absorb(_remove_look_ahead(_branch_parts(branch), TEXT)) for branch in _branches(body)
    )
    return None if has_look(condition) else condition


@lru_cache(maxsize=64)
def _look_behind_condition(body: RE) -> RE | None:
    """Return the texts that end with a match of `body`."""
    condition = alternate(_remove_look_behind(TEXT, _branch_parts(branch)) for branch in _branches(body))
    return None if has_look(condition) else condition


def _branch_parts(branch: RE) -> list[RE]:
    parts = [NOTHING, *_sort_conditions(_parts(branch)), NOTHING]
    _resolve_boundaries(parts)
    return [_expand_boundaries(part) for part in parts[1:-1]]


def _right_of(branch: RE, after: RE) -> RE:
    return _absorb(_remove_look_ahead(_sort_conditions(_parts(branch)), after))


def _left_of(branch: RE, before: RE) -> RE:
    return _remove_look_behind(before, _sort_conditions(_parts(branch)))


def _distribute(part: RE, neighbour: RE, join: Callable[[RE, RE], RE]) -> RE | None:
    """Move the whole rest of the text on one side into alternatives, or into a simple repetition."""
    if part[0] == "concat":
        return join(part, neighbour)
    if part[0] == "alternate" or (part[0] == "repeat" and part[2:] == (0, 1)):
        if not _has_fewer_nodes(neighbour, _MAX_COPIED_NODES):
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
    """Translate ``(?:(?!B).)*`` and ``(?:.(?!B))*`` at the end of the text: no suffix starts with B."""
    parts = _parts(body)
    indices = [index for index, part in enumerate(parts) if part[0] != "look"]
    if len(indices) != 1 or len(parts) < 2 or not _is_character(parts[indices[0]]):
        return None
    excluded: list[RE] = []
    for index, part in enumerate(parts):
        if index == indices[0]:
            continue
        _, ahead, negative, inner = part
        condition = _look_ahead_condition(inner) if ahead else None
        if condition is None:
            return None
        wrong = condition if negative else complement(condition)
        if index < indices[0]:
            excluded.append(concat([TEXT, intersect([wrong, _NOT_EMPTY])]))
        else:
            excluded.append(concat([ANY, TEXT, wrong]))
    return intersect([repeat(parts[indices[0]], low, high), *map(complement, excluded)])


def _with_anchors(body: RE, low: int, high: int | None, ahead: bool) -> RE | None:
    """Translate ``(?:X(?:,|$))*`` at the end of the text, and mirrored for ``^``.

    Only the last round can reach the anchor.
    subtle: rounds after that one are empty; if an empty round exists, no number of rounds is too small.
    """
    inner = _where_not(END if ahead else START, body)
    outer = _right_of(body, EPSILON) if ahead else _left_of(body, EPSILON)
    if has_look(inner) or has_look(outer):
        return None
    min_rounds = 0 if nullable(inner) or nullable(outer) else max(low - 1, 0)
    rounds = repeat(inner, min_rounds, None if high is None else high - 1)
    return alternate([repeat(inner, low, high), concat([rounds, outer] if ahead else [outer, rounds])])


def _where_not(anchor: RE, part: RE) -> RE:
    """Return the part under the condition that the anchor does not hold."""
    if part == anchor:
        return NOTHING
    if part[0] == "concat":
        return concat(_where_not(anchor, item) for item in part[1])
    if part[0] == "alternate":
        return alternate(_where_not(anchor, branch) for branch in part[1])
    if part[0] == "repeat":
        return repeat(_where_not(anchor, part[1]), part[2], part[3])
    return part


def _absorb(parts: Iterable[RE]) -> RE:
    """Concatenate; TEXT absorbs adjacent repetitions that are optional."""
    result: list[RE] = []
    for outer in parts:
        for part in _parts(outer):
            if result and result[-1] == TEXT:
                part = _minimum(part)
            elif part == TEXT:
                while result and _minimum(result[-1]) == EPSILON:
                    result.pop()
                if result:
                    result[-1] = _minimum(result[-1])
            if part != EPSILON:
                result.append(part)
    return concat(result)


def _minimum(part: RE) -> RE:
    """Return what remains of a part next to TEXT: X{2} of X{2,5}."""
    if part[0] == "repeat" and part[3] != part[2]:
        return repeat(part[1], part[2], part[2])
    return part


# -- word boundaries


def _sort_conditions(parts: Iterable[RE]) -> list[RE]:
    """Sort the conditions on one position: look-behind, boundary, look-ahead. They all hold there, in any order."""
    result: list[RE] = []
    run: list[RE] = []
    budget = _MAX_CONDITIONS
    for part in parts:
        if part[0] == "look" or part[0] == "boundary":
            budget = _count_condition(budget)
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
    """Replace boundaries with a known side by a condition on the other side; return the indices of the rest."""
    unknown: list[int] = []
    for index, part in enumerate(parts):
        if part[0] != "boundary":
            continue
        _, negative, word = part
        left = _word_before(parts, index, word)
        right = _word_after(parts, index, word)
        if left is None and right is None:
            unknown.append(index)
        elif left is not None and right is not None:
            parts[index] = EPSILON if (left == right) == negative else NOTHING
        elif left is not None:
            parts[index] = ("look", True, left != negative, character_class(word))
        else:
            parts[index] = ("look", False, right != negative, character_class(word))
    return unknown


def _boundary_cases(parts: list[RE], unknown: list[int]) -> list[list[RE]]:
    """Return the sequence once for each way in which the boundaries at these indices can hold."""
    cases = [parts]
    for index in reversed(unknown):  # from the right, since each boundary becomes two parts
        _, negative, word = parts[index]
        word_character = character_class(word)
        cases = [
            [
                *case[:index],
                ("look", False, not left, word_character),
                ("look", True, left != negative, word_character),
            ]
            + case[index + 1 :]
            for case in cases
            for left in (False, True)
        ]
    return cases


def _word_before(parts: list[RE], index: int, word: Ranges) -> bool | None:
    for part in reversed(parts[:index]):
        if part == START:
            return False
        if part != EPSILON and part[0] not in ("look", "boundary"):
            return _edge(part, word, last=True)
    return False if parts[0] == EPSILON else None


def _word_after(parts: list[RE], index: int, word: Ranges) -> bool | None:
    for part in parts[index + 1 :]:
        if part == END:
            return False
        if part != EPSILON and part[0] not in ("look", "boundary"):
            return _edge(part, word, last=False)
    return False if parts[-1] == EPSILON else None


def _edge(part: RE, word: Ranges, last: bool) -> bool | None:
    """Is the first (or last) character of every match of `part` one of `word`? None if that varies."""
    kind = part[0]
    if kind == "literal" and part[1]:
        return _is_subset(((ord(part[1][-last]), ord(part[1][-last])),), word)
    if kind == "class":
        return _is_subset(part[1], word)
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


def _is_subset(ranges: Ranges, word: Ranges) -> bool | None:
    if all(any(a <= low and high <= b for a, b in word) for low, high in ranges):
        return True
    if not any(a <= high and low <= b for a, b in word for low, high in ranges):
        return False
    return None


def _expand_boundaries(part: RE) -> RE:
    """Replace the remaining boundaries by looks; inside groups the neighbours may decide them."""
    kind = part[0]
    if kind == "boundary":
        word_character = character_class(part[2])
        cases = [(False, False), (True, True)] if part[1] else [(True, False), (False, True)]
        pairs = [
            (("look", False, not left, word_character), ("look", True, not right, word_character))
            for left, right in cases
        ]
        return ("alternate", tuple(("concat", pair) for pair in pairs))
    if not has_look(part):
        return part
    if kind == "concat":
        inner = [NOTHING, *_sort_conditions(part[1]), NOTHING]
        _resolve_boundaries(inner)
        return concat(_expand_boundaries(item) for item in inner[1:-1])
    if kind == "alternate":
        return alternate(_expand_boundaries(branch) for branch in part[1])
    if kind == "repeat":
        return repeat(_expand_boundaries(part[1]), part[2], part[3])
    if kind == "look":
        return (*part[:3], _expand_boundaries(part[3]))
    return part


# -- measures


def _has_direction(part: RE, ahead: bool) -> bool:
    """Return whether there is a look in this direction, outside the bodies of others."""
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


def _has_fewer_nodes(part: RE, limit: int) -> bool:
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
