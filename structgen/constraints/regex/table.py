"""Generate the documentation's table of the declared features.

``python -m structgen.constraints.regex.table docs/regex.md`` writes it into the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .features import FEATURES

__all__ = ["feature_table", "with_table"]

_START, _END = "<!-- features -->\n", "<!-- end of features -->"


def feature_table() -> str:
    """Return Markdown with every feature, an example, and its support in both dialects."""
    lines = ["| feature | example | Python | ECMA-262 | note |", "|---|---|---|---|---|"]
    for feature in FEATURES:
        cells = (feature.name, f"`{feature.example}`", feature.python, feature.ecma, feature.note)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """Return the page with the table of these declarations."""
    before, _, rest = page.partition(_START)
    _, end, after = rest.partition(_END)
    return before + _START + feature_table() + end + after


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text("utf-8")), "utf-8")
