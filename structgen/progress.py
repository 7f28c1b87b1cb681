"""A progress bar on long work, if one is wanted and tqdm is installed; nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ProgressBar"]


class ProgressBar:
    """As a context manager it gives a function that counts on."""

    def __init__(self, total: int, name: str, wanted: bool) -> None:
        self._bar: Any = None
        if wanted:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped]
            except ImportError:
                return
            self._bar = tqdm(total=total, desc=name)

    def __enter__(self) -> Callable[[int], None]:
        return self._advance

    def _advance(self, count: int) -> None:
        if self._bar is not None:
            self._bar.update(count)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
