"""The interface of an analyser of source text: its queries and its answers.

Why: a monitor needs three facts about an unfinished program (which names may follow here, which arguments a call
takes, what is wrong) and must not depend on whether a language server or a library in this process knows them.
Invariant: `None` means *unknown* (the analyser has no opinion, was late, or failed; see its `health`). "No such name"
is a result without items. Names are plain identifiers as they are to be typed, and extend what is typed.
Cost: frozen data; making a list of 1000 completions takes about 2 ms.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from structgen.monitors.language_server.health import Health

__all__ = [
    "Analyser",
    "Completion",
    "Completions",
    "Diagnostic",
    "Parameter",
    "ParameterKind",
    "Severity",
    "Signature",
    "Signatures",
]

ParameterKind = Literal["positional-only", "positional", "keyword", "var-positional", "var-keyword"]
"""How an argument may be given: "positional" by place or by name, "keyword" by name only."""

Severity = Literal["error", "warning", "information", "hint"]


@dataclass(frozen=True, slots=True)
class Completion:
    """One name that may stand at the position of the query."""

    name: str
    """The whole identifier, with what is typed of it already."""
    kind: str = "text"
    """As the protocol calls it: "method", "field", "class", "module", "enum member", "keyword", ..."""
    detail: str = ""
    """The type, or what the server adds to the name; for people."""
    suffix: str = ""
    """What the server would type after the name: ``=`` for the name of an argument, ``(x, y)`` for some calls."""
    adds_import: bool = False
    """Right only if the server may also add an import elsewhere: to be dropped where text is only appended."""
    changes_before: bool = False
    """Right only if the text before is changed too (``a.b`` into ``a?.b`` in TypeScript, where a may be null)."""
    is_deprecated: bool = False


@dataclass(frozen=True, slots=True)
class Completions:
    """The names that may follow, in the analyser's order, each once; all begin with `prefix`."""

    items: tuple[Completion, ...]
    prefix: str = ""
    """What is typed of the identifier before the offset."""
    is_incomplete: bool = False
    """The analyser left names out: do not forbid what is not listed."""

    def names(self) -> frozenset[str]:
        """Return the names that need no other change of the text, without keywords."""
        return frozenset(
            item.name
            for item in self.items
            if not (item.adds_import or item.changes_before or item.kind == "keyword")
        )


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, as far as the label of its signature tells."""

    name: str
    kind: ParameterKind = "positional"
    has_default: bool = False
    """The call is complete without it; false for the "var-" kinds, which may always be left out."""
    annotation: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call; `is_open` where the parameters are not known and any may be given."""

    label: str
    parameters: tuple[Parameter, ...] = ()
    active_parameter: int | None = None
    """Index of the parameter at the offset; None if the analyser does not say, or past the last one."""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Signatures:
    """The ways to call what is being called; more than one where it is overloaded."""

    items: tuple[Signature, ...]
    active: int = 0
    """Index of the signature that the analyser thinks is meant."""

    @property
    def active_parameter(self) -> int | None:
        """Index in the parameters of the active signature, or None."""
        return self.items[self.active].active_parameter if self.items else None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One complaint about ``text[start:end]``."""

    start: int
    end: int
    message: str
    severity: Severity = "error"
    code: str = ""
    """The analyser's name or number of the rule: "attr-defined", "2339"; empty if the analyser has no name for it."""
    source: str = ""
    """Who reports it: "ty", "ts", ..."""
    tags: frozenset[str] = field(default_factory=frozenset)
    """"unnecessary" (unused code) and "deprecated"."""


@runtime_checkable
class Analyser(Protocol):
    """Answers questions about unsaved text; every method may be called from any thread and returns at once.

    ``text`` is the whole document, ``offset`` an index in its characters (not bytes), ``path`` where it is or would be
    in the project (relative paths are in the project); the file need not exist. A future never raises for a fault of
    the analyser: it gives None, and `health` says why. Cancelling a future cancels the work of the analyser. Callbacks
    of a future run in the analyser's own thread: they must be short, and must not wait for another answer.

    Raises (at once, not in the future) `OptionError` for an offset outside the text.
    """

    @property
    def name(self) -> str:
        """What it is called: "ty", "jedi"."""

    @property
    def health(self) -> Health:
        """Counts of queries, answers and faults."""

    def completions(self, path: Path, text: str, offset: int) -> Future[Completions | None]:
        """Return the names that may stand at the offset, or continue the identifier that ends there."""

    def signatures(self, path: Path, text: str, offset: int) -> Future[Signatures | None]:
        """Return the signatures of the innermost call whose arguments hold the offset."""

    def diagnostics(self, path: Path, text: str) -> Future[tuple[Diagnostic, ...] | None]:
        """Return what is wrong with the text; an empty tuple if nothing is."""

    def close(self) -> None:
        """End it and what it started; open futures give None. May be called twice."""
