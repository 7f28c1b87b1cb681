"""``structgen explain SCHEMA TEXT``: where and why a text leaves the language, and what the language allows there."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from .grammars import grammars_given
from .inputs import (
    InputError,
    add_constraint_arguments,
    constraint_argument,
    read_text,
    vocabulary_argument,
)
from .parsing import Commands

__all__ = ["add_command"]

_DESCRIPTION = """Show where and why a text breaks a constraint: the position with a caret, the broken rule with its
JSON pointer, and what the constraint allows there. A text that is only a beginning is reported as one.

exit status: 0 the text satisfies the constraint (with --prefix: or can be continued to one that does);
1 it does not; 2 the constraint or the text cannot be read"""


def add_command(commands: Commands) -> None:
    """Add ``explain`` to the commands."""
    parser = commands.add_parser(
        "explain",
        help="where and why a text breaks a constraint",
        usage="structgen explain [options] SCHEMA TEXT\n"
        "       structgen explain [options] (--regex PATTERN | --choice TEXT ... | --type MODULE:NAME) TEXT\n"
        "       structgen explain [options] (--lark FILE | --gbnf FILE | --ebnf FILE | --grammar NAME) TEXT",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="SCHEMA TEXT",
        help="the schema (a file, - or the JSON itself) and the text (itself, @FILE, or - for standard "
        "input; one line end at the end of these is left out)",
    )
    parser.add_argument("--prefix", action="store_true", help="the text need not be complete")
    parser.add_argument("--json", action="store_true", help="the explanation as JSON")
    parser.add_argument(
        "--tokenizer", metavar="NAME", default="bytes", help="relative to this model's tokens"
    )
    add_constraint_arguments(parser, schema_flag=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Return the explanation on standard output."""
    from structgen.matcher import Matcher
    from structgen.types import output_type

    schema, text = _inputs(arguments)
    constraint = output_type(constraint_argument(arguments, schema)).constraint
    explanation = Matcher(constraint, vocabulary_argument(arguments.tokenizer)).explain(text)
    if arguments.json:
        json.dump(asdict(explanation), sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        print(explanation)
    return int(not (explanation.viable if arguments.prefix else explanation.ok))


def _inputs(arguments: argparse.Namespace) -> tuple[str | None, str]:
    """Return the schema, if the constraint is one, and the text."""
    others = (arguments.regex, arguments.choice, arguments.type, *grammars_given(arguments).values())
    other = any(given is not None for given in others)
    count = 1 if other else 2
    if len(arguments.inputs) != count:
        what = "one text" if other else "a schema and a text"
        raise InputError(
            f"explain takes {what}, not {len(arguments.inputs)} arguments",
            hint="Quote a text that holds spaces.",
        )
    *before, text = arguments.inputs
    if text == "@":
        raise InputError(
            "@ names no file", hint="Write @FILE for the text of a file, or - for standard input."
        )
    if text == "-" and before == ["-"]:
        raise InputError("the schema and the text cannot both come from standard input")
    if text == "-" or text.startswith("@"):
        # Editors and echo end what they write with a line end, which is not meant to be part of the text.
        text = read_text(text.removeprefix("@"), "text").removesuffix("\n")
    return (before[0] if before else None), text
