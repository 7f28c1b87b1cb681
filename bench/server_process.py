"""Run `structgen serve` in a process of its own for the duration of a block, and measure its memory."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.memory import status_kib

__all__ = ["Memory", "Served", "descendants", "key", "model_of", "report_batch", "serve", "share"]

_START_SECONDS = 120.0
_END_SECONDS = 60.0


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    """The base URL, with /v1."""
    pid: int | None
    """Process ID; None if the server was running before."""


@contextlib.contextmanager
def serve(options: str = "", url: str | None = None) -> Iterator[Served]:
    """Start a server with `options` of the command and stop it after the block, or use the one at `url`."""
    if url is not None:
        yield Served(url, None)
        return
    command = [sys.executable, "-P", "-m", "structgen", "serve", "--port", "0", *options.split()]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    output: list[str] = []
    assert process.stderr is not None
    lines = process.stderr
    reader = threading.Thread(target=lambda: output.extend(lines), daemon=True)
    reader.start()
    end = time.monotonic() + _START_SECONDS
    while not (match := re.search(r"served at (\S+/v1)", "".join(output))):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise SystemExit("the server does not start: " + "".join(output))
        time.sleep(0.05)
    try:
        yield Served(match[1], process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        reader.join(5)
        rest = [line for line in output[1:] if "Traceback" in line or "Error" in line]
        print(f"the server ended with status {status}" + (f"; its errors: {rest[:5]}" if rest else ""))


class Memory:
    """Memory of a server and of all processes below it, in MiB, by seconds since the start."""

    def __init__(self, pid: int | None) -> None:
        self._pid, self._started = pid, time.monotonic()
        self.samples: list[tuple[float, float, float]] = []
        self.sample()

    def sample(self) -> None:
        """Take a sample now."""
        if self._pid is not None:
            below = sum(_resident(process) for process in descendants(self._pid))
            self.samples.append((time.monotonic() - self._started, _resident(self._pid), below))

    def print(self) -> None:
        """Print at most some dozen samples."""
        if self.samples:
            shown = self.samples[:: max(1, len(self.samples) // 12)]
            figures = ", ".join(f"{at / 60:.1f} min {own:.0f}+{below:.0f}" for at, own, below in shown)
            print(f"memory, MiB (server + its compiling processes): {figures}")


def _resident(pid: int) -> float:
    try:
        return status_kib(pid, "VmRSS") / 1024
    except OSError:
        return 0.0  # the process has ended


def descendants(pid: int) -> list[int]:
    """Return the child processes of a process, and theirs."""
    pids: list[int] = []
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in map(int, (folder / "children").read_text().split()):
                pids += [child, *descendants(child)]
    return pids


def key() -> str:
    """Return the API key of the server."""
    return os.environ.get("STRUCTGEN_API_KEY", "none")


async def model_of(client: Any, name: str | None = None) -> str:
    """Return the given name, or that of the server's first model."""
    return str(name or (await client.models.list()).data[0].id)


def report_batch(url: str) -> None:
    """Print the batch figures from the server's metrics."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics") as page:
        lines = [line.split() for line in page.read().decode().splitlines() if not line.startswith("#")]
    figures = {name: float(value) for name, value in lines if "{" not in name}
    passes = max(1.0, figures["structgen_passes_total"])
    print(
        f"  batch: {passes:.0f} passes of {figures['structgen_pass_rows_total'] / passes:.1f} rows, "
        f"{1e3 * figures['structgen_pass_seconds_total'] / passes:.0f} ms each; "
        f"prompts {figures['structgen_prompt_seconds_total']:.0f} s; "
        f"{figures['structgen_late_masks_total']:.0f} masks not waited for; "
        f"{figures['structgen_compiler_worker_starts_total']:.0f} starts of compiling processes"
    )


def share(values: Sequence[float], part: float) -> float:
    """Return the quantile of a fraction `part` of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
