"""The process that compiles specs in probes, and the one that forks it again after it was killed.

Why: a hostile spec may take any amount of time or memory, and Python code cannot be stopped from another thread, but a
process can. Starting one takes a second, for Python and the vocabulary. So one process, the forker, does that once and
*forks* workers. When a worker is killed or dies, the next one is there in milliseconds.
What: messages are `frames`. The first one is a pickle of the vocabulary and the limits. A new worker sends ``ready``,
its process id, and how its predecessor ended. A request is a pickle of (kind, spec). The worker sends ``got`` when it
has read all of it, and then a message (`wire`): a `ProbeResult` or an error. Both processes end with their input, and
with their parents.
Invariant: only frames are written to the standard output; prints go to the standard error. Neither process has
threads, so forking is safe. RLIMIT_AS bounds the worker's memory.
"""

from __future__ import annotations

import logging
import os
import pickle
from functools import partial
from typing import Any

from structgen._sandbox.child import die_with_parent, freeze_heap, limit_memory
from structgen._sandbox.frames import read_frame, write_frame
from structgen._sandbox.priority import lower_priority
from structgen.errors import LimitExceeded, StructgenError
from structgen.serving.limits import RequestLimits
from structgen.serving.probe import probe_compile, serving_vocabulary
from structgen.serving.server_kinds import preload_parsers
from structgen.serving.wire import crash, pack_error
from structgen.vocabulary import Vocabulary

__all__ = ["FAILED", "GOT", "OUT_OF_MEMORY", "READY", "main", "vocabulary_parts"]

logger = logging.getLogger(__name__)

READY = b"ready "
GOT = b"got"
FAILED, OUT_OF_MEMORY, NOT_READY = 1, 2, 3
"""Exit statuses of a worker; with the last one it ended before it could read a spec, as the next one would, too."""
_NICENESS = 5
"""A quick spec is still compiled soon, and a slow one takes little CPU time from running requests."""


def vocabulary_parts(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the arguments that make the same vocabulary in another process, without its encoder."""
    return {
        "tokens": [vocabulary.token_bytes(i) for i in range(vocabulary.size)],
        "eos_ids": vocabulary.eos_ids,
        "size": vocabulary.size,
        "limits": dict(vocabulary.limits),
        "specials": dict(vocabulary.specials),
    }


def main() -> None:
    """Run the forker on standard input and output."""
    output = os.dup(1)
    os.dup2(2, 1)
    die_with_parent()
    first = _read()
    if first is None:
        return
    parts, limits = pickle.loads(first)
    vocabulary = serving_vocabulary(Vocabulary(**parts))
    assert vocabulary.engine is not None  # built now, before the forks
    preload_parsers()
    freeze_heap()
    forker, ended = os.getpid(), 0
    while True:
        child = os.fork()
        if child == 0:
            status = NOT_READY
            try:
                die_with_parent(forker)
                lower_priority(_NICENESS)
                limit_memory(limits.compile_bytes)
                _write(output, READY + f"{os.getpid()} {ended}".encode())
                status = FAILED
                _serve(output, vocabulary, limits)
                status = 0
            except MemoryError:
                if status == NOT_READY:
                    logger.exception("compile_bytes is too small for a process that compiles constraints")
                else:
                    status = OUT_OF_MEMORY
            except BrokenPipeError:  # the parent has closed its end
                status = 0
            except Exception:
                logger.exception("the process that compiles constraints failed")
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return  # the input has ended
        ended = os.waitstatus_to_exitcode(status)
        if ended == NOT_READY:
            os._exit(NOT_READY)


def _serve(output: int, vocabulary: Vocabulary, limits: RequestLimits) -> None:
    while (frame := _read()) is not None:
        _write(output, GOT)
        _write(output, _answer(frame, vocabulary, limits))


def _answer(frame: bytes, vocabulary: Vocabulary, limits: RequestLimits) -> bytes:
    try:
        kind, spec = pickle.loads(frame)
        return probe_compile(kind, spec, vocabulary, limits).pack()
    except StructgenError as error:
        return pack_error(error)
    except MemoryError:
        return pack_error(
            LimitExceeded(
                f"the request's constraint takes more than {limits.compile_bytes >> 20} MiB to compile",
                limit="compile_bytes",
                hint="Send a smaller one; the operator of the server can raise compile_bytes.",
            )
        )
    except RecursionError:
        return pack_error(
            LimitExceeded(
                "the request's constraint is nested too deeply",
                limit="request_depth",
                hint="Use fewer levels.",
            )
        )
    except Exception as error:
        logger.exception("compiling a constraint failed")
        return pack_error(crash(error, "compiling the request's constraint"))


def _read() -> bytes | None:
    """Read a frame from standard input. subtle: unbuffered, since what follows may be for the next worker."""
    return read_frame(partial(os.read, 0), None)


def _write(output: int, data: bytes) -> None:
    write_frame(partial(os.write, output), data)


if __name__ == "__main__":
    main()
