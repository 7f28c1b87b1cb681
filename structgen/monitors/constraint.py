"""A constraint with monitors: `monitored(constraint, monitors)`.

Why: everything that takes a constraint takes this one as well.
Invariant: its texts are texts of the inner constraint.
Cost: making one reads the document before the generated text once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, cast

from structgen.argument_names import checks_names
from structgen.constraints.base import IR, Constraint, Operand, as_constraint
from structgen.constraints.composition import text
from structgen.constraints.expressions import RE, TEXT
from structgen.errors import CombinationError, OptionError, with_kind
from structgen.generation.potentials import Potential, potential
from structgen.vocabulary import Vocabulary

from .beginnings import Beginning, Document
from .languages import Language, language_of
from .matching import MonitoredMatcher
from .monitor import Fault, Monitor
from .queries import MonitorReport, QueryRunner
from .scanning import Query, Scanner

__all__ = ["Crossing", "Mode", "Monitored", "monitored"]

Crossing = Literal["check", "cut"]
Mode = Literal["always", "fallback"]

_KEPT_FAULTS = 64


class Monitored(Constraint):
    """Made by `monitored` and `structgen.code`."""

    __slots__ = (
        "_judged",
        "asker",
        "beginning",
        "constraint",
        "crossing",
        "document",
        "joined",
        "judging",
        "mode",
        "monitors",
        "repairs",
        "scanner",
    )

    constraint: Constraint
    monitors: tuple[Monitor, ...]
    document: Document
    crossing: Crossing
    mode: Mode
    repairs: int
    joined: RE | None
    """The constraint, if it is regular and not free text."""
    judging: float
    asker: QueryRunner
    scanner: Scanner
    beginning: Beginning

    def __init__(self, **content: Any) -> None:
        for name, value in content.items():
            object.__setattr__(self, name, value)
        regular = self.constraint.regular()
        object.__setattr__(self, "joined", None if regular == TEXT else regular)
        object.__setattr__(self, "_judged", {})

    def matcher_class(self) -> type[MonitoredMatcher]:
        """Return the matcher that queries the monitors."""
        return MonitoredMatcher

    def open_matcher(self, vocabulary: Vocabulary) -> MonitoredMatcher:
        """Return a matcher at the start of a text."""
        return MonitoredMatcher(self, vocabulary)

    def as_condition(self) -> tuple[Constraint, Potential]:
        """Return the constraint without monitors, and a potential that rejects texts that monitors refuse."""
        judge = _Judge(self)
        return self.constraint, potential(judge.of_text, prefix=judge.of_beginning, name=self.describe())

    def faults(self, generated: bytes, report: MonitorReport) -> list[Fault]:
        """Return the faults that judging monitors find in a finished text."""
        judges = [monitor for monitor in self.monitors if monitor.judges]
        if not judges:
            return []
        report.unchecked = False
        kept: dict[bytes, list[Fault]] = cast(Any, self)._judged
        if generated in kept:
            return kept[generated]
        end = Query(-1, "end", len(self.document.before) + len(generated))
        context = self.document.context(end, generated, None, self.beginning.scan)
        faults: list[Fault] = []
        for monitor in judges:
            try:
                given = monitor.faults(context)
                if isinstance(given, Future):
                    given = given.result(min(self.judging, threading.TIMEOUT_MAX))
                given = None if given is None else [_checked_fault(fault, monitor) for fault in given]
            except OptionError:
                raise
            except Exception as error:  # noqa: BLE001 — a monitor may raise anything
                report.failed(f"{type(error).__name__}: {error!s:.120}")
                given = None
            if given is None:
                report.unchecked = True
            else:
                faults += given
        if not report.unchecked:
            if len(kept) >= _KEPT_FAULTS:
                kept.clear()
            kept[generated] = faults
        return faults

    def counts_tokens(self) -> bool:
        """Return whether a part of the constraint has a limit of tokens."""
        return self.constraint.counts_tokens()

    def holds_captures(self) -> bool:
        """Return whether rules of the constraint capture parts of its texts."""
        return self.constraint.holds_captures()

    def parsed(self, compose: Callable[[Constraint], Any]) -> Any:
        """Return how the texts of the constraint are parsed for captures, or None."""
        return self.constraint.parsed(compose)

    def lower(self) -> IR:
        """Raise, because a constraint with monitors is not an automaton."""
        raise CombinationError(
            "a monitored constraint is not an automaton, so it cannot be part of another constraint: it queries "
            "monitors while a text grows",
            hint="Combine the constraints first, and give the whole to monitored(). To read tokens by hand, "
            "open it with .open_matcher(vocabulary).",
        )

    def _and(self, other: Constraint) -> Constraint | None:
        if isinstance(other, Monitored):
            return None
        return self._with(self.constraint & other)

    def _with(self, constraint: Constraint) -> Monitored:
        content = {name: getattr(self, name) for name in self.__slots__ if name not in ("_judged", "joined")}
        return Monitored(**{**content, "constraint": constraint})

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[Any, ...]:
        raise CombinationError(
            "a monitored constraint holds connections, so it cannot be pickled",
            hint="Make it in the process that uses it.",
        )

    def describe(self) -> str:
        """Return the constraint and the names of its monitors, for messages."""
        watching = ", ".join(monitor.name for monitor in self.monitors)
        return f"{self.constraint.describe()}, with monitors: {watching or 'none'}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


def _checked_fault(given: object, monitor: Monitor) -> Fault:
    start, message, *_ = given if isinstance(given, tuple) and len(given) >= 2 else (None, None)
    if isinstance(start, bool) or not isinstance(start, int) or not isinstance(message, str):
        raise OptionError(
            f"the monitor {monitor.name} returned {given!r:.60} as a fault of a text",
            hint="A fault is structgen.monitors.Fault(start, message): a number of characters and a text.",
        )
    return given if isinstance(given, Fault) else Fault(start, message)


def _shared(first: bytes, second: bytes) -> int:
    """Return the length of the common prefix of two texts, in bytes."""
    if second.startswith(first) or first.startswith(second):
        return min(len(first), len(second))
    return next(index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)


class _Judge:
    """Reads texts byte by byte; of a text that extends the last one, only the new bytes."""

    def __init__(self, constraint: Monitored) -> None:
        everything = text() if constraint.constraint.regular() is None else constraint.constraint
        self._matcher = constraint._with(everything).open_matcher(Vocabulary.of_bytes())
        self._read = b""
        self._lock = threading.Lock()

    def of_beginning(self, given: str) -> bool:
        """Return whether monitors allow the beginning of a text."""
        data = given.encode()
        with self._lock:
            same = _shared(data, self._read)
            self._matcher.rollback(len(self._read) - same)
            self._read = data[:same]
            for byte in data[same:]:
                if not self._matcher.advance(byte):
                    return False
                self._read += bytes((byte,))
            # The answer has to be known here: a beginning that nothing continues is refused.
            return self._matcher.allowed_count() > 0

    def of_text(self, given: str) -> bool:
        """Return whether monitors accept the whole text."""
        if not self.of_beginning(given):
            return False
        with self._lock:
            return self._matcher.is_complete() and self._matcher.is_right()


@checks_names
def monitored(
    constraint: Operand | None = None,
    monitors: Monitor | Sequence[Monitor] = (),
    *,
    language: str | Language = "text",
    before: str = "",
    after: str = "",
    path: str | Path | None = None,
    crossing: Crossing = "check",
    mode: Mode = "always",
    repairs: int = 8,
    patience: float = 0.25,
    warm_up: float = 10.0,
    judging: float = 10.0,
) -> Monitored:
    """Return a constraint whose texts monitors allow while they grow.

    Args:
        constraint: What texts are; None: any text.
        monitors: One monitor or several, each queried at its triggers (`structgen.monitors.Monitor`).
        language: Distinguishes code from strings and comments: "python", "typescript", "javascript", "sql", or "text".
        before: The document before the generated text.
        after: The document after the generated text.
        path: The document's path.
        crossing: How tokens that continue after a trigger are treated. "check" reads them and draws again if they are
            refused, which keeps the distribution of what is allowed; "cut" makes tokens end at the trigger.
        mode: "always", or "fallback": monitors are queried only from the first fault of a finished text on.
        repairs: How often a finished text with a fault is rolled back to the fault and generated again.
        patience: Seconds to wait for an answer before the text is unconstrained there.
        warm_up: Seconds to wait for a monitor's first answer, since servers take time to start.
        judging: Seconds to wait for the judgement of a finished text.

    Raises:
        OptionError: An argument has a wrong type or value.
        CombinationError: The constraint has monitors already.
    """
    if not isinstance(monitors, Monitor | Iterable) or isinstance(monitors, str):
        raise OptionError(f"monitors is {with_kind(monitors)}", hint="Give a monitor, or a list of them.")
    given = (monitors,) if isinstance(monitors, Monitor) else tuple(monitors)
    for monitor in given:
        if not isinstance(monitor, Monitor):
            raise OptionError(
                f"monitors holds {with_kind(monitor)}",
                hint="Subclass structgen.monitors.Monitor, or use after().",
            )
    if crossing not in ("check", "cut"):
        raise OptionError(f"crossing is {crossing!r:.40}; it is 'check' or 'cut'")
    if mode not in ("always", "fallback"):
        raise OptionError(f"mode is {mode!r:.40}; it is 'always' or 'fallback'")
    if mode == "fallback" and not any(monitor.judges for monitor in given):
        raise OptionError(
            "mode is 'fallback', but no monitor judges finished texts, so there is nothing to fall back from",
            hint="Add one that does, such as diagnostics().",
        )
    for name, value in (("patience", patience), ("warm_up", warm_up), ("judging", judging)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise OptionError(f"{name} is {value!r:.40}; it is a number of seconds, 0 or more")
    if isinstance(repairs, bool) or not isinstance(repairs, int) or repairs < 0:
        raise OptionError(f"repairs is {repairs!r:.40}; it is a whole number, 0 or more")
    for name, around in (("before", before), ("after", after)):
        if not isinstance(around, str) or any("\ud800" <= character <= "\udfff" for character in around):
            raise OptionError(f"{name} is {around!r:.60}; it is a text that UTF-8 can spell")
    if path is not None and not isinstance(path, str | Path):
        raise OptionError(f"path is {path!r:.60}; it is the path of a file")
    if isinstance(constraint, Monitored):
        raise CombinationError("the constraint is monitored already", hint="Give all monitors in one call.")
    table = language_of(language)
    document = Document(before.encode(), after, None if path is None else Path(path), table, before)
    scanner = Scanner(table, [monitor.triggers for monitor in given])
    return Monitored(
        constraint=text() if constraint is None else as_constraint(constraint),
        monitors=given,
        document=document,
        crossing=crossing,
        mode=mode,
        repairs=repairs,
        judging=float(judging),
        asker=QueryRunner(table, float(patience), float(warm_up)),
        scanner=scanner,
        beginning=Beginning.of(document, scanner, given),
    )
