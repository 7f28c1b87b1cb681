"""Which installed packages a Python server sees.

Why: a class whose base comes from a package that the server does not see is given its own members alone, and no server
says that there may be more; and each server looks for packages in its own places (zuban only where VIRTUAL_ENV points).
Invariant: in this order: the interpreter that was named, VIRTUAL_ENV if it is set, the project's own environment if
the caller trusts the project, this Python. A server may run the interpreter (pyright does), so that a project that is
not trusted never chooses it.
Cost: a few look-ups of files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["variables", "with_interpreter"]

_PLACES = ("bin/python", "Scripts/python.exe")


def _in_folder(folder: Path) -> Path | None:
    """Return the interpreter of a virtual environment."""
    return next((folder / path for path in _PLACES if (folder / path).exists()), None)


def _interpreter(own: Path | None, python: str | Path | None) -> Path:
    if python is not None:
        return Path(python)
    active = os.environ.get("VIRTUAL_ENV")
    interpreter = _in_folder(Path(active)) if active else None
    return interpreter or (_in_folder(own) if own is not None else None) or Path(sys.executable)


def variables(own: Path | None, python: str | Path | None) -> dict[str, str]:
    """Return the variables that show a server the virtual environment; empty if the interpreter is in no such thing.

    Args:
        own: the project's environment, if the project is trusted.
        python: the interpreter that the caller named.
    """
    folder = Path(os.path.abspath(_interpreter(own, python))).parent.parent
    return {"VIRTUAL_ENV": str(folder)} if (folder / "pyvenv.cfg").is_file() else {}


def with_interpreter(
    settings: Mapping[str, Any], own: Path | None, python: str | Path | None
) -> Mapping[str, Any]:
    """Return the settings, with the interpreter for servers that request it (those with a section "python")."""
    if "python" not in settings:
        return settings
    interpreter = os.path.abspath(_interpreter(own, python))
    return {**settings, "python": {"pythonPath": interpreter, **settings["python"]}}
