"""Dispatch: free text until a trigger, then the trigger's constraint, then free text again.

Why: tool calls, citations, code blocks and other structured parts of free text all have this shape.
What: of the triggers in free text, the one that ends first counts; of those that end at the same position, the longest.
So a trigger that contains the end of another one never counts.
Invariant: the language is exact, by `occurrences`. Free text never contains a trigger, whether it is a text or the name
of a special token. So a text is read in one way with every tokenizer, provided that the constraint of a trigger ends in
one way. No occurrence of a forbidden text contains a character of free text; occurrences inside a trigger and its
constraint are allowed.
Cost: one automaton of the free text for each trigger that is a text; triggers are compared pairwise. If a forbidden
text may begin before free text (`text_ends`), there is a rule for each of its prefixes that may occur there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from structgen.argument_names import checks_names
from structgen.constraints.base import IR, Constraint, Operand, RuleViolation, Stop, as_constraint
from structgen.constraints.expressions import (
    ANY,
    NOTHING,
    RE,
    TEXT,
    alternate,
    complement,
    concat,
    intersect,
    literal,
    literals,
    repeat,
)
from structgen.constraints.grammar.bodies import EMPTY, choice_of, sequence_of
from structgen.constraints.occurrences import before, ends_first, without
from structgen.errors import CombinationError, ConstraintError, LimitExceeded, OptionError, a_kind
from structgen.ir.grammar import Body, Rule

from .composed import Composition, body_of, named
from .elements import Special, checked_count, checked_texts
from .text_ends import may_begin, split_by_end

__all__ = ["Dispatch", "dispatch", "dispatch_of", "stretch_until"]

_MOST_TRIGGERS = 256
"""The most triggers and forbidden texts together, since they are compared pairwise."""
_MOST_LINKS = 4_096
"""The most stretches of free text times the sets of pending texts before them."""
_FORM = 'Write, for example, dispatch({"<call>": json_schema({...}) + "</call>"}).'


class Dispatch(Composition):
    """Free text with triggers; `dispatch` builds it."""

    __slots__ = ("options", "triggers")

    triggers: dict[str | Special, Operand]
    options: dict[str, Any]

    def __init__(
        self,
        body: Body,
        name: str,
        triggers: dict[str | Special, Operand],
        options: dict[str, Any],
        rules: list[Rule],
    ) -> None:
        object.__setattr__(self, "triggers", triggers)
        object.__setattr__(self, "options", options)
        super().__init__(
            body,
            name,
            rules,
            [constraint for constraint in triggers.values() if isinstance(constraint, Constraint)],
        )

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the options that forbid the text, or else the broken rules of the operands."""
        goes_on = checks[-1]
        return [
            RuleViolation("", option, message=message, subject="the free text")
            for option, changed, message in self._relaxed(stop)
            if goes_on(dispatch_of(self.triggers, **{**self.options, option: changed}).lower())
        ] or super().find_broken_rules(stop, checks)

    def _relaxed(self, stop: Stop) -> Iterator[tuple[str, object, str]]:
        """Yield options that may forbid the text, each with its relaxed value and a message."""
        forbidden: tuple[str, ...] = self.options["forbidden"]
        for text in forbidden:
            if text[0].encode() in stop.text[: stop.offset + 1]:
                yield (
                    "forbidden",
                    tuple(other for other in forbidden if other != text),
                    f"must not contain {text!r}",
                )
        if (limit := self.options["max_chars"]) is not None:
            yield "max_chars", None, f"must have at most {limit} characters in one stretch"
        if (limit := self.options["max_calls"]) is not None:
            yield "max_calls", None, f"must have at most {limit} trigger{'s' * (limit != 1)}"


@checks_names
def dispatch(
    triggers: Mapping[str | Special, Operand],
    *,
    at_least_one: bool = False,
    forbidden: str | Iterable[str] = (),
    stop_after_first: bool = False,
    max_calls: int | None = None,
    max_chars: int | None = None,
) -> Dispatch:
    """Return the constraint of free text in which each trigger is followed by its constraint.

    Args:
        triggers: For each trigger, the constraint, type or string that follows it.
        at_least_one: Whether at least one trigger must occur.
        forbidden: Texts none of whose occurrences may contain a character of free text.
        stop_after_first: Whether the text ends after the constraint of the first trigger.
        max_calls: The most triggers.
        max_chars: The most characters of each stretch of free text, without its trigger.

    Raises:
        CombinationError: A forbidden text may begin inside the constraint of a trigger and end in free text, and it
            cannot be decided where. End the constraint with a fixed text.
    """
    return dispatch_of(
        triggers,
        at_least_one=at_least_one,
        forbidden=forbidden,
        stop_after_first=stop_after_first,
        max_calls=max_calls,
        max_chars=max_chars,
    )


def dispatch_of(
    triggers: Mapping[str | Special, Operand],
    *,
    at_least_one: bool = False,
    at_once: bool = False,
    forbidden: str | Iterable[str] = (),
    stop_after_first: bool = False,
    max_calls: int | None = None,
    max_chars: int | None = None,
) -> Dispatch:
    """Return `dispatch`; with `at_once`, the text must begin with a trigger."""
    pairs = _checked_triggers(triggers)
    marks = tuple(mark for mark, _, _ in pairs)
    forbidden_texts = checked_texts(forbidden, "forbidden=")
    _check_together(marks, forbidden_texts)
    if max_calls is not None and (checked_count(max_calls, "max_calls") == 0 or stop_after_first):
        raise OptionError(
            f"max_calls={max_calls} is not allowed here",
            hint="It must be 1 or more, and cannot be combined with stop_after_first, which allows one call.",
        )
    if max_chars is not None:
        checked_count(max_chars, "max_chars")
    options = {
        "at_least_one": at_least_one,
        "at_once": at_once,
        "forbidden": forbidden_texts,
        "stop_after_first": stop_after_first,
        "max_calls": max_calls,
        "max_chars": max_chars,
    }
    stretches = _Stretches(
        [(mark, is_special, body_of(content)) for mark, is_special, content in pairs],
        forbidden_texts,
        max_chars,
    )
    body, rules = stretches.build(
        at_least_one, at_once, 1 if stop_after_first else max_calls, stop_after_first
    )
    name = "free text with " + " or ".join(map(repr, marks[:4])) + (" or more" if len(marks) > 4 else "")
    return Dispatch(body, name, dict(triggers), options, rules)


_Pending = frozenset[str]
"""The texts that free text must not begin with: the rests of forbidden texts that begin before it."""
_NOTHING_PENDING: _Pending = frozenset()


class _Stretches:
    """Builds the bodies of free text and calls, given the pending forbidden texts before each stretch."""

    def __init__(
        self, calls: list[tuple[str, bool, Body]], forbidden: tuple[str, ...], max_chars: int | None
    ) -> None:
        self.calls = calls
        self.marks = tuple(mark for mark, _, _ in calls)
        self.forbidden = forbidden
        self.max_chars = max_chars
        self.prefixes = {text[:cut] for text in forbidden for cut in range(1, len(text))}

    def build(
        self, at_least_one: bool, at_once: bool, most: int | None, stops: bool
    ) -> tuple[Body, list[Rule]]:
        _check_inside(self.calls, self.forbidden)
        if stops:
            call = self.stretch_and_call(
                {mark: {_NOTHING_PENDING: body} for mark, _, body in self.calls}, at_once
            )[_NOTHING_PENDING]
            return (call if at_least_one or at_once else choice_of((self.final_stretch(), call))), []
        contents = {mark: self.split_by_pending(mark, body) for mark, _, body in self.calls}
        states = list(
            dict.fromkeys([_NOTHING_PENDING, *(pending for parts in contents.values() for pending in parts)])
        )
        if states == [_NOTHING_PENDING]:
            call = self.stretch_and_call(contents, False)[_NOTHING_PENDING]
            first = self.stretch_and_call(contents, True)[_NOTHING_PENDING] if at_once else EMPTY
            least, most_repeats = (
                int(at_least_one and not at_once),
                None if most is None else most - int(at_once),
            )
            return sequence_of((first, ("repeat", call, least, most_repeats), self.final_stretch())), []
        return self.build_rules(contents, states, at_least_one, at_once, most)

    def final_stretch(self, pending: _Pending = _NOTHING_PENDING) -> Body:
        """Return a stretch of free text at the end of the text."""
        return (
            "text",
            _bounded(_without_pending(without((*self.marks, *self.forbidden)), pending), self.max_chars, 0),
        )

    def split_by_pending(self, mark: str, body: Body) -> dict[_Pending, Body]:
        """Split the constraint of a trigger by the pending texts at its end."""
        try:
            parts = split_by_end(body, mark, self.prefixes)
        except CombinationError as error:
            error.where = f"after {mark!r:.60}, because a forbidden text may begin there"
            raise
        parts_by_pending: dict[_Pending, list[Body]] = {}
        for end, part in parts.items():
            parts_by_pending.setdefault(self.pending_after(end), []).append(part)
        return {pending: choice_of(alternatives) for pending, alternatives in parts_by_pending.items()}

    def pending_after(self, end: str) -> _Pending:
        return frozenset(
            text[cut:] for text in self.forbidden for cut in range(1, len(text)) if end.endswith(text[:cut])
        )

    def stretch_and_call(
        self,
        contents: Mapping[str, Mapping[_Pending, Body]],
        at_once: bool,
        pending: _Pending = _NOTHING_PENDING,
    ) -> dict[_Pending, Body]:
        """Return a stretch, its trigger and the constraint, split by the pending texts at its end."""
        parts_by_pending: dict[_Pending, list[Body]] = {}
        for mark, is_special, _ in self.calls:
            stretch = stretch_until(mark, is_special, self.marks, self.forbidden, self.max_chars, pending)
            if stretch is None:
                continue
            if at_once:
                stretch = (("special", mark) if is_special else ("text", literal(mark)),)
            for end, part in contents[mark].items():
                parts_by_pending.setdefault(end, []).append(
                    named(f"after {mark!r}", sequence_of((*stretch, part)))
                )
        return {end: choice_of(parts) for end, parts in parts_by_pending.items()} or {
            _NOTHING_PENDING: choice_of(())
        }

    def build_rules(
        self,
        contents: Mapping[str, Mapping[_Pending, Body]],
        states: list[_Pending],
        at_least_one: bool,
        at_once: bool,
        most: int | None,
    ) -> tuple[Body, list[Rule]]:
        """Return a rule for each set of pending texts and each number of remaining calls."""
        if len(states) * len(self.marks) * (most or 1) > _MOST_LINKS:
            raise LimitExceeded(
                f"the forbidden texts of dispatch() may begin in more than {_MOST_LINKS:,} ways before free text",
                limit="triggers",
                hint="End the constraint of each trigger with a fixed text, or omit max_calls.",
            )
        calls = {pending: self.stretch_and_call(contents, False, pending) for pending in states}

        def name(pending: _Pending, left: int | None) -> str:
            return f"__free {states.index(pending)} {left}"  # explanations skip names that begin with underscores

        def after(parts: Mapping[_Pending, Body], left: int | None) -> list[Body]:
            rest = None if left is None else left - 1
            return [sequence_of((part, ("rule", name(end, rest)))) for end, part in parts.items()]

        rules = []
        for left in [None] if most is None else range(most + 1):
            for pending in states:
                calls_after = after(calls[pending], left) if left != 0 else []
                rules.append(
                    Rule(name(pending, left), choice_of((self.final_stretch(pending), *calls_after)))
                )
        if at_once or at_least_one:
            return choice_of(after(self.stretch_and_call(contents, at_once), most)), rules
        return ("rule", name(_NOTHING_PENDING, most)), rules


def _without_pending(expression: RE, pending: _Pending) -> RE:
    if not pending:
        return expression
    return intersect([expression, complement(concat([literals(sorted(pending)), TEXT]))])


def stretch_until(
    mark: str,
    is_special: bool,
    marks: tuple[str, ...],
    forbidden: tuple[str, ...],
    max_chars: int | None = None,
    pending: frozenset[str] = _NOTHING_PENDING,
) -> tuple[Body, ...] | None:
    """Return free text and the trigger that ends it; None if that trigger can never count.

    `pending` are the rests of forbidden texts that begin before it. They do not apply if there is no free text.
    """
    if is_special:
        stretch = before(mark, marks, forbidden)
        if stretch == NOTHING:
            return None
        if pending:
            # A rest may also end inside the trigger.
            shortened = [
                rest[: -end or None]
                for rest in pending
                for end in range(1, len(rest))
                if mark.startswith(rest[-end:])
            ]
            free_of_rests = complement(literals(shortened)) if shortened else TEXT
            stretch = intersect(
                [
                    stretch,
                    alternate([literal(""), intersect([_without_pending(TEXT, pending), free_of_rests])]),
                ]
            )
        return (("text", _bounded(stretch, max_chars, 0)), ("special", mark))
    if any(other in mark[:-1] for other in marks):
        return None
    stretch = ends_first(mark, marks, forbidden)
    if pending:
        stretch = intersect([stretch, alternate([literal(mark), _without_pending(TEXT, pending)])])
    return (("text", _bounded(stretch, max_chars, len(mark))),)


def _bounded(expression: RE, max_chars: int | None, more: int) -> RE:
    return expression if max_chars is None else intersect([expression, repeat(ANY, 0, max_chars + more)])


def _checked_triggers(
    triggers: Mapping[str | Special, Operand],
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
                f"the trigger {mark!r:.60} is given both as a text and as a special token",
                hint="Use special() alone: it works with and without that token.",
            )
        pairs[mark] = (mark, isinstance(key, Special), as_constraint(value))
    return list(pairs.values())


def _check_together(marks: tuple[str, ...], forbidden: tuple[str, ...]) -> None:
    if len(marks) + len(forbidden) > _MOST_TRIGGERS:
        raise LimitExceeded(
            f"dispatch() has {len(marks) + len(forbidden)} triggers and forbidden texts; the limit is {_MOST_TRIGGERS}",
            limit="triggers",
            hint="Merge triggers that begin alike, and put their differences into a choice after the trigger.",
        )
    for mark in marks:
        for other in forbidden:
            if other in mark:
                raise ConstraintError(
                    f"the trigger {mark!r:.60} contains a forbidden text, {other!r:.60}, so it can never occur",
                    hint="Remove one of the two.",
                )


def _check_inside(calls: list[tuple[str, bool, Body]], forbidden: tuple[str, ...]) -> None:
    """Raise an error for forbidden texts that contain a trigger and continue in its constraint."""
    marks = tuple(mark for mark, _, _ in calls)
    for text in forbidden:
        for mark, is_special, body in calls:
            start = text.find(mark, 1)
            while start >= 0:
                rest = text[start + len(mark) :]
                counts = is_special or not any(other in mark[:-1] for other in marks)
                if rest and counts and may_begin(body, rest):
                    raise CombinationError(
                        f"the forbidden text {text!r:.60} contains the trigger {mark!r:.60}, whose constraint "
                        f"may begin with {rest!r:.60}",
                        hint="Forbid the text before the trigger, or exclude the rest in the trigger's constraint.",
                    )
                start = text.find(mark, start + 1)
