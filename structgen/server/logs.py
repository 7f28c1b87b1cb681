"""The log of `structgen serve`: lines with a time on the standard error, if the program has no log of its own.

Invariant: a program that has configured logging decides itself what is written, and where.
"""

from __future__ import annotations

import logging

__all__ = ["configure_logs"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure_logs(level: str) -> None:
    """Write what the package logs to the standard error, unless the program has a handler for it.

    Args:
        level: The name of the lowest level that is written, such as "warning".
    """
    package = logging.getLogger("structgen")
    if package.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    package.addHandler(handler)
    package.setLevel(level.upper())
