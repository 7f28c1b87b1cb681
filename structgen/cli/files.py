"""Files that arguments name, and the error of an argument that cannot be used."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from structgen.errors import StructgenError

__all__ = ["InputError", "for_the_shell", "read_text"]


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
