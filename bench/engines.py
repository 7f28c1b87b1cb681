"""structgen's engines for two tools: MaskBench's timing of masks, and the JSON Schema suite.

Both tools read texts token by token and look each token up in the mask before the matcher reads it. The engines never
validate an instance by other means.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from bench.tokenizers import tokenizer_of
from structgen import __version__
from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.evaluation.engines import Session, Words, accepts, has_token
from structgen.evaluation.engines.own import Structgen, StructgenSession
from structgen.matcher import Matcher, compile_constraint
from structgen.vocabulary import Vocabulary

__all__ = ["MaskbenchEngine", "MaskbenchSession", "SuiteEngine"]


class MaskbenchEngine:
    """The engine of ``maskbench.py run --engine bench.engines:MaskbenchEngine``, with default options."""

    package = "structgen"

    def __init__(self, tokenizer_directory: str, options: dict[str, Any]) -> None:
        tokenizer = tokenizer_of(tokenizer_directory)
        self.mark = time.process_time_ns()
        """Start of the set-up that the tool times: the tokenizer is loaded."""
        self._engine = Structgen.from_tokenizer(tokenizer)

    def version(self) -> str:
        return __version__

    def compile(self, schema: str) -> MaskbenchSession:
        return MaskbenchSession(self._engine.compile(schema), self._engine.vocabulary)


class MaskbenchSession(StructgenSession):
    """One compiled schema and its current matcher; the last mask is in `bits`."""

    bits: Words

    def fresh(self) -> None:
        self.restart()

    def mask(self) -> Words:
        self.bits = self._native.mask()
        return self.bits

    def allowed(self, token: int) -> bool:
        return has_token(self.bits, token)

    def count(self) -> int:
        return int(np.bitwise_count(self.bits.view(np.uint32)).sum())


_FORMATS = {"required": "annotate", "optional": "dialect", "format": "assert"}
"""The option `formats` for each section of the suite.

Formats are annotations, except in dialects that assert them and in the files about formats."""


class SuiteEngine:
    """structgen for the JSON Schema suite: each byte is a token, so no tokenizer affects the result.

    `bench.suite` uses it as an `Engine`. The tool ``schema_suite.py bench.engines:SuiteEngine`` also calls `setup` and
    `accepts`, and passes the draft to `compile`.
    """

    name = "structgen"
    supports_registry = True
    section: str
    """The section of the suite that the next schema belongs to."""
    remotes: dict[str, Any]
    """The suite's remote documents by URI."""
    warnings: Any = None

    def __init__(self) -> None:
        self.vocabulary = Vocabulary.of_bytes()

    def setup(self) -> None:
        """Do nothing: the engine is ready."""

    def compile(self, schema: str, draft: str = "") -> Any:
        """Return the constraint, or None if the schema has no instance."""
        constraint = json_schema(json.loads(schema), registry=self.remotes, formats=_FORMATS[self.section])
        try:
            compile_constraint(constraint, self.vocabulary)
        except UnsatisfiableSchema:
            return None
        return constraint

    def start(self, program: Any) -> Session:
        if program is None:
            return _NoTexts(self.vocabulary)
        return _ConsistentSession(program, self.vocabulary)

    def accepts(self, program: Any, data: bytes) -> bool:
        return accepts(self.start(program), data, self.vocabulary.eos_ids[0])


class _ConsistentSession:
    """A session that fails if a token is in the mask but refused."""

    def __init__(self, constraint: Any, vocabulary: Vocabulary) -> None:
        matcher = Matcher(constraint, vocabulary)
        self.mask = matcher.mask
        self._advance = matcher.advance

    def accept(self, token: int) -> bool:
        if not self._advance(token):
            raise AssertionError(f"byte {token} is in the mask but refused")
        return True


class _NoTexts:
    """A session of a schema without instances: no token is allowed."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._words: Words = np.zeros(vocabulary.words, np.int32)

    def mask(self) -> Words:
        return self._words

    def accept(self, token: int) -> bool:
        return False
