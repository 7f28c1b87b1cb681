"""Families of schemas that structgen was not tuned on, each with valid instances (`python -m bench.cold`).

Data on which an engine was tuned says little about the next schema. These families come from public packages of PyPI
and npm, from the tools of MCP servers, and from seeded rules. Each module here with a `NAME` is one `Family` and yields
`Source`s. This module does the rest: it checks sources, adds instances if they are missing (`bench.schemas.instances`),
and caches them as ``schemas/NAME.jsonl.gz`` in the folder of `bench.corpora`, one MaskBench record per line, so that
`bench.masks` reads them.

    python -m bench.schemas [FAMILY ...]      # makes what is not cached, and reports what was left out

Held out: ``held_out.txt`` beside this file names a seeded half of all records. Rule: while you optimise, do not look
into a record of that list, do not print its schema, its texts or its slow positions, and do not tune on it. Only its
figures are reported. `bench.cold --worst` uses the other half.

Invariant: packages are pinned and draws are seeded, so two runs make the same records. The repository does not contain
the fetched files.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib
import json
import pkgutil
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from bench.corpora import cache_folder
from bench.schemas.instances import NoInstance, instances, make_validator
from bench.schemas.merging import external_references

__all__ = [
    "Family",
    "Record",
    "Source",
    "draw_held_out",
    "families",
    "held_out",
    "is_held_out",
    "load",
    "make_records",
    "write_held_out",
]

Record = dict[str, Any]
"""As MaskBench has them: ``_file`` (a name), ``schema``, ``tests`` of ``{"valid": True, "data": ...}``."""
_INSTANCES = 2
"""Instances of a schema."""
_LARGEST = 2_500_000
"""Characters of a schema at most."""
_HELD_OUT = Path(__file__).with_name("held_out.txt")


@dataclass(frozen=True)
class Source:
    """A schema as a family finds it."""

    name: str
    """Package and place, unique in the family."""
    schema: Any
    instances: list[Any] = field(default_factory=list)
    """The instances of the source, valid or not; the oracle decides."""


class Family(Protocol):
    """The protocol of the modules in this folder."""

    NAME: str

    def sources(self) -> Iterator[Source]:
        """Yield the family's schemas in a fixed order."""


def families() -> dict[str, Family]:
    """Return the modules of this folder that have a `NAME`, by it."""
    modules: dict[str, Family] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{info.name}")
            if hasattr(module, "NAME"):
                modules[module.NAME] = cast(Family, module)
    return modules


def load(name: str) -> list[Record]:
    """Return a family's records, made and cached where they are not there yet.

    Args:
        name: A key of `families`.
    """
    path = cache_folder() / "schemas" / f"{name}.jsonl.gz"
    if not path.exists():
        left_out: Counter[str] = Counter()
        records = list(make_records(name, families()[name].sources(), left_out))
        print(f"{name}: {len(records)} schemas; left out: {dict(left_out)}", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        with gzip.open(partial, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        partial.rename(path)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def make_records(family: str, sources: Iterable[Source], left_out: Counter[str]) -> Iterator[Record]:
    """Turn sources into records with valid instances, and count what is left out, by reason."""
    seen: set[str] = set()
    for source in sources:
        text = json.dumps(source.schema, ensure_ascii=False)
        if text in seen:
            left_out["same as another"] += 1
            continue
        seen.add(text)
        if len(text) > _LARGEST:
            left_out["larger than 2.5 MB"] += 1
        elif external_references(source.schema):
            left_out["refers to other documents"] += 1
        else:
            reason, values = _valid_instances(f"{family}/{source.name}", source)
            if reason is not None:
                left_out[reason] += 1
                continue
            tests = [{"valid": True, "data": data} for data in values]
            yield {"_file": f"{family}/{source.name}", "schema": source.schema, "tests": tests}


def _valid_instances(name: str, source: Source) -> tuple[str | None, list[Any]]:
    """A reason for leaving the schema out, or its instances: first those that come with it."""
    try:
        validator = make_validator(source.schema)
    except (ValueError, RecursionError):
        return "refused by jsonschema_rs", []
    valid = [data for data in source.instances if validator.is_valid(data)][:_INSTANCES]
    if len(valid) < _INSTANCES:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
        try:
            valid += instances(source.schema, _INSTANCES - len(valid), random.Random(seed), validator)
        except NoInstance:
            if not valid:
                return "no instance found", []
    return None, valid


@functools.cache
def held_out() -> frozenset[str]:
    """Return the names of the records that are held out."""
    return frozenset(_HELD_OUT.read_text(encoding="utf-8").split("\n")) if _HELD_OUT.exists() else frozenset()


def is_held_out(record: Record) -> bool:
    """Return whether a record is held out; see the rule in this module's docstring."""
    return record["_file"] in held_out()


def draw_held_out(names: Iterable[str]) -> list[str]:
    """Return a seeded half of the names of one family, in order; the tools of a server stay together."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        together = name.rpartition("/")[0] if name.startswith("mcp_tools/") else name
        groups.setdefault(together, []).append(name)
    drawn = random.Random(20_261_128).sample(sorted(groups), len(groups) // 2)
    return sorted(name for group in drawn for name in groups[group])


def write_held_out(names: Iterable[str]) -> None:
    """Write the list of held-out records."""
    _HELD_OUT.write_text("\n".join(names) + "\n", encoding="utf-8")
    held_out.cache_clear()
