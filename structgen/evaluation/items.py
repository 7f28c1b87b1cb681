"""A schema with instances, and which part of JSONSchemaBench it belongs to.

The beginning of an item's name is its part, as in the public data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PARTS", "Item", "part_of", "part_order"]

PARTS = {
    "Github_trivial": "GitHub, trivial",
    "Github_easy": "GitHub, easy",
    "Github_medium": "GitHub, medium",
    "Github_hard": "GitHub, hard",
    "Github_ultra": "GitHub, ultra",
    "Kubernetes": "Kubernetes",
    "Snowplow": "Snowplow",
    "WashingtonPost": "Washington Post",
    "Glaiveai2K": "Glaive function calls",
    "JsonSchemaStore": "JSON Schema Store",
}
"""The ten parts of JSONSchemaBench, as names begin, and how they read. MaskBench has others, under their own names."""

_PARTS_WITHOUT_DASHES = ("BFCL", "JME")


@dataclass(frozen=True)
class Item:
    """A schema with instances."""

    name: str
    part: str
    schema: Any
    tests: tuple[tuple[bool, Any], ...] | None
    """Label and value of each instance; None if the data has none."""
    settled: bool = False
    """The labels are the specification's own: no judge overrules them."""


def part_of(name: str) -> str:
    """Return a name's part: Github_easy of ``Github_easy---o12.json``, BFCL of ``BFCL_java_0.json``, or "other"."""
    for part in _PARTS_WITHOUT_DASHES:
        if name.startswith(part + "_"):
            return part
    return name.split("---")[0] if "---" in name else "other"


def part_order(part: str) -> tuple[int, str]:
    """Return the sort key of a part: the benchmark's parts in its order, then others by name."""
    return _PLACES.get(part, len(_PLACES)), part


_PLACES = {part: index for index, part in enumerate(PARTS)}
