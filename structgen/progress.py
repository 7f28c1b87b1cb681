"""A progress bar for long work, shown if the caller wants one."""

from __future__ import annotations

from typing import Any

from structgen.extras import needed

__all__ = ["ProgressBar"]


class ProgressBar:
    """A context manager that shows a bar of `total` steps; without `wanted` it shows nothing."""

    def __init__(self, total: int, name: str, wanted: bool) -> None:
        self._bar: Any = None
        self._done = 0
        if wanted:
            with needed("progress=True", extra="progress"):
                from tqdm.auto import tqdm  # type: ignore[import-untyped]
            self._bar = tqdm(total=total, desc=name)

    def __enter__(self) -> ProgressBar:
        return self

    def advance(self, count: int = 1) -> None:
        """Count `count` more steps as done, or fewer if it is negative; past the total the bar stays full."""
        self._done += count
        if self._bar is not None:
            self._bar.update(min(self._done, self._bar.total) - self._bar.n)

    def say(self, **figures: object) -> None:
        """Show figures after the bar."""
        if self._bar is not None:
            self._bar.set_postfix(figures, refresh=False)
            self._bar.update(0)  # which shows them from time to time

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
