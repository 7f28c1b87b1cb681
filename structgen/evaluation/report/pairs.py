"""Compare engines with one another on the same items."""

from __future__ import annotations

from collections.abc import Sequence

from ..handling import FIGURES
from ..pairing import PairedRatio, PairedShare
from ..summary import PairRow, Summary
from .cells import chance, difference, folded, number, ratio
from .markup import Cell, Markup, element, table

__all__ = ["pairs_section"]


def pairs_section(summary: Summary) -> Markup | None:
    """Return the first engine against all others, the rest when opened; None if there is only one."""
    if not summary.pairs:
        return None
    leader = summary.engines[0]
    rest = [row for row in summary.pairs if row.first != leader]
    return element(
        "section",
        element("h2", "Engines against one another", id="pairs"),
        element(
            "p",
            "On the same items only. p is the chance of so uneven a split, or a more uneven one, where neither is "
            "better (exact sign test); it is not corrected for the number of rows.",
            class_="soft",
        ),
        *_tables([row for row in summary.pairs if row.first == leader]),
        *([folded("All other pairs", *_tables(rest))] if rest else []),
    )


def _tables(rows: Sequence[PairRow]) -> list[Markup]:
    shares = [(row, row.estimate) for row in rows if isinstance(row.estimate, PairedShare)]
    ratios = [(row, row.estimate) for row in rows if isinstance(row.estimate, PairedRatio)]
    names = ["Data", "Figure", "First", "Second", "Items"]
    tables = []
    if shares:
        cells = [
            [
                *_names(row),
                number(estimate.total),
                number(estimate.first),
                number(estimate.second),
                difference(estimate),
                chance(estimate.p),
            ]
            for row, estimate in shares
        ]
        heads = [*names, "Only first", "Only second", "Difference, points", "p"]
        tables.append(
            table("Shares: the second engine less the first, with the 95 % interval", heads, cells, named=4)
        )
    if ratios:
        cells = [
            [
                *_names(row),
                number(estimate.count),
                ratio(estimate),
                number(estimate.slower),
                number(estimate.faster),
                chance(estimate.p),
            ]
            for row, estimate in ratios
        ]
        heads = [*names, "Median ratio", "Second slower", "Second faster", "p"]
        tables.append(
            table(
                "Times: the second engine over the first, item by item, with the median's 95 % interval",
                heads,
                cells,
                named=4,
            )
        )
    return tables


def _names(row: PairRow) -> list[Cell]:
    return [row.dataset, FIGURES[row.figure], row.first, row.second]
