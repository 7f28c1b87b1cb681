"""Measure how well each ready grammar fits its language: public files it accepts, broken ones it rejects.

    python -m bench.shelf [NAME ...] [--limit FILES] [--edits EDITS] [--seed SEED] [--show]

The grammar in `grammars/` reads every text byte by byte. The files are those of `bench.corpora` that the language's own
tool accepts. Broken texts are these files after one or two small random edits, if the tool rejects them. The column "of
form" leaves out texts that the tool rejects for a semantic reason (an undeclared name, a repeated key), where the
corpus can distinguish these. ``--show`` names the texts with a wrong verdict.

Cost: linear in the files and their edited copies, plus the tool's verdicts. Results: grammars/README.md.
"""

from __future__ import annotations

import argparse
import random
import string
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import structgen as sg
from bench.command import argument_parser
from bench.corpora import Corpus, corpora
from structgen.constraints.base import Constraint
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

__all__ = ["Figures", "Reader", "edited", "main", "measure"]

_SPAN = 12


class Reader:
    """Reads whole texts with one constraint, a byte at a time."""

    def __init__(self, constraint: Constraint) -> None:
        ends = 256
        vocabulary = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(ends)), None], [ends])
        self._matcher = Matcher(constraint, vocabulary)

    def accepts(self, text: str) -> bool:
        """Return whether it is a whole text of the language."""
        return self._matcher.native.next_bytes(text.encode())[1]

    def viable(self, text: str) -> int:
        """Return the length in bytes of the longest prefix that can begin a text of the language."""
        return self._matcher.viable_bytes(text)


@dataclass
class Figures:
    """The counts of one grammar."""

    name: str
    files: int = 0
    accepted: int = 0
    broken: int = 0
    rejected: int = 0
    of_form: int = 0
    rejected_of_form: int = 0
    over_limit: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    """Descriptions of texts whose verdict differs from the tool's."""

    def row(self) -> str:
        """Return a line of the table."""
        return (
            f"{self.name:12} {self.files:6} {_percent(self.accepted, self.files):>9} {self.broken:7} "
            f"{_percent(self.rejected, self.broken):>9} {_percent(self.rejected_of_form, self.of_form):>9} "
            f"{self.seconds:8.1f} s" + (f"  {self.over_limit} over a limit" if self.over_limit else "")
        )


HEADER = f"{'grammar':12} {'files':>6} {'accepted':>9} {'broken':>7} {'rejected':>9} {'of form':>9} {'reading':>10}"


def measure(corpus: Corpus, reader: Reader, *, limit: int | None, edits: int, seed: int = 0) -> Figures:
    """Read files of the corpus, and `edits` edited copies of each."""
    figures = Figures(corpus.NAME)
    beyond_form = getattr(corpus, "beyond_form", lambda text: False)
    for name, text in corpus.files(limit):
        figures.files += 1
        if _reads(reader, text, figures):
            figures.accepted += 1
        else:
            figures.wrong.append(f"{name}: rejected {_place(reader, text)}")
        source = random.Random(f"{seed} {name}")
        for number in range(edits):
            other = edited(text, source)
            if corpus.is_valid(other):
                continue
            is_rejected = not _reads(reader, other, figures)
            is_of_form = not beyond_form(other)
            figures.broken += 1
            figures.rejected += is_rejected
            figures.of_form += is_of_form
            figures.rejected_of_form += is_rejected and is_of_form
            if is_of_form and not is_rejected:
                figures.wrong.append(f"{name}, edit {number}: accepted {_difference(text, other)}")
    return figures


def edited(text: str, source: random.Random) -> str:
    """Return the text after one or two small edits, most of them with characters of its own."""
    for _ in range(source.choice((1, 1, 2))):
        start = source.randrange(len(text) + 1)
        end = min(len(text), start + source.choice((1, 1, 1, 2, _SPAN)))
        kind = source.randrange(5)
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind == 1:
            text = text[:start] + _character(text, source) + text[start:]
        elif kind == 2:
            text = text[:start] + _character(text, source) + text[end:]
        elif kind == 3:
            text = text[:end] + text[start:end] + text[end:]
        else:
            text = text[:start] + text[start:end][::-1] + text[end:]
    return text


def _character(text: str, source: random.Random) -> str:
    return source.choice(text) if text and source.random() < 0.7 else source.choice(string.printable)


def _reads(reader: Reader, text: str, figures: Figures) -> bool:
    started = time.perf_counter()
    try:
        return reader.accepts(text)
    except LimitExceeded:
        figures.over_limit += 1
        return False
    finally:
        figures.seconds += time.perf_counter() - started


def _place(reader: Reader, text: str) -> str:
    data = text.encode()
    try:
        at = reader.viable(text)
    except LimitExceeded as error:
        return f"for {error.message}"
    before = data[max(0, at - 40) : at].decode(errors="replace")
    return f"after byte {at}: {before!r} then {data[at : at + 20].decode(errors='replace')!r}"


def _difference(text: str, other: str) -> str:
    start = next(
        (at for at, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other))
    )
    return f"at character {start}: {other[max(0, start - 30) : start + 30]!r}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def _lines(arguments: argparse.Namespace) -> Iterator[str]:
    known = corpora()
    yield HEADER
    for name in arguments.names or sorted(known):
        if name not in known:
            raise SystemExit(f"there is no corpus of {name!r}; there are {', '.join(sorted(known))}")
        reader = Reader(sg.grammar(name))
        figures = measure(
            known[name], reader, limit=arguments.limit, edits=arguments.edits, seed=arguments.seed
        )
        yield figures.row()
        if arguments.show:
            yield from (f"    {line}" for line in figures.wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argument_parser("bench.shelf", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="grammars (all of them without)")
    parser.add_argument("--limit", type=int, default=300, help="files of each language, drawn from all (300)")
    parser.add_argument("--edits", type=int, default=10, help="edited copies of each file (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the edits")
    parser.add_argument("--show", action="store_true", help="name the texts that were read wrongly")
    for line in _lines(parser.parse_args(arguments)):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
