"""The engines of the grammar benchmark behind one interface.

An engine reads a grammar's text into a session; sessions are those of `bench.peers`, which also end: ``ended`` tells
whether the text may stop here. ``fresh()`` makes the engine forget every grammar it has read, while its tokenizer
stays, so that each compilation that is timed starts from nothing; ``forget()`` does so for what its functions remember.
All run with their defaults, on one thread.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from typing import Any

from bench.engines import MaskbenchSession
from bench.peers import LLGuidance, LLGuidanceSession, Structgen, XGrammar, XGrammarSession
from structgen.constraints.base import Constraint
from structgen.constraints.grammar.constraint import ebnf, lark
from structgen.vocabulary import Vocabulary

__all__ = ["DEFAULT", "ENGINES", "NOTATIONS", "SMALL"]

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
"""Read before anything is timed: it loads what the engines load late."""


class _Structgen(Structgen, ABC):
    """This library; `_constraint` reads the notation."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._tokenizer = tokenizer

    def fresh(self) -> None:
        """A vocabulary of its own has no programs; what Python functions remember is cleared, too."""
        self.vocabulary = Vocabulary.from_tokenizer(self._tokenizer)
        self.vocabulary.engine  # noqa: B018
        self.forget()

    def forget(self) -> None:
        re.purge()
        for name, module in list(sys.modules.items()):
            if name.startswith("structgen."):
                for value in list(vars(module).values()):
                    if hasattr(value, "cache_clear"):
                        value.cache_clear()

    def compile(self, source: str) -> MaskbenchSession:
        return MaskbenchSession(self._constraint(source), self.vocabulary)

    def ended(self, session: MaskbenchSession) -> bool:
        return session.is_accepting()

    @abstractmethod
    def _constraint(self, source: str) -> Constraint: ...


class StructgenLark(_Structgen):
    """Lexemes as most lexers find them: the longest one."""

    notation = "Lark"

    def _constraint(self, source: str) -> Constraint:
        return lark(source, lexer="longest")


class StructgenContextual(_Structgen):
    """The longest lexeme of those that the grammar allows at the place: nearer to llguidance, which reads so."""

    notation = "Lark"

    def _constraint(self, source: str) -> Constraint:
        return lark(source, lexer="longest", contextual=True)


class StructgenEbnf(_Structgen):
    """Without a lexer."""

    notation = "EBNF"

    def _constraint(self, source: str) -> Constraint:
        return ebnf(source)


class LLGuidanceLark(LLGuidance):
    """llguidance, which keeps nothing of a grammar beyond its matcher."""

    notation = "Lark"

    def fresh(self) -> None:
        pass

    def forget(self) -> None:
        pass

    def compile(self, source: str) -> LLGuidanceSession:
        matcher = self.module.LLMatcher(self.tokenizer, self.module.LLMatcher.grammar_from_lark(source))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return LLGuidanceSession(matcher, self.tokenizer.vocab_size)

    def ended(self, session: LLGuidanceSession) -> bool:
        return bool(session.matcher.is_accepting())


class XGrammarEbnf(XGrammar):
    """XGrammar, whose compiler remembers grammars and parts of them."""

    notation = "EBNF"

    def fresh(self) -> None:
        self.compiler = self.module.GrammarCompiler(self.tokenizer, max_threads=1)

    def forget(self) -> None:
        pass

    def compile(self, source: str) -> XGrammarSession:
        grammar = self.compiler.compile_grammar(source)
        rows = self.module.allocate_token_bitmask(1, self.tokenizer.vocab_size).numpy()
        return XGrammarSession(lambda: self.module.GrammarMatcher(grammar), rows)

    def ended(self, session: XGrammarSession) -> bool:
        return bool(session.matcher.is_completed())


ENGINES: dict[str, Any] = {
    "structgen-lark": StructgenLark,
    "llguidance": LLGuidanceLark,
    "structgen-ebnf": StructgenEbnf,
    "xgrammar": XGrammarEbnf,
    "structgen-contextual": StructgenContextual,
}
DEFAULT = ("structgen-lark", "llguidance", "structgen-ebnf", "xgrammar")
NOTATIONS: dict[str, str] = {name: engine.notation for name, engine in ENGINES.items()}
