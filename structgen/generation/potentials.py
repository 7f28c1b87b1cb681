"""Potentials: functions of the user's own that reject or weigh texts, in addition to the constraint's masks.

Why: a compiler, a simulator or a scorer knows texts and not tokens. A *potential* gives a log weight to whole texts
(minus infinity, or False, rejects), and, if it can, to prefixes.
What: the target is Q(x) proportional to P(x) * 1[x in L] * exp(sum of the potentials of x). A potential of prefixes
only steers: a prefix that is rejected is abandoned; a score changes which particles survive, and the weights correct
for it.
Invariant: draws are weighted by the potential of the whole text, so a bad score of a prefix costs time alone. But a
rejected prefix must not be the prefix of any accepted text.
Cost: a potential is a function of the text, so it is called once for each text.
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

_VERDICT_CACHE_BYTES = 16 << 20
"""The size of the cache of verdicts, in bytes of text, approximately."""


@dataclass(frozen=True)
class Potential:
    """Log weights of texts, made by `potential`."""

    complete: Judge | None
    prefix: Judge | None
    name: str

    def of_text(self, text: str) -> float:
        """Return the log weight of a whole text."""
        return 0.0 if self.complete is None else self._call(self.complete, text, "a text")

    def of_prefix(self, text: str) -> float:
        """Return the log weight of a prefix."""
        return 0.0 if self.prefix is None else self._call(self.prefix, text, "a prefix")

    def __and__(self, other: object) -> Product:
        """Return the product with another potential, or with a type or a constraint."""
        return _product(self, other)

    def __rand__(self, other: object) -> Product:
        return _product(other, self)

    def _call(self, judge: Judge, text: str, what: str) -> float:
        try:
            verdict: Any = judge(text)
            if hasattr(verdict, "item"):  # a number of numpy or torch
                verdict = verdict.item()
        except Exception as error:
            raise GenerationError(
                f"the potential {self.name} failed on {what}: {type(error).__name__}: {error}",
                text=text,
                hint="It is called with texts of all kinds; return False for what it cannot read.",
            ) from error
        if isinstance(verdict, bool):
            return 0.0 if verdict else -math.inf
        if isinstance(verdict, int | float) and not math.isnan(verdict) and verdict != math.inf:
            return float(verdict)
        raise OptionError(
            f"the potential {self.name} returned {verdict!r:.60} for {what}",
            hint="Return True or False, or a log weight: a number that may be -inf.",
        )


@dataclass(frozen=True)
class Product:
    """A type or a constraint with potentials: ``output & potential``. `structgen.sample` takes it as output."""

    output: Any
    """The type or constraint; None for any text."""
    potentials: tuple[Potential, ...]

    def __and__(self, other: object) -> Product:
        return _product(self, other)

    def __rand__(self, other: object) -> Product:
        return _product(other, self)


def _product(first: object, second: object) -> Product:
    parts = [part if isinstance(part, Product) else _alone(part) for part in (first, second)]
    outputs = [part.output for part in parts if part.output is not None]
    if len(outputs) == 2:
        try:
            outputs = [outputs[0] & outputs[1]]  # constraints have an intersection
        except TypeError:
            raise OptionError(
                f"{a_kind(outputs[0])} and {a_kind(outputs[1])} cannot be intersected",
                hint="Combine potentials with one type or constraint.",
            ) from None
    return Product(outputs[0] if outputs else None, parts[0].potentials + parts[1].potentials)


def _alone(part: object) -> Product:
    return Product(None, (part,)) if isinstance(part, Potential) else Product(part, ())


@checks_names
def potential(
    complete: Judge | None = None, *, prefix: Judge | None = None, name: str | None = None
) -> Potential:
    """Make a potential from functions of texts.

    ``constraint & potential`` is a product of the two, which `structgen.sample` takes like a constraint.

    Args:
        complete: Called with whole texts. Returns True or False, or a log weight (a number; -inf rejects). An int is a
            log weight, too: a predicate returns True and False, not 1 and 0.
        prefix: Called with prefixes. Returns False only if no text that continues the prefix is accepted. A number
            steers particles, as an estimate of what `complete` will return.
        name: The name in error messages; by default that of the function.

    Raises:
        OptionError: No function is given, or something else than a function.
    """
    for judge in (complete, prefix):
        if judge is not None and not callable(judge):
            raise OptionError(f"a potential is a function of a text, not {a_kind(judge)}")
    if complete is None and prefix is None:
        raise OptionError("a potential needs a function", hint="potential(lambda text: len(text) < 80)")
    shown = name or str(getattr(complete or prefix, "__name__", "potential"))
    return Potential(complete, prefix, shown)


class Condition:
    """The sum of several potentials, with a cache."""

    def __init__(self, potentials: Sequence[Potential] = ()) -> None:
        self.potentials = tuple(potentials)
        self.checks = 0
        """How many times a text was judged."""
        self._known: dict[tuple[str, bool], float] = {}
        self._room = _VERDICT_CACHE_BYTES

    def __bool__(self) -> bool:
        return bool(self.potentials)

    @property
    def judges_prefixes(self) -> bool:
        """Whether one of the potentials judges prefixes."""
        return any(potential.prefix is not None for potential in self.potentials)

    def of_text(self, text: bytes) -> float:
        """Return the sum of the log weights of a whole text; text that is not UTF-8 is rejected."""
        if not self.potentials:
            return 0.0
        try:
            whole = text.decode("utf-8")
        except UnicodeDecodeError:
            return -math.inf
        return self._sum(whole, True)

    def of_prefix(self, text: bytes) -> float:
        """Return the sum of the log weights of a prefix, without an incomplete last character."""
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
                break  # the others may be expensive
        self._room -= len(text) + 200
        if self._room < 0:
            self._known.clear()
            self._room = _VERDICT_CACHE_BYTES
        self._known[text, is_whole] = total
        return total
