"""One engine in its own process: it reads a record per line from standard input and writes its times as a line.

    python -m bench.cold.worker ENGINE TOKENIZER_FOLDER

A record has a ``kind``, a ``spec``, and ``texts``, each a list of tokens. The kind is ``json_schema``, or ``gbnf``,
``regex`` or ``tools``, which only structgen reads here. The reply has the ``first`` time, of compiling and the first
mask, and the times of the masks of each text: ``masks`` in the first pass, ``again`` in the second, by a new matcher on
warm caches. All are nanoseconds of CPU time of this thread. A mask without the next token ends the record. Python's
cycle collector runs only between records.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any

from structgen.evaluation.engines import BENCHMARK_ENGINES, BenchmarkEngine, ReusableSession, has_token
from structgen.evaluation.engines.own import Structgen

__all__ = ["main", "measured"]

_CLOCK = time.thread_time_ns


def main() -> None:
    name, folder = sys.argv[1:]
    os.environ["HF_HUB_OFFLINE"] = "1"
    with os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8") as replies:
        os.dup2(2, 1)  # what an engine prints must not stand between replies
        from transformers import AutoTokenizer

        engine = BENCHMARK_ENGINES[name](AutoTokenizer.from_pretrained(folder))
        gc.disable()
        replies.write(json.dumps({"ready": name}) + "\n")
        for line in sys.stdin:
            replies.write(json.dumps(measured(engine, json.loads(line))) + "\n")
            gc.collect()


def measured(engine: BenchmarkEngine, record: dict[str, Any]) -> dict[str, Any]:
    """Return the times of one record, or why the engine does not take it.

    Args:
        engine: One of `BENCHMARK_ENGINES`, made.
        record: As the module's docstring says.
    """
    _import_for(engine, record["kind"])
    start = _CLOCK()
    try:
        session = _compiled(engine, record)
        session.mask()
    except Exception as error:  # each exception of an engine is a refusal
        return {"status": "refused", "error": f"{type(error).__name__}: {error}"[:500]}
    reply: dict[str, Any] = {"status": "ok", "first": _CLOCK() - start, "masks": [], "again": []}
    for i, tokens in enumerate(record["texts"]):
        for figure in ("masks", "again"):
            if i or figure == "again":
                session.restart()
            try:
                times, reason = _read(session, tokens)
            except Exception as error:
                times, reason = [], f"{type(error).__name__}: {error}"[:500]
            if reason is not None:
                where = {"error": reason, "text": i, "figure": figure}
                return {"status": "rejected", **where, "first": reply["first"]}
            reply[figure].append(times)
    return reply


def _import_for(engine: BenchmarkEngine, kind: str) -> None:
    """Import what reads constraints of this kind: once in a process, so no part of a constraint's time."""
    if engine.name == "structgen" and kind != "json_schema":
        import structgen

        getattr(structgen, kind)


def _compiled(engine: BenchmarkEngine, record: dict[str, Any]) -> ReusableSession:
    kind, spec = record["kind"], record["spec"]
    if kind == "json_schema":
        return engine.open(json.dumps(spec, ensure_ascii=False))
    if not isinstance(engine, Structgen):
        raise ValueError(f"{kind} is measured with structgen only")
    import structgen

    return engine.open_constraint(getattr(structgen, kind)(spec))


def _read(session: ReusableSession, tokens: list[int]) -> tuple[list[int], str | None]:
    """Times of the masks of a text, and the reason where it is not accepted."""
    times = []
    for index, token in enumerate(tokens):
        start = _CLOCK()
        words = session.mask()
        times.append(_CLOCK() - start)
        if not has_token(words, token):
            return times, f"token {index} is not in the mask"
        if not session.accept(token):
            return times, f"token {index} is in the mask and refused"
    return times, None if session.is_accepting() else "the whole text is not accepted"


if __name__ == "__main__":
    main()
