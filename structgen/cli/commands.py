"""Arguments in, exit status out."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import structgen
from structgen.errors import EmptyConstraint, GenerationError, StructgenError, UnsatisfiableSchema

from . import check, doctor, draft, eval, example, explain, generate, mask, serve
from .inputs import for_the_shell
from .parsing import Parser

__all__ = ["main"]

_COMMANDS = (generate, serve, check, example, explain, mask, eval, draft, doctor)

_EPILOG = """exit status:
  0  yes, or done
  1  no: a text is rejected, a keyword is not supported, nothing satisfies the constraint,
     generation ended without a value, the installation has a fault
  2  the command cannot run: bad arguments, no such file, not a schema
"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="structgen",
        description="Typed, structured output from language models.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"structgen {structgen.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_command(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack characters that a model writes
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            parsed = _parser().parse_args(arguments)
        except SystemExit as stop:  # argparse has said what is wrong, or has shown the help
            return stop.code if isinstance(stop.code, int) else 2
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except (EmptyConstraint, UnsatisfiableSchema, GenerationError) as error:
        return _complain(error, 1)
    except StructgenError as error:
        return _complain(error, 2)
    except KeyboardInterrupt as stop:
        print(f"structgen: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has closed it. Python would complain again at exit otherwise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _complain(error: StructgenError, status: int) -> int:
    sys.stdout.flush()
    print(f"structgen: {for_the_shell(str(error))}", file=sys.stderr)
    return status
