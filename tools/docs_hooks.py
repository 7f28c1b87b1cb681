"""What the documentation site needs beside mkdocs: the page of the ready grammars, which lies with them.

Why: pages link to `../grammars/README.md`, which is right in the repository and would lead out of the site.
Invariant: links inside `docs/` are left to mkdocs, whose strict mode checks them; others are never changed in silence.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_GRAMMARS = Path(__file__).resolve().parents[1] / "grammars" / "README.md"


def on_files(files: Any, config: Any) -> Any:
    """Add the page of the ready grammars."""
    files.append(File.generated(config, "ready-grammars.md", abs_src_path=str(_GRAMMARS)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point links to that page, name other files without a link, and mark blocks that do not run as Python."""
    if page.file.src_uri == "ready-grammars.md":
        markdown = markdown.replace("](../docs/", "](")
    markdown = markdown.replace("](../grammars/README.md", "](ready-grammars.md")
    markdown = re.sub(r"\[([^\]]+)\]\(\.\./((?:structgen/|[A-Z])[^)]*)\)", r"\1 (`\2`)", markdown)
    return markdown.replace("```python no-run", "```python")
