"""One engine with one tokenizer in its own process, which measures what a request names.

    python -m bench.grammars.worker ENGINE TOKENIZER CORE

A request is a line of JSON on standard input; the answer is a line on standard output:

    accept   grammar, texts      which texts the engine accepts, and in how many tokens
    compile  grammars            for each, with a new engine: µs to read and compile it, and µs of the first mask
    read     grammar, texts,     µs of every mask and every `accept`, one text after another, until all are read or the
             seconds             seconds have passed; then the same texts again (the second pass); then once more,
                                 untimed, for a checksum of each mask

Compiling is timed in a process that does nothing else and that has just read a small grammar with another instance of
the engine. Otherwise, an engine that prepares its tokenizer first would start with cold processor caches, some engines
more than others, and Python's cycle collector would visit all those objects. Times are CPU time: of the process for
compiling, of the thread for masks. The process stays on one core (on any with -1). Peak memory is that of the whole
process, counted again for each `read`.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import math
import os
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structgen.evaluation.engines import BenchmarkEngine, ReusableSession, has_token

from . import with_renamed_rule
from .engines import ENGINES, SMALL

__all__ = ["main"]

_PROCESS = time.process_time_ns
_THREAD = time.thread_time_ns
_LONGEST_REASON = 300


def main(arguments: Sequence[str] | None = None) -> None:
    name, folder, core = sys.argv[1:4] if arguments is None else arguments
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what an engine prints is not an answer
    if int(core) >= 0:
        os.sched_setaffinity(0, {int(core)})
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    from transformers import AutoTokenizer

    worker = _Worker(name, AutoTokenizer.from_pretrained(folder))
    answers.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:  # an engine's own words, for the table
            answer = {"error": _reason(error)}
        answers.write(json.dumps(answer) + "\n")


class _Worker:
    def __init__(self, name: str, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.setup = ENGINES[name]
        self.engine = self.setup.make(tokenizer)
        self.small = SMALL[self.setup.notation]
        self.number = itertools.count()
        self._read_small(self.engine)
        special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
        plain = np.array([i not in special for i in range(len(tokenizer))], dtype=np.uint8)
        self.plain = np.packbits(plain, bitorder="little")

    def _read_small(self, engine: BenchmarkEngine) -> None:
        source = with_renamed_rule(self.small, self.setup.notation, next(self.number))
        self.setup.open(engine, source).mask()

    def accept(self, grammar: str, texts: list[str]) -> dict[str, Any]:
        session = self.setup.open(self.engine, grammar)
        refusals = []
        for text in texts:
            refusals.append(self._refusal(session, self._tokens(text)))
            if refusals[-1] is not None:  # llguidance does not recover
                session = self.setup.open(self.engine, grammar)
        return {"refusals": refusals, "tokens": [len(self._tokens(text)) for text in texts]}

    def compile(self, grammars: list[str]) -> dict[str, Any]:
        other = self.setup.make(self.tokenizer)  # for this request only: memory is measured without it
        gc.collect()
        gc.freeze()
        try:
            return {"times": [self._compiled(source, other) for source in grammars]}
        finally:
            gc.unfreeze()

    def _compiled(self, source: str, other: BenchmarkEngine) -> list[float]:
        self.engine.forget_programs()
        gc.collect()
        self._read_small(other)
        self.engine.clear_function_caches()
        start = _PROCESS()
        session = self.setup.open(self.engine, source)
        compiled = _PROCESS()
        session.mask()
        return [(compiled - start) / 1e3, (_PROCESS() - compiled) / 1e3]

    def read(self, grammar: str, texts: list[str], seconds: float) -> dict[str, Any]:
        self.engine.forget_programs()
        gc.collect()
        _reset_peak_memory()
        session = self.setup.open(self.engine, grammar)
        walks = [self._tokens(text) for text in texts]
        first, advance = self._pass(session, walks, seconds)
        walks = [walk[: len(times)] for walk, times in zip(walks, first, strict=False)]
        second, _ = self._pass(session, walks)
        peak = _peak_memory()
        return {
            "mask": first,
            "advance": advance,
            "second": second,
            "checksums": self._checksums(session, walks),
            "pieces": [[self.tokenizer.decode([token]) for token in walk] for walk in walks],
            "peak": peak,
        }

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _refusal(self, session: ReusableSession, walk: list[int]) -> str | None:
        """Why the session does not accept the tokens; None where it does."""
        session.reset()
        try:
            for index, token in enumerate(walk):
                if not session.accept(token):
                    before = self.tokenizer.decode(walk[:index])[-30:]
                    return f"{self.tokenizer.decode([token])!r} is refused after {before!r}"
        except Exception as error:
            return _reason(error)
        return None if session.is_accepting() else "the text may not end"

    def _pass(
        self, session: ReusableSession, walks: list[list[int]], seconds: float = math.inf
    ) -> tuple[list[list[float]], list[list[float]]]:
        """µs of masks and of `accept`, by text; no token starts after that many seconds."""
        masks, advances = [], []
        end = time.process_time() + seconds
        for walk in walks:
            session.reset()
            mask: list[float] = []
            advance: list[float] = []
            for token in walk:
                if time.process_time() > end:
                    break
                start = _THREAD()
                words = session.mask()
                mask.append((_THREAD() - start) / 1e3)
                if not has_token(words, token):
                    raise ValueError(f"{self.tokenizer.decode([token])!r} is not in the mask")
                start = _THREAD()
                taken = session.accept(token)
                advance.append((_THREAD() - start) / 1e3)
                if not taken:
                    raise ValueError("a token of the mask is refused")
            masks.append(mask)
            advances.append(advance)
        return masks, advances

    def _checksums(self, session: ReusableSession, walks: list[list[int]]) -> list[list[int]]:
        """Return a checksum of each mask over the tokens that are text."""
        checksums = []
        for walk in walks:
            session.reset()
            sums = []
            for token in walk:
                bytes_ = np.ascontiguousarray(session.mask()).view(np.uint8)
                sums.append(zlib.crc32((bytes_[: self.plain.size] & self.plain).tobytes()))
                session.accept(token)
            checksums.append(sums)
        return checksums


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]


def _reset_peak_memory() -> None:
    """Gives free memory back and starts the peak again where the system can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return  # the peak is then that of the whole process


def _peak_memory() -> float:
    """MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


if __name__ == "__main__":
    main()
