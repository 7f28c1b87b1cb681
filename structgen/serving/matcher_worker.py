"""The process that forks matcher processes, each of which runs the matchers of one constraint.

Why: slow work must not hold the interpreter or the processor of the serving process, and Python code cannot be stopped
from another thread. Building an automaton holds the interpreter; in a process of its own it delays no one.
What: this process, the forker, builds the vocabulary once. For each socket that arrives over its standard input it
forks, so a matcher process is there in milliseconds and shares the vocabulary's memory; the forker answers with the
child's process id. The child reads a pickled constraint, compiles it, and then answers queries about its matchers
(`MatcherQuery`) by messages (`wire`), until its socket is closed.
Invariant: neither process has threads. Both end with their sockets, and with their parents.
"""

from __future__ import annotations

import errno
import logging
import os
import pickle
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from structgen import _core
from structgen._sandbox.child import die_with_parent, freeze_heap, limit_memory
from structgen._sandbox.frames import read_frame, write_frame
from structgen._sandbox.priority import LOW, lower_priority, run_when_idle
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded, StructgenError
from structgen.serving.matcher_answers import MatcherView
from structgen.serving.probe import serving_vocabulary
from structgen.serving.server_kinds import preload_parsers
from structgen.serving.wire import crash, pack, pack_error
from structgen.vocabulary import Vocabulary

__all__ = ["AT_LOW_PRIORITY", "PID", "READY", "WHEN_IDLE", "MatcherQuery", "main"]

logger = logging.getLogger(__name__)

PID = struct.Struct(">q")
"""The forker's answer to a socket: the process id of the new child, or minus the number of the system's error."""
READY = b"r"
"""The forker's first message."""
WHEN_IDLE, AT_LOW_PRIORITY = b"i", b"l"
"""Sent with a socket: how the new process competes for CPU time."""


@dataclass(frozen=True)
class MatcherQuery:
    """A query about one matcher, which is made when its number is first used.

    The matcher first rolls back `rollback` tokens, then appends `tokens`. The answer is that of `name`: ``view`` for a
    `MatcherView`, or a method of the core's matcher that gets `arguments`.
    """

    number: int
    released: tuple[int, ...] = ()
    """Numbers of other matchers that no one needs any more."""
    rollback: int = 0
    tokens: tuple[int, ...] = ()
    name: str = "view"
    arguments: tuple[Any, ...] = ()


def main() -> None:
    """Run the forker on the socket at standard input."""
    os.dup2(2, 1)  # prints go to the standard error
    die_with_parent()
    parent = socket.socket(fileno=0)
    hello = read_frame(parent.recv)
    if hello is None:
        return
    parts, limits = pickle.loads(hello)
    vocabulary = serving_vocabulary(Vocabulary(**parts))
    assert vocabulary.engine is not None  # built now, before the forks
    preload_parsers()
    freeze_heap()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the exit statuses of children are not read
    parent.sendall(READY)
    forker = os.getpid()
    while True:
        priority, descriptors, _, _ = socket.recv_fds(parent, 1, 1)
        if not priority:
            return
        try:
            child = os.fork()
        except OSError as error:
            child = -(error.errno or errno.EAGAIN)
        if child == 0:
            try:
                die_with_parent(forker)
                parent.close()
                if priority == WHEN_IDLE:
                    run_when_idle()
                else:
                    lower_priority(LOW)
                limit_memory(limits.matcher_bytes)
                with socket.socket(fileno=descriptors[0]) as connection:
                    _serve(connection, vocabulary)
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        parent.sendall(PID.pack(child))


def _serve(connection: socket.socket, vocabulary: Vocabulary) -> None:
    pickled = read_frame(connection.recv)
    if pickled is None:
        return
    program: _core.Program | None = None

    def compile_it() -> bytes:
        nonlocal program
        program = vocabulary.engine.compile(pickle.loads(pickled).lower())
        return pack("ready")

    write_frame(connection.send, _packed(compile_it))
    if program is None:
        return
    matchers: dict[int, _core.Matcher] = {}
    while (frame := read_frame(connection.recv)) is not None:
        query: MatcherQuery = pickle.loads(frame)
        for number in query.released:
            matchers.pop(number, None)
        write_frame(connection.send, _packed(partial(_answer, query, program, matchers)))


def _answer(query: MatcherQuery, program: _core.Program, matchers: dict[int, _core.Matcher]) -> bytes:
    matcher = matchers.get(query.number)
    if matcher is None:
        matcher = matchers[query.number] = _core.Matcher(program)
    if query.rollback:
        matcher.rollback(query.rollback)
    for token in query.tokens:
        if not matcher.advance(token):
            raise LimitExceeded(
                "a token that the mask allows was refused",
                limit="mask_steps",
                hint="Send a smaller constraint.",
            )
    if query.name == "view":
        return _view(matcher).pack()
    found = getattr(matcher, query.name)(*query.arguments)
    return pack("bytes", None, found) if isinstance(found, bytes) else pack("value", found)


def _view(matcher: _core.Matcher) -> MatcherView:
    mask = matcher.mask()
    if matcher.is_finished:
        return MatcherView(mask.tobytes(), 0, True, True, ())
    return MatcherView(
        mask.tobytes(),
        matcher.allowed_count(),
        matcher.is_complete(),
        matcher.must_stop,
        tuple(matcher.forced()),
        matcher.temperature if matcher.sets_temperature else None,
    )


def _packed(answer: Callable[[], bytes]) -> bytes:
    """Return an answer as a message, or the error that it raises."""
    try:
        return answer()
    except StructgenError as error:
        return pack_error(error)
    except _core.LimitError as error:
        return pack_error(limit_exceeded(error))
    except MemoryError:
        return pack_error(
            LimitExceeded(
                "the request's constraint takes too much memory",
                limit="matcher_bytes",
                hint="Send a smaller one; the operator of the server can raise matcher_bytes.",
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
        logger.exception("a matcher failed")
        return pack_error(crash(error, "following the request's constraint"))


if __name__ == "__main__":
    main()
