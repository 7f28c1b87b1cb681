"""Data sets of schemas by a short name, read as a stream, cut into parts and samples.

Why: the same run must work on a colleague's file, on the public data and with no data at all.
Specs: ``bundled`` (our own sample, in the package), ``maskbench:PATH`` (JSON lines, plain or gzipped),
``suite:PATH`` (the JSON Schema test suite, a folder or tar archive), ``hub:OWNER/NAME[:PART]`` (through the library
`datasets`), or the path of a folder or file of schemas. The beginning of an item's name says which part it is in.
Invariant: a sample is a function of the items and its seed, stratified by part; names are distinct within a data
set. Cost: an item at a time in memory, and the names; one pass over the data, two for a sample.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from structgen.errors import OptionError

from . import sources
from .items import PARTS, Item, part_of

__all__ = ["PARTS", "Dataset", "Item", "open_dataset", "part_of"]


@dataclass(frozen=True)
class Dataset:
    """Items that are read again, one at a time, by each iteration."""

    name: str
    spec: str
    """What `open_dataset` was given."""
    reading: Callable[[], Iterator[Item]]

    def __iter__(self) -> Iterator[Item]:
        seen: Counter[str] = Counter()
        for item in self.reading():
            seen[item.name] += 1
            times = seen[item.name]
            yield item if times == 1 else replace(item, name=f"{item.name} ({times})")

    def parts(self) -> dict[str, int]:
        """Return how many items each part has, by one reading."""
        return dict(sorted(Counter(item.part for item in self).items()))

    def only(self, parts: Sequence[str]) -> Dataset:
        """Return the items of these parts; an `OptionError` names a part that there is not."""
        there = self.parts()
        if missing := [part for part in parts if part not in there]:
            raise OptionError(
                f"the data set {self.spec!r} has no part {missing[0]!r}",
                hint=f"It has {', '.join(there) or 'no items'}.",
            )
        chosen_parts = frozenset(parts)
        return replace(self, reading=lambda: (item for item in self if item.part in chosen_parts))

    def sample(self, count: int, seed: int = 0) -> Dataset:
        """Return a sample of `count` items, each part by its size (largest remainders first).

        The items are in the order of the data, and the same ones at every reading.
        """
        chosen = _chosen([(item.part, item.name) for item in self], count, seed)
        return replace(self, reading=lambda: (item for at, item in enumerate(self) if at in chosen))


def open_dataset(spec: str, parts: Sequence[str] = ()) -> Dataset:
    """Return the data set of a spec, or some of its parts. Nothing is read yet, but that a path is checked to be there.

    Raises `OptionError` for a spec that names nothing, here or at reading for a line or file that is no item.
    """
    kind, colon, rest = spec.partition(":")
    if spec in _OWN:
        dataset = Dataset(spec, spec, _OWN[spec])
    elif colon and kind in _KINDS:
        if not rest:
            raise OptionError(f"the data set {spec!r} lacks what comes after the colon", hint=_SPECS)
        dataset = Dataset(kind, spec, _KINDS[kind](rest))
    else:
        path = _there(spec)
        dataset = Dataset(path.resolve().name, spec, partial(sources.schemas, path))
    return dataset.only(parts) if parts else dataset


_SPECS = "Give bundled, maskbench:PATH, suite:PATH, hub:OWNER/NAME[:PART], or the path of a folder or file of schemas."


def _there(text: str) -> Path:
    path = Path(text)
    if not path.exists():
        raise OptionError(f"there is no data set {text!r}, nor a file or folder of that name", hint=_SPECS)
    return path


_OWN: dict[str, Callable[[], Iterator[Item]]] = {
    "bundled": lambda: sources.lines(Path(__file__).parent / "data" / "schemas.jsonl"),
}
_KINDS: dict[str, Callable[[str], Callable[[], Iterator[Item]]]] = {
    "maskbench": lambda rest: partial(sources.lines, _there(rest)),
    "suite": lambda rest: partial(sources.suite, _there(rest)),
    "hub": lambda rest: partial(sources.hub, rest),
}


def _chosen(items: Sequence[tuple[str, str]], count: int, seed: int) -> frozenset[int]:
    """Return which of the items, given by part and name, are drawn; their order does not matter."""
    if count >= len(items):
        return frozenset(range(len(items)))
    if count < 0:
        raise OptionError(f"a sample of {count} items cannot be drawn", hint="Give 0 or more.")
    members: dict[str, list[int]] = defaultdict(list)
    for at in sorted(range(len(items)), key=lambda at: items[at][1]):
        members[items[at][0]].append(at)
    quotas = {part: count * len(part_items) / len(items) for part, part_items in members.items()}
    taken = {part: int(quota) for part, quota in quotas.items()}
    rest = sorted(quotas, key=lambda part: (taken[part] - quotas[part], part))
    for part in rest[: count - sum(taken.values())]:
        taken[part] += 1
    source = random.Random(seed)
    return frozenset(at for part in sorted(members) for at in source.sample(members[part], taken[part]))
