"""Replay real lines: a refusal of code that works is an error of the monitor or of its server.

A constraint that forbids correct code does harm, and finding such errors needs no model. The monitors read the held-out
rest of each line, one type at a time, and refusals are listed with their position and the names that were allowed
instead. The server's recall is measured separately: how often it knows the members, and how often the held-out
identifier is among them.

Cost: about 0.2 s for each site, most of it for reading the start of the file with the lexer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structgen as sg
from bench.tokenizers import Tokeniser, vocabulary_of
from structgen.matcher import open_matcher
from structgen.monitors import Context, Fault, MemberMonitor, MonitorReport
from structgen.monitors.language_server import Analyser, Completions
from structgen.monitors.members import path_of
from structgen.vocabulary import Vocabulary

from .sites import Site

__all__ = ["IMPORTS", "KINDS", "SPLITS", "Known", "Replay", "Replayed", "known_of", "new_errors"]

SPLITS = ("bytes", "own", "random")
IMPORTS = "imports"
KINDS = ("members", "arguments", "diagnostics")
"""Monitors that read lines after a dot; `IMPORTS` reads import statements."""
_SECONDS = 15.0


@dataclass
class Known:
    """A server's members at a site: whether it lists any, and whether the identifier of the code is among them."""

    listed: bool
    found: bool
    made: bool = False
    """Whether the line itself defines the attribute: ``self.name = ...``."""
    names: int = 0
    reason: str = ""


@dataclass
class Replayed:
    """One kind of monitor on one line."""

    triggers: int = 0
    unknown: int = 0
    timeouts: int = 0
    failures: int = 0
    refused: str = ""
    """The part of the line that was read, a mark, and the rest; empty if nothing was refused."""
    offered: tuple[str, ...] = ()
    """The names that were allowed at the mark, or the messages of a checker."""


class Replay:
    """Reads real lines with monitors."""

    def __init__(self, split: str = "bytes", seed: int = 0) -> None:
        """Make a reader that splits lines into bytes, or into tokens of the embedded model.

        Tokens are the tokenizer's own ("own") or random ones that fit ("random"). With tokens, monitors judge positions
        inside a token too, as in generation.
        """
        self.vocabulary = Vocabulary.of_bytes() if split == "bytes" else vocabulary_of(None)
        self._tokeniser = Tokeniser(self.vocabulary)
        self._split = split
        self._chance = random.Random(seed)

    def line(self, site: Site, folder: Path, text: str, server: Analyser, kind: str) -> Replayed:
        """Read the real rest of the line with one kind of monitor."""
        before, after = site.around(text)
        if kind == "diagnostics":
            return _judged(site, folder, before, after, server)
        constraint = sg.code(
            site.language,
            project=folder,
            file=site.file,
            before=before,
            after=after,
            monitors=[kind],
            server=server,
            patience=_SECONDS,
            warm_up=_SECONDS,
        )
        matcher: Any = open_matcher(constraint, self.vocabulary)
        read, refused = b"", ""
        for token in self._tokens(site.rest):
            data = self.vocabulary.token_bytes(token) or b""
            if not matcher.advance(token):
                left = site.rest.encode()[len(read) :].decode("utf-8", "replace")
                refused = f"{_line(before)}{read.decode('utf-8', 'replace')} ⟦{left.rstrip()}⟧"
                break
            read += data
        report = matcher.report
        replayed = Replayed(report.triggers, report.unknown, report.timeouts, report.failures, refused)
        if refused and kind == "members":
            replayed.offered = _shown(_listing(site, folder, _dotted(before, read), after, server).found)
        if refused and kind == "arguments":
            read_so_far = before + read.decode("utf-8", "replace")
            signatures = server.signatures(folder / site.file, read_so_far + after, len(read_so_far)).result(
                _SECONDS
            )
            replayed.offered = tuple(signature.label for signature in signatures.items) if signatures else ()
        return replayed

    def _tokens(self, text: str) -> Sequence[int]:
        tokens = (
            self._tokeniser.at_random(text.encode(), self._chance)
            if self._split == "random"
            else self.vocabulary.encode(text)
        )
        if tokens is None:
            raise ValueError(f"no tokens spell {text!r}")
        return tokens


class _Listing(MemberMonitor):
    """Queries the server as its parent does, and keeps the whole answer."""

    found: Completions | None = None
    was_called = False

    def suggest(self, context: Context) -> Future[Any]:
        self.was_called = True
        asked = self.analyser.completions(path_of(context), context.document, len(context.text))
        self.found = asked.result(_SECONDS)
        return super().suggest(context)


def known_of(site: Site, folder: Path, text: str, server: Analyser) -> Known:
    """Return what the server lists at the site."""
    before, after = site.around(text)
    listing = _listing(site, folder, before, after, server)
    completions = listing.found
    known = Known(False, False, made=site.is_made and before.endswith((" self.", "\tself.")))
    if not listing.was_called:
        known.reason = "no place"
    elif completions is None:
        known.reason = "no answer"
    elif completions.is_incomplete:
        known.reason = "incomplete"
    elif not completions.names():
        known.reason = "changes the text before"
    else:
        names = completions.names()
        known.listed, known.found, known.names = True, site.identifier in names, len(names)
    return known


def new_errors(
    site: Site, folder: Path, text: str, written: str, server: Analyser
) -> tuple[list[Fault], bool] | None:
    """Return the errors inside a line, and whether it causes errors after it; None if the server did not judge."""
    before, after = site.around(text)
    constraint = sg.code(
        site.language,
        project=folder,
        file=site.file,
        before=before,
        after=after,
        monitors=["diagnostics"],
        server=server,
        judging=2 * _SECONDS,
    )
    report = MonitorReport()
    faults = constraint.faults(written.encode(), report)
    if report.unchecked:
        return None
    # A fault after the text is reported at its last character, which is the line's end.
    within = [fault for fault in faults if fault.start < len(written) - 1]
    return within, len(within) < len(faults)


def _listing(site: Site, folder: Path, before: str, after: str, server: Analyser) -> _Listing:
    listing = _Listing(server)
    constraint = sg.code(
        site.language, project=folder, file=site.file, before=before, after=after, monitors=[listing]
    )
    matcher: Any = open_matcher(constraint, Vocabulary.of_bytes())
    matcher.mask()
    return listing


def _dotted(before: str, read: bytes) -> str:
    """Return the text up to the last dot that was read."""
    end = read.rfind(b".") + 1
    return before + read[:end].decode("utf-8", "replace")


def _judged(site: Site, folder: Path, before: str, after: str, server: Analyser) -> Replayed:
    errors = new_errors(site, folder, before + site.rest + after, site.rest, server)
    if errors is None:
        return Replayed(1, 1)
    faults, is_later = errors
    if not faults and not is_later:
        return Replayed(1)
    offered = tuple(f"{fault.code}: {fault.message.splitlines()[0]}" for fault in faults) or (
        "after the line",
    )
    return Replayed(1, refused=f"{_line(before)} ⟦{site.rest.rstrip()}⟧", offered=offered)


def _line(before: str) -> str:
    return before[before.rfind("\n") + 1 :].lstrip()


def _shown(completions: Completions | None) -> tuple[str, ...]:
    return () if completions is None else tuple(sorted(completions.names()))
