"""What a text has to be beside the constraint's masks: functions of the user's own, hard or soft.

Why: a compiler, a simulator or a scorer knows texts and not tokens. A *potential* gives a log weight to whole texts
(minus infinity, or False, refuses), and, where it can, to their beginnings.
What: the target is Q(x) in proportion to P(x) * 1[x in L] * exp(sum of the potentials of x). What a potential says of
beginnings only steers: a beginning that is refused is given up, a score twists particles and is taken back afterwards.
Invariant: what is drawn under potentials is weighted by what they say of the whole text, so beginnings can be judged
badly at the cost of time alone; but one that is refused must be the beginning of no text that is accepted.
Cost: a potential is a function of the text, so of the same text it is asked once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from structgen.argument_names import checks_names
from structgen.errors import GenerationError, OptionError, a_kind

__all__ = ["Condition", "Potential", "Product", "potential"]

Verdict = bool | float
Judge = Callable[[str], Verdict]

_KEPT = 16 << 20
"""Bytes of texts whose verdicts are kept, about."""


@dataclass(frozen=True)
class Potential:
    """Log weights of texts; made by `potential`."""

    complete: Judge | None
    prefix: Judge | None
    name: str

    def of_text(self, text: str) -> float:
        """The log weight of a whole text."""
        return 0.0 if self.complete is None else self._asked(self.complete, text, "a text")

    def of_prefix(self, text: str) -> float:
        """That of a beginning."""
        return 0.0 if self.prefix is None else self._asked(self.prefix, text, "a beginning")

    def __and__(self, other: Any) -> Product:
        """With another potential, or with a type or a constraint: a condition on texts of it."""
        return _product(self, other)

    def __rand__(self, other: Any) -> Product:
        return _product(other, self)

    def _asked(self, judge: Judge, text: str, what: str) -> float:
        try:
            verdict: Any = judge(text)
            if hasattr(verdict, "item"):  # a number of numpy or torch
                verdict = verdict.item()
        except Exception as error:
            raise GenerationError(
                f"the potential {self.name} failed on {what}: {type(error).__name__}: {error}",
                text=text,
                hint="It is asked of texts of all kinds; return False for what it cannot read.",
            ) from error
        if isinstance(verdict, bool):
            return 0.0 if verdict else -math.inf
        if isinstance(verdict, int | float) and not math.isnan(verdict) and verdict != math.inf:
            return float(verdict)
        raise OptionError(
            f"the potential {self.name} said {verdict!r:.60} of {what}",
            hint="It returns True or False, or a log weight: a number that may be -inf.",
        )


@dataclass(frozen=True)
class Product:
    """A type or a constraint together with potentials: ``output & potential``; `structgen.sample` takes it."""

    output: Any
    """None: any text."""
    potentials: tuple[Potential, ...]

    def __and__(self, other: Any) -> Product:
        return _product(self, other)

    def __rand__(self, other: Any) -> Product:
        return _product(other, self)


def _product(one: Any, other: Any) -> Product:
    parts = [part if isinstance(part, Product) else _alone(part) for part in (one, other)]
    outputs = [part.output for part in parts if part.output is not None]
    if len(outputs) == 2:
        try:
            outputs = [outputs[0] & outputs[1]]  # constraints can be joined
        except TypeError:
            raise OptionError(
                f"{a_kind(outputs[0])} and {a_kind(outputs[1])} cannot both be what texts are",
                hint="Join potentials with one type or constraint.",
            ) from None
    return Product(outputs[0] if outputs else None, parts[0].potentials + parts[1].potentials)


def _alone(part: Any) -> Product:
    return Product(None, (part,)) if isinstance(part, Potential) else Product(part, ())


@checks_names
def potential(
    complete: Judge | None = None, *, prefix: Judge | None = None, name: str | None = None
) -> Potential:
    """A function of texts as a condition on what is drawn.

    complete  of whole texts: True or False, or a log weight (a float; -inf refuses)
    prefix    of beginnings, likewise: False only where nothing that goes on from there is accepted. A number steers
              particles, as a guess at what `complete` will say

    ``constraint & potential`` is a product of the two, which `structgen.sample` takes like a constraint. An int is a
    log weight as well: a predicate returns True and False, not 1 and 0.
    """
    for judge in (complete, prefix):
        if judge is not None and not callable(judge):
            raise OptionError(f"a potential is a function of a text, not {a_kind(judge)}")
    if complete is None and prefix is None:
        raise OptionError("a potential needs a function", hint="potential(lambda text: len(text) < 80)")
    shown = name or str(getattr(complete or prefix, "__name__", "potential"))
    return Potential(complete, prefix, shown)


class Condition:
    """Several potentials as one."""

    def __init__(self, potentials: Sequence[Potential] = ()) -> None:
        self.potentials = tuple(potentials)
        self.checks = 0
        """How often any text was judged."""
        self._known: dict[tuple[str, bool], float] = {}
        self._room = _KEPT

    def __bool__(self) -> bool:
        return bool(self.potentials)

    @property
    def judges_prefixes(self) -> bool:
        """Does any of them say something about beginnings?"""
        return any(one.prefix is not None for one in self.potentials)

    def of_text(self, text: bytes) -> float:
        """The sum of the log weights of a whole text; what is no UTF-8 is refused."""
        if not self.potentials:
            return 0.0
        try:
            whole = text.decode("utf-8")
        except UnicodeDecodeError:
            return -math.inf
        return self._sum(whole, True)

    def of_prefix(self, text: bytes) -> float:
        """That of a beginning, without a character that has not ended."""
        return self._sum(text.decode("utf-8", "ignore"), False) if self.judges_prefixes else 0.0

    def _sum(self, text: str, is_whole: bool) -> float:
        known = self._known.get((text, is_whole))
        if known is not None:
            return known
        self.checks += 1
        total = 0.0
        for one in self.potentials:
            total += one.of_text(text) if is_whole else one.of_prefix(text)
            if total == -math.inf:
                break  # the others may be dear
        self._room -= len(text) + 200
        if self._room < 0:
            self._known.clear()
            self._room = _KEPT
        self._known[text, is_whole] = total
        return total
