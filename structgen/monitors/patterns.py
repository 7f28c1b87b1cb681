"""A monitor made of a function: asked behind every match of a pattern.

Why: the simplest of all: an API's enum, a tool's result, a table in memory.
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
        """Return what the function says."""
        return self._suggest(context)

    def key(self, context: Context) -> Hashable:
        """Return the text, or nothing where the world may have changed since."""
        return super().key(context) if self._keeps else None


class _Judge(Monitor):
    def __init__(self, check: Callable[[str], Any], name: str) -> None:
        super().__init__(name)
        self._check = check

    def faults(self, context: Context) -> Sequence[Fault] | None:
        """Return what the function says of the generated text."""
        said = self._check(context.text[len(context.text) - context.generated :])
        if said is None or said is True:
            return []
        if said is False:
            return [Fault(-1, f"{self.name} refused it")]
        if isinstance(said, str):
            return [Fault(-1, said)]
        if isinstance(said, Fault):
            return [said]
        return list(said)


@checks_names
def after(
    trigger: str | Trigger | Sequence[str | Trigger],
    suggest: Callable[[Context], Any],
    *,
    name: str | None = None,
    keeps: bool = True,
) -> FunctionMonitor:
    r"""Return a monitor that asks a function what may come behind a place.

        after(r"status: ", lambda context: api.statuses())

    Parameters
    ----------
    trigger
        A regular expression (of Python) that ends where the function is asked, a place ("member", "call", "argument",
        "close", "import"), or several.
    suggest
        From a `Context` to names, a `Names`, a constraint on all that follows, False (refuse), or None (unknown). It
        may return a `concurrent.futures.Future`, which is waited for while the model reads.
    keeps
        The function says the same of the same text, so that it is asked once. False: it is asked every time, also where
        a token is tried and taken back.
    """
    given = [trigger] if not isinstance(trigger, Sequence) or isinstance(trigger, str) else list(trigger)
    for one in given:
        if not isinstance(one, str | Trigger):
            raise OptionError(f"trigger is {with_kind(one)}", hint="Give a pattern, a place, or a Trigger.")
    places = ("member", "call", "argument", "close", "import")
    triggers = [one if isinstance(one, Trigger) or one in places else Trigger(one) for one in given]
    if not callable(suggest):
        raise OptionError(f"suggest is {a_kind(suggest)}; it is a function of a Context")
    shown: str = name or str(getattr(suggest, "__name__", "after"))
    return FunctionMonitor(triggers, suggest, shown if shown != "<lambda>" else "after", keeps=keeps)


@checks_names
def judge(check: Callable[[str], Any], *, name: str | None = None) -> Monitor:
    """A monitor that judges finished texts: `check` says None or True where one is right; else False, a message, or the
    faults: `Fault` or ``(start, message)`` each, `start` in characters of the text. The text is written anew from
    there.
    """
    if not callable(check):
        raise OptionError(f"check is {a_kind(check)}; it is a function of a text")
    shown: str = name or str(getattr(check, "__name__", "judge"))
    return _Judge(check, shown if shown != "<lambda>" else "judge")
