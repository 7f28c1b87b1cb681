"""``python -m structgen``: the command line.

Python looks for modules in the working directory first if it is started with ``-m``. Files there that have the names of
standard modules, such as ``json.py``, would be imported instead of these. So the directory is removed from the path,
unless the package itself comes from it.
"""

import os
import sys


def _folder_of_package() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _leave_working_directory() -> None:
    """Remove the working directory from the path, if it is there only because of ``-m``."""
    if sys.flags.safe_path or not sys.path:
        return
    try:
        here = os.getcwd()
    except OSError:  # it was deleted
        here = ""
    if sys.path[0] in ("", here) and _folder_of_package() != here:
        del sys.path[0]


_leave_working_directory()

from structgen.cli import program  # noqa: E402 — imports standard modules

program()
