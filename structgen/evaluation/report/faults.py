"""What went wrong, schema by schema: refused, judged wrongly, written wrongly."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from ..handling import SHARES, Those
from ..items import PARTS
from ..summary import Summary
from .cells import folded, listed, number
from .markup import Cell, Markup, element, table

__all__ = ["faults_section"]

_MOST_MESSAGES = 20
_DIGITS = re.compile(r"\d+")


def faults_section(summary: Summary, name: str, dataset: Mapping[str, Those]) -> Markup | None:
    """Return the section on what went wrong; None if nothing did."""
    inner = [element for engine in summary.engines for element in _of(engine, dataset.get(engine, {}))]
    if not inner:
        return None
    return element("section", element("h2", f"What went wrong: {name}"), *inner)


def _of(engine: str, items: Those) -> Iterator[Markup]:
    failed = {item: handled for item, handled in items.items() if not handled.outcome.declared}
    if failed:
        yield folded(f"{engine}: {_many(len(failed), 'schema')} not taken", *_messages(failed))
    wrong: list[list[Cell]] = [
        [(handled.item, "item"), PARTS.get(handled.part, handled.part), _what(figure, handled.state(figure))]
        for figure in ("true", "empirical")
        for handled in sorted(items.values(), key=lambda handled: handled.item)
        if handled.outcome.declared and SHARES[figure](handled.outcome) is False
    ]
    if wrong:
        yield folded(
            f"{engine}: {_many(len(wrong), 'time')} wrong about a schema that it took",
            listed(f"Wrong verdicts and texts of {engine}", ["Schema", "Part", "What"], wrong),
        )


def _messages(failed: Those) -> Iterator[Markup]:
    """Yield messages, most frequent first, with a schema for each.

    Messages that differ only in numbers, or after their first line (where engines name the position in the schema),
    count as one.
    """
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for item, handled in failed.items():
        message = handled.state("declared")
        groups[_DIGITS.sub("0", message.partition("\n")[0])].append((item, message))
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    rows: list[list[Cell]] = [
        [number(len(items)), (min(items)[1], "text"), (min(items)[0], "item")]
        for _, items in ordered[:_MOST_MESSAGES]
    ]
    yield table("What it said", ["Schemas", "Message", "Such as"], rows, named=0)
    if len(ordered) > _MOST_MESSAGES:
        yield element("p", f"… and {len(ordered) - _MOST_MESSAGES:,} more messages.", class_="soft")


def _what(figure: str, state: str) -> str:
    return {"valid": "valid", "invalid text": "its text is invalid", "cut off": "its text was cut off"}.get(
        state, f"its verdicts are {state}" if figure == "true" else state
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
