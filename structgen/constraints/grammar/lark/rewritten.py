"""A grammar in Lark's own language, with stand-ins for llguidance's additions: what `dialect` makes."""

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
"""The count that is written for none."""

MARK = re.compile(r"\(\?#structgen ([0-9]+)\)")
"""The pattern of a terminal that stands for something that no pattern can say."""

StandIn = tuple[Any, ...]
"""("and", (terminal, ...)) | ("not", terminal) | ("lazy", terminal) | ("language", RE)
| ("bounded", terminal, most characters, (terminal before an ending, all of it) or None)"""

Out = list[tuple[str, int, bool]]
"""Text, the offset that it came from, and whether it is a copy of what is there."""


@dataclass
class Rewritten:
    """A text that lark reads, and what the names in it stand for."""

    source: Source
    out: Out = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)
    stand_ins: list[StandIn] = field(default_factory=list)
    helpers: dict[str, int] = field(default_factory=dict)
    """Terminals that are not in the source, and the offset of what they are made from."""
    spelled: dict[str, str] = field(default_factory=dict)
    """How names that were changed are written in the source."""
    options: dict[str, RuleOptions] = field(default_factory=dict)
    """Those of rules that have some."""
    endings: dict[str, tuple[str, str, str | None, bool]] = field(default_factory=dict)
    """Of rules with a stop or suffix: the terminals before it and of it, its capture, whether it is a stop."""
    settings: Settings = field(default_factory=Settings)
    parametric: set[str] = field(default_factory=set)
    """Rules that have a parameter."""

    @property
    def text(self) -> str:
        return "".join(text for text, _, _ in self.out)

    def written(self, name: str) -> str:
        """A rule's or terminal's name as it is in the source; of a template's use, the template's."""
        name = name.split("{")[0].split("::")[0]
        return self.spelled.get(name, name)

    def origin(self, line: int, column: int) -> int:
        """The offset in the source that a line and column of `text` came from."""
        offset = Source(self.text).offset(line, column)
        starts = list(accumulate((len(text) for text, _, _ in self.out), initial=0))
        index = min(bisect_right(starts, offset), len(self.out)) - 1
        _, origin, copied = self.out[index] if self.out else ("", 0, False)
        return min(origin + (offset - starts[index] if copied else 0), len(self.source.text))
