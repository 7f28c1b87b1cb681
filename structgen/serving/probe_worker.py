"""The process in which specs are tried out, and the one that makes it again when it was killed.

Why: a hostile spec may take any time and any memory, and Python code cannot be stopped from another thread. A process
can. Starting one takes a second, for Python and the vocabulary; so one process does that once and *forks* another one
that tries specs out. Whenever that is killed, or dies, the next one is there in milliseconds.
What: frames are a length of four bytes and bytes. The first one read is a pickle of the vocabulary and the limits. A
new process sends ``ready``, its number, and how the one before it ended. A request is a pickle of (kind, spec). The
process sends ``got`` when it has read all of it, and then a message (`wire`): a `Trial` or an error. Both end with
their input, and with their parents.
Invariant: nothing but frames is written to the standard output that it was given; whatever is printed goes to the
standard error. Neither process has threads, so that forking is safe. Memory of the forked one is bounded by RLIMIT_AS.
"""

from __future__ import annotations

import logging
import os
import pickle
import struct
from typing import Any

from structgen._sandbox.child import die_with_parent, freeze_heap, limit_memory
from structgen._sandbox.priority import lower_priority
from structgen.errors import LimitExceeded, StructgenError
from structgen.serving.probe import serving_vocabulary, try_out
from structgen.serving.requests import RequestLimits
from structgen.serving.server_kinds import preload
from structgen.serving.wire import crash, pack_error
from structgen.vocabulary import Vocabulary

__all__ = ["FAILED", "GOT", "LENGTH", "OUT_OF_MEMORY", "READY", "main", "vocabulary_parts"]

logger = logging.getLogger(__name__)

LENGTH = struct.Struct(">I")
READY = b"ready "
GOT = b"got"
FAILED, OUT_OF_MEMORY = 1, 2
"""Exit statuses of a process that tried specs out."""
_NICENESS = 5
"""A spec that is quick has its turn soon all the same, and one that is not takes little from those who are served."""


def vocabulary_parts(vocabulary: Vocabulary) -> dict[str, Any]:
    """What makes the same vocabulary in another process, without its encoder."""
    return {
        "tokens": [vocabulary.token_bytes(i) for i in range(vocabulary.size)],
        "eos_ids": vocabulary.eos_ids,
        "size": vocabulary.size,
        "limits": dict(vocabulary.limits),
        "specials": dict(vocabulary.specials),
    }


def main() -> None:
    target = os.dup(1)
    os.dup2(2, 1)
    die_with_parent()
    first = _read()
    if first is None:
        return
    parts, limits = pickle.loads(first)
    vocabulary = serving_vocabulary(Vocabulary(**parts))
    assert vocabulary.engine is not None  # made now
    preload()
    freeze_heap()
    this, ended = os.getpid(), 0
    while True:
        child = os.fork()
        if child == 0:
            status = FAILED
            try:
                die_with_parent(this)
                lower_priority(_NICENESS)
                limit_memory(limits.compile_bytes)
                _write(target, READY + f"{os.getpid()} {ended}".encode())
                _serve(target, vocabulary, limits)
                status = 0
            except MemoryError:
                status = OUT_OF_MEMORY
            except BrokenPipeError:  # no one reads any more
                status = 0
            except Exception:
                logger.exception("the process that compiles constraints failed")
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return  # the input has ended
        ended = os.waitstatus_to_exitcode(status)


def _serve(target: int, vocabulary: Vocabulary, limits: RequestLimits) -> None:
    while (frame := _read()) is not None:
        _write(target, GOT)
        _write(target, _answer(frame, vocabulary, limits))


def _answer(frame: bytes, vocabulary: Vocabulary, limits: RequestLimits) -> bytes:
    try:
        kind, spec = pickle.loads(frame)
        return try_out(kind, spec, vocabulary, limits).pack()
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
                "the request's constraint is nested too deep", limit="request_depth", hint="Nest less."
            )
        )
    except Exception as error:
        logger.exception("compiling a constraint failed")
        return pack_error(crash(error, "compiling the request's constraint"))


def _read() -> bytes | None:
    """A frame from standard input; None where it has ended. Not buffered: what follows may be for another process."""
    head = _exactly(LENGTH.size)
    return None if head is None else _exactly(LENGTH.unpack(head)[0])


def _exactly(length: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < length:
        data = os.read(0, length - len(parts))
        if not data:
            return None
        parts += data
    return bytes(parts)


def _write(target: int, data: bytes) -> None:
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    main()
