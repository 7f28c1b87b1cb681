"""The section on tasks with answers."""

from __future__ import annotations

from ..summary import WHOLE, Summary
from .cells import number, percent, spread_cells, statuses
from .markup import Markup, element, table
from .plots import bars

__all__ = ["tasks_section"]


def tasks_section(summary: Summary) -> Markup | None:
    """Return the section; None if the run has no tasks."""
    if not summary.tasks:
        return None
    names = list(dict.fromkeys(row.task for row in summary.tasks))
    of = {name: [row for row in summary.tasks if row.task == name] for name in names}
    panels = [
        bars(_name(name), [(row.engine, summary.engines.index(row.engine), row.correct) for row in of[name]])
        for name in names
    ]
    rows = [
        [
            _name(name),
            row.engine,
            percent(row.correct),
            number(f"{row.score:.3f}"),
            percent(row.valid),
            *spread_cells(row.seconds, 1e6, ("p50", "p90")),
            statuses(row.statuses),
        ]
        for name in names
        for row in of[name]
    ]
    return element(
        "section",
        element("h2", "Tasks with answers", id="tasks"),
        element(
            "p",
            "Correct answers, of all items: an answer that breaks the schema is wrong, and so is a missing one. "
            "Lines are 95 % intervals.",
            class_="soft",
        ),
        element("div", *panels, class_="panels"),
        table(
            "Answers: share, count, 95 % interval; wall-clock time of an answer",
            ["Task", "Engine", "Correct", "Mean score", "Valid", "Time p50", "p90", "No answer"],
            rows,
            named=2,
        ),
    )


def _name(name: str) -> str:
    return "All tasks" if name == WHOLE else name.capitalize()
