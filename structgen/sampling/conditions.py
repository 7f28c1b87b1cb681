"""What a text has to be beside the constraint's masks: functions of the user's own, hard or soft.

Why: a compiler, a simulator or a scorer knows texts and not tokens. A *potential* gives a log weight to whole texts
(minus infinity, or False, refuses), and, where it can, to their beginnings.
What: the target is Q(x) in proportion to P(x) * 1[x in L] * exp(sum of the potentials of x). What a potential says of
beginnings only steers: a beginning that is refused is given up, a score twists particles and is taken back afterwards.
Invariant: what is drawn under potentials is weighted by what they say of the whole text, so beginnings can be judged
badly at the cost of time alone; but one that is refused must be the beginning of no text that is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from structgen.errors import GenerationError, OptionError, a_kind

__all__ = ["Condition", "Potential", "potential"]

Verdict = bool | float
Judge = Callable[[str], Verdict]


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

    def _asked(self, judge: Judge, text: str, what: str) -> float:
        try:
            verdict: Any = judge(text)
        except Exception as error:
            raise GenerationError(
                f"the potential {self.name} failed on {what}: {type(error).__name__}: {error}",
                text=text,
                hint="It is asked of texts of all kinds; return False for what it cannot read.",
            ) from error
        if isinstance(verdict, bool) or type(verdict).__name__ == "bool_":
            return 0.0 if verdict else -math.inf
        if isinstance(verdict, int | float) and not math.isnan(verdict) and verdict != math.inf:
            return float(verdict)
        raise OptionError(
            f"the potential {self.name} said {verdict!r:.60} of {what}",
            hint="It returns True or False, or a log weight: a number that may be -inf.",
        )


def potential(
    complete: Judge | None = None, *, prefix: Judge | None = None, name: str | None = None
) -> Potential:
    """A function of texts as a condition on what is drawn.

    complete  of whole texts: True or False, or a log weight (a float; -inf refuses)
    prefix    of beginnings, likewise: False only where nothing that goes on from there is accepted
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
        self._potentials = tuple(potentials)
        self.checks = 0
        """How often any text was judged."""

    def __bool__(self) -> bool:
        return bool(self._potentials)

    @property
    def judges_prefixes(self) -> bool:
        """Does any of them say something about beginnings?"""
        return any(one.prefix is not None for one in self._potentials)

    def of_text(self, text: bytes) -> float:
        """The sum of the log weights of a whole text; what is no UTF-8 is refused."""
        if not self._potentials:
            return 0.0
        try:
            whole = text.decode("utf-8")
        except UnicodeDecodeError:
            return -math.inf
        self.checks += 1
        return self._sum([one.of_text for one in self._potentials], whole)

    def of_prefix(self, text: bytes) -> float:
        """That of a beginning, without a character that has not ended."""
        if not self.judges_prefixes:
            return 0.0
        self.checks += 1
        return self._sum([one.of_prefix for one in self._potentials], text.decode("utf-8", "ignore"))

    @staticmethod
    def _sum(judges: Sequence[Callable[[str], float]], text: str) -> float:
        total = 0.0
        for judge in judges:
            total += judge(text)
            if total == -math.inf:
                break  # the others may be dear
        return total
