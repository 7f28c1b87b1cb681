"""What whoever runs a server may set, from one environment variable.

Why: an engine's plugins are loaded in several processes, without arguments; they all see the same environment.
Invariant: an unknown name or a wrong value stops the start, by name; it is never ignored.

    STRUCTGEN_SERVING='{"compile_seconds": 2, "workers": 3, "whitespace": "compact"}'

Fields of `structgen.serving.requests.RequestLimits`, and `workers` (processes that try specs out), `mask_threads`.
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
"""Of what only our own server has."""


@dataclass(frozen=True)
class Settings:
    """The settings of one process."""

    limits: RequestLimits = DEFAULT_LIMITS
    workers: int = 3
    """Processes that try specs out, where requests come in."""
    mask_threads: int = 4
    """Threads that fill masks at once, of specs with engines of their own."""


def read_settings(text: str | None = None) -> Settings:
    """From the environment, or from JSON text. Raises `OptionError`."""
    text = os.environ.get(VARIABLE, "") if text is None else text
    if not text.strip():
        return Settings()
    try:
        given = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{VARIABLE} is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise OptionError(f"{VARIABLE} is {given!r:.60}; it is a JSON object")
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
            raise OptionError(f"{name} is {value!r:.60}; it is one of {', '.join(_NAMES[name])}")
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    right = (
        isinstance(value, bool)
        if isinstance(usual, bool)
        else is_number and value > 0 and (isinstance(usual, float) or isinstance(value, int))
    )
    if not right:
        kind = "true or false" if isinstance(usual, bool) else "a number above 0"
        raise OptionError(f"{name} is {value!r:.60}; it is {kind}")
