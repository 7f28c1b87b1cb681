"""structgen's adapters for two tools: one that times masks like MaskBench, and one that runs the JSON Schema suite.

Both read texts through a matcher alone, token by token, and look each token up in the mask before they read it. Nothing
here validates an instance, and nothing depends on one.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen import __version__
from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.evaluation.engines import accepts, has_token
from structgen.evaluation.engines.own import Structgen, StructgenSession
from structgen.matcher import Matcher, compile_constraint
from structgen.vocabulary import Vocabulary

__all__ = ["MaskbenchEngine", "MaskbenchSession", "SuiteEngine"]


class MaskbenchEngine:
    """The engine of ``maskbench.py run --engine bench.engines:MaskbenchEngine``, with default options."""

    package = "structgen"

    def __init__(self, tokenizer_directory: str, options: dict[str, Any]) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tokenizer_directory)
        self.mark = (
            time.process_time_ns()
        )  # the tool times set-up from here, without the tokenizer's own loading
        self._engine = Structgen.from_tokenizer(tokenizer)

    def version(self) -> str:
        return __version__

    def compile(self, schema: str) -> MaskbenchSession:
        return MaskbenchSession(self._engine.compile(schema), self._engine.vocabulary)


class MaskbenchSession(StructgenSession):
    """One compiled schema and its current matcher; the last mask is in `bits`."""

    bits: NDArray[np.int32]

    def fresh(self) -> None:
        self.restart()

    def mask(self) -> NDArray[np.int32]:
        self.bits = self._native.mask()
        return self.bits

    def allowed(self, token: int) -> bool:
        return has_token(self.bits, token)

    def count(self) -> int:
        return int(np.bitwise_count(self.bits.view(np.uint32)).sum())


_FORMATS = {"required": "annotate", "optional": "dialect", "format": "assert"}
"""The treatment of formats that each section of the suite supposes.

Formats are annotations, except in dialects that assert them and in the files about formats."""


class SuiteEngine:
    """The engine of ``schema_suite.py bench.engines:SuiteEngine``: each byte is a token, so only texts matter."""

    name = "structgen"
    supports_registry = True
    section: str
    remotes: dict[str, Any]
    warnings: Any

    def setup(self) -> None:
        self.vocabulary = Vocabulary.of_bytes()

    def compile(self, schema_text: str, draft: str) -> Any:
        schema = json.loads(schema_text)
        constraint = json_schema(schema, registry=self.remotes, formats=_FORMATS[self.section])
        try:
            compile_constraint(constraint, self.vocabulary)
        except UnsatisfiableSchema:
            return None  # the schema has no instance
        return constraint

    def accepts(self, constraint: Any, data: bytes) -> bool:
        if constraint is None:
            return False
        return accepts(_ConsistentMatcher(constraint, self.vocabulary), data, self.vocabulary.eos_ids[0])


class _ConsistentMatcher:
    """A session that fails where a token is in the mask and refused."""

    def __init__(self, constraint: Any, vocabulary: Vocabulary) -> None:
        matcher = Matcher(constraint, vocabulary)
        self.mask = matcher.mask
        self._advance = matcher.advance

    def accept(self, token: int) -> bool:
        if not self._advance(token):
            raise AssertionError(f"byte {token} is in the mask but refused")
        return True
