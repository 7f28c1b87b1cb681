"""What holds for every test: no network, few threads, repeatable examples."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# Read when the libraries are imported, so they are set before any test module is. Two threads per process on a
# busy machine of two cores are many times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TQDM_DISABLE", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests import embedded, memory, skipped

# Programs that `make programs` installs with the packages: language servers from npm, and MONA.
for _folder in ("npm/node_modules/.bin", "mona/bin"):
    if (Path(sys.prefix) / _folder).is_dir():
        os.environ["PATH"] = f"{Path(sys.prefix) / _folder}{os.pathsep}{os.environ.get('PATH', '')}"

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


memory.hold_little_free_memory()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that use the embedded model first, those of the server before the others."""
    items.sort(key=embedded.place_in_order)


def pytest_collection_finish() -> None:
    memory.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    memory.end_of_test(item, nextitem)


_peaks: dict[str, tuple[int, int]] = {}
"""Of each process that ran tests: the peak of its memory and by how much that is above the limit, in bytes."""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if peak := getattr(node, "workeroutput", {}).get("memory"):
        _peaks[node.gateway.id] = tuple(peak)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record the peak of each process that ran tests, for the summary."""
    figures = memory.peak(), memory.excess()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["memory"] = figures
    elif not _peaks:
        _peaks["this process"] = figures


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """End with the peaks of memory, and with what was skipped and how to get it."""
    terminalreporter.section("memory")
    for name, (peak, excess) in _peaks.items():
        above = f", {excess >> 20} MB above the limit: see tests/memory.py" if excess else ""
        terminalreporter.line(f"{name}: {peak >> 20} MB at its peak{above}")
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [one.longrepr[2] for one in reports if isinstance(one.longrepr, tuple)]
    if reasons:
        terminalreporter.section("skipped, and what makes these tests run")
        for line in skipped.lines(reasons):
            terminalreporter.line(line)
