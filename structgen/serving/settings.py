"""Settings of the engine plugins, from one environment variable.

Why: an engine loads its plugins in several processes, without arguments; all of them see the same environment.
Invariant: an unknown name or an invalid value is an error that names it.

    STRUCTGEN_SERVING='{"compile_seconds": 2, "workers": 3, "whitespace": "compact"}'

The names are the fields of `structgen.serving.limits.RequestLimits`, `workers` and `mask_threads`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from typing import Any

from structgen.errors import OptionError
from structgen.serving.limits import DEFAULT_LIMITS, RequestLimits

__all__ = ["VARIABLE", "Settings", "read_settings"]

VARIABLE = "STRUCTGEN_SERVING"
_OWN_SERVER = ("max_matcher_processes", "matcher_bytes", "step_seconds")
"""Limits of the OpenAI-compatible server only."""


@dataclass(frozen=True)
class Settings:
    """The settings of one process."""

    limits: RequestLimits = DEFAULT_LIMITS
    workers: int = 3
    """Processes for compile probes, where requests come in."""
    mask_threads: int = 4
    """Threads that fill masks in parallel, of constraints with engines of their own."""


def read_settings(text: str | None = None) -> Settings:
    """Read the settings.

    Args:
        text: JSON; None reads the environment variable `VARIABLE`.

    Raises:
        OptionError: The text is not JSON, a name is unknown, or a value is invalid.
    """
    text = os.environ.get(VARIABLE, "") if text is None else text
    if not text.strip():
        return Settings()
    try:
        given = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{VARIABLE} is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise OptionError(f"{VARIABLE} must be a JSON object, not {given!r:.60}")
    usual: dict[str, Any] = {
        field.name: getattr(DEFAULT_LIMITS, field.name)
        for field in fields(RequestLimits)
        if field.name not in _OWN_SERVER
    }
    own: dict[str, Any] = {"workers": Settings.workers, "mask_threads": Settings.mask_threads}
    for name, value in given.items():
        if name not in usual and name not in own:
            raise OptionError(
                f"{VARIABLE} has an unknown setting {name!r:.60}",
                hint=f"The settings are {', '.join([*own, *usual])}.",
            )
        _check(name, value, own[name] if name in own else usual[name])
    chosen = {name: value for name, value in given.items() if name in usual}
    return Settings(RequestLimits(**chosen), **{name: given[name] for name in own if name in given})


_NAMES = {"whitespace": ("flexible", "compact", "json.dumps", "indented"), "integers": ("any", "digits")}


def _check(name: str, value: Any, usual: Any) -> None:
    if name in _NAMES:
        if value not in _NAMES[name]:
            raise OptionError(f"{name} is {value!r:.60}; it must be one of {', '.join(_NAMES[name])}")
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    right = (
        isinstance(value, bool)
        if isinstance(usual, bool)
        else is_number and value > 0 and (isinstance(usual, float) or isinstance(value, int))
    )
    if not right:
        kind = "true or false" if isinstance(usual, bool) else "a number above 0"
        raise OptionError(f"{name} is {value!r:.60}; it must be {kind}")
