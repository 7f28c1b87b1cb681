"""Modes in which a model writes the rest of a line, and the record of each text.

Members alone, all monitors, monitors with a judge at the end, and a judge first have four costs and four effects. Each
is compared with the same model without a constraint.

Invariant: all modes have the same prompt, the same form of a line and the same budget. The same call judges their
texts; its time is not included. Cost: one generation for each mode of a site, and two diagnostics.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import structgen as sg
from structgen.monitors.language_server import Analyser

from .replay import new_errors
from .sites import Site

__all__ = ["MODES", "Record", "code_itself", "prompt_of", "written"]

MODES: dict[str, dict[str, Any]] = {
    "free": {"monitors": []},
    "members": {"monitors": ["members"]},
    "all": {},
    "checked": {"check": True},
    "fallback": {"mode": "fallback"},
}
"""Arguments of `structgen.code`."""

CODE_ITSELF = "the code itself"
_PROMPT_TOKENS = 400
_LINE = r"[^\n]{0,160}\n"
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")


@dataclass
class Record:
    """One text."""

    site: Site
    server: str
    mode: str
    text: str
    is_match: bool
    """Whether the text begins with the held-out identifier."""
    errors: list[str] | None
    """The server's errors in the line; None if it did not reply, or if the line has no end."""
    breaks: bool
    """Whether there are new errors after the line."""
    finish: str = ""
    tokens: int = 0
    seconds: float = 0.0
    """Seconds after the prompt was read."""
    whole: float = 0.0
    """Seconds with the prompt and with making the constraint."""
    making: float = 0.0
    """Seconds to make the constraint, whose lexer reads the beginning of the file."""
    report: dict[str, Any] = field(default_factory=dict)
    """The report of the monitors."""

    @property
    def per_token(self) -> float:
        """Seconds for each token that was drawn, including tokens that were removed for a fault."""
        return self.seconds / max(1, self.tokens + int(self.report.get("rewritten", 0)))

    @property
    def per_trigger(self) -> float | None:
        """Seconds of waiting for each request whose answer was not cached; None without a request."""
        asked = self.report.get("triggers", 0) - self.report.get("kept", 0)
        return float(self.report["waited"]) / asked if asked > 0 else None


def prompt_of(model: Any, before: str) -> str:
    """Return the last tokens of the text before a site."""
    ids = model.encode(before[-10 * _PROMPT_TOKENS :])
    text: str = model.decode(ids[-_PROMPT_TOKENS:])
    return text


def code_itself(site: Site, folder: Path, text: str, server: Analyser) -> Record:
    """Return the record of the original line."""
    errors, breaks = _judged(site, folder, text, site.rest, server)
    return Record(site, server.name, CODE_ITSELF, site.rest, True, errors, breaks)


def written(
    model: Any, site: Site, folder: Path, text: str, server: Analyser, mode: str, max_tokens: int
) -> Record:
    """Return the record of a line that the model writes."""
    before, after = site.around(text)
    prompt = prompt_of(model, before)
    started = time.perf_counter()
    constraint = sg.code(
        site.language,
        project=folder,
        file=site.file,
        before=before,
        after=after,
        within=sg.regex(_LINE),
        server=server,
        **MODES[mode],
    )
    made = time.perf_counter()
    result = sg.run(model, prompt, constraint, temperature=0.0, max_tokens=max_tokens, speculate=False)
    ended = time.perf_counter()
    name = _NAME.match(result.text)
    # A line that was cut off has no end yet, so there is nothing to judge.
    is_line = result.text.endswith("\n")
    errors, breaks = _judged(site, folder, text, result.text, server) if is_line else (None, False)
    return Record(
        site,
        server.name,
        mode,
        result.text,
        is_match=name is not None and name[0] == site.identifier,
        errors=errors,
        breaks=breaks,
        finish=result.finish,
        tokens=len(result.tokens),
        seconds=result.timing.total - result.timing.prompt,
        whole=ended - started,
        making=made - started,
        report={} if result.monitors is None else asdict(result.monitors),
    )


def _judged(
    site: Site, folder: Path, text: str, line: str, server: Analyser
) -> tuple[list[str] | None, bool]:
    faults = new_errors(site, folder, text, line, server)
    if faults is None:
        return None, False
    return [f"{fault.code}: {fault.message}" for fault in faults[0]], faults[1]
