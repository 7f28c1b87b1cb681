"""Where the programs of language servers are looked for.

Why: analysing a project must not run what lies in it. A cloned repository can hold ``node_modules/.bin/ty`` or put
itself on a relative PATH.
Invariant: without `project_programs` no file inside the project is found by its name, and no relative or empty entry of
PATH is used. Folders above the project are never searched. A program that the caller names by its path is the caller's
choice.
Cost: a few look-ups of files.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

__all__ = ["find_program", "hides_programs", "safe_path"]

_IN_PROJECT = ("node_modules/.bin", ".venv/bin", ".venv/Scripts")


def find_program(program: str, project: Path, *, project_programs: bool = False) -> str | None:
    """Return where a program is, or None.

    A path is taken as it is, or as from the project. A name is looked for beside this Python, then in the folders of
    `safe_path`, and with `project_programs` last in ``node_modules/.bin`` and ``.venv`` of the project. Without
    `project_programs` the folder of this Python is skipped where it lies inside the project.
    """
    if Path(program).name != program:
        # subtle: servers are started in the project, where a relative path would mean another file
        return shutil.which(os.path.abspath(program)) or shutil.which(str(project.resolve() / program))
    folders = _allowed(_beside_python(), project, project_programs) + _entries(project, project_programs)
    if project_programs:
        folders += [project.resolve() / path for path in _IN_PROJECT]
    # subtle: the whole path is given, since `which` of a name looks into the working directory first on Windows
    candidates = (shutil.which(str(folder / program)) for folder in folders)
    return next((candidate for candidate in candidates if candidate is not None), None)


def safe_path(project: Path, *, project_programs: bool = False) -> str:
    """Return PATH without relative and empty entries, which mean the working directory, and without the project's own.

    Servers are started in the project's folder with this PATH: a script that begins with ``#!/usr/bin/env node`` must
    not find the project's ``node``.
    """
    return os.pathsep.join(map(str, _entries(project, project_programs)))


def hides_programs(project: Path) -> bool:
    """Return whether every folder that could be searched lies inside the project, as with ``/`` as the project."""
    every = _beside_python() + _entries(project, True)
    return bool(every) and not _allowed(every, project, False)


def _beside_python() -> list[Path]:
    return [Path(sys.executable).parent] if os.path.isabs(sys.executable or "") else []


def _entries(project: Path, project_programs: bool) -> list[Path]:
    entries = [
        Path(entry) for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)
    ]
    return _allowed(entries, project, project_programs)


def _allowed(folders: list[Path], project: Path, project_programs: bool) -> list[Path]:
    """Leave out folders inside the project, unless its programs may run."""
    root = project.resolve()
    return [folder for folder in folders if project_programs or not folder.resolve().is_relative_to(root)]
