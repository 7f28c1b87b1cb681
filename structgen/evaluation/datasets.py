"""Where schemas come from: files in MaskBench's form, and which part of JSONSchemaBench each belongs to.

Form: JSON lines, plain or gzipped, one object each with ``schema``, and mostly ``_file`` (a name) and ``tests``
(``{"valid": ..., "data": ...}``). Parts are told by the beginning of the name.
Invariant: a sample is a function of the items and its seed, stratified by part. Cost: one reading of the file.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structgen.errors import OptionError

__all__ = ["Item", "part_of", "read_items", "sample"]

_LONGEST_LINE = 64 << 20
_PARTS_WITHOUT_DASHES = ("BFCL", "JME")


@dataclass(frozen=True)
class Item:
    """A schema with instances."""

    name: str
    part: str
    schema: Any
    tests: tuple[tuple[bool, Any], ...] | None
    """Label and value of each instance; None if the data has none."""


def part_of(name: str) -> str:
    """Github_easy of ``Github_easy---o12.json``, BFCL of ``BFCL_java_0.json``; "other" where nothing says it."""
    for part in _PARTS_WITHOUT_DASHES:
        if name.startswith(part + "_"):
            return part
    return name.split("---")[0] if "---" in name else "other"


def read_items(path: str | Path) -> list[Item]:
    """All items of a file; an `OptionError` names the line that is none."""
    file = Path(path)
    try:
        opened = gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")  # noqa: SIM115
        with opened as lines:
            items, number = [], 0
            while line := lines.readline(_LONGEST_LINE):
                number += 1
                if line.strip():
                    items.append(_item(line, f"{file}, line {number}"))
            return items
    except (OSError, EOFError) as error:
        raise OptionError(f"cannot read the data {str(file)!r}: {error}") from None


def _item(line: bytes, where: str) -> Item:
    try:
        record = json.loads(line)
        schema, tests = record["schema"], record.get("tests")
        name = str(record.get("_file") or where)
        pairs = None if not tests else tuple((bool(test["valid"]), test["data"]) for test in tests)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(
            f"{where} is no item: {type(error).__name__}: {error}",
            hint='Each line is an object with "schema", and "tests" of {"valid": ..., "data": ...} if there are any.',
        ) from None
    return Item(name, part_of(name), schema, pairs)


def sample(items: Sequence[Item], count: int, seed: int = 0) -> list[Item]:
    """`count` of the items, each part by its size (largest remainders first), in the order of their names."""
    if count >= len(items):
        return sorted(items, key=lambda item: item.name)
    parts: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.name):
        parts[item.part].append(item)
    quotas = {part: count * len(members) / len(items) for part, members in parts.items()}
    taken = {part: int(quota) for part, quota in quotas.items()}
    rest = sorted(quotas, key=lambda part: (taken[part] - quotas[part], part))
    for part in rest[: count - sum(taken.values())]:
        taken[part] += 1
    source = random.Random(seed)
    chosen = [item for part in sorted(parts) for item in source.sample(parts[part], taken[part])]
    return sorted(chosen, key=lambda item: item.name)
