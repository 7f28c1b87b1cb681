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

from tests import memory, skipped

# Programs that `make programs` puts beside the packages: language servers from npm, and MONA.
for _folder in ("npm/node_modules/.bin", "mona/bin"):
    if (Path(sys.prefix) / _folder).is_dir():
        os.environ["PATH"] = f"{Path(sys.prefix) / _folder}{os.pathsep}{os.environ.get('PATH', '')}"

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    memory.end_of_module(item, nextitem)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """End with what was skipped, and how to get it."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [one.longrepr[2] for one in reports if isinstance(one.longrepr, tuple)]
    if reasons:
        terminalreporter.section("skipped, and what makes these tests run")
        for line in skipped.lines(reasons):
            terminalreporter.line(line)
