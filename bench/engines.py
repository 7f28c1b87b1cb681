"""structgen as the benchmark tools know it: adapters for MaskBench-style timing and for the JSON Schema suite.

Both answer through `Matcher` alone, token by token, and check each token in the mask before it is read;
nothing here validates, and nothing is keyed by instance.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen import __version__
from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.matcher import Matcher, compile_constraint
from structgen.vocabulary import Vocabulary

__all__ = ["MaskbenchEngine", "MaskbenchSession", "SuiteEngine"]


class MaskbenchEngine:
    """``maskbench.py run --engine bench.engines:MaskbenchEngine``: default options, a fresh matcher a request."""

    package = "structgen"

    def __init__(self, tokenizer_directory: str, options: dict[str, Any]) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tokenizer_directory)
        import time

        self.mark = time.process_time_ns()  # set-up is timed without loading the tokenizer itself
        self.vocabulary = Vocabulary.from_tokenizer(tokenizer)
        self.vocabulary.engine  # noqa: B018  (built here, as the peers build theirs)

    def version(self) -> str:
        return __version__

    def compile(self, schema: str) -> MaskbenchSession:
        return MaskbenchSession(json_schema(schema), self.vocabulary)


class MaskbenchSession:
    """One compiled schema and its current matcher."""

    def __init__(self, constraint: Any, vocabulary: Vocabulary) -> None:
        self._constraint = constraint
        self._vocabulary = vocabulary
        compile_constraint(constraint, vocabulary)
        self.fresh()

    def fresh(self) -> None:
        self.matcher = Matcher(self._constraint, self._vocabulary)
        self._native = self.matcher.native

    def reset(self) -> None:
        self._native.reset()

    def mask(self) -> None:
        self.bits: NDArray[np.int32] = self._native.mask()

    def allowed(self, token: int) -> bool:
        return bool(int(self.bits[token >> 5]) >> (token & 31) & 1)

    def count(self) -> int:
        return int(np.bitwise_count(self.bits.view(np.uint32)).sum())

    def accept(self, token: int) -> bool:
        return self._native.advance(token)

    def is_accepting(self) -> bool:
        return self._native.is_complete()


_FORMATS = {"required": "annotate", "optional": "dialect", "format": "assert"}
"""What the suite's sections suppose: formats are annotations, except in dialects that assert them and in the
files about formats."""


class SuiteEngine:
    """``schema_suite.py bench.engines:SuiteEngine``: one byte a token, so that the texts decide and nothing else."""

    name = "structgen"
    supports_registry = True
    section: str
    remotes: dict[str, Any]
    warnings: Any

    def setup(self) -> None:
        self.vocabulary = Vocabulary.from_tokens([bytes([i]) for i in range(256)] + [None], eos_ids=[256])

    def compile(self, schema_text: str, draft: str) -> Any:
        schema = json.loads(schema_text)
        constraint = json_schema(schema, registry=self.remotes, formats=_FORMATS[self.section])
        try:
            compile_constraint(constraint, self.vocabulary)
        except UnsatisfiableSchema:
            return None  # said before the first token: no text is in the language
        return constraint

    def accepts(self, constraint: Any, data: bytes) -> bool:
        if constraint is None:
            return False
        matcher = Matcher(constraint, self.vocabulary)
        for byte in data:
            mask = matcher.mask()
            if not int(mask[byte >> 5]) >> (byte & 31) & 1:
                return False
            if not matcher.advance(byte):
                raise AssertionError(f"byte {byte} is in the mask but refused")
        mask = matcher.mask()
        return bool(int(mask[256 >> 5]) >> (256 & 31) & 1)
