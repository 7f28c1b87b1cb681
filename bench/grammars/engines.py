"""The engines of the grammar benchmark: which engine, in which notation, with which options.

All run on one thread and otherwise with their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from structgen.evaluation.engines import BENCHMARK_ENGINES, BenchmarkEngine, ReusableSession

__all__ = ["DEFAULT", "ENGINES", "SMALL", "GrammarEngine"]

SMALL = {
    "Lark": """start: (pair ";")+
pair: NAME "=" (NAME | NUMBER | "(" pair ")")?
NAME: /[a-z_]+/
NUMBER: /[0-9]+/
%ignore " "
""",
    "EBNF": """root ::= (pair ws ";" ws)+
pair ::= name ws "=" ws (name | number | "(" ws pair ws ")")?
name ::= [a-z_]+
number ::= [0-9]+
ws ::= " "*
""",
}
"""Small grammars that are compiled before anything is timed, so that engines load what they load late."""


class GrammarEngine(NamedTuple):
    """An engine that reads one notation."""

    engine: str
    """A key of `BENCHMARK_ENGINES`."""
    notation: str
    options: Mapping[str, Any] = MappingProxyType({})
    """Arguments of `BenchmarkEngine.open_grammar`."""

    def make(self, tokenizer: Any) -> BenchmarkEngine:
        """Return the engine for a Hugging Face tokenizer."""
        return BENCHMARK_ENGINES[self.engine](tokenizer)

    def open(self, engine: BenchmarkEngine, source: str) -> ReusableSession:
        """Compile a grammar of this notation."""
        return engine.open_grammar(source, self.notation, **self.options)


ENGINES = {
    "structgen-lark": GrammarEngine("structgen", "Lark", {"lexer": "longest"}),
    "llguidance": GrammarEngine("llguidance", "Lark"),
    "structgen-ebnf": GrammarEngine("structgen", "EBNF"),
    "xgrammar": GrammarEngine("xgrammar", "EBNF"),
    # llguidance also takes the longest of those lexemes that the grammar allows at a position.
    "structgen-contextual": GrammarEngine("structgen", "Lark", {"lexer": "longest", "contextual": True}),
}
DEFAULT = ("structgen-lark", "llguidance", "structgen-ebnf", "xgrammar")
