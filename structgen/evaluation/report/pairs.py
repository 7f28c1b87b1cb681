"""Engines against one another, on the same items."""

from __future__ import annotations

from collections.abc import Sequence

from ..handling import FIGURES
from ..pairing import PairedRatio, PairedShare
from ..summary import PairRow, Summary
from .cells import chance, difference, folded, number, ratio
from .markup import Cell, Markup, element, table

__all__ = ["pairs_section"]


def pairs_section(summary: Summary) -> Markup | None:
    """The first engine against all others, the rest where it is asked for; None where there is but one."""
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
    shares = [(row, row.told) for row in rows if isinstance(row.told, PairedShare)]
    ratios = [(row, row.told) for row in rows if isinstance(row.told, PairedRatio)]
    names = ["Data", "Figure", "First", "Second", "Items"]
    found = []
    if shares:
        told = [
            [
                *_names(row),
                number(told.total),
                number(told.first),
                number(told.second),
                difference(told),
                chance(told.p),
            ]
            for row, told in shares
        ]
        heads = [*names, "Only first", "Only second", "Difference, points", "p"]
        found.append(
            table("Shares: the second engine less the first, with the 95 % interval", heads, told, named=4)
        )
    if ratios:
        told = [
            [
                *_names(row),
                number(told.count),
                ratio(told),
                number(told.slower),
                number(told.faster),
                chance(told.p),
            ]
            for row, told in ratios
        ]
        heads = [*names, "Median ratio", "Second slower", "Second faster", "p"]
        found.append(
            table(
                "Times: the second engine over the first, item by item, with the median's 95 % interval",
                heads,
                told,
                named=4,
            )
        )
    return found


def _names(row: PairRow) -> list[Cell]:
    return [row.dataset, FIGURES[row.figure], row.first, row.second]
