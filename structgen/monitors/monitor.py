"""What a monitor is: something that knows the world and is asked, while a text grows, what may come next.

Why: which members a value has, which columns a table, which state a file is in, is no grammar; it is known to a
language server, a database, a function of the user's. All of them speak through this one class.
Invariant: a monitor that knows nothing leaves the text free; that it did so is counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .joining import joint
from .languages import Language
from .receivers import arguments_before, callee_before, opening_before, receiver_before
from .suggestions import Suggestion

__all__ = ["Context", "Fault", "Monitor", "Trigger"]


@dataclass(frozen=True)
class Trigger:
    """A place to ask at, by what was written before it: a regular expression (of Python) that the text ends with.

    everywhere   in strings and comments of the language, too
    """

    pattern: str
    everywhere: bool = False


@dataclass(frozen=True)
class Context:
    """Where a monitor is asked.

    place       "member", "call", "argument", "close" or "import", or the pattern of a trigger
    text        all that stands before: the document's beginning, then what was generated
    after       what follows the generated text in the document
    generated   how many characters of `text` were generated
    arguments   of the innermost open bracket, how many commas it has so far
    statement   where in `text` the statement begins
    state       of the monitor, see `Monitor.committed`
    language    of the document
    """

    place: str
    text: str
    after: str = ""
    path: Path | None = None
    generated: int = 0
    arguments: int = 0
    statement: int = 0
    state: Any = None
    language: Language | None = None

    @cached_property
    def receiver(self) -> str:
        """The expression before the dot: ``self.items[0]`` of ``x = self.items[0].``; empty where none is found."""
        return receiver_before(self.text)

    @cached_property
    def callee(self) -> str:
        """The expression that is called, before its bracket: behind a bracket or in its arguments."""
        return callee_before(self.text, closed=self.place == "close")

    @cached_property
    def opening(self) -> int:
        """Where in `text` the bracket of that call stands; -1 where there is none."""
        return opening_before(self.text, closed=self.place == "close")

    @cached_property
    def given(self) -> list[str]:
        """The arguments of the innermost open call so far, each as it is written; the last is what comes next."""
        return arguments_before(self.text, closed=self.place == "close")

    def digest(self, end: int | None = None) -> bytes:
        """Return a hash of the text up to a place, and of what follows the generated text."""
        whole = hashlib.blake2b(self.text[:end].encode("utf-8", "surrogatepass"), digest_size=16)
        whole.update(b"\0" + self.after.encode("utf-8", "surrogatepass"))
        return whole.digest()

    @property
    def document(self) -> str:
        """The whole document as it is so far."""
        return self.document_at(len(self.text))

    def document_at(self, end: int) -> str:
        """The same if the text ended at an offset. What is not finished is kept apart from what follows (`joining`)."""
        text = self.text[:end]
        if self.language is None or (self.place == "end" and end == len(self.text)):
            return text + self.after
        return text + joint(text, min(self.statement, end), self.after, self.language) + self.after


class Fault(NamedTuple):
    """Something wrong with a finished text."""

    start: int
    """Where it begins, in characters of the generated text; -1: nowhere, the text as a whole is wrong."""
    message: str
    code: str = ""


@dataclass
class Monitor:
    """To be subclassed, or made by `structgen.monitors.after` and its neighbours.

    name       for reports
    triggers   places ("member", "call", ...) and `Trigger` patterns where `suggest` is asked
    """

    name: str = "monitor"
    triggers: Sequence[str | Trigger] = ()
    state: Hashable = field(default=None, kw_only=True)
    """At the beginning of a text."""

    def suggest(self, context: Context) -> Suggestion | Future[Any]:
        """What may come here, or a future of it; True: anything; None: unknown. At "close": False refuses the bracket.

        It may fail or be slow: then the text is free here, and that is counted. It is asked again for the same text
        only if its answer was forgotten."""
        return None

    def key(self, context: Context) -> Hashable:
        """Return what the answer depends on; contexts of the same key are answered alike. None: asked each time."""
        return context.place, context.digest(), context.state

    def committed(self, context: Context, name: str) -> Hashable:
        """Return the state after `name` was written where `context` asked for one; "" where something else was.

        Called for whatever was written there, also if nothing was suggested. States are compared and kept, so they
        are immutable."""
        state: Hashable = context.state
        return state

    def faults(self, context: Context) -> Sequence[Fault] | Future[Any] | None:
        """Return what is wrong with the finished text, which is the last of `context.text`; None: unknown."""
        return None

    @property
    def judges(self) -> bool:
        """Does it look at finished texts?"""
        return type(self).faults is not Monitor.faults

    def close(self) -> None:
        """Give back what it holds."""
