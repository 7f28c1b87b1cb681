"""Write the corpora of `bench.speculation.distillation`: English essays, and Python code.

    python -m bench.speculation.corpora DIRECTORY [--essays FOLDER]

essays.txt  the paragraphs of the pages of FOLDER: by default those of the Debian package ``anarchism``, a book in
            English (``apt install anarchism``)
code.txt    Python's standard library without the folders test, idlelib and encodings

Pages and files come in a random order with a fixed seed.
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from bench.command import argument_parser

__all__ = ["main", "paragraphs"]

_ESSAYS = Path("/usr/share/doc/anarchism/html")
_SHORTEST = 200
"""In characters: shorter paragraphs are mostly links and headings."""
_LEFT_OUT = {"site-packages", "test", "idlelib", "encodings"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.speculation.corpora", __doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--essays", type=Path, default=_ESSAYS, help=f"a folder of HTML pages ({_ESSAYS})")
    chosen = parser.parse_args(arguments)
    pages = sorted(chosen.essays.glob("*.html"))
    if not pages:
        parser.error(
            f"{chosen.essays} has no HTML pages; apt install anarchism, or name a folder with --essays"
        )
    library = Path(sysconfig.get_path("stdlib"))
    sources = sorted(
        path for path in library.rglob("*.py") if not _LEFT_OUT & set(path.relative_to(library).parts)
    )
    essays = ["\n\n".join(paragraphs(_text(page))) for page in pages]
    code = [_text(source) for source in sources]
    chosen.directory.mkdir(parents=True, exist_ok=True)
    for name, texts, between in (("essays.txt", essays, "\n\n"), ("code.txt", code, "\n")):
        random.Random(0).shuffle(texts)
        path = chosen.directory / name
        path.write_text(between.join(texts), "utf-8")
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def paragraphs(page: str) -> list[str]:
    """Return the longer paragraphs of an HTML page, each on one line."""
    reader = _Paragraphs()
    reader.feed(page)
    reader.close()
    found = (" ".join(text.split()) for text in reader.found)
    return [text for text in found if len(text) > _SHORTEST]


class _Paragraphs(HTMLParser):
    """Collects what stands in `p` elements, whose end tags may be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "p":
            self.found.append("")
            self._is_inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._is_inside = False

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.found[-1] += data


def _text(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")


if __name__ == "__main__":
    main()
