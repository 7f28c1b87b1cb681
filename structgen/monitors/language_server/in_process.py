"""jedi as an analyser: Python analysed in this process, where no language server is installed.

Why: jedi is pure Python and often there already. It knows less than a type checker and is slower (15 ms warm, up to a
second at first), its diagnostics are errors of syntax alone, and while it works it competes with the caller for the
interpreter lock. Invariant: jedi runs in one thread at a time, for all analysers of the process, since it is not
thread-safe; an unknown receiver gives None (jedi has an empty list, or keywords, for it).
Cost: what jedi takes; a query cannot be interrupted once it runs, so callers wait with a time-out
(``future.result(timeout)``) or cancel what has not started. Answers later than `timeout` are recorded.
"""

from __future__ import annotations

import importlib
import importlib.util
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from structgen.errors import LanguageServerMissing
from structgen.monitors.language_server.analysis import (
    Completion,
    Completions,
    Diagnostic,
    Parameter,
    ParameterKind,
    Signature,
    Signatures,
)
from structgen.monitors.language_server.client import check_offset
from structgen.monitors.language_server.completions import is_member_access, word_start
from structgen.monitors.language_server.health import Health
from structgen.monitors.language_server.positions import encodable, offset_of, position_of

__all__ = ["InProcess", "is_jedi_installed"]

T = TypeVar("T")

_TURN = threading.Lock()
_KINDS = {
    "function": "function",
    "statement": "variable",
    "param": "variable",
    "instance": "variable",
    "path": "file",
    "namespace": "module",
}
_PARAMETER_KINDS: dict[str, ParameterKind] = {
    "POSITIONAL_ONLY": "positional-only",
    "POSITIONAL_OR_KEYWORD": "positional",
    "KEYWORD_ONLY": "keyword",
    "VAR_POSITIONAL": "var-positional",
    "VAR_KEYWORD": "var-keyword",
}

_Task = tuple[Future[Any], Callable[[], Any], str]
_Tasks = queue.SimpleQueue[_Task | None]


def is_jedi_installed() -> bool:
    """Return whether jedi can be imported; it is not."""
    return importlib.util.find_spec("jedi") is not None


class InProcess:
    """An `Analyser` that queries jedi, in a worker thread.

    Args:
        project: the folder of the project.
        python: the interpreter whose packages are seen; jedi then runs a helper process with it. Without it the
            packages are those of this process.
        timeout: seconds after which an answer counts as late in `health`; it is given all the same.

    Raises:
        LanguageServerMissing: jedi is not installed.
    """

    name = "jedi"

    def __init__(
        self, project: str | Path, *, python: str | Path | None = None, timeout: float = 2.0
    ) -> None:
        try:
            jedi: Any = importlib.import_module("jedi")
        except ImportError:
            raise LanguageServerMissing(
                "jedi is not installed", hint="Install it: pip install jedi"
            ) from None
        self.health = Health(self.name)
        self.timeout = timeout
        self.project = Path(project).resolve()
        self._jedi = jedi
        self._environment = (
            jedi.InterpreterEnvironment()
            if python is None
            else jedi.create_environment(str(python), safe=False)
        )
        self._jedi_project = jedi.Project(str(self.project))
        self._tasks: _Tasks = queue.SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(
            target=_work, args=(self._tasks, self.health, timeout), name="structgen jedi", daemon=True
        )
        self._thread.start()
        self._finalizer = weakref.finalize(self, self._tasks.put, None)

    def completions(self, path: Path, text: str, offset: int) -> Future[Completions | None]:
        """Return the names that may stand at the offset; None after a dot means that the receiver is not known."""
        check_offset(text, offset)
        text = encodable(text)
        return self._submit("completions", lambda: self._complete(path, text, offset))

    def signatures(self, path: Path, text: str, offset: int) -> Future[Signatures | None]:
        """Return the signatures of the call that the offset is in; None if it is not known, or outside of calls."""
        check_offset(text, offset)
        text = encodable(text)
        return self._submit("signatures", lambda: self._sign(path, text, offset))

    def diagnostics(self, path: Path, text: str) -> Future[tuple[Diagnostic, ...] | None]:
        """Return errors of syntax, and nothing else."""
        text = encodable(text)
        return self._submit("diagnostics", lambda: self._diagnose(path, text))

    def close(self) -> None:
        """End the thread after its current task; tasks that have not started give None."""
        self._is_closed = True
        self._finalizer()
        if threading.current_thread() is not self._thread:
            self._thread.join(self.timeout)

    def _submit(self, what: str, work: Callable[[], T | None]) -> Future[T | None]:
        future: Future[T | None] = Future()
        if self._is_closed or not self._thread.is_alive():
            self.health.fault("closed", f"{what}: queried after it was closed")
            self.health.fail()
            future.set_result(None)
        else:
            self._tasks.put((future, work, what))
        return future

    def _script(self, path: Path, text: str) -> Any:
        return self._jedi.Script(
            text, path=str(self.project / path), project=self._jedi_project, environment=self._environment
        )

    def _complete(self, path: Path, text: str, offset: int) -> Completions | None:
        line, column = position_of(text, offset, "utf-32")
        start = word_start(text, offset)
        prefix = text[start:offset]
        is_member = is_member_access(text, start)
        items = []
        for completion in self._script(path, text).complete(line + 1, column):
            name, kind = completion.name, completion.type
            if name.startswith(prefix) and not (is_member and kind == "keyword"):
                suffix = "=" if name.endswith("=") else ""
                items.append(Completion(name.removesuffix("="), _KINDS.get(kind, kind), suffix=suffix))
        if is_member and not items and not prefix:
            return None
        distinct = {item.name: item for item in reversed(items)}
        return Completions(tuple(reversed(distinct.values())), prefix)

    def _sign(self, path: Path, text: str, offset: int) -> Signatures | None:
        line, column = position_of(text, offset, "utf-32")
        signatures = self._script(path, text).get_signatures(line + 1, column)
        items = tuple(
            Signature(
                signature.to_string(),
                tuple(_parameter(parameter) for parameter in signature.params),
                signature.index,
            )
            for signature in signatures
        )
        return Signatures(items) if items else None

    def _diagnose(self, path: Path, text: str) -> tuple[Diagnostic, ...]:
        return tuple(
            Diagnostic(
                offset_of(text, error.line - 1, error.column, "utf-32"),
                offset_of(text, error.until_line - 1, error.until_column, "utf-32"),
                error.get_message(),
                code="syntax",
                source="jedi",
            )
            for error in self._script(path, text).get_syntax_errors()
        )


def _parameter(parameter: Any) -> Parameter:
    text = parameter.to_string()
    kind = _PARAMETER_KINDS[parameter.kind.name]
    annotation = text.partition(":")[2].partition("=")[0].strip()
    return Parameter(parameter.name, kind, "=" in text and not kind.startswith("var-"), annotation)


def _work(tasks: _Tasks, health: Health, timeout: float) -> None:
    """Run one task after another until there is a None; then drop the rest."""
    while (task := tasks.get()) is not None:
        future, work, what = task
        del task
        if not future.set_running_or_notify_cancel():
            health.cancel()
            continue
        began = time.monotonic()
        try:
            with _TURN:
                result = work()
        except Exception as error:  # noqa: BLE001 — jedi may raise anything for an unfinished text
            health.fault("crash", f"{what}: {error!r:.200}")
            health.fail()
            result = None
        else:
            health.answer(result is not None)
        seconds = time.monotonic() - began
        if seconds > timeout:
            health.fault("late", f"{what}: took {seconds:.1f} s")
        del work
        future.set_result(result)
        del future
    while not tasks.empty():
        rest = tasks.get()
        if rest is not None and rest[0].set_running_or_notify_cancel():
            health.fail()
            rest[0].set_result(None)
