"""Asking a monitor without waiting longer than it is worth: answers are futures, kept, and counted.

Why: a request is sent when the token that triggers it was drawn, and its answer is needed when the next one is; between
the two the model reads. What a monitor does not answer in time it does not know.
Invariant: whatever a monitor does, an answer comes within `patience`; every answer that leaves the text free is counted
with its cause.
Cost: of a kept answer, one look-up.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, dataclass, field
from typing import Any

from structgen.constraints.expressions import RE
from structgen.errors import OptionError

from .languages import Language
from .lexer import ARGUMENT, CALL, IMPORT, MEMBER
from .monitor import Context, Monitor
from .suggestions import expression_of

__all__ = ["Answer", "Asker", "MonitorReport"]

_KEPT = 4_096


@dataclass
class MonitorReport:
    """What monitors did in one text."""

    triggers: int = 0
    """Places where one was to be asked."""
    kept: int = 0
    """Answers that were known."""
    unknown: int = 0
    """Answers that left the text free: nothing was known."""
    timeouts: int = 0
    """Of these, answers that did not come in time."""
    failures: int = 0
    """Of these, answers that were errors."""
    refused: int = 0
    """Tokens that were drawn and refused, for what they say behind a place within them."""
    faults: int = 0
    """Faults of finished texts that were taken back and written anew."""
    rewritten: int = 0
    """Tokens that were taken back for them."""
    left: tuple[str, ...] = ()
    """Faults that the text has all the same: there were more than might be repaired."""
    unchecked: bool = False
    """Was the text not judged, though it was to be: cut off, or the judge failed?"""
    waited: float = 0.0
    """Seconds spent waiting for answers, or asking."""
    causes: dict[str, int] = field(default_factory=dict)
    """Why answers failed, with how often."""

    def failed(self, cause: str) -> None:
        """Count an answer that was an error."""
        self.failures += 1
        if cause in self.causes or len(self.causes) < 20:
            self.causes[cause] = self.causes.get(cause, 0) + 1

    def __str__(self) -> str:
        shown = {name: value for name, value in asdict(self).items() if value}
        return ", ".join(
            f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in shown.items()
        )


class Answer:
    """What a monitor says at one place; asked at once, waited for when it is needed."""

    __slots__ = (
        "_asker",
        "_expression",
        "_future",
        "_key",
        "_known",
        "_number",
        "_report",
        "_spaces",
        "asked",
    )

    def __init__(
        self,
        asker: Asker,
        number: int,
        future: Future[Any] | None,
        key: Hashable,
        spaces: str,
        report: MonitorReport,
    ) -> None:
        self._asker, self._number, self._future = asker, number, future
        self._key, self._spaces, self._report = key, spaces, report
        self._known = False
        self._expression: RE | None = None
        self.asked = time.perf_counter()

    @property
    def is_known(self) -> bool:
        """Is there nothing to wait for?"""
        return self._known or self._future is None or self._future.done()

    def expression(self) -> RE | None:
        """The language of what may follow, waited for; None: free."""
        if not self._known:
            self._expression = self._waited()
            self._known = True
            self._future = None
        return self._expression

    def settle(self, given: Any) -> Answer:
        """Return the answer that is known without waiting."""
        self._known = True
        self._expression = self._asker.understood(given, self._key, self._spaces, self._report)
        return self

    def known_as(self, expression: RE | None) -> Answer:
        """Return the answer that was understood before."""
        self._known, self._expression = True, expression
        return self

    def _waited(self) -> RE | None:
        future, report = self._future, self._report
        assert future is not None
        before = time.perf_counter()
        try:
            left = self._asker.patience(self._number) - (before - self.asked)
            given = future.result(max(0.0, left))
            return self._asker.understood(given, self._key, self._spaces, report)
        except OptionError:
            raise  # a suggestion that is none: the monitor's author wants to know
        except TimeoutError:
            if future.done():  # the monitor's own error
                report.failed("TimeoutError")
            else:
                future.cancel()
                report.timeouts += 1
            report.unknown += 1
            return None
        except CancelledError:
            report.unknown += 1
            report.timeouts += 1
            return None
        except Exception as error:
            report.failed(f"{type(error).__name__}: {error!s:.120}")
            report.unknown += 1
            return None
        finally:
            report.waited += time.perf_counter() - before
            self._asker.answered(self._number)


class Asker:
    """Asks monitors, and keeps what they said."""

    def __init__(self, language: Language, patience: float, warm_up: float) -> None:
        self.language = language
        self._patience = min(patience, threading.TIMEOUT_MAX)
        self._warm_up = min(max(patience, warm_up), threading.TIMEOUT_MAX)
        self._answered: set[int] = set()
        self._kept: OrderedDict[Hashable, tuple[RE | None, bool]] = OrderedDict()

    def ask(self, number: int, monitor: Monitor, context: Context, report: MonitorReport) -> Answer:
        """Ask the monitor of this number."""
        report.triggers += 1
        before = time.perf_counter()
        key: Hashable = None
        try:
            key = monitor.key(context)
            key = None if key is None else (number, key)
            if key is not None and key in self._kept:
                report.kept += 1
                known, is_unknown = self._kept[key]
                report.unknown += is_unknown
                return Answer(self, number, None, None, self._spaces(context), report).known_as(known)
            given = monitor.suggest(context)
            answer = Answer(
                self, number, given if isinstance(given, Future) else None, key, self._spaces(context), report
            )
            return answer if isinstance(given, Future) else answer.settle(given)
        except OptionError:
            raise  # a suggestion that is none: the monitor's author wants to know
        except Exception as error:
            report.failed(f"{type(error).__name__}: {error!s:.120}")
            report.unknown += 1
            return Answer(self, number, None, None, self._spaces(context), report).known_as(None)
        finally:
            report.waited += time.perf_counter() - before

    def patience(self, number: int) -> float:
        """Seconds that an answer of this monitor may take: its first one longer."""
        return self._patience if number in self._answered else self._warm_up

    def answered(self, number: int) -> None:
        """The monitor of this number has answered, or has had its time to."""
        self._answered.add(number)

    def _spaces(self, context: Context) -> str:
        """Return what may stand before a name."""
        if context.place == MEMBER:
            return ""  # nobody writes a space behind a dot, and without one a single name is forced text
        if not self.language.line_statements or context.place in (CALL, ARGUMENT):
            return " \t\r\n"
        is_open = context.place == IMPORT and "(" in context.text[context.statement :]
        return " \t\r\n" if is_open else " \t"

    def understood(self, given: Any, key: Hashable, spaces: str, report: MonitorReport) -> RE | None:
        """Return the language of an answer, which is kept."""
        expression = expression_of(given, self.language, spaces=spaces)
        is_unknown = given is None
        report.unknown += is_unknown
        if key is not None:
            self._kept[key] = expression, is_unknown
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return expression
