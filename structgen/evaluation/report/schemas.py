"""The section on the schemas of a data set: coverage, compiling, masks, texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..durations import added
from ..handling import TIMES, Those
from ..items import PARTS, part_order
from ..metrics import Share
from ..summary import WHOLE, CoverageRow, Summary, TimesRow
from .cells import folded, number, percent, percent_alone, spread_cells, statuses, two_percentiles
from .markup import Markup, element, table
from .plots import Curve, Ridge, bars, curves, ridges

__all__ = ["schemas_section"]

_FIGURES = {
    "declared": "Declared: the engine takes the schema",
    "true": "True: every instance judged correctly",
    "empirical": "Empirical: the model's text is valid",
    "compliance": "Compliance: valid, of those taken",
}
_TIMES = (
    ("masks_us", "Time of a mask", "Masks", 1.0),
    ("compile_ms", "Time to compile a schema", "Schemas", 1e3),
)
"""Field, how it reads, what is counted, microseconds in a unit."""


def schemas_section(summary: Summary, name: str, dataset: Mapping[str, Those]) -> Markup:
    """Return the section on the data set `name`; `dataset` has its schemas by engine."""
    inner = [element("h2", f"Schemas: {name}"), *_coverage(summary, name), *_times(summary, name, dataset)]
    return element("section", *inner)


def _coverage(summary: Summary, name: str) -> Iterator[Markup]:
    rows = [row for row in summary.coverage if row.dataset == name]
    whole = [row for row in rows if row.part == WHOLE]
    figures = [figure for figure in _FIGURES if any(_share(row, figure).total for row in whole)]
    yield element("h3", "Coverage")
    what = "Of all schemas that the figure was measured on, refused ones included. Lines are 95 % intervals."
    yield element("p", what, class_="soft")
    panels = [
        bars(
            _FIGURES[figure],
            [(row.engine, _place(summary, row.engine), _share(row, figure)) for row in whole],
        )
        for figure in figures
    ]
    yield element("div", *panels, class_="panels")
    yield table(
        f"Coverage of {name}: share, count, 95 % interval",
        ["Engine", *map(str.capitalize, figures), "Too strict", "Too loose", "Not taken"],
        [
            [
                row.engine,
                *(percent(_share(row, figure)) for figure in figures),
                number(row.coverage.too_strict),
                number(row.coverage.too_loose),
                statuses(row.coverage.statuses),
            ]
            for row in whole
        ],
    )
    if len(parts := sorted({row.part for row in rows} - {WHOLE}, key=part_order)) > 1:
        yield folded(f"By part ({len(parts)})", *(_by_part(figure, parts, rows) for figure in figures))


def _by_part(figure: str, parts: Sequence[str], rows: Sequence[CoverageRow]) -> Markup:
    shares = {(row.part, row.engine): _share(row, figure) for row in rows}
    engines = list(dict.fromkeys(row.engine for row in rows))
    caption = "Compliance" if figure == "compliance" else f"{figure.capitalize()} coverage"
    asked = {part: max(share.total for (of, _), share in shares.items() if of == part) for part in parts}
    return table(
        f"{caption} by part",
        ["Part", "Schemas", *engines],
        [
            [
                PARTS.get(part, part),
                number(asked[part]),
                *(percent_alone(shares.get((part, engine))) for engine in engines),
            ]
            for part in parts
        ],
    )


def _times(summary: Summary, name: str, dataset: Mapping[str, Those]) -> Iterator[Markup]:
    rows = [row for row in summary.times if row.dataset == name]
    whole = [row for row in rows if row.part == WHOLE]
    together = [row for row in whole if row.shared]
    shared = summary.shared[name]
    if any(row.compile_ms or row.masks_us for row in rows):
        yield element("h3", "Compiling and masks")
        yield curves(
            "Schemas compiled within a time, of all schemas of the run", list(_curves(summary, dataset))
        )
        yield from _compared_times(summary, dataset, together, shared["mask"])
        alone = list(_time_tables([row for row in whole if not row.shared], "all that each engine handled"))
        if not any(row.compile_ms or row.masks_us for row in together):
            yield element("p", "No schema was handled by all engines, so their times are not compared.")
            yield from alone
        elif alone:
            yield folded("The same over all that each engine handled, which is not a comparison", *alone)
        parts = [row for row in rows if row.part != WHOLE and row.shared]
        if len({row.part for row in parts}) > 1:
            yield folded("By part, over the schemas that all handled", *_time_parts(parts))
    if shared["ttft"] and (texts := [row for row in together if row.ttft_ms]):
        yield element("h3", "Texts of the model")
        yield _texts(texts, shared["ttft"])


def _compared_times(
    summary: Summary, dataset: Mapping[str, Those], rows: Sequence[TimesRow], shared: int
) -> Iterator[Markup]:
    """Over the schemas that all handled, as far as there are any."""
    over = f"the {shared:,} schemas that all handled" if shared else "the schemas that all handled"
    drawn = [ridge for ridge in _ridges(summary, dataset, rows) if ridge.bins]
    note = "CPU time of one thread."
    if drawn:
        yield ridges(f"Time of a mask, over {over}", drawn)
        note += (
            " Bars count masks, each engine's on a scale of its own; the line is the median, the dotted one the 99th "
            "percentile."
        )
    yield element("p", note, class_="soft")
    yield from _time_tables(rows, over)


def _curves(summary: Summary, dataset: Mapping[str, Those]) -> Iterator[Curve]:
    for engine in summary.engines:
        read_items = [handled for handled in dataset.get(engine, {}).values() if handled.read is not None]
        times = [1e6 * taken for handled in read_items if (taken := TIMES["compile"](handled)) is not None]
        if times:
            yield Curve(engine, _place(summary, engine), times, len(read_items))


def _ridges(summary: Summary, dataset: Mapping[str, Those], rows: Sequence[TimesRow]) -> Iterator[Ridge]:
    timed = [
        {item for item, handled in by_item.items() if TIMES["mask"](handled) is not None}
        for by_item in dataset.values()
    ]
    common = set.intersection(*filter(None, timed)) if any(timed) else set()
    for row in rows:
        if row.masks_us is None:
            continue
        records = [dataset[row.engine][item].read for item in common]
        bins = added(
            record.masks_us.bins for record in records if record is not None and record.masks_us is not None
        )
        yield Ridge(row.engine, _place(summary, row.engine), bins, row.masks_us.p50, row.masks_us.p99)


def _time_tables(rows: Sequence[TimesRow], over: str) -> Iterator[Markup]:
    for figure, named, counted, unit in _TIMES:
        spreads = [(row.engine, getattr(row, figure)) for row in rows if getattr(row, figure) is not None]
        if spreads:
            yield table(
                f"{named}, over {over}",
                ["Engine", counted, "Mean", "p50", "p90", "p99", "max"],
                [[engine, number(spread.count), *spread_cells(spread, unit)] for engine, spread in spreads],
            )


def _time_parts(rows: Sequence[TimesRow]) -> Iterator[Markup]:
    engines = list(dict.fromkeys(row.engine for row in rows))
    coverage_rows = {(row.part, row.engine): row for row in rows}
    for figure, named, _, unit in _TIMES:
        yield table(
            f"{named}, p50 and p99, by part",
            ["Part", *engines],
            [
                [
                    PARTS.get(part, part),
                    *(two_percentiles(coverage_rows.get((part, engine)), figure, unit) for engine in engines),
                ]
                for part in sorted({row.part for row in rows}, key=part_order)
            ],
        )


def _texts(rows: Sequence[TimesRow], shared: int) -> Markup:
    some = ("p50", "p90", "max")
    return table(
        f"Wall-clock time, over the {shared:,} schemas that all wrote a text on",
        ["Engine", "Texts", "First token p50", "p90", "max", "Further token p50", "p90", "max", "In masks"],
        [
            [
                row.engine,
                number(row.ttft_ms.count if row.ttft_ms else 0),
                *spread_cells(row.ttft_ms, 1e3, some),
                *spread_cells(row.tpot_ms, 1e3, some),
                number("–" if row.mask_share is None else f"{100 * row.mask_share:.1f} %"),
            ]
            for row in rows
        ],
    )


def _place(summary: Summary, engine: str) -> int:
    return summary.engines.index(engine)


def _share(row: CoverageRow, figure: str) -> Share:
    share: Share = getattr(row.coverage, figure)
    return share
