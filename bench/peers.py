"""This library and its peers behind one small interface, for the benchmarks.

An engine compiles a schema into a session; a session has ``fresh``, ``reset``, ``mask``, ``allowed``, ``accept`` and
``is_accepting``, as `bench.engines.MaskbenchSession` has them. ``fresh`` starts the next text on warm caches: with a
new matcher of the same compiled schema, and in llguidance, whose caches belong to the matcher, with a reset one. All
run with their defaults and on one thread unless the caller says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.engines import MaskbenchSession
from structgen.constraints.json_schema import json_schema
from structgen.vocabulary import Vocabulary

__all__ = ["ENGINES", "LLGuidance", "Structgen", "XGrammar"]


class Structgen:
    """This library with its defaults."""

    name = "structgen"

    def __init__(self, tokenizer: Any) -> None:
        self.vocabulary = Vocabulary.from_tokenizer(tokenizer)
        self.vocabulary.engine  # noqa: B018

    def compile(self, schema: str) -> MaskbenchSession:
        return MaskbenchSession(json_schema(schema), self.vocabulary)


class LLGuidance:
    """llguidance with its defaults."""

    name = "llguidance"

    def __init__(self, tokenizer: Any) -> None:
        import llguidance
        import llguidance.hf

        self.module = llguidance
        self.tokenizer = llguidance.hf.from_tokenizer(tokenizer)

    def compile(self, schema: str) -> LLGuidanceSession:
        matcher = self.module.LLMatcher(
            self.tokenizer, self.module.LLMatcher.grammar_from_json_schema(schema)
        )
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return LLGuidanceSession(matcher, self.tokenizer.vocab_size)


class LLGuidanceSession:
    """One compiled schema and its matcher."""

    def __init__(self, matcher: Any, size: int) -> None:
        self.matcher = matcher
        self.bits = np.zeros((size + 31) // 32, dtype=np.int32)

    def fresh(self) -> None:
        self.matcher.reset()

    def reset(self) -> None:
        self.matcher.reset()

    def is_accepting(self) -> bool:
        return bool(self.matcher.is_accepting())

    def mask(self) -> None:
        self.matcher.unsafe_compute_mask_ptr(self.bits.ctypes.data, self.bits.nbytes)

    def allowed(self, token: int) -> bool:
        return bool(int(self.bits[token >> 5]) >> (token & 31) & 1)

    def accept(self, token: int) -> bool:
        return bool(self.matcher.consume_token(token))


class XGrammar:
    """XGrammar with its defaults."""

    name = "xgrammar"

    def __init__(self, tokenizer: Any) -> None:
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.module = xgrammar
        self.tokenizer = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
        self.compiler = xgrammar.GrammarCompiler(self.tokenizer, max_threads=1)

    def compile(self, schema: str) -> XGrammarSession:
        grammar = self.compiler.compile_json_schema(schema)
        rows = self.module.allocate_token_bitmask(1, self.tokenizer.vocab_size).numpy()
        return XGrammarSession(lambda: self.module.GrammarMatcher(grammar), rows)


class XGrammarSession:
    """One compiled schema and its matcher."""

    def __init__(self, make: Callable[[], Any], rows: Any) -> None:
        self.make = make
        self.matcher = make()
        self.rows = rows

    def fresh(self) -> None:
        self.matcher = self.make()

    def reset(self) -> None:
        self.matcher.reset()

    def is_accepting(self) -> bool:
        return bool(self.matcher.is_completed())

    def mask(self) -> None:
        self.matcher.fill_next_token_bitmask(self.rows, 0)

    def allowed(self, token: int) -> bool:
        return bool(int(self.rows[0, token >> 5]) >> (token & 31) & 1)

    def accept(self, token: int) -> bool:
        return bool(self.matcher.accept_token(token))


ENGINES: dict[str, Any] = {engine.name: engine for engine in (Structgen, LLGuidance, XGrammar)}
