"""Servers that start when a test needs them, and stop with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .http_server import Start, World, serve


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda **what: stack.enter_context(serve(World(**what)))
