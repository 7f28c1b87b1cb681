"""An answer of the server that fails after two tokens."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.errors import LimitExceeded

from .conftest import Running

__all__ = ["spoil"]


def spoil(server: Running, monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    """Let this row of each request fail because its matcher meets a limit, as with a slow constraint."""
    submit = server.service.model_thread.submit

    def spoiled(ticket: Any) -> None:
        ticket.rows[row]._matcher = SpoiledMatcher(ticket.rows[row].matcher)
        submit(ticket)

    monkeypatch.setattr(server.service.model_thread, "submit", spoiled)


class SpoiledMatcher:
    """A matcher that advances by two tokens only."""

    def __init__(self, matcher: Any) -> None:
        self._matcher, self._count = matcher, 0

    def advance(self, token: int) -> bool:
        self._count += 1
        if self._count > 2:
            raise LimitExceeded("a mask takes too long", limit="mask_steps")
        return bool(self._matcher.advance(token))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)
