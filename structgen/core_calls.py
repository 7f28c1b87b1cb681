"""Limits on the work of the native core: CPU time, wall time, and a flag that stops it.

Why: constraints can come from strangers, and a server must be able to end any call: at a deadline, when a client
disconnects, and when the process has to stop.
Invariant: a call that is ended leaves matchers unchanged, and no unfinished work in any cache.
Cost: the core checks its limits about once per millisecond; the limits themselves cost nothing measurable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from structgen import _core
from structgen.argument_names import checks_names
from structgen.errors import LimitExceeded, OptionError, Stopped, with_kind

__all__ = ["StopFlag", "call_limits"]

StopFlag = _core.StopFlag
"""Ends the calls of the core that run under it. Call ``flag.set()`` from any thread."""


@contextmanager
@checks_names
def call_limits(
    *, cpu_seconds: float | None = None, seconds: float | None = None, stop: StopFlag | None = None
) -> Iterator[None]:
    """Limit what the native core does inside a ``with`` block, in this thread.

    The limits apply to everything that runs in the core: compiling constraints, masks, advancing, completions,
    explanations, canvases. Blocks nest; the tightest limit counts. They also end the reading of schemas and patterns,
    which is Python code; other Python code is not interrupted. Do not `await` inside the block: other tasks of the
    thread would run under its limits, and what other threads do for the task would not.

    Args:
        cpu_seconds: CPU time of this thread, in seconds, from the beginning of the block.
        seconds: Wall time, in seconds, from the beginning of the block.
        stop: A flag that ends the running call, and all later ones in the block, once it is set.

    Raises:
        LimitExceeded: A time limit was met; its `limit` is ``"call_seconds"``.
        Stopped: The flag was set.
        OptionError: A limit is negative or not a number, or `stop` is not a flag.

    Example:
        ```python
        flag = StopFlag()  # any thread may set it
        with call_limits(cpu_seconds=0.05, stop=flag):
            matcher.mask()
        ```
    """
    for name, value in (("cpu_seconds", cpu_seconds), ("seconds", seconds)):
        if value is None:
            continue
        if isinstance(value, bool) or not (isinstance(value, int | float) and value >= 0):  # not >= 0: nan
            raise OptionError(f"{name} must be a number of seconds of at least 0, not {value!r:.60}")
    if stop is not None and not isinstance(stop, StopFlag):
        raise OptionError(
            f"stop must be a StopFlag, not {with_kind(stop)}", hint="Create one: flag = structgen.StopFlag()."
        )
    with _core.CallLimits(
        cpu_seconds=_at_most_decades(cpu_seconds), seconds=_at_most_decades(seconds), stop=stop
    ):
        try:
            yield
        except _core.Stopped:
            raise Stopped("the call was stopped by its flag") from None
        except _core.LimitError as error:
            if error.limit != "call_seconds":
                raise
            raise LimitExceeded(
                error.message,
                limit="call_seconds",
                hint="Allow the calls more time, or simplify the constraint.",
            ) from None


def _at_most_decades(seconds: float | None) -> float | None:
    """Return a number that fits the core's clock; an int may be too large for a float."""
    return None if seconds is None else float(min(seconds, 1e9))
