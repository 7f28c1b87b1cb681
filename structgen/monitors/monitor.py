"""What a monitor is: it knows the world, and is queried, while a text grows, about what may come next.

Why: which members a value has, which columns a table has, which state a file is in, is not a matter of grammar. A
language server, a database or a function of the user's knows it. All of them implement this one class.
Invariant: a monitor that knows nothing leaves the text unconstrained, and that is counted.
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
    """A position at which a monitor is queried: a regular expression (of Python) that the text before it ends with.

    Attributes:
        everywhere: Whether matches in strings and comments of the language count, too.
    """

    pattern: str
    everywhere: bool = False


@dataclass(frozen=True)
class Context:
    """The position and the text that a query is about.

    Attributes:
        place: "member", "call", "argument", "close" or "import", or the pattern of a trigger.
        text: All text before the position: the document's beginning, then what was generated.
        after: The document's text after the generated text.
        generated: How many characters of `text` were generated.
        arguments: Number of commas so far in the innermost open bracket.
        statement: Offset in `text` at which the statement begins.
        state: The monitor's state, see `Monitor.committed`.
        language: The document's language.
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
        """The expression before the dot: ``self.items[0]`` of ``x = self.items[0].``; empty if it is not found."""
        return receiver_before(self.text)

    @cached_property
    def callee(self) -> str:
        """The called expression: the one before the bracket that was opened here or is open around here."""
        return callee_before(self.text, closed=self.place == "close")

    @cached_property
    def opening(self) -> int:
        """Offset in `text` of the bracket of that call; -1 outside of calls."""
        return opening_before(self.text, closed=self.place == "close")

    @cached_property
    def given(self) -> list[str]:
        """The arguments of the innermost open call so far, as written; the last is the next one."""
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
        """Return the document as if the text ended at an offset, with an unfinished end kept apart (`joining`)."""
        text = self.text[:end]
        if self.language is None or (self.place == "end" and end == len(self.text)):
            return text + self.after
        return text + joint(text, min(self.statement, end), self.after, self.language) + self.after


class Fault(NamedTuple):
    """A fault of a finished text."""

    start: int
    """Where it begins, in characters of the generated text; -1: the text as a whole is wrong."""
    message: str
    code: str = ""


@dataclass
class Monitor:
    """The base class of monitors; `structgen.monitors.after` and similar functions make common ones.

    Attributes:
        name: The name in reports.
        triggers: Places ("member", "call", ...) and `Trigger` patterns at which `suggest` is called.
    """

    name: str = "monitor"
    triggers: Sequence[str | Trigger] = ()
    state: Hashable = field(default=None, kw_only=True)
    """The state at the beginning of a text."""

    def suggest(self, context: Context) -> Suggestion | Future[Any]:
        """Return what may come at a position, or a future of it.

        True allows anything, None means unknown, and False at "close" refuses the bracket. If the call fails or is
        slow, the text is unconstrained at this position, and that is counted. The call is repeated for the same text
        only if its answer was evicted.
        """
        return None

    def key(self, context: Context) -> Hashable:
        """Return what the answer depends on: contexts with equal keys share it. None: no answer is kept."""
        return context.place, context.digest(), context.state

    def committed(self, context: Context, name: str) -> Hashable:
        """Return the state after `name` was written at the position of `context`; "" if no name was written there.

        Called for each trigger, also if nothing was suggested. States are compared and kept, so they are immutable.
        """
        state: Hashable = context.state
        return state

    def faults(self, context: Context) -> Sequence[Fault] | Future[Any] | None:
        """Return the faults of the finished text, the end of `context.text`; None: unknown."""
        return None

    @property
    def judges(self) -> bool:
        """Whether it judges finished texts."""
        return type(self).faults is not Monitor.faults

    def close(self) -> None:
        """Release what it holds."""
