"""Grammars on the command line: a file in one of three notations, or a name of the shelf.

Invariant: an option that does not go with the grammar is an error that names it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .files import InputError, read_text

if TYPE_CHECKING:
    from structgen.constraints.grammar.constraint import GrammarConstraint

__all__ = ["add_grammar_arguments", "grammar_argument", "grammars_given"]

_FLAGS = ("--lark", "--gbnf", "--ebnf", "--grammar")
_NOTATIONS = {"--lark": "Lark's notation", "--gbnf": "llama.cpp's GBNF", "--ebnf": "XGrammar's EBNF"}
_NAMES = ("tables", "columns", "functions", "schemas", "aliases")
"""Parameters of grammars of the shelf."""
_MAY_BE_NONE = ("functions", "schemas", "aliases")
_SWITCHES = {
    "comments": "whether texts may have comments (--grammar; by default not in single queries and expressions)",
    "parameters": "whether bind parameters may stand (--grammar sql; by default as for --comments)",
}


def add_grammar_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a grammar and say how it is read."""
    group = parser.add_argument_group("grammar (instead of another constraint)")
    for flag, notation in _NOTATIONS.items():
        group.add_argument(flag, metavar="FILE", help=f"in {notation}: a file, or - for standard input")
    group.add_argument("--grammar", metavar="NAME", help="of the shelf: json, sql, python, ...")
    group.add_argument("--start", metavar="RULE", help="the rule that a whole text must be")
    group.add_argument("--lexer", choices=["lark", "longest"], help="how --lark cuts a text into terminals")
    group.add_argument(
        "--contextual",
        action="store_true",
        default=None,
        help="only terminals that may stand at a place compete (--lark)",
    )
    for kind in _NAMES:
        group.add_argument(
            f"--{kind}",
            metavar="NAME,...",
            action="append",
            help=f"the {kind} that there are (--grammar sql); with commas, or repeat it",
        )
    for name, text in _SWITCHES.items():
        group.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=text)


def grammars_given(arguments: argparse.Namespace) -> dict[str, str | None]:
    """Return what was given of each way to name a grammar."""
    return {flag: getattr(arguments, flag.removeprefix("--")) for flag in _FLAGS}


def grammar_argument(arguments: argparse.Namespace) -> GrammarConstraint | None:
    """Return the grammar that the arguments name; None if they name no grammar."""
    _check_options(arguments)
    if all(name is None for name in grammars_given(arguments).values()):
        return None
    from structgen.constraints.grammar.builders import UNCHECKED
    from structgen.shelf import grammar

    start = {} if arguments.start is None else {"start": arguments.start}
    if arguments.grammar is not None:
        names: dict[str, Any] = {**_names(arguments)}
        switches = {name: getattr(arguments, name) for name in _SWITCHES}
        return grammar(arguments.grammar, start=arguments.start, **switches, **names)
    if arguments.gbnf is not None:
        return UNCHECKED["gbnf"](read_text(arguments.gbnf, "--gbnf"), **start)
    if arguments.ebnf is not None:
        return UNCHECKED["ebnf"](read_text(arguments.ebnf, "--ebnf"), **start)
    source = read_text(arguments.lark, "--lark")
    lexer, contextual = arguments.lexer or "lark", bool(arguments.contextual)
    return UNCHECKED["lark"](source, lexer=lexer, contextual=contextual, **start)


def _names(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Return the lists of names that were given. Of tables and columns there is at least one."""
    names: dict[str, list[str]] = {}
    for kind in _NAMES:
        given: list[str] | None = getattr(arguments, kind)
        if given is not None:
            names[kind] = [
                name.strip() for argument in given for name in argument.split(",") if argument.strip()
            ]
            if not names[kind] and kind not in _MAY_BE_NONE:
                raise InputError(
                    f"--{kind} names nothing",
                    hint=f"Write --{kind} NAME,NAME, or leave it out where any name may stand.",
                )
    return names


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise if an option of a grammar goes with no grammar, or with one of another notation."""
    given = grammars_given(arguments)
    for name in ("start", "lexer", "contextual"):
        flags = _FLAGS if name == "start" else ("--lark",)
        if getattr(arguments, name) is not None and all(given[flag] is None for flag in flags):
            raise InputError(f"--{name} can only be given with {' or '.join(flags)}")
    for kind in _names(arguments):
        if arguments.grammar is None:
            raise InputError(f"--{kind} can only be given with --grammar")
    for name in _SWITCHES:
        if getattr(arguments, name) is not None and arguments.grammar is None:
            raise InputError(f"--{name} can only be given with --grammar")
