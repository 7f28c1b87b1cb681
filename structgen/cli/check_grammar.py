"""``structgen check`` of a grammar: unused rules, terminals that compete, and whether the grammar has a text at all."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from structgen.errors import EmptyConstraint, LimitExceeded, StructgenError, VocabularyMismatch

from .inputs import vocabulary_argument

if TYPE_CHECKING:
    from structgen.constraints.grammar.checking import Finding, GrammarReport
    from structgen.constraints.grammar.constraint import GrammarConstraint

__all__ = ["check_grammar_file"]


def check_grammar_file(
    constraint: GrammarConstraint,
    name: str,
    starts: tuple[str, ...],
    *,
    strict: bool,
    problems: bool,
    as_json: bool,
) -> int:
    """Return the report on standard output; positions are given with `name`."""
    from structgen.constraints.grammar.checking import check_grammar

    report = check_grammar(constraint, starts=starts)
    failure, names_tokens = None, False
    try:
        failure = _compile(constraint)
    except VocabularyMismatch:
        names_tokens = True
    if as_json:
        _print_json(report, failure)
    else:
        _print_findings(report, name, problems)
        if failure is not None:
            kind = "limit" if isinstance(failure, LimitExceeded) else "empty"
            print(f"! {kind}: {_why(report, failure)}")
        if names_tokens:
            print("  note: it names tokens of a tokenizer, so it was not compiled")
        print(_summary(report, failure, constraint))
    return int(failure is not None or (strict and any(finding.is_warning for finding in report.findings)))


def _compile(constraint: GrammarConstraint) -> StructgenError | None:
    """Why there is no text, or not within the limits. Raises `VocabularyMismatch` for tokens that are no bytes."""
    from structgen.matcher import compile_constraint

    try:
        compile_constraint(constraint, vocabulary_argument("bytes"))
    except (EmptyConstraint, LimitExceeded) as error:
        return error
    return None


def _print_json(report: GrammarReport, failure: StructgenError | None) -> None:
    document: dict[str, Any] = asdict(report)
    for entry, finding in zip(document["findings"], report.findings, strict=True):
        entry["warning"] = finding.is_warning
    document["failure"] = None if failure is None else {"message": failure.message, "hint": failure.hint}
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    print()


def _print_findings(report: GrammarReport, name: str, problems: bool) -> None:
    hidden = 0
    for finding in report.findings:
        if problems and not finding.is_warning:
            hidden += 1
        else:
            print(f"{'!' if finding.is_warning else ' '} {_place(name, finding)}: {finding.message}")
    if hidden:
        print(f"  ({hidden} note{'s' * (hidden != 1)} not shown; --all shows them)")
    if report.skipped:
        print(f"  note: {report.skipped} pairs of terminals were not compared, for lack of time")


def _place(name: str, finding: Finding) -> str:
    return name if finding.position is None else f"{name}:{finding.position.line}:{finding.position.column}"


def _why(report: GrammarReport, failure: StructgenError) -> str:
    """Return where every rule has a text and the grammar has none, the lexer keeps its terminals apart."""
    if isinstance(failure, LimitExceeded):
        return str(failure)
    if any(finding.kind == "endless" for finding in report.findings):
        return f"{failure.message}: see the rules above that have none"
    return (
        f"{failure.message}: each rule has one, but what they put side by side the lexer reads as something else\n"
        "Has the grammar an %ignore for the blanks between words? Do terminals overlap?"
    )


def _summary(report: GrammarReport, failure: StructgenError | None, constraint: GrammarConstraint) -> str:
    warnings = sum(finding.is_warning for finding in report.findings)
    counts = [_count(report.rules, "rule"), _count(len(report.regular), "regular rule")]
    if report.terminals:
        counts.append(_count(report.terminals, "terminal"))
    counts.append(_count(warnings, "warning"))
    return f"{constraint.describe()}: {'can' if failure is None else 'cannot'} be used; {', '.join(counts)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
