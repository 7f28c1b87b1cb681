"""``structgen mask SCHEMA``: which tokens may come next after a prefix, in the terminal or as a page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .inputs import InputError, add_constraint_arguments, constraint_argument, vocabulary_argument
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.matcher import Matcher

__all__ = ["add_command"]

_DESCRIPTION = """Show which tokens of a model's vocabulary may come next after a prefix, and which may not.
With --html the answer is a page that needs nothing else: every token, coloured, with search and counts.

exit status: 0; 1 the prefix leaves the language (the position is shown); 2 something cannot be read"""

_LISTED = 40


def add_command(commands: Commands) -> None:
    """Add ``mask`` to the commands."""
    parser = commands.add_parser(
        "mask",
        help="which tokens may come next",
        usage="structgen mask [options] SCHEMA\n"
        "       structgen mask [options] (--regex PATTERN | --choice TEXT ... | --type MODULE:NAME)\n"
        "       structgen mask [options] (--lark FILE | --gbnf FILE | --ebnf FILE | --grammar NAME)",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "schema", metavar="SCHEMA", nargs="?", help="a file, - for standard input, or the JSON itself"
    )
    parser.add_argument("--prefix", metavar="TEXT", default="", help="the text so far")
    parser.add_argument("--html", metavar="FILE", help="write a page")
    parser.add_argument(
        "--tokenizer", metavar="NAME", help="a model's path or name; the embedded one by default; or bytes"
    )
    parser.add_argument("--count", metavar="N", type=int, default=_LISTED, help="list at most N tokens")
    add_constraint_arguments(parser, schema_flag=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Return the mask after the prefix."""
    from structgen.matcher import Matcher
    from structgen.types import output_type

    if arguments.count < 0:
        raise InputError(f"--count is {arguments.count}; it must be 0 or more")
    output = constraint_argument(arguments, arguments.schema)
    if output is None:
        raise InputError(
            "mask needs a constraint", hint="Give SCHEMA, --regex, --choice, --type or a grammar."
        )
    constraint = output_type(output).constraint
    vocabulary = vocabulary_argument(arguments.tokenizer)
    matcher = Matcher(constraint, vocabulary)
    explanation = matcher.explain(arguments.prefix)
    if not explanation.viable:
        print(
            f"structgen: no text of the constraint begins with the --prefix\n{explanation}", file=sys.stderr
        )
        return 1
    prefix = _read_prefix(matcher, arguments.prefix)
    if arguments.html is not None:
        from .mask_page import mask_page

        page = mask_page(matcher, prefix, constraint.describe())
        try:
            Path(arguments.html).write_text(page, "utf-8")
        except OSError as error:
            raise InputError(f"cannot write {arguments.html!r}: {error.strerror or error}") from None
        print(f"wrote {arguments.html}: {_count(matcher)}")
    else:
        _print_mask(matcher, arguments.count)
    return 0


def _read_prefix(matcher: Matcher, text: str) -> list[int]:
    """Read `text` in the tokenizer's own tokens, or in the fewest that spell it; the tokens."""
    vocabulary = matcher.vocabulary
    tokens = vocabulary.encode(text) if text else []
    if tokens is None or matcher.accepts(tokens) < len(tokens):
        tokens = vocabulary.native.fewest_tokens(text.encode())
    if tokens is None:
        raise InputError(f"the tokenizer cannot spell the prefix {text!r}")
    for token in tokens:
        matcher.advance(token)
    return tokens


def _count(matcher: Matcher) -> str:
    return f"{matcher.allowed_count():,} of {matcher.vocabulary.size:,} tokens may come next"


def _print_mask(matcher: Matcher, most: int) -> None:
    from structgen.generation import allowed_ids

    vocabulary = matcher.vocabulary
    print(_count(matcher))
    print("the text is complete here" if matcher.is_complete() else "the text is not complete here")
    if forced := matcher.forced_bytes():
        print(f"every continuation begins with {forced.decode('utf-8', 'backslashreplace')!r}")
    ids = allowed_ids(matcher.mask(), vocabulary.size).tolist()
    for token in ids[:most]:
        print(f"{token:>8}  {_shown(vocabulary.token_bytes(token), token in vocabulary.eos_ids)}")
    if len(ids) > most:
        print(f"          ... and {len(ids) - most:,} more (--count, or --html FILE)")


def _shown(token: bytes | None, is_end: bool) -> str:
    if is_end or not token:
        return "<end of text>"
    try:
        return repr(token.decode())
    except UnicodeDecodeError:  # a part of a character
        return repr(token)[1:]
