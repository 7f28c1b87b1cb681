"""structgen itself, and no engine at all."""

from __future__ import annotations

import re
import sys
from typing import Any, Self

import numpy as np

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.builders import ebnf, lark
from structgen.constraints.json_schema import json_schema
from structgen.matcher import Matcher, compile_constraint
from structgen.vocabulary import Vocabulary

from .base import Session, Words

__all__ = ["Structgen", "StructgenSession", "Unconstrained"]

_GRAMMARS = {"Lark": lark, "EBNF": ebnf}


class Structgen:
    """Formats are asserted, as the judge asserts them; everything else is a default."""

    name = "structgen"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.vocabulary.engine  # noqa: B018  (built here, as the others build theirs)
        self._tokenizer: Any = None

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> Self:
        """Return the engine for a Hugging Face tokenizer."""
        engine = cls(Vocabulary.from_tokenizer(tokenizer))
        engine._tokenizer = tokenizer
        return engine

    def compile(self, schema: str) -> Constraint:
        """Return the constraint of a schema, compiled for the vocabulary."""
        constraint = json_schema(schema)
        compile_constraint(constraint, self.vocabulary)
        return constraint

    def start(self, program: Constraint) -> StructgenSession:
        """Return a new sequence, whose errors name the limit that was exceeded."""
        return _CheckedSession(program, self.vocabulary)

    def open(self, schema: str) -> StructgenSession:
        """Compile a schema and start its first sequence, which calls the core's matcher directly."""
        return StructgenSession(self.compile(schema), self.vocabulary)

    def open_grammar(self, source: str, notation: str, **options: Any) -> StructgenSession:
        """Compile a grammar in Lark or EBNF notation and start its first sequence."""
        return self.open_constraint(_GRAMMARS[notation](source, **options))

    def open_constraint(self, constraint: Constraint) -> StructgenSession:
        """Compile any constraint and start its first sequence."""
        compile_constraint(constraint, self.vocabulary)
        return StructgenSession(constraint, self.vocabulary)

    def forget_programs(self) -> None:
        """Make the vocabulary again from the tokenizer: a new one has no programs."""
        self.vocabulary = Vocabulary.from_tokenizer(self._tokenizer)
        self.vocabulary.engine  # noqa: B018
        self.clear_function_caches()

    def clear_function_caches(self) -> None:
        """Clear the cache of `re`, and every cached function of structgen."""
        re.purge()
        for name, module in list(sys.modules.items()):
            if name.startswith("structgen."):
                for value in list(vars(module).values()):
                    if hasattr(value, "cache_clear"):
                        value.cache_clear()


class StructgenSession:
    """A constraint and its current matcher; the core's matcher in it is called directly."""

    def __init__(self, constraint: Constraint, vocabulary: Vocabulary) -> None:
        self._constraint = constraint
        self._vocabulary = vocabulary
        self.restart()

    def restart(self) -> None:
        """Make a new matcher; the caches belong to the vocabulary and stay warm."""
        self.matcher = Matcher(self._constraint, self._vocabulary)
        self._native = self.matcher.native

    def reset(self) -> None:
        """Go back to the empty text."""
        self._native.reset()

    def is_accepting(self) -> bool:
        """Return whether the text may end here."""
        return self._native.is_complete()

    def mask(self) -> Words:
        """Return the mask of the next token."""
        return self._native.mask()

    def accept(self, token: int) -> bool:
        """Advance by a token; return whether it was allowed."""
        return self._native.advance(token)


class _CheckedSession(StructgenSession):
    """The same through `Matcher`, whose errors say which limit was met."""

    def restart(self) -> None:
        super().restart()
        # These are attributes, not methods: one call fewer in each mask's time.
        self.mask = self.matcher.mask  # type: ignore[method-assign]
        self.accept = self.matcher.advance  # type: ignore[assignment, method-assign]


class Unconstrained:
    """Takes every schema and every text: what the model does when it is only asked."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        allowed = np.zeros(32 * vocabulary.words, np.uint8)
        text = [token for token in range(vocabulary.size) if vocabulary.token_bytes(token)]
        allowed[[*text, *vocabulary.eos_ids]] = 1
        self._words: Words = np.packbits(allowed, bitorder="little").view(np.int32)

    def compile(self, schema: str) -> Any:
        """Return None: nothing is compiled."""
        return None

    def start(self, program: Any) -> Session:
        """Return a sequence that allows every token."""
        return _Free(self._words)


class _Free:
    def __init__(self, words: Words) -> None:
        self._words = words

    def mask(self) -> Words:
        return self._words

    def accept(self, token: int) -> bool:
        return True
