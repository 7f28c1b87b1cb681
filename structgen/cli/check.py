"""``structgen check``: how each keyword of a schema is enforced, what is odd about a grammar, and whether it works."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from structgen.errors import EmptyConstraint, LimitExceeded, StructgenError, UnsatisfiableSchema

from .grammars import add_grammar_arguments, grammar_argument, grammars_given
from .inputs import (
    InputError,
    add_schema_options,
    for_the_shell,
    schema_options,
    schema_text,
    vocabulary_argument,
)
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.constraints.grammar.constraint import GrammarConstraint
    from structgen.constraints.json_schema.explain.report import Report

__all__ = ["add_command"]

_DESCRIPTION = """Report how each keyword of a JSON Schema is enforced, with its JSON pointer:
  exact        the generated text obeys it to the letter
  approximate  the text obeys it, and is held a little narrower (the note says how)
  annotation   it says nothing about which values are valid
  unsupported  structgen would refuse the schema rather than ignore it
  limit        a number or a size is beyond what is read
  invalid      the schema breaks the specification

Only problems and warnings are shown; --all shows every keyword. The schema is compiled, too: a schema that no value can
satisfy is reported.

Of a grammar (--lark, --gbnf, --ebnf, --grammar) it reports rules that are not used or have no text, terminals
that never match, and texts that two terminals match, as warnings with their places.

exit status: 0 it can be used; 1 it cannot: unsupported keywords, limits, or unsatisfiable (with --strict
also: approximate keywords, warnings); 2 it is not a valid schema, or a $ref leads nowhere"""


def add_command(commands: Commands) -> None:
    """Add ``check`` to the commands."""
    parser = commands.add_parser(
        "check",
        help="how each keyword of a JSON Schema is followed; what is odd about a grammar",
        usage="structgen check [options] (SCHEMA | --lark FILE | --gbnf FILE | --ebnf FILE | --grammar NAME)",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "schema", metavar="SCHEMA", nargs="?", help="a file, - for standard input, or the JSON itself"
    )
    parser.add_argument("--strict", action="store_true", help="approximate keywords and warnings count as no")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--all", action="store_true", help="show exact keywords, annotations and notes, too")
    shown.add_argument(
        "--problems", action="store_true", help="show only problems and warnings (the default)"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    add_grammar_arguments(parser)
    add_schema_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; return the exit status."""
    from structgen.constraints.json_schema import check

    options = schema_options(arguments)
    named = {"a schema": arguments.schema, **grammars_given(arguments)}
    given = [name for name, value in named.items() if value is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} cannot be given together" if given else "there is nothing to check"
        raise InputError(what, hint="Give one schema or one grammar.")
    if (grammar := grammar_argument(arguments)) is not None:
        return _check_grammar(grammar, arguments, options)
    text = schema_text(arguments.schema)
    report = check(text, **options)
    failure = _compile(text, options) if report.ok else None
    if arguments.json:
        _print_json(report, failure)
    else:
        _print_report(report, failure, not arguments.all)
    if report.status == "invalid":
        return 2
    if report.problems or failure is not None:
        return 1
    return int(arguments.strict and (report.status != "exact" or bool(report.warnings)))


def _check_grammar(grammar: GrammarConstraint, arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    from structgen.shelf import grammars

    from .check_grammar import check_grammar_file

    if options:
        raise InputError(f"--{next(iter(options))} can only be given with a JSON Schema")
    name = next(value for value in grammars_given(arguments).values() if value is not None)
    starts: tuple[str, ...] = ()
    if arguments.grammar is not None:
        name, starts = grammars()[name].path.name, grammars()[name].starts
    return check_grammar_file(
        grammar,
        name,
        starts,
        strict=arguments.strict,
        problems=not arguments.all,
        as_json=arguments.json,
    )


def _compile(text: str, options: dict[str, Any]) -> StructgenError | None:
    """Return what keeps a schema without problems from being used: nothing satisfies it, or a limit is met."""
    from structgen.constraints.json_schema import json_schema
    from structgen.matcher import compile_constraint

    try:
        compile_constraint(json_schema(text, **options), vocabulary_argument("bytes"))
    except (UnsatisfiableSchema, EmptyConstraint, LimitExceeded) as error:
        return error
    return None


def _print_json(report: Report, failure: StructgenError | None) -> None:
    document = {
        "draft": report.draft,
        "status": report.status if failure is None else _kind(failure),
        "findings": [{**asdict(finding), "hint": for_the_shell(finding.hint)} for finding in report.findings],
        "choices": list(report.choices),
        "failure": None if failure is None else _as_json(failure),
    }
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    print()


def _as_json(failure: StructgenError) -> dict[str, str | None]:
    return {"where": failure.where, "message": failure.message, "hint": failure.hint}


def _print_report(report: Report, failure: StructgenError | None, problems_only: bool) -> None:
    hidden = {"exact": 0, "annotation": 0}
    for finding in report.findings:
        if problems_only and finding.status in hidden and not finding.warning:
            hidden[finding.status] += 1
            continue
        print(for_the_shell(str(finding)))
    if left_out := [
        f"{count} {what}{'s' * (count != 1)}"
        for what, count in (("exact keyword", hidden["exact"]), ("annotation", hidden["annotation"]))
        if count
    ]:
        print(f"  (not shown: {' and '.join(left_out)}; --all shows everything)")
    for choice in report.choices if report.ok and not problems_only else ():
        print(f"  note: {choice}")
    if failure is not None:
        print(for_the_shell(f"! {_kind(failure)}: {failure}"))
    print(f"{report.draft}: {_summary(report, failure)}")


def _kind(failure: StructgenError) -> str:
    return "limit" if isinstance(failure, LimitExceeded) else "unsatisfiable"


def _summary(report: Report, failure: StructgenError | None) -> str:
    counts: dict[str, int] = {}
    for finding in report.findings:
        counts[finding.status] = counts.get(finding.status, 0) + 1
    counted = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no keywords"
    if failure is not None:
        return f"cannot be used ({_kind(failure)}); {counted}"
    return f"{'can' if report.ok else 'cannot'} be used; {counted}"
