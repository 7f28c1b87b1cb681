"""Dispatch: free text until a trigger, then what follows that trigger, then free text again.

Why: tool calls, citations, code blocks and other islands of structure in free text are this one shape.
What: of triggers that occur in the free text the one that ends first counts; of those that end at the same place the
longest. So a trigger that another one ends inside never counts. A forbidden text occurs nowhere in the free text, nor
across its border with the trigger that ends it. After what follows a trigger, free text begins anew.
Invariant: the language is exact, by `occurrences`; free text never holds a trigger, be it a text or the text of a
special token, so that a whole text is read in one way, whichever tokenizer wrote it (as far as what follows a trigger
ends in one place).
Cost: an automaton of the free text for each trigger that is a text; triggers are compared with one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from structgen.constraints.base import IR, Broken, Constraint, Stop, as_constraint
from structgen.constraints.expressions import ANY, NOTHING, RE, intersect, repeat
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.grammar.ir import Body
from structgen.constraints.occurrences import before, ends_first, without
from structgen.errors import ConstraintError, LimitExceeded, OptionError, a_kind

from .composed import Composition, body_of, named
from .parts import Special, checked_count, checked_texts

__all__ = ["Dispatch", "dispatch", "stretch_until"]

_MOST_TRIGGERS = 256
"""Triggers and forbidden texts together: each is compared with each."""
_FORM = 'Write, for example, dispatch({"<call>": json_schema({...}) + "</call>"}).'


class Dispatch(Composition):
    """Made by `dispatch`, from `triggers` under `options`."""

    __slots__ = ("options", "triggers")

    triggers: dict[str | Special, Constraint | str]
    options: dict[str, Any]

    def __init__(
        self, body: Body, name: str, triggers: dict[str | Special, Constraint | str], options: dict[str, Any]
    ) -> None:
        object.__setattr__(self, "triggers", triggers)
        object.__setattr__(self, "options", options)
        super().__init__(body, name)

    def broken(self, stop: Stop, questions: list[Callable[[IR], bool]]) -> list[Broken]:
        goes_on = questions[-1]
        return [
            Broken("", option, message=message, subject="the free text")
            for option, changed, message in self._relaxed(stop)
            if goes_on(dispatch(self.triggers, **{**self.options, option: changed}).lower())
        ] or super().broken(stop, questions)

    def _relaxed(self, stop: Stop) -> Iterator[tuple[str, object, str]]:
        """Options that may be to blame, what they are without the rule, and the rule."""
        never: tuple[str, ...] = self.options["forbidden"]
        for one in never:
            if one[0].encode() in stop.text[: stop.offset + 1]:
                yield "forbidden", tuple(other for other in never if other != one), f"must not hold {one!r}"
        if (most := self.options["max_chars"]) is not None:
            yield "max_chars", None, f"must have at most {most} characters in one stretch"
        if (most := self.options["max_calls"]) is not None:
            yield "max_calls", None, f"must have at most {most} trigger{'s' * (most != 1)}"


def dispatch(
    triggers: Mapping[str | Special, Constraint | str],
    *,
    at_least_one: bool = False,
    forbidden: str | Iterable[str] = (),
    stop_after_first: bool = False,
    max_calls: int | None = None,
    max_chars: int | None = None,
) -> Dispatch:
    """Free text; after each trigger in it the constraint that `triggers` gives; then free text again.

    `at_least_one` trigger must come; no `forbidden` text may stand in the free text; `stop_after_first` ends the
    text after what follows the first trigger; at most `max_calls` triggers may come; `max_chars` bounds each stretch
    of free text, without its trigger.
    """
    pairs = _checked_triggers(triggers)
    marks = tuple(mark for mark, _, _ in pairs)
    never = checked_texts(forbidden, "forbidden=")
    _check_together(marks, never)
    if max_calls is not None and (checked_count(max_calls, "max_calls") == 0 or stop_after_first):
        raise OptionError(
            f"max_calls={max_calls} has no meaning here",
            hint="It is 1 or more, and without stop_after_first, which allows one call.",
        )
    if max_chars is not None:
        checked_count(max_chars, "max_chars")
    calls = [
        named(f"after {mark!r}", sequence_of((*found, body_of(constraint))))
        for mark, is_special, constraint in pairs
        if (found := stretch_until(mark, is_special, marks, never, max_chars)) is not None
    ]
    call = choice_of(calls)
    free: Body = ("text", _bounded(without((*marks, *never)), max_chars, 0))
    name = "free text with " + " or ".join(map(repr, marks[:4])) + (" or more" if len(marks) > 4 else "")
    if stop_after_first:
        body = call if at_least_one else choice_of((free, call))
    else:
        body = sequence_of((("repeat", call, int(at_least_one), max_calls), free))
    options = {
        "at_least_one": at_least_one,
        "forbidden": never,
        "stop_after_first": stop_after_first,
        "max_calls": max_calls,
        "max_chars": max_chars,
    }
    return Dispatch(body, name, dict(triggers), options)


def stretch_until(
    mark: str, is_special: bool, marks: tuple[str, ...], never: tuple[str, ...], max_chars: int | None = None
) -> tuple[Body, ...] | None:
    """Free text and the trigger that ends it; None if that trigger can never count."""
    if is_special:
        found = before(mark, marks, never)
        return None if found == NOTHING else (("text", _bounded(found, max_chars, 0)), ("special", mark))
    if any(other in mark[:-1] for other in marks):
        return None
    return (("text", _bounded(ends_first(mark, marks, never), max_chars, len(mark))),)


def _bounded(expression: RE, max_chars: int | None, more: int) -> RE:
    return expression if max_chars is None else intersect([expression, repeat(ANY, 0, max_chars + more)])


def _checked_triggers(
    triggers: Mapping[str | Special, Constraint | str],
) -> list[tuple[str, bool, Constraint]]:
    if not isinstance(triggers, Mapping):
        raise ConstraintError(
            f"dispatch() needs a mapping from triggers to constraints, not {a_kind(triggers)}", hint=_FORM
        )
    if not triggers:
        raise ConstraintError("dispatch() needs at least one trigger", hint=_FORM)
    pairs: dict[str, tuple[str, bool, Constraint]] = {}
    for key, value in triggers.items():
        mark = key.token if isinstance(key, Special) else key
        (mark,) = checked_texts(mark, "dispatch()")
        if mark in pairs:
            raise ConstraintError(
                f"the trigger {mark!r:.60} is there as a text and as a special token",
                hint="special() alone serves tokenizers with and without that token.",
            )
        pairs[mark] = (mark, isinstance(key, Special), as_constraint(value))
    return list(pairs.values())


def _check_together(marks: tuple[str, ...], never: tuple[str, ...]) -> None:
    if len(marks) + len(never) > _MOST_TRIGGERS:
        raise LimitExceeded(
            f"dispatch() is given {len(marks) + len(never)} triggers and forbidden texts, at most {_MOST_TRIGGERS}",
            limit="triggers",
            hint="Give triggers that begin alike as one, and what tells them apart as a choice after it.",
        )
    for mark in marks:
        for other in never:
            if other in mark:
                raise ConstraintError(
                    f"the trigger {mark!r:.60} holds a forbidden text, {other!r:.60}, so it could never appear",
                    hint="Remove one of the two.",
                )
