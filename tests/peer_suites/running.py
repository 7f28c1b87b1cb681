"""All verdicts of a suite, and those that differ from the peer's."""

from __future__ import annotations

import json
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import structgen as sg
from structgen.constraints.base import Constraint
from structgen.errors import EmptyConstraint, LimitExceeded, StructgenError, UnsatisfiableSchema

from . import vocabularies
from .cases import Case, cases
from .forms import Form, forms
from .reading import Broken, allowed, feed, replay, walk

__all__ = ["Difference", "Report", "run"]

_EMPTY = (UnsatisfiableSchema, EmptyConstraint)
# The field of a case, what the peer says of its texts, and whether they are beginnings of texts.
_FIELDS = (
    ("accept", True, False),
    ("reject", False, False),
    ("prefix_accept", True, True),
    ("prefix_reject", False, True),
)
_TOKEN_FIELDS = (("token_accept", True), ("token_reject", False))


@dataclass(frozen=True)
class Difference:
    """A verdict that is not the peer's."""

    case: Case
    field: str
    text: Any
    want: Any
    got: Any
    error: str = ""
    """What structgen says where it reads no constraint or no text."""
    option: str = ""
    """The options of structgen under which the verdict is the peer's."""
    vocabulary: str = "bytes"
    verdicts: int = 1
    """How many verdicts of the case are lost by it."""


@dataclass
class Report:
    """The verdicts of a peer's suite."""

    peer: str
    cases: int = 0
    verdicts: int = 0
    differences: list[Difference] = field(default_factory=list)

    @property
    def equal(self) -> int:
        return self.verdicts - sum(one.verdicts for one in self.differences)


def run(peer: str, *, every: int = 1, first: int = 0, real: int | None = None) -> Report:
    """Read each `every`-th case of a peer's suite, beginning with number `first`.

    `real`: of the cases read, each so many is read in a real vocabulary too, where differences count as well.
    """
    report = Report(peer)
    for case in cases(peer):
        if case.line % every != first:
            continue
        report.cases += 1
        running = _Running(case, real is not None and case.line % real == 0)
        report.differences += running.run()
        report.verdicts += running.verdicts
    return report


class _Running:
    """One case."""

    def __init__(self, case: Case, real: bool) -> None:
        self.case = case
        self.record = case.record
        self.verdicts = 0
        self.vocabulary = vocabularies.of_case(case)
        self.forms = list(forms(case, vocabularies.special_names(case)))
        self.made: dict[str, Constraint | Exception] = {}
        self.real = real and self.vocabulary is vocabularies.BYTES

    def run(self) -> Iterator[Difference]:
        yield from self._compiles()
        yield from self._texts()
        yield from self._masks()
        yield from self._generated()
        yield from self._replays()

    def _constraint(self, form: Form) -> Constraint | Exception:
        """The constraint of a form; or the error, of structgen itself or (which is a fault) of something else."""
        if form.name not in self.made:
            try:
                made = form.make()
                sg.Matcher(made, self.vocabulary)
                self.made[form.name] = made
            except StructgenError as error:
                self.made[form.name] = error
            except Exception as error:
                error.add_note(traceback.format_exc(limit=-3))
                self.made[form.name] = error
        return self.made[form.name]

    def _compiles(self) -> Iterator[Difference]:
        if "compiles" not in self.record:
            return
        self.verdicts += 1
        own, want = self._constraint(self.forms[0]), self.record["compiles"]
        if isinstance(own, Exception) == want:
            option = next(
                (
                    form.name
                    for form in self.forms[1:]
                    if isinstance(self._constraint(form), Exception) != want
                ),
                "",
            )
            yield Difference(self.case, "compiles", None, want, not want, _said(own), option)

    # Texts.

    def _texts(self) -> Iterator[Difference]:
        fields = [*_FIELDS, *((name, want, False) for name, want in _TOKEN_FIELDS)]
        for name, want, beginning in fields:
            for text in self.record.get(name, ()):
                self.verdicts += 1
                got = self._verdict(self.forms[0], text, beginning)
                if not _is(got, want):
                    option = self._option(text, want, beginning)
                    yield Difference(
                        self.case, name, text, want, got, _said(self._constraint(self.forms[0])), option
                    )
                elif self.real:
                    other = self._verdict(self.forms[0], text, beginning, vocabularies.real())
                    # A token may end after the place where a beginning is refused; a vocabulary may lack letters.
                    if other not in (got, None, "empty") and not (beginning and not want):
                        yield Difference(self.case, name, text, want, other, vocabulary="real")

    def _verdict(
        self, form: Form, text: Any, beginning: bool, vocabulary: sg.Vocabulary | None = None
    ) -> bool | str | None:
        """Is the text read? "empty": there is no text at all; another text: why it is not known."""
        made = self._constraint(form)
        if isinstance(made, Exception):
            return "empty" if isinstance(made, _EMPTY) else "error"
        vocabulary = vocabulary or vocabularies.of_case(self.case, text)
        tokens = vocabularies.tokens_of(text, vocabulary)
        if tokens is None:
            return None
        try:
            read, may_end = feed(sg.Matcher(made, vocabulary), tokens, vocabulary.eos_ids[0])
        except _EMPTY:
            return "empty"
        except LimitExceeded as error:
            return f"limit: {error.limit}"
        except Broken as error:
            return f"broken: {error}"
        except StructgenError as error:
            return f"error: {error}"
        return read == len(tokens) if beginning else may_end

    def _option(self, text: Any, want: bool, beginning: bool) -> str:
        """The form in which the verdict is the peer's, without refusing what the case accepts."""
        for form in self.forms[1:]:
            if _is(self._verdict(form, text, beginning), want) and self._reads_all(form, want):
                return form.name
        return ""

    def _reads_all(self, form: Form, want: bool) -> bool:
        if want:
            return True
        texts = self.record.get("accept", ())[:12]
        read = [self._verdict(self.forms[0], text, False) is True for text in texts]
        if not texts and "whitespace" in form.name:
            return False
        return all(
            self._verdict(form, text, False) is True for text, own in zip(texts, read, strict=True) if own
        )

    # Masks, drawn texts, recorded events.

    def _masks(self) -> Iterator[Difference]:
        made = self._constraint(self.forms[0])
        for one in self.record.get("masks", ()):
            if isinstance(made, Exception):
                continue
            self.verdicts += 1
            matcher = sg.Matcher(made, vocabularies.BYTES)
            text = vocabularies.data(one["prefix"])
            read, _ = feed(matcher, text, vocabularies.BYTES.eos_ids[0])
            if read < len(text):
                yield Difference(self.case, "masks", one["prefix"], "a beginning", "refused")
                continue
            found = [token for token in allowed(matcher) if token < 256]
            wanted = one.get("allowed")
            missing = sorted(set(wanted) - set(found)) if wanted is not None else []
            extra = sorted(set(found) - set(wanted)) if wanted is not None else []
            extra += [byte for byte in one.get("denied", ()) if byte in found]
            if missing or extra:
                yield Difference(
                    self.case, "masks", one["prefix"], "mask", {"missing": missing, "extra": extra}
                )

    def _generated(self) -> Iterator[Difference]:
        made = self._constraint(self.forms[0])
        if isinstance(made, Exception):
            return
        for seed in range(self.record.get("generate", 0)):
            self.verdicts += 1
            vocabulary = vocabularies.real()
            try:
                text = walk(sg.Matcher(made, vocabulary), vocabulary.eos_ids, np.random.default_rng(seed))
            except Broken as error:
                yield Difference(self.case, "generate", None, True, f"broken: {error}")
                continue
            if not _is_valid(self.case, text):
                yield Difference(self.case, "generate", text, True, False)

    def _replays(self) -> Iterator[Difference]:
        for record in self.record.get("replay", ()):
            events = len(record["events"])
            made = self._constraint(self.forms[0])
            if isinstance(made, Exception):
                self.verdicts += events
                yield Difference(self.case, "replay", None, "replay", "error", _said(made), verdicts=events)
                continue
            given = self.case.options["vocab"]
            for outcome in replay(sg.Matcher(made, self.vocabulary), record, given["vocab"], given["stop"]):
                self.verdicts += 1
                if not outcome.equal:
                    yield Difference(self.case, "replay", outcome.text, outcome.want, outcome.got)


def _is(got: bool | str | None, want: bool) -> bool:
    return got is True if want else got in (False, "empty")


def _said(made: Constraint | Exception) -> str:
    return f"{type(made).__name__}: {made}" if isinstance(made, Exception) else ""


def _is_valid(case: Case, text: str) -> bool:
    """Is a drawn text one of the case's, as another library reads it?"""
    if case.kind == "json_schema":
        import jsonschema_rs

        return bool(jsonschema_rs.validator_for(case.spec, validate_formats=True).is_valid(json.loads(text)))
    if case.kind == "regex":
        return re.fullmatch(case.spec, text) is not None
    if case.kind == "choice":
        return text in case.spec
    return sg.Matcher(next(iter(forms(case))).make(), vocabularies.BYTES).explain(text).ok


def total(reports: Iterable[Report]) -> Counter[str]:
    """Sums over suites."""
    sums: Counter[str] = Counter()
    for one in reports:
        sums.update(cases=one.cases, verdicts=one.verdicts, equal=one.equal)
    return sums
