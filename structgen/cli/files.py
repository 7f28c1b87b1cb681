"""Files that arguments name, and the error of an argument that cannot be used."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from structgen.errors import OptionError, StructgenError

__all__ = ["InputError", "for_the_shell", "naming_options", "read_text"]


class InputError(StructgenError):
    """An argument of the command line cannot be used."""


def for_the_shell(text: str) -> str:
    """Return what the library says, with its arguments as the command line calls them."""
    text = (
        text.replace("registry=", "--registry")
        .replace("start=...", "--start RULE")
        .replace("closed=True", "--closed")
    )
    text = _OPTION.sub(lambda found: "--" + found[1].replace("_", "-"), text)
    return _READERS.sub(r"--\1", text)


@contextlib.contextmanager
def naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Raise an `OptionError` of the block as an `InputError` that names options of the command line.

    A field is replaced where a message starts with it ("batch is 0; ..."), and anywhere if it has an underscore: other
    names are also words.

    Args:
        options: Fields of the Python interface, and the option that sets each.
    """
    try:
        yield
    except OptionError as error:
        hint = None if error.hint is None else _with_options(error.hint, options)
        raise InputError(_with_options(error.message, options), hint=hint) from error


def _with_options(text: str, options: Mapping[str, str]) -> str:
    def option(found: re.Match[str]) -> str:
        name = found[0]
        is_field = "_" in name or (not found.start() and text[found.end() :].startswith(" is "))
        return options.get(name, name) if is_field else name

    return _NAME.sub(option, text)


_NAME = re.compile(r"(?<![\w./\\'-])[a-z_]+(?![\w/\\'-]|\.\w)")
"""A name that is no part of a path and not quoted."""

_READERS = re.compile(r"\bsg\.(lark|gbnf|ebnf)\b(?:\(\))?")

_OPTION = re.compile(r"\bsampling option '(\w+)'")


def read_text(name: str, what: str, hint: str = "Give the path of a file, or - for standard input.") -> str:
    """Return the text of a file; ``-`` is standard input."""
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what} {name!r} is not UTF-8 text: byte {error.start} of it is wrong",
            hint="Is it the right file? If so, save it as UTF-8.",
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot read {what} {name!r}: {error.strerror or error}",
            hint=hint,
        ) from None
