"""A monitor made of a function that is called after every match of a pattern.

Why: the simplest monitors need no class: an API's enum, a tool's result, a table in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from structgen.argument_names import checks_names
from structgen.errors import OptionError, a_kind, with_kind

from .monitor import Context, Fault, Monitor, Trigger

__all__ = ["FunctionMonitor", "after", "judge"]


class FunctionMonitor(Monitor):
    """Made by `after`."""

    def __init__(
        self, triggers: Sequence[str | Trigger], suggest: Callable[[Context], Any], name: str, *, keeps: bool
    ) -> None:
        super().__init__(name, triggers)
        self._suggest, self._keeps = suggest, keeps

    def suggest(self, context: Context) -> Any:
        """Call the function."""
        return self._suggest(context)

    def key(self, context: Context) -> Hashable:
        """Return the text, or None if the function may return something else next time."""
        return super().key(context) if self._keeps else None


class _Judge(Monitor):
    def __init__(self, check: Callable[[str], Any], name: str) -> None:
        super().__init__(name)
        self._check = check

    def faults(self, context: Context) -> Sequence[Fault] | None:
        """Return the faults that the function finds in the generated text."""
        verdict = self._check(context.text[len(context.text) - context.generated :])
        if verdict is None or verdict is True:
            return []
        if verdict is False:
            return [Fault(-1, f"{self.name} refused it")]
        if isinstance(verdict, str):
            return [Fault(-1, verdict)]
        if isinstance(verdict, Fault):
            return [verdict]
        return list(verdict)


@checks_names
def after(
    trigger: str | Trigger | Sequence[str | Trigger],
    suggest: Callable[[Context], Any],
    *,
    name: str | None = None,
    keeps: bool = True,
) -> FunctionMonitor:
    r"""Return a monitor that calls a function to learn what may come after a trigger.

        after(r"status: ", lambda context: api.statuses())

    Args:
        trigger: A regular expression (of Python) that ends where the function is called, a place ("member", "call",
            "argument", "close", "import"), or several of these.
        suggest: From a `Context` to names, a `Names`, a constraint on all that follows, False (refuse), or None
            (unknown). It may return a `concurrent.futures.Future`, which is awaited while the model runs.
        keeps: Whether the function returns the same for the same text, so that it is called once. Otherwise it is
            called every time, also where a token is drawn and rolled back.
    """
    given = [trigger] if not isinstance(trigger, Sequence) or isinstance(trigger, str) else list(trigger)
    for one in given:
        if not isinstance(one, str | Trigger):
            raise OptionError(f"trigger is {with_kind(one)}", hint="Give a pattern, a place, or a Trigger.")
    names = ("member", "call", "argument", "close", "import")
    triggers = [one if isinstance(one, Trigger) or one in names else Trigger(one) for one in given]
    if not callable(suggest):
        raise OptionError(f"suggest is {a_kind(suggest)}; it is a function of a Context")
    shown: str = name or str(getattr(suggest, "__name__", "after"))
    return FunctionMonitor(triggers, suggest, shown if shown != "<lambda>" else "after", keeps=keeps)


@checks_names
def judge(check: Callable[[str], Any], *, name: str | None = None) -> Monitor:
    """Return a monitor that judges finished texts.

    Args:
        check: From the text to None or True if it is right; otherwise False, a message, or the faults, each a `Fault`
            or ``(start, message)`` with `start` in characters of the text. The text is generated again from there.
        name: The name in reports.
    """
    if not callable(check):
        raise OptionError(f"check is {a_kind(check)}; it is a function of a text")
    shown: str = name or str(getattr(check, "__name__", "judge"))
    return _Judge(check, shown if shown != "<lambda>" else "judge")
