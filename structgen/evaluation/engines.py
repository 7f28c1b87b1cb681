"""Engines behind one small protocol: a schema compiled, then masks and tokens.

Why: everything that is measured (instances read, texts written) runs the same loop over every engine.
Invariant: ``mask()`` has int32 words, least significant bit first, as many as the vocabulary needs; a text may end
where the end-of-text token is in it. What an engine raises is what it did: nothing is caught here.
Each runs with its defaults and on one thread. Cost: beside the engine's own work, one call of Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.constraints.json_schema import json_schema
from structgen.errors import OptionError
from structgen.matcher import Matcher, compile_constraint
from structgen.vocabulary import Vocabulary

__all__ = ["ENGINES", "Engine", "Session", "accepts", "engine_version", "open_engine"]

Words = NDArray[np.int32]


class Session(Protocol):
    """A compiled schema on one sequence."""

    def mask(self) -> Words:
        """The tokens that may come next; good until the next call."""
        ...

    def accept(self, token: int) -> bool:
        """Read a token of the mask."""
        ...


class Engine(Protocol):
    """Made for one vocabulary."""

    def compile(self, schema: str) -> Any:
        """What `start` takes; raises where the schema is refused."""
        ...

    def start(self, program: Any) -> Session:
        """A new sequence, as a new request would have."""
        ...


def accepts(session: Session, tokens: Sequence[int], end: int) -> bool:
    """Whether a text may be these tokens, each in the mask, and end there."""
    return all(_has(session.mask(), token) and session.accept(token) for token in tokens) and _has(
        session.mask(), end
    )


def _has(words: Words, token: int) -> bool:
    return bool(int(words[token >> 5]) >> (token & 31) & 1)


class _Structgen:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._vocabulary.engine  # noqa: B018  (built here, as the others build theirs)

    def compile(self, schema: str) -> Any:
        constraint = json_schema(schema)
        compile_constraint(constraint, self._vocabulary)
        return constraint

    def start(self, program: Any) -> Session:
        return _StructgenSession(Matcher(program, self._vocabulary))


class _StructgenSession:
    def __init__(self, matcher: Matcher) -> None:
        self.mask: Callable[[], Words] = matcher.mask
        self.accept: Callable[[int], bool] = matcher.advance


class _LLGuidance:
    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance

        self._module = llguidance
        self._words = vocabulary.words
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Listed(vocabulary)))

    def compile(self, schema: str) -> Any:
        kind = self._module.LLMatcher
        matcher = kind(self._tokenizer, kind.grammar_from_json_schema(schema))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, program: Any) -> Session:
        return _LLGuidanceSession(program.deep_copy(), self._words)


class _Listed:
    """A vocabulary as llguidance reads one; special tokens begin with the byte 0xff there."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
        self.tokens = [f"<|{i}|>".encode() if text is None else text for i, text in enumerate(texts)]
        self.special_token_ids = [i for i, text in enumerate(texts) if text is None]
        self.eos_token_id = vocabulary.eos_ids[0]
        self.bos_token_id = None
        self._encode = vocabulary.encode

    def __call__(self, text: str | bytes) -> list[int]:
        # Subtle: llguidance allows only these tokens where bytes are forced, so they must be the tokenizer's own.
        return self._encode(text) or []


class _LLGuidanceSession:
    def __init__(self, matcher: Any, words: int) -> None:
        self._matcher = matcher
        self._bits = np.zeros(words, dtype=np.int32)

    def mask(self) -> Words:
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        if self._matcher.is_error():
            raise RuntimeError(self._matcher.get_error())
        return self._bits

    def accept(self, token: int) -> bool:
        return bool(self._matcher.consume_token(token))


class _XGrammar:
    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        self._module = xgrammar
        self._size = vocabulary.size
        texts = [vocabulary.token_bytes(token) or b"" for token in range(vocabulary.size)]
        information = xgrammar.TokenizerInfo(texts, stop_token_ids=list(vocabulary.eos_ids))
        self._compiler = xgrammar.GrammarCompiler(information, max_threads=1)

    def compile(self, schema: str) -> Any:
        return self._compiler.compile_json_schema(schema)

    def start(self, program: Any) -> Session:
        rows = self._module.allocate_token_bitmask(1, self._size).numpy()
        return _XGrammarSession(self._module.GrammarMatcher(program), rows)


class _XGrammarSession:
    def __init__(self, matcher: Any, rows: Any) -> None:
        self._matcher = matcher
        self._rows = rows

    def mask(self) -> Words:
        self._matcher.fill_next_token_bitmask(self._rows, 0)
        words: Words = self._rows[0]
        return words

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))


ENGINES: dict[str, tuple[str, Callable[[Vocabulary], Engine]]] = {
    "structgen": ("structgen", _Structgen),
    "llguidance": ("llguidance", _LLGuidance),
    "xgrammar": ("xgrammar", _XGrammar),
}
"""Name to module and what makes the engine."""


def open_engine(name: str, vocabulary: Vocabulary) -> Engine:
    """The engine of a name; an `OptionError` says which there are, or what to install."""
    if name not in ENGINES:
        raise OptionError(f"there is no engine {name!r}", hint=f"Choose one of {', '.join(ENGINES)}.")
    module, make = ENGINES[name]
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise OptionError(
            f"engine {name!r} is not installed ({error})", hint=f"Install it with: pip install {name}"
        ) from None
    return make(vocabulary)


def engine_version(name: str) -> str:
    """The version that is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
