"""Tables of what was recorded, in Markdown.

Invariant: shares come with Wilson's interval of 95 %; times are medians, and compared site by site.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from .replay import Known, Replayed
from .sites import Site
from .ways import CODE_ITSELF, Record

__all__ = ["of_recall", "of_replay", "of_ways", "wilson"]

_QUANTILE = 1.96


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The interval of 95 % of a share (Wilson, 1927)."""
    if not count:
        return 0.0, 1.0
    share, square = hits / count, _QUANTILE**2
    middle = share + square / (2 * count)
    half = _QUANTILE * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return max(0.0, (middle - half) / (1 + square / count)), min(1.0, (middle + half) / (1 + square / count))


def of_ways(records: Iterable[Record]) -> list[str]:
    """Of each server: how good the texts of each way are, and what they cost."""
    rows = [
        "| server | way | sites | identifier matches | finished lines | of these without an error | ms a token | "
        "times free | tokens drawn for one | ms a question | 99 % | made, ms | questions | unknown | late | failed | "
        "refused |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    by_server: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        by_server[one.server][one.way].append(one)
    for server, ways in by_server.items():
        free = {one.site: one.per_token for one in ways.get("free", ())}
        rows += [f"| {server} | {way} | {_cells(way, found, free)} |" for way, found in ways.items()]
    return rows


def _cells(way: str, found: Sequence[Record], free: dict[Site, float]) -> str:
    judged = [one for one in found if one.errors is not None]
    cells = [
        str(len(found)),
        _share([one.is_match for one in found]),
        str(sum(one.text.endswith("\n") for one in found)),
        _share([not one.errors for one in judged]),
    ]
    if way == CODE_ITSELF:
        return " | ".join([*cells, *[""] * 11])
    ratios = [one.per_token / free[one.site] for one in found if free.get(one.site)]
    rewritten = sum(one.report.get("rewritten", 0) for one in found)
    waits = [1000 * one.per_trigger for one in found if one.per_trigger is not None]
    cells += [
        _number([1000 * one.per_token for one in found], statistics.median, 1),
        _number(ratios, statistics.median, 2),
        f"{1 + rewritten / max(1, sum(one.tokens for one in found)):.2f}",
        _number(waits, statistics.median, 2),
        _number(waits, _highest, 1),
        _number([1000 * one.making for one in found], statistics.median, 0),
    ]
    names = ("triggers", "unknown", "timeouts", "failures", "refused")
    return " | ".join([*cells, *(str(sum(one.report.get(name, 0) for one in found)) for name in names)])


def of_recall(known: Iterable[tuple[str, str, Known]]) -> list[str]:
    """Of each server and project: how often members are listed, and the held-out one is among them."""
    rows = [
        "| server | project | sites | members are listed | the identifier is among them | or is made there | names |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    found: dict[tuple[str, str], list[Known]] = defaultdict(list)
    for server, project, one in known:
        found[server, project].append(one)
        found[server, "all"].append(one)
    for (server, project), ones in sorted(found.items(), key=lambda item: (item[0][0], item[0][1] == "all")):
        listed = [one for one in ones if one.listed]
        names = _number([float(one.names) for one in listed], statistics.median, 0)
        rows.append(
            f"| {server} | {project} | {len(ones)} | {_share([one.listed for one in ones])} | "
            f"{_share([one.found for one in listed])} | {_share([one.found or one.made for one in listed])} | {names} |"
        )
    return rows


def of_replay(replayed: Iterable[tuple[str, str, Replayed]]) -> list[str]:
    """Of each server and kind of monitor: how many real lines were read, and how many refused."""
    rows = [
        "| server | monitor | lines | refused | | questions | unknown | late | failed |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    found: dict[tuple[str, str], list[Replayed]] = defaultdict(list)
    for server, kind, one in replayed:
        found[server, kind].append(one)
    for (server, kind), ones in found.items():
        refused = [bool(one.refused) for one in ones]
        counts = (
            sum(getattr(one, name) for one in ones)
            for name in ("triggers", "unknown", "timeouts", "failures")
        )
        rows.append(
            f"| {server} | {kind} | {len(ones)} | {sum(refused)} | {_share(refused)} | "
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
    """The 99th of 100; of fewer the last."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]
