"""A progress bar on long work, if one is wanted."""

from __future__ import annotations

from typing import Any

from structgen.extras import needed

__all__ = ["ProgressBar"]


class ProgressBar:
    """As a context manager it gives itself."""

    def __init__(self, total: int, name: str, wanted: bool) -> None:
        self._bar: Any = None
        if wanted:
            with needed("progress=True", extra="progress"):
                from tqdm.auto import tqdm  # type: ignore[import-untyped]
            self._bar = tqdm(total=total, desc=name)

    def __enter__(self) -> ProgressBar:
        return self

    def advance(self, count: int = 1) -> None:
        """So many more are done; past the total it stays full."""
        if self._bar is not None:
            self._bar.update(min(count, self._bar.total - self._bar.n))

    def say(self, **figures: Any) -> None:
        """Shows figures behind the bar."""
        if self._bar is not None:
            self._bar.set_postfix(figures, refresh=False)
            self._bar.update(0)  # which shows them from time to time

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
