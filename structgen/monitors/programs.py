"""`code`: programs in a project, with its language server as the monitor.

Why: the most common use of monitors in one call.
Cost: a server is started for each project, in the background, and serves all constraints that are made for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from structgen.argument_names import checks_names
from structgen.constraints.base import Operand
from structgen.errors import OptionError, with_kind

from .arguments import ArgumentMonitor
from .constraint import Crossing, Mode, Monitored, monitored
from .judging import DiagnosticsMonitor
from .language_server import Analyser, analyser
from .members import ImportMonitor, MemberMonitor
from .monitor import Monitor

__all__ = ["close_servers", "code", "server_of"]

_SUFFIXES = {"python": "py", "typescript": "ts", "javascript": "js"}
_READ = {
    "python": (".py", ".pyi", ".pyw"),
    "typescript": (".ts", ".tsx", ".mts", ".cts"),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
}
"""File name suffixes of each language."""
_servers: dict[tuple[str, Path, str | None, bool], Analyser] = {}
_lock = threading.Lock()


@checks_names
def code(
    language: str,
    *,
    project: str | Path | None = None,
    file: str | Path | None = None,
    before: str = "",
    after: str = "",
    within: Operand | None = None,
    monitors: Sequence[Monitor | str] | None = None,
    server: str | Sequence[str] | Analyser | None = None,
    project_programs: bool = False,
    check: bool = False,
    mode: Mode = "always",
    crossing: Crossing = "check",
    repairs: int = 8,
    patience: float = 0.25,
    warm_up: float = 10.0,
    judging: float = 10.0,
) -> Monitored:
    """Return a constraint on a piece of a program, with a language server that knows what may follow.

        sg.run(model, before, sg.code("python", project=".", file="app/views.py", before=before))

    Args:
        language: "python", "typescript" or "javascript"; others with `monitors` of your own.
        project: The folder in which the server is started.
        file: The path in the project to which the text belongs, existing or not.
        before: The file's text before what is generated. The prompt is given to the model apart from this; mostly it
            ends with `before`.
        after: The file's text after what is generated.
        within: A constraint that texts satisfy as well, such as a grammar.
        monitors: "members", "arguments", "imports" and "diagnostics", and monitors of your own; by default the first
            three, if a project is given.
        server: "ty", "zuban", "jedi", "tsgo", or a command; by default the first of them that is installed.
        project_programs: Also run servers that lie in the project (``node_modules/.bin``, ``.venv``), and show them the
            packages of its ``.venv``. Only for projects that you trust.
        check: Judge the finished text by the server's diagnostics, and generate again from the first fault. `mode`
            "fallback" implies it: the other monitors are queried from that fault on only.
        mode: As in `monitored`, like `crossing`, `repairs`, `patience`, `warm_up` and `judging`.

    Raises:
        LanguageServerMissing: No server is installed; the hint names the command that installs one.
        OptionError: An argument has a wrong type or value.
    """
    if isinstance(monitors, str):
        raise OptionError(f"monitors is {with_kind(monitors)}", hint=f"Write a list: [{monitors!r:.40}].")
    named = [
        *(monitors if monitors is not None else _usual(language, project, server)),
        *_judges(check, mode, monitors),
    ]
    watching: list[Monitor] = []
    for monitor in named:
        if isinstance(monitor, Monitor):
            watching.append(monitor)
        elif isinstance(monitor, str) and monitor in _MADE:
            watching.append(
                _MADE[monitor](_server(language, project, server, monitor, project_programs), language)
            )
        else:
            raise OptionError(
                f"monitors holds {with_kind(monitor)}",
                hint=f"There are {', '.join(_MADE)}, and monitors of your own.",
            )
    path = _path(language, project, file)
    return monitored(
        within,
        watching,
        language=language,
        before=before,
        after=after,
        path=path,
        crossing=crossing,
        mode=mode,
        repairs=repairs,
        patience=patience,
        warm_up=warm_up,
        judging=judging,
    )


def server_of(
    language: str,
    project: str | Path,
    server: str | Sequence[str] | None = None,
    project_programs: bool = False,
) -> Analyser:
    """Return the server of a project, which starts when it is first needed."""
    name = server if server is None or isinstance(server, str) else "\0".join(server)
    key = language, Path(project).absolute(), name, project_programs
    with _lock:
        known = _servers.get(key)
        if known is None:
            known = _servers[key] = analyser(
                language, project=key[1], server=server, project_programs=project_programs
            )
        return known


def close_servers() -> None:
    """End all servers that `code` started; constraints that were made with them are unconstrained from then on."""
    with _lock:
        for server in _servers.values():
            server.close()
        _servers.clear()


def _usual(language: str, project: str | Path | None, server: object) -> list[str]:
    if project is None and not isinstance(server, Analyser):
        raise OptionError(
            "without a project there is no language server to query",
            hint="Give the folder of the program, or monitors=[...].",
        )
    return ["members", "arguments", "imports"] if language == "python" else ["members", "arguments"]


def _path(language: str, project: str | Path | None, file: str | Path | None) -> Path:
    """Return the path of the file, with a suffix that servers of its language read."""
    if file is not None and not isinstance(file, str | Path):
        raise OptionError(f"file is {with_kind(file)}; it is the path of a file")
    path = Path(f"generated.{_SUFFIXES.get(language, 'txt')}" if file is None else file)
    known = _READ.get(language)
    if known and path.suffix.lower() not in known:
        raise OptionError(
            f"file is {str(file)!r:.80}, which is no {language}", hint=f"Files end in {' or '.join(known)}."
        )
    if project is None:
        return path
    folder = Path(os.path.abspath(project))
    whole = Path(os.path.abspath(folder / path))
    if not whole.is_relative_to(folder) and not whole.resolve().is_relative_to(folder.resolve()):
        raise OptionError(
            f"file is {str(file)!r:.80}, which is not in the project",
            hint="Name it as from the project's folder.",
        )
    return whole


def _judges(check: bool, mode: str, monitors: Sequence[Monitor | str] | None) -> list[str]:
    given = monitors or ()
    has = "diagnostics" in given or any(isinstance(monitor, Monitor) and monitor.judges for monitor in given)
    return [] if has or not (check or mode == "fallback") else ["diagnostics"]


def _server(
    language: str,
    project: str | Path | None,
    server: str | Sequence[str] | Analyser | None,
    name: str,
    project_programs: bool,
) -> Analyser:
    if isinstance(server, Analyser) and not isinstance(server, str):
        return server
    if project is None:
        raise OptionError(
            f"the monitor {name!r} queries a language server, which needs a project",
            hint="Give project=, the folder of the program.",
        )
    return server_of(language, project, server, project_programs)


_MADE: dict[str, Any] = {
    "members": lambda server, language: MemberMonitor(server, makes_members=language != "typescript"),
    "arguments": lambda server, language: ArgumentMonitor(server, keywords=language == "python"),
    "imports": lambda server, language: ImportMonitor(server),
    "diagnostics": lambda server, language: DiagnosticsMonitor(server),
}
