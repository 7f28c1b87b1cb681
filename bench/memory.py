"""The memory of a process, as Linux reports it."""

from __future__ import annotations

__all__ = ["status_kib"]


def status_kib(process: int | str, key: str) -> int:
    """Return a field of ``/proc/PROCESS/status`` in KiB: ``VmRSS`` is resident now, ``VmHWM`` its peak.

    Raises:
        OSError: The process has ended.
    """
    with open(f"/proc/{process}/status", encoding="ascii") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)
