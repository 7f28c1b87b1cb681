"""``structgen example SCHEMA``: random instances of a schema, or the shortest one."""

from __future__ import annotations

import argparse
from typing import Any

from .inputs import InputError, add_schema_options, schema_options, schema_text

__all__ = ["add_command"]

_DESCRIPTION = """Write values that satisfy a JSON Schema, one a line: random ones, or the shortest.
The same seed gives the same values on every machine.

exit status: 0 done; 1 nothing satisfies the schema; 2 it is not a valid schema"""


def add_command(commands: Any) -> None:
    """Add ``example`` to the commands."""
    parser = commands.add_parser(
        "example",
        help="values that satisfy a JSON Schema",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("schema", metavar="SCHEMA", help="a file, - for standard input, or the JSON itself")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first value; the others have the next ones"
    )
    parser.add_argument("--count", type=int, default=1, help="how many values")
    parser.add_argument("--minimal", action="store_true", help="the shortest value instead")
    add_schema_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """The values on standard output."""
    from structgen.constraints.json_schema import json_schema

    if arguments.count < 1:
        raise InputError(f"--count is {arguments.count}; it must be 1 or more")
    options = schema_options(arguments)
    constraint = json_schema(schema_text(arguments.schema), **options)
    if arguments.minimal:
        texts = iter([constraint.minimal_text()])
    else:
        texts = (constraint.example_text(arguments.seed + i) for i in range(arguments.count))
    for text in texts:
        print(text)
    return 0
