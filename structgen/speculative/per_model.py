"""`PerModel`: what a drafter has computed for a model, kept as long as the model lives.

Why: drafters are kept with their model, in `defaults`. A drafter with a strong reference to it would keep the model
alive for ever.
Invariant: it holds one value at most, and no reference to the model. When the model is freed, the value is dropped.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["PerModel"]

_Value = TypeVar("_Value")


class PerModel(Generic[_Value]):
    """A value that belongs to the model that was used last."""

    def __init__(self) -> None:
        self._entry: tuple[Callable[[], Any], _Value] | None = None

    def get(self, model: Any) -> _Value | None:
        """Return the value of a model; None without one."""
        entry = self._entry  # another thread may replace it
        return entry[1] if entry is not None and entry[0]() is model else None

    def set(self, model: Any, value: _Value) -> None:
        """Keep the value of a model in place of the one before.

        Args:
            model: The model. Without support for weak references it is kept alive.
            value: The value. It must not refer to the model.
        """
        own = weakref.ref(self)

        def drop(freed: Any) -> None:
            kept = own()
            if kept is not None and kept._entry is not None and kept._entry[0] is freed:
                kept._entry = None

        reference: Callable[[], Any]
        try:
            reference = weakref.ref(model, drop)
        except TypeError:
            reference = lambda: model  # noqa: E731
        self._entry = reference, value

    def __reduce__(self) -> tuple[type[PerModel[Any]], tuple[()]]:
        return PerModel, ()  # the value is computed again
