"""What an engine did with a schema, and the benchmark's figures over many of them.

The four kinds of coverage, after JSONSchemaBench (Geng et al. 2025):

- *declared*: the engine took the schema, and neither refused, failed, crashed, hung nor ran out of memory on it.
- *empirical*: declared, and every text that a model wrote under it is valid. A text that was cut off is not.
- *compliance*: empirical over declared, of the schemas that a model wrote under.
- *true*: declared, every valid instance accepted and every invalid one refused, of schemas that have instances.

Invariant: a schema counts in the denominator of a figure exactly if the run measured that figure on it: declared,
empirical and true coverage are of all schemas, refused ones included, so that refusing never pays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .statistics import wilson

__all__ = ["Coverage", "Outcome", "Share", "coverage"]


@dataclass(frozen=True)
class Outcome:
    """One engine on one schema."""

    status: str
    """ok, refused (by the engine), error (of the engine, later), crash, timeout or memory."""
    instances: tuple[tuple[bool, bool], ...] | None = None
    """For each instance whether it is valid and whether the engine accepted it; None: the schema has no instances."""
    texts: tuple[bool, ...] | None = None
    """For each text that a model wrote whether it is valid; None: no model wrote texts."""

    @property
    def declared(self) -> bool:
        """See the module's text; so for the others."""
        return self.status == "ok"

    @property
    def empirical(self) -> bool | None:
        """Whether the schema is declared and every text of the model is valid; None without texts."""
        return None if self.texts is None else self.declared and bool(self.texts) and all(self.texts)

    @property
    def true(self) -> bool | None:
        """Whether the schema is declared and every instance judged correctly; None without instances."""
        if self.instances is None:
            return None
        return self.declared and all(valid == accepted for valid, accepted in self.instances)

    @property
    def too_strict(self) -> bool:
        """A valid instance was refused."""
        return self.declared and any(valid and not accepted for valid, accepted in self.instances or ())

    @property
    def too_loose(self) -> bool:
        """An invalid instance was accepted."""
        return self.declared and any(accepted and not valid for valid, accepted in self.instances or ())


@dataclass(frozen=True)
class Share:
    """A proportion of what was counted."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        """None where nothing was counted."""
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 %, Wilson's."""
        return wilson(self.hits, self.total)


@dataclass(frozen=True)
class Coverage:
    """The figures over some schemas."""

    declared: Share
    empirical: Share
    compliance: Share
    true: Share
    too_strict: int
    too_loose: int
    statuses: dict[str, int] = field(default_factory=dict)


def coverage(outcomes: Iterable[Outcome]) -> Coverage:
    """Return the figures of one engine over schemas."""
    schemas = list(outcomes)
    written = [outcome for outcome in schemas if outcome.texts is not None]
    asked = [outcome for outcome in schemas if outcome.instances is not None]
    empirical = sum(bool(outcome.empirical) for outcome in written)
    statuses: dict[str, int] = {}
    for outcome in schemas:
        statuses[outcome.status] = statuses.get(outcome.status, 0) + 1
    return Coverage(
        declared=Share(sum(outcome.declared for outcome in schemas), len(schemas)),
        empirical=Share(empirical, len(written)),
        compliance=Share(empirical, sum(outcome.declared for outcome in written)),
        true=Share(sum(bool(outcome.true) for outcome in asked), len(asked)),
        too_strict=sum(outcome.too_strict for outcome in asked),
        too_loose=sum(outcome.too_loose for outcome in asked),
        statuses=statuses,
    )
