"""``structgen eval report RUN`` and ``structgen eval compare A B``: what reads the answers that ``eval run`` kept."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .inputs import InputError
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.evaluation.compare import Change, Compared, Comparison
    from structgen.evaluation.metrics import Share
    from structgen.evaluation.summary import Summary

__all__ = ["add_commands"]

_REPORT = """Write a page with the figures of a run, finished or not: plots, tables, and what went wrong. It needs
nothing else and loads nothing from elsewhere. With --json the figures are printed instead.

exit status: 0; 2 there is no run in the folder, or the page cannot be written"""

_COMPARE = """Tell what changed from one run to another on the items that both asked: shares with McNemar's exact
test, times as the median of the ratios item by item, and each item that is newly ok or newly failed. Engines of
the same name are compared; --engine names others, also of one run:
  structgen eval compare RUN RUN --engine structgen=llguidance

exit status: 0; 1 with --strict, where an item newly failed; 2 it cannot be compared"""

_MOST_TEXT = 160


def add_commands(commands: Commands) -> None:
    """Add ``report`` and ``compare`` to those of ``eval``."""
    raw = argparse.RawDescriptionHelpFormatter
    report = commands.add_parser(
        "report", help="figures of a run as a page", description=_REPORT, formatter_class=raw
    )
    report.add_argument("folder", metavar="RUN", help="the folder that eval run wrote")
    report.add_argument("--output", metavar="FILE", help="where the page goes (default RUN/report.html)")
    report.add_argument(
        "--json", action="store_true", help="print the figures as JSON; no page without --output"
    )
    report.set_defaults(run=run_report)

    compare = commands.add_parser(
        "compare", help="what changed between two runs", description=_COMPARE, formatter_class=raw
    )
    compare.add_argument("first", metavar="A", help="the folder of a run")
    compare.add_argument("second", metavar="B", help="the folder of another")
    compare.add_argument(
        "--engine",
        metavar="NAME[=OTHER]",
        action="append",
        dest="engines",
        help="only these; repeat it for several",
    )
    compare.add_argument(
        "--items", metavar="N", type=int, default=40, help="list at most N items (default 40)"
    )
    compare.add_argument("--strict", action="store_true", help="exit status 1 where an item newly failed")
    compare.add_argument("--json", action="store_true", help="print everything as JSON")
    compare.set_defaults(run=run_compare)


def run_report(arguments: argparse.Namespace) -> int:
    """Write the page, print the figures."""
    from structgen.evaluation.records import read_run
    from structgen.evaluation.report import write_report
    from structgen.evaluation.summary import summarise

    run = read_run(arguments.folder)
    page = arguments.output
    if page is None and not arguments.json:
        page = str(Path(arguments.folder) / "report.html")
    if page is not None:
        write_report(run, page)
    summary = summarise(run)
    if arguments.json:
        _print_json(summary.to_json())
    else:
        for line in _summary_lines(summary):
            print(line)
        print(f"wrote {page}")
    return 0


def run_compare(arguments: argparse.Namespace) -> int:
    """Print what changed."""
    from structgen.evaluation.compare import compare
    from structgen.evaluation.records import read_run

    if arguments.items < 0:
        raise InputError(f"--items is {arguments.items}; it must be 0 or more")
    engines = None if arguments.engines is None else [_named(spec) for spec in arguments.engines]
    comparison = compare(read_run(arguments.first), read_run(arguments.second), engines)
    if arguments.json:
        _print_json(comparison.to_json())
    else:
        for line in _comparison_lines(comparison, arguments.items):
            print(line)
    return int(arguments.strict and not all(change.ok for change in comparison.changes))


def _named(spec: str) -> tuple[str, str]:
    first, equals, second = spec.partition("=")
    if not first or (equals and not second):
        raise InputError(f"--engine {spec!r} names no engine", hint="Give NAME, or NAME=OTHER.")
    return first, second or first


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    print()


def _summary_lines(summary: Summary) -> Iterator[str]:
    from structgen.evaluation.summary import WHOLE

    for note in summary.notes:
        yield f"note: {_shown(note)}"
    for dataset in summary.datasets:
        rows = [row for row in summary.coverage if row.dataset == dataset and row.part == WHOLE]
        times = {
            row.engine: row
            for row in summary.times
            if row.dataset == dataset and row.part == WHOLE and row.shared
        }
        yield f"{_shown(dataset)}; schemas that all handled, which times are of: {summary.shared[dataset]['mask']:,}"
        table = [["engine", "declared", "true", "empirical", "compile p50", "mask p50", "mask p99"]]
        for row in rows:
            coverage, timing = row.coverage, times.get(row.engine)
            compiled, masks = (timing.compile_ms, timing.masks_us) if timing is not None else (None, None)
            table.append(
                [
                    _shown(row.engine),
                    *map(_percent_of, (coverage.declared, coverage.true, coverage.empirical)),
                    "-" if compiled is None else _duration(1e3 * compiled.p50),
                    "-" if masks is None else _duration(masks.p50),
                    "-" if masks is None else _duration(masks.p99),
                ]
            )
        yield from _aligned(table)
    if summary.tasks:
        yield "tasks"
        table = [["engine", "task", "items", "correct", "score", "valid"]]
        for task in summary.tasks:
            table.append(
                [
                    _shown(task.engine),
                    _shown(task.task or "all"),
                    f"{task.correct.total:,}",
                    _percent(task.correct),
                    f"{task.score:.3f}",
                    _percent(task.valid),
                ]
            )
        yield from _aligned(table)


def _comparison_lines(comparison: Comparison, most: int) -> Iterator[str]:
    for difference in comparison.differences:
        yield f"differs: {_shown(difference.name)}: {_shown(str(difference.first))}, {_shown(str(difference.second))}"
    for sentence in comparison.alone:
        yield f"note: {_shown(sentence)}"
    before = None
    for row in comparison.compared:
        if (row.engine, row.dataset) != before:
            before = (row.engine, row.dataset)
            yield f"{_shown(row.engine)}, {_shown(row.dataset)}"
        yield f"  {_compared_line(row)}"
    for ok, named in ((False, "newly failed"), (True, "newly ok")):
        changes = [change for change in comparison.changes if change.ok is ok]
        yield f"{named}: {len(changes):,}"
        for change in changes[:most]:
            yield f"  {_change_line(change)}"
        if len(changes) > most:
            yield f"  ... and {len(changes) - most:,} more (--items, or --json)"


def _compared_line(row: Compared) -> str:
    from structgen.evaluation.handling import FIGURES
    from structgen.evaluation.pairing import PairedShare

    estimate, name = row.estimate, FIGURES[row.figure]
    chance = f"p {estimate.p:.3f}" if estimate.p >= 0.001 else "p < 0.001"
    if isinstance(estimate, PairedShare):
        first, second = (
            100 * (estimate.both + count) / estimate.total for count in (estimate.first, estimate.second)
        )
        less, low, high = (100 * share for share in estimate.difference)
        return (
            f"{name}: {first:.1f} % to {second:.1f} % of {estimate.total:,}, {less:+.1f} points "
            f"({low:+.1f} to {high:+.1f}, {chance})"
        )
    return (
        f"{name}: {estimate.median:.2f} times as long on {estimate.count:,} "
        f"({estimate.low:.2f} to {estimate.high:.2f}; "
        f"{estimate.slower:,} slower, {estimate.faster:,} faster, {chance})"
    )


def _change_line(change: Change) -> str:
    from structgen.evaluation.handling import FIGURES

    where = f"{_shown(change.engine)}, {_shown(change.dataset)}, {_shown(change.item)}"
    return f"{where}: {FIGURES[change.figure]}: {_shown(change.before)} -> {_shown(change.after)}"


def _aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        first, *rest = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(["  " + first, *rest])


def _percent(share: Share) -> str:
    return "-" if share.value is None else f"{100 * share.value:.1f} %"


def _percent_of(share: Share) -> str:
    return "-" if share.value is None else f"{100 * share.value:.1f} % of {share.total:,}"


def _duration(microseconds: float) -> str:
    from structgen.evaluation.durations import duration

    return duration(microseconds)


def _shown(text: str) -> str:
    """On one line, without what a terminal would obey."""
    cut = text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in cut
    )
