"""Tables of the monitors' benchmark, in Markdown.

Invariant: shares have Wilson's 95 % interval; times are medians, compared site by site.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from .modes import CODE_ITSELF, Record
from .replay import Known, Replayed
from .sites import Site

__all__ = ["mode_table", "recall_table", "replay_table", "wilson"]

_QUANTILE = 1.96


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The interval of 95 % of a share (Wilson, 1927)."""
    if not count:
        return 0.0, 1.0
    share, square = hits / count, _QUANTILE**2
    middle = share + square / (2 * count)
    half = _QUANTILE * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return max(0.0, (middle - half) / (1 + square / count)), min(1.0, (middle + half) / (1 + square / count))


def mode_table(records: Iterable[Record]) -> list[str]:
    """Return the table of texts: for each server and mode, how good they are and what they cost."""
    rows = [
        "| server | mode | sites | identifier matches | finished lines | of these without an error | ms a token | "
        "times free | tokens drawn for one | ms a question | 99 % | made, ms | questions | unknown | late | failed | "
        "refused |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    by_server: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        by_server[record.server][record.mode].append(record)
    for server, modes in by_server.items():
        free = {record.site: record.per_token for record in modes.get("free", ())}
        rows += [f"| {server} | {mode} | {_cells(mode, of_mode, free)} |" for mode, of_mode in modes.items()]
    return rows


def _cells(mode: str, records: Sequence[Record], free: dict[Site, float]) -> str:
    judged = [record for record in records if record.errors is not None]
    cells = [
        str(len(records)),
        _share([record.is_match for record in records]),
        str(sum(record.text.endswith("\n") for record in records)),
        _share([not record.errors for record in judged]),
    ]
    if mode == CODE_ITSELF:
        return " | ".join([*cells, *[""] * 11])
    ratios = [record.per_token / free[record.site] for record in records if free.get(record.site)]
    rewritten = sum(record.report.get("rewritten", 0) for record in records)
    waits = [1000 * record.per_trigger for record in records if record.per_trigger is not None]
    cells += [
        _number([1000 * record.per_token for record in records], statistics.median, 1),
        _number(ratios, statistics.median, 2),
        f"{1 + rewritten / max(1, sum(record.tokens for record in records)):.2f}",
        _number(waits, statistics.median, 2),
        _number(waits, _highest, 1),
        _number([1000 * record.making for record in records], statistics.median, 0),
    ]
    names = ("triggers", "unknown", "timeouts", "failures", "refused")
    return " | ".join(
        [*cells, *(str(sum(record.report.get(name, 0) for record in records)) for name in names)]
    )


def recall_table(known: Iterable[tuple[str, str, Known]]) -> list[str]:
    """Return the table of recall: how often servers list members, and the held-out one among them."""
    rows = [
        "| server | project | sites | members are listed | the identifier is among them | or is made there | names |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str], list[Known]] = defaultdict(list)
    for server, project, entry in known:
        groups[server, project].append(entry)
        groups[server, "all"].append(entry)
    for (server, project), group in sorted(
        groups.items(), key=lambda item: (item[0][0], item[0][1] == "all")
    ):
        listed = [entry for entry in group if entry.listed]
        names = _number([float(entry.names) for entry in listed], statistics.median, 0)
        rows.append(
            f"| {server} | {project} | {len(group)} | {_share([entry.listed for entry in group])} | "
            f"{_share([entry.found for entry in listed])} | "
            f"{_share([entry.found or entry.made for entry in listed])} | {names} |"
        )
    return rows


def replay_table(replayed: Iterable[tuple[str, str, Replayed]]) -> list[str]:
    """Return the table of replays: how many real lines each monitor read, and how many it refused."""
    rows = [
        "| server | monitor | lines | refused | | questions | unknown | late | failed |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str], list[Replayed]] = defaultdict(list)
    for server, kind, line in replayed:
        groups[server, kind].append(line)
    for (server, kind), group in groups.items():
        refused = [bool(line.refused) for line in group]
        counts = (
            sum(getattr(line, name) for line in group)
            for name in ("triggers", "unknown", "timeouts", "failures")
        )
        rows.append(
            f"| {server} | {kind} | {len(group)} | {sum(refused)} | {_share(refused)} | "
            + " | ".join(map(str, counts))
            + " |"
        )
    return rows


def _share(values: Sequence[bool]) -> str:
    if not values:
        return "-"
    low, high = wilson(sum(values), len(values))
    return f"{sum(values) / len(values):.1%} ({low:.1%} to {high:.1%})"


def _number(values: Sequence[float], make: Callable[[Sequence[float]], float], digits: int) -> str:
    return f"{make(values):.{digits}f}" if values else "-"


def _highest(values: Sequence[float]) -> float:
    """Return the 99th percentile, which is the maximum of fewer than 100 values."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]
