"""``structgen example``: random texts that a schema or a grammar allows, or a short one."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .grammars import add_grammar_arguments, grammar_argument, grammars_given
from .inputs import InputError, add_schema_options, schema_options, schema_text, vocabulary_argument
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.constraints.base import Constraint

__all__ = ["add_command"]

_DESCRIPTION = """Write values that satisfy a JSON Schema, one a line: random ones, or the shortest.
Of a grammar: texts that begin with random characters and are then brought to a short end, one after the other.
The same seed gives the same values on every machine.

exit status: 0 done; 1 nothing satisfies it; 2 it is not a valid schema or grammar"""


def add_command(commands: Commands) -> None:
    """Add ``example`` to the commands."""
    parser = commands.add_parser(
        "example",
        help="values that satisfy a JSON Schema, texts of a grammar",
        usage="structgen example [options] (SCHEMA | --lark FILE | --gbnf FILE | --ebnf FILE | --grammar NAME)",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "schema", metavar="SCHEMA", nargs="?", help="a file, - for standard input, or the JSON itself"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first value; the others have the next ones"
    )
    parser.add_argument("--count", type=int, default=1, help="how many values")
    parser.add_argument(
        "--minimal", action="store_true", help="the shortest value instead; of a grammar a short text"
    )
    add_grammar_arguments(parser)
    add_schema_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Return the values on standard output."""
    if arguments.count < 1:
        raise InputError(f"--count is {arguments.count}; it must be 1 or more")
    named = {"a schema": arguments.schema, **grammars_given(arguments)}
    given = [name for name, value in named.items() if value is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} cannot be given together" if given else "there is nothing to show"
        raise InputError(what, hint="Give one schema or one grammar.")
    grammar = grammar_argument(arguments)
    for text in _of_schema(arguments) if grammar is None else _of_grammar(grammar, arguments):
        print(text)
    return 0


def _of_schema(arguments: argparse.Namespace) -> Iterator[str]:
    from structgen.constraints.json_schema import json_schema

    options = schema_options(arguments)
    constraint = json_schema(schema_text(arguments.schema), **options)
    if arguments.minimal:
        yield constraint.minimal_text()
    else:
        yield from (constraint.example_text(arguments.seed + i) for i in range(arguments.count))


_LONGEST_BEGINNING = 60


def _of_grammar(constraint: Constraint, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a random beginning, byte by byte where printable ones come first, and a short way to the end."""
    from structgen.matcher import Matcher

    if options := schema_options(arguments):
        raise InputError(f"--{next(iter(options))} can only be given with a JSON Schema")
    vocabulary = vocabulary_argument("bytes")
    for i in range(1 if arguments.minimal else arguments.count):
        matcher = Matcher(constraint, vocabulary)
        source = random.Random(arguments.seed + i)
        for _ in range(0 if arguments.minimal else source.randrange(_LONGEST_BEGINNING)):
            words = matcher.mask().tolist()
            allowed = [byte for byte in range(256) if words[byte >> 5] >> (byte & 31) & 1]
            if not allowed:
                break
            matcher.advance(source.choice([byte for byte in allowed if 0x20 < byte < 0x7F] or allowed))
        rest = matcher.witness_text()
        if rest is None:
            raise InputError(
                f"no short text of the grammar was found: {matcher.search_failure}",
                hint="Take a part of the grammar." if arguments.minimal else "Try another --seed.",
            )
        yield (matcher.text + rest).decode("utf-8", "backslashreplace")
