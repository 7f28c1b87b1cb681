"""The process in which specs are tried out: ``python -m structgen.serving.worker``.

Why: a hostile spec may take any time and any memory, and Python code cannot be stopped from another thread. A process
can: `compiler` kills this one when a spec takes too long, and starts another.
What: reads frames on standard input, a length of four bytes and a pickle: first the vocabulary and the limits, then
one request each, (kind, spec); answers each on standard output with a `Trial` or the error. It ends with its input.
Invariant: nothing but frames is written to the standard output that it was given; whatever is printed goes to the
standard error. Memory is bounded by RLIMIT_AS, set after the vocabulary is there.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import IO, Any

from structgen.errors import LimitExceeded, StructgenError
from structgen.serving.requests import RequestLimits
from structgen.serving.trial import serving_vocabulary, try_out
from structgen.vocabulary import Vocabulary

__all__ = ["LENGTH", "main", "vocabulary_parts"]

LENGTH = struct.Struct(">I")


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
    source = sys.stdin.buffer
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as target:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        _serve(source, target)


def _serve(source: IO[bytes], target: IO[bytes]) -> None:
    first = _read(source)
    if first is None:
        return
    parts, limits = pickle.loads(first)
    vocabulary = serving_vocabulary(Vocabulary(**parts))
    assert vocabulary.engine is not None  # made now
    _bound_memory(limits)
    _write(target, b"ready")
    while (frame := _read(source)) is not None:
        _write(target, _answer(frame, vocabulary, limits))


def _answer(frame: bytes, vocabulary: Vocabulary, limits: RequestLimits) -> bytes:
    kind, spec = pickle.loads(frame)
    try:
        answer: Any = try_out(kind, spec, vocabulary, limits)
    except StructgenError as error:
        answer = error
    except MemoryError:
        answer = LimitExceeded(
            f"the request's constraint takes more than {limits.compile_bytes >> 20} MiB to compile",
            limit="compile_bytes",
        )
    except RecursionError:
        answer = LimitExceeded("the request's constraint is nested too deep", limit="depth")
    return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)


def _bound_memory(limits: RequestLimits) -> None:
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = used + limits.compile_bytes
        resource.setrlimit(
            resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )
    except (ImportError, OSError, ValueError):
        pass  # a system without such limits: the time limit is left


def _read(source: IO[bytes]) -> bytes | None:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    data = source.read(length)
    return data if len(data) == length else None


def _write(target: IO[bytes], data: bytes) -> None:
    target.write(LENGTH.pack(len(data)) + data)
    target.flush()


if __name__ == "__main__":
    main()
