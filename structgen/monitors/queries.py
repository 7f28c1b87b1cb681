"""Query monitors without waiting longer than an answer is worth: answers are futures, kept, and counted.

Why: a request is sent when the token that triggers it was drawn, and its answer is needed when the next one is drawn;
in between, the model runs. What a monitor does not answer in time counts as unknown.
Invariant: an answer is available within `patience` for any monitor; every answer that leaves the text
unconstrained is counted with its cause.
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

__all__ = ["Answer", "MonitorReport", "QueryRunner"]

_KEPT = 4_096


@dataclass
class MonitorReport:
    """What monitors did in one text."""

    triggers: int = 0
    """Positions at which a monitor was to be queried."""
    kept: int = 0
    """Answers that constrained the text."""
    unknown: int = 0
    """Answers that left the text unconstrained: nothing was known."""
    timeouts: int = 0
    """Of these, answers that did not come in time."""
    failures: int = 0
    """Of these, answers that were errors."""
    refused: int = 0
    """Tokens that were drawn and refused for their bytes after a trigger inside them."""
    faults: int = 0
    """Faults of finished texts that were rolled back and generated again."""
    rewritten: int = 0
    """Tokens that were rolled back for them."""
    left: tuple[str, ...] = ()
    """Faults that remain in the text because it had more than could be repaired."""
    unchecked: bool = False
    """Whether a judgement is missing: the text was cut off, or the judge failed."""
    waited: float = 0.0
    """Seconds spent sending queries and waiting for answers."""
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
    """A monitor's answer at one position: queried at once, awaited when it is needed."""

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
        asker: QueryRunner,
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
        """Whether the answer is known without waiting."""
        return self._known or self._future is None or self._future.done()

    def expression(self) -> RE | None:
        """Wait for the answer and return the language of what may follow; None: unconstrained."""
        if not self._known:
            self._expression = self._waited()
            self._known = True
            self._future = None
        return self._expression

    def resolve(self, given: object) -> Answer:
        """Resolve the answer with what is known without waiting."""
        self._known = True
        self._expression = self._asker.understood(given, self._key, self._spaces, self._report)
        return self

    def known_as(self, expression: RE | None) -> Answer:
        """Resolve the answer with a language that was derived before."""
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
            raise  # an invalid suggestion: the author of the monitor must see it
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
        except Exception as error:  # noqa: BLE001 — a monitor may raise anything
            report.failed(f"{type(error).__name__}: {error!s:.120}")
            report.unknown += 1
            return None
        finally:
            report.waited += time.perf_counter() - before
            self._asker.answered(self._number)


class QueryRunner:
    """Queries monitors, and keeps their answers."""

    def __init__(self, language: Language, patience: float, warm_up: float) -> None:
        self.language = language
        self._patience = min(patience, threading.TIMEOUT_MAX)
        self._warm_up = min(max(patience, warm_up), threading.TIMEOUT_MAX)
        self._answered: set[int] = set()
        self._kept: OrderedDict[Hashable, tuple[RE | None, bool]] = OrderedDict()

    def ask(self, number: int, monitor: Monitor, context: Context, report: MonitorReport) -> Answer:
        """Query the monitor with this number."""
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
            return answer if isinstance(given, Future) else answer.resolve(given)
        except OptionError:
            raise  # an invalid suggestion: the author of the monitor must see it
        except Exception as error:  # noqa: BLE001 — a monitor may raise anything
            report.failed(f"{type(error).__name__}: {error!s:.120}")
            report.unknown += 1
            return Answer(self, number, None, None, self._spaces(context), report).known_as(None)
        finally:
            report.waited += time.perf_counter() - before

    def patience(self, number: int) -> float:
        """Return how many seconds an answer of this monitor may take; its first one may take longer."""
        return self._patience if number in self._answered else self._warm_up

    def answered(self, number: int) -> None:
        """Note that the monitor with this number has answered, or has used its time."""
        self._answered.add(number)

    def _spaces(self, context: Context) -> str:
        """Return the white space that may stand before a name."""
        if context.place == MEMBER:
            return ""  # no one writes a space after a dot, and without one a single name is forced text
        if not self.language.line_statements or context.place in (CALL, ARGUMENT):
            return " \t\r\n"
        is_open = context.place == IMPORT and "(" in context.text[context.statement :]
        return " \t\r\n" if is_open else " \t"

    def understood(self, given: object, key: Hashable, spaces: str, report: MonitorReport) -> RE | None:
        """Return the language of an answer, and keep it."""
        expression = expression_of(given, self.language, spaces=spaces)
        is_unknown = given is None
        report.unknown += is_unknown
        if key is not None:
            self._kept[key] = expression, is_unknown
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return expression
