"""Names that a language server knows: members after a dot, modules and their contents.

Source: monitor-guided decoding (Agrawal et al., 2023). There a trigger is a token and the names are compared with the
whole vocabulary; here it is a byte, and the names are an automaton.
Unknown, and so unconstrained: a receiver without a type, and an answer that is incomplete, late, or empty.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from .futures import then
from .language_server import Analyser
from .monitor import Context, Monitor
from .suggestions import Names

__all__ = ["ImportMonitor", "MemberMonitor", "path_of"]

_BINDS = re.compile(
    r":=|=>|&&|\|\||\?|\b(?:lambda|for|and|or|if|elif|else|while|assert|case|def|class|with|as|except|function|const|let|"
    r"var|switch|catch)\b"
)
"""Words and signs that may change, within a statement, which members an expression has."""
_DYNAMIC = "__getattr__"
"""A class with this method has members that cannot be listed."""
_OF_FUNCTIONS = frozenset({"apply", "bind", "call"})
"""Assignments add properties to functions of TypeScript."""
_TARGETS = re.compile(r"\(?\s*(?:[\w.]+\s*,\s*)*")
"""The text before one of several assignment targets: ``self.a, self.b = ...``."""
_SELVES = ("self", "cls", "this")


class MemberMonitor(Monitor):
    """After a dot comes a member of the value before it."""

    def __init__(self, analyser: Analyser, *, makes_members: bool = True) -> None:
        """Query `analyser`.

        `makes_members`: an assignment to ``self.name`` at the beginning of a statement may add a member.
        """
        super().__init__(f"members ({analyser.name})", ("member",))
        self.analyser = analyser
        self._makes = makes_members

    def key(self, context: Context) -> Hashable:
        """Return the receiver and the text before the statement; all text if the statement binds or narrows."""
        written = context.text[context.statement :]
        # Where a statement does not end with its line, the lexer may take several for one.
        is_one = context.language is not None and context.language.line_statements
        if not is_one or not context.receiver or _BINDS.search(written):
            return context.place, context.digest()
        before = context.digest(context.statement)
        news = self._is_new(context), _begins(context)
        return context.place, context.receiver, news, _is_optional(context), before

    def suggest(self, context: Context) -> Future[Any]:
        """Return the names that the analyser completes with."""
        pending = self.analyser.completions(path_of(context), context.document, len(context.text))
        is_new, is_optional, begins = self._is_new(context), _is_optional(context), _begins(context)

        def names(completions: Any) -> Names | None:
            if completions is None or completions.is_incomplete:
                return None
            known = completions.names()
            if _DYNAMIC in known or all(map(_is_special, known)):
                return None
            return Names(known, new=is_new or (begins and known >= _OF_FUNCTIONS), optional=is_optional)

        return then(pending, names)

    def _is_new(self, context: Context) -> bool:
        if not self._makes or context.receiver not in _SELVES:
            return False
        targets, dot, _ = context.text[context.statement :].rpartition(f"{context.receiver}.")
        return bool(dot) and _TARGETS.fullmatch(targets) is not None

    def close(self) -> None:
        """End the analyser."""
        self.analyser.close()


class ImportMonitor(Monitor):
    """After ``import`` and ``from`` comes a module, after its dot a submodule, then one of its names."""

    def __init__(self, analyser: Analyser) -> None:
        super().__init__(f"imports ({analyser.name})", ("import",))
        self.analyser = analyser

    def suggest(self, context: Context) -> Future[Any]:
        """Return the names that the analyser completes with."""
        pending = self.analyser.completions(path_of(context), context.document, len(context.text))

        def names(completions: Any) -> Names | None:
            if completions is None or completions.is_incomplete:
                return None
            known = completions.names()
            return Names(known, optional=True) if known else None

        return then(pending, names)

    def close(self) -> None:
        """End the analyser."""
        self.analyser.close()


def _is_special(name: str) -> bool:
    """Return whether every object has such a name.

    If only such names are listed, narrowing hid the others, or nothing is known.
    """
    return name.startswith("__") and name.endswith("__")


def _begins(context: Context) -> bool:
    """Return whether the statement begins with this expression."""
    return context.text[context.statement :].strip() == context.receiver + "."


def _is_optional(context: Context) -> bool:
    """Return whether a bracket may follow as well, as in ``f?.()`` and ``a?.[0]``."""
    return context.text.endswith("?.")


def path_of(context: Context) -> Path:
    """Return the document's path; a document without one gets a made-up name."""
    return Path("generated") if context.path is None else context.path
