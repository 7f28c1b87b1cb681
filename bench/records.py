"""MaskBench records, and a progress bar."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["progress", "records"]

Item = TypeVar("Item")


def records(path: str | Path, limit: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """Return the records of a ``.jsonl`` or ``.jsonl.gz`` file, or a sample of them in the order of the file."""
    opener: Callable[..., Any] = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        listed = [json.loads(line) for line in file]
    if limit is None or limit >= len(listed):
        return listed
    return [listed[i] for i in sorted(random.Random(seed).sample(range(len(listed)), limit))]


def progress(items: Sequence[Item], label: str) -> Iterable[Item]:
    """Return the items, with a tqdm bar if tqdm is installed."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return items
    bar: Iterable[Item] = tqdm(items, desc=label, smoothing=0.05)
    return bar
