"""XGrammar through its `GrammarMatcher`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from structgen.vocabulary import Vocabulary

from .base import Words

__all__ = ["XGrammar", "XGrammarSession"]


class XGrammar:
    """With its defaults (any whitespace, strict mode), on one thread."""

    name = "xgrammar"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        texts = [vocabulary.token_bytes(token) or b"" for token in range(vocabulary.size)]
        self._set_up(xgrammar.TokenizerInfo(texts, stop_token_ids=list(vocabulary.eos_ids)))

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> Self:
        """Return the engine for a Hugging Face tokenizer, which XGrammar reads itself."""
        import torch
        import xgrammar

        torch.set_num_threads(1)
        engine = cls.__new__(cls)
        engine._set_up(xgrammar.TokenizerInfo.from_huggingface(tokenizer))
        return engine

    def _set_up(self, tokenizer: Any) -> None:
        import xgrammar

        self.module = xgrammar
        self.tokenizer = tokenizer
        self.forget_programs()

    def compile(self, schema: str) -> Any:
        """Return the compiled grammar of a schema."""
        return self._compiler.compile_json_schema(schema)

    def start(self, program: Any) -> XGrammarSession:
        """Return a new sequence with its own matcher and buffer for the mask."""
        rows = self.module.allocate_token_bitmask(1, self.tokenizer.vocab_size).numpy()
        return XGrammarSession(lambda: self.module.GrammarMatcher(program), rows)

    def open(self, schema: str) -> XGrammarSession:
        """Compile a schema and start its first sequence."""
        return self.start(self.compile(schema))

    def open_grammar(self, source: str, notation: str, **options: Any) -> XGrammarSession:
        """Compile a grammar in EBNF notation and start its first sequence."""
        if notation != "EBNF":
            raise ValueError(f"XGrammar does not read {notation}")
        return self.start(self._compiler.compile_grammar(source, **options))

    def open_structural_tag(self, tag: str) -> XGrammarSession:
        """Compile a structural tag, given as JSON, and start its first sequence."""
        return self.start(self._compiler.compile_structural_tag(tag))

    def forget_programs(self) -> None:
        """Replace the compiler, which caches grammars and parts of them."""
        self._compiler = self.module.GrammarCompiler(self.tokenizer, max_threads=1)

    def clear_function_caches(self) -> None:
        """Do nothing: the compiler holds all caches."""


class XGrammarSession:
    """A compiled constraint and its matcher."""

    def __init__(self, make_matcher: Callable[[], Any], rows: Any) -> None:
        self._make_matcher = make_matcher
        self._rows = rows
        self.restart()

    def restart(self) -> None:
        """Make a new matcher; the caches belong to the compiler and stay warm."""
        self.matcher = self._make_matcher()

    def reset(self) -> None:
        """Go back to the empty text."""
        self.matcher.reset()

    def is_accepting(self) -> bool:
        """Return whether the text may end here."""
        return bool(self.matcher.is_completed())

    def mask(self) -> Words:
        """Return the mask of the next token, in a buffer that the next call overwrites."""
        self.matcher.fill_next_token_bitmask(self._rows, 0)
        words: Words = self._rows[0]
        return words

    def accept(self, token: int) -> bool:
        """Advance by a token; return whether the engine accepts it."""
        return bool(self.matcher.accept_token(token))
