"""Figures as cells of tables.

Invariant: a share stands with its interval, a time with its unit; what was not measured is a dash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..durations import Spread, duration
from ..metrics import Share
from ..pairing import PairedRatio, PairedShare
from ..summary import TimesRow
from .markup import Cell, Markup, element, joined, table

__all__ = [
    "chance",
    "difference",
    "folded",
    "listed",
    "number",
    "percent",
    "percent_alone",
    "ratio",
    "spread_cells",
    "statuses",
    "two_percentiles",
]

_DASH: Cell = ("–", "number")
_MOST_ITEMS = 100


def number(value: int | str) -> Cell:
    """Return a cell at the right of its column."""
    return (f"{value:,}" if isinstance(value, int) else value, "number")


def percent(share: Share) -> Cell:
    """Return a share with what was counted, and the interval."""
    if share.value is None:
        return _DASH
    low, high = share.interval
    counted = f"{share.hits:,}/{share.total:,}"
    return _with(f"{100 * share.value:.1f} %", f"{counted}, {100 * low:.1f} to {100 * high:.1f}")


def percent_alone(share: Share | None) -> Cell:
    """Return a share without its interval."""
    return _DASH if share is None or share.value is None else number(f"{100 * share.value:.1f} %")


def difference(estimate: PairedShare) -> Cell:
    """Return a difference in percentage points, with the interval."""
    middle, low, high = (_signed(f"{100 * share:+.1f}") for share in estimate.difference)
    return _with(middle, f"{low} to {high}")


def ratio(estimate: PairedRatio) -> Cell:
    """Return the median with its interval."""
    return _with(_digits(estimate.median), f"{_digits(estimate.low)} to {_digits(estimate.high)}")


def chance(p: float) -> Cell:
    """Return a probability."""
    return number(f"{p:.3f}" if p >= 0.001 else "< 0.001")


def statuses(counts: Mapping[str, int]) -> Cell:
    """Return all but ok."""
    counted = [f"{many:,} {status}" for status, many in sorted(counts.items()) if status != "ok"]
    return (", ".join(counted) or "–", "words")


def spread_cells(
    spread: Spread | None, unit: float, names: Sequence[str] = ("mean", "p50", "p90", "p99", "max")
) -> list[Cell]:
    """Return the cells of a spread; `unit` is microseconds in one of the spread's."""
    return [_DASH if spread is None else number(duration(unit * getattr(spread, name))) for name in names]


def two_percentiles(row: TimesRow | None, figure: str, unit: float) -> Cell:
    """Return the cells of p50 and p99."""
    spread: Spread | None = None if row is None else getattr(row, figure)
    if spread is None:
        return _DASH
    return number(f"{duration(unit * spread.p50)}, {duration(unit * spread.p99)}")


def folded(summary: str, *inner: str) -> Markup:
    """Return content that is shown when its summary is opened."""
    return element("details", element("summary", summary), *inner)


def listed(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Markup:
    """Return a table of the first rows, and how many more there are."""
    first = table(caption, heads, rows[:_MOST_ITEMS])
    if len(rows) > _MOST_ITEMS:
        more = element("p", f"… and {len(rows) - _MOST_ITEMS:,} more.", class_="soft")
        return joined([first, more])
    return first


def _with(value: str, more: str) -> Cell:
    return (joined([f"{value} ", element("span", more, class_="small")]), "number")


def _signed(figure: str) -> str:
    return figure.replace("-", "−")


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
