"""A run as one HTML page that needs nothing else: plots, their tables, and what went wrong.

Why one file: it is mailed, kept with the data and opened in ten years.
Invariants: no script and nothing from elsewhere (a content policy in the page forbids both); what engines, schemas and
models wrote is shown as text; all figures are those of `summarise`. Single items are listed up to a number, and the
page says how many more there are. The same run gives the same page.
Cost: some hundred kB for a thousand schemas; linear in the records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import structgen
from structgen.errors import OptionError

from ..handling import handled_items
from ..records import Run
from ..summary import Summary, summarise
from .faults import faults_section
from .markup import Markup, element, joined, text
from .pairs import pairs_section
from .schemas import schemas_section
from .tasks import tasks_section

__all__ = ["report", "write_report"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_READING = {
    "Declared": "the engine took the schema, and neither refused, failed, crashed, hung nor ran out of memory.",
    "True": "declared, and every valid instance accepted and every invalid one refused; of schemas with instances.",
    "Empirical": "declared, and what the model wrote under it ended and is valid; of schemas written on.",
    "Compliance": "empirical, of the declared schemas among those written on.",
    "Too strict, too loose": "a valid instance was refused, an invalid one accepted.",
    "Interval": "Wilson's, of 95 %: where the share would lie for many more schemas of the same kind.",
    "p50, p90, p99": "half, nine tenths and 99 hundredths of the times are at most this. "
    "Those of masks are exact to 4.5 %.",
}


def write_report(run: Run, path: str | Path) -> None:
    """Write the page; an `OptionError` where the file cannot be written."""
    page = report(run)
    try:
        Path(path).write_text(page, "utf-8")
    except OSError as error:
        raise OptionError(f"cannot write the report {str(path)!r}: {error.strerror or error}") from None


def report(run: Run) -> str:
    """Return the page."""
    summary, schemas = summarise(run), handled_items(run)
    sections = [
        *(schemas_section(summary, name, schemas[name]) for name in summary.datasets),
        tasks_section(summary),
        pairs_section(summary),
        *(faults_section(summary, name, schemas[name]) for name in summary.datasets),
        _reading(),
    ]
    body = element("main", *_head(summary), *(section for section in sections if section is not None))
    style = (Path(__file__).parent / "page.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>structgen eval: {text(', '.join(summary.engines), 200)}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _head(summary: Summary) -> list[Markup]:
    return [
        element("h1", "Engines for structured output, measured"),
        _pairs(_about(summary)),
        *(element("p", note, class_="note") for note in summary.notes),
    ]


def _about(summary: Summary) -> dict[str, str]:
    """Return what was run, of settings that may lack anything."""
    settings = summary.settings
    engines, limits, machine = (_mapping(settings.get(name)) for name in ("engines", "limits", "machine"))
    datasets = [_mapping(dataset) for dataset in settings.get("datasets") or ()]
    facts = {
        "Started": settings.get("started"),
        "Engines": _listing(f"{name} {engines.get(name, '')}".strip() for name in summary.engines),
        "Model": settings.get("model") or "none, so no text was written",
        "Data": _listing(f"{dataset.get('spec')} ({dataset.get('schemas')} schemas)" for dataset in datasets),
        "Tasks": _listing(settings.get("tasks") or ()),
        "Limits": _listing(
            f"{limits[name]:g} {unit} a schema"
            for name, unit in (("seconds", "seconds"), ("memory_mb", "MiB"))
            if isinstance(limits.get(name), int | float)
        ),
        "Machine": _listing(
            f"{before}{machine[name]}{after}"
            for name, before, after in (
                ("cpus", "", " processors"),
                ("system", "", ""),
                ("python", "Python ", ""),
            )
            if name in machine
        ),
        "Versions": _listing(
            f"{name} {version}" for name, version in _mapping(settings.get("versions")).items()
        ),
    }
    return {name: str(value) for name, value in facts.items() if value}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listing(entries: Any) -> str:
    return ", ".join(map(str, entries))


def _reading() -> Markup:
    return element(
        "section",
        element("h2", "How to read this", id="reading"),
        _pairs(_READING),
        element("p", f"Made by structgen {structgen.__version__}.", class_="soft"),
    )


def _pairs(facts: dict[str, str]) -> Markup:
    rows = [
        element(kind, text(content, 2_000))
        for pair in facts.items()
        for kind, content in zip(("dt", "dd"), pair, strict=True)
    ]
    return element("dl", joined(rows))
