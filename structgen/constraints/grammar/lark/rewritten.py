"""The result of `dialect`: a grammar in Lark's own language, and the meanings of the names that replace extensions."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from structgen.ir.grammar import Body

from .grammar_options import Settings
from .rule_options import RuleOptions
from .source import Source

__all__ = ["MARK", "UNBOUNDED", "Out", "Rewritten", "StandIn"]

UNBOUNDED = 4_000_000_007
"""The repetition count that stands for "no upper bound"."""

MARK = re.compile(r"\(\?#structgen ([0-9]+)\)")
"""The pattern of a terminal whose meaning no pattern can express; the number is an index of `stand_ins`."""

StandIn = tuple[Any, ...]
"""The meaning of a mark.

("and", (terminal, ...)) | ("not", terminal) | ("lazy", terminal) | ("language", RE)
| ("bounded", terminal, most characters, (terminal before an ending, whole terminal) or None)
"""

Out = list[tuple[str, int, bool]]
"""Pieces of text, each with the offset of its origin and whether it is copied from there."""


@dataclass
class Rewritten:
    """A text in lark's own language, and the meanings of its added names."""

    source: Source
    out: Out = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)
    stand_ins: list[StandIn] = field(default_factory=list)
    helpers: dict[str, int] = field(default_factory=dict)
    """Terminals that are not in the source, with the offset of their origin."""
    spelled: dict[str, str] = field(default_factory=dict)
    """The spelling in the source of names that were changed."""
    options: dict[str, RuleOptions] = field(default_factory=dict)
    """The options of rules that have some."""
    endings: dict[str, tuple[str, str, str | None, bool]] = field(default_factory=dict)
    """For rules with a stop or suffix: the terminal before it, its own terminal, its capture, whether it is a stop."""
    settings: Settings = field(default_factory=Settings)
    parametric: set[str] = field(default_factory=set)
    """Rules with a parameter."""

    @property
    def text(self) -> str:
        """The text for lark."""
        return "".join(text for text, _, _ in self.out)

    def written(self, name: str) -> str:
        """Return the name of a rule or terminal as the source spells it; for a use of a template, the template's."""
        name = name.split("{")[0].split("::")[0]
        return self.spelled.get(name, name)

    def origin(self, line: int, column: int) -> int:
        """Return the offset in the source of a line and column of `text`."""
        offset = Source(self.text).offset(line, column)
        starts = list(accumulate((len(text) for text, _, _ in self.out), initial=0))
        index = min(bisect_right(starts, offset), len(self.out)) - 1
        _, origin, copied = self.out[index] if self.out else ("", 0, False)
        return min(origin + (offset - starts[index] if copied else 0), len(self.source.text))
