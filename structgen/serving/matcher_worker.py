"""The process that forks others, in each of which the matchers of one constraint live.

Why: what takes long must neither hold the interpreter nor the processor of those who serve, and Python code cannot be
stopped from another thread. Building an automaton holds the interpreter; in a process of its own it holds nobody up.
What: this process makes the vocabulary once. For each descriptor that comes over the socket at its standard input it
forks, so that a constraint's process is there in milliseconds and shares the vocabulary's memory; it answers with the
new one's number. The forked one reads a pickled constraint, compiles it, and then answers questions about matchers of
it (`Question`) by messages (`wire`), until its socket is closed.
Invariant: neither process has threads. Both end with their sockets, and with their parents.
"""

from __future__ import annotations

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
from structgen._sandbox.priority import LOW, lower_priority, run_when_idle
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded, StructgenError
from structgen.serving.matcher_answers import View
from structgen.serving.probe import serving_vocabulary
from structgen.serving.server_kinds import preload
from structgen.serving.wire import MOST_BYTES, crash, pack, pack_error
from structgen.vocabulary import Vocabulary

__all__ = ["NUMBER", "READY", "STANDS_BY", "STEPS_ASIDE", "Question", "main", "receive", "send"]

logger = logging.getLogger(__name__)

LENGTH = struct.Struct(">I")
NUMBER = struct.Struct(">q")
READY = b"r"
STANDS_BY, STEPS_ASIDE = b"i", b"l"
"""Sent with a descriptor: the process runs when others leave a processor idle, or at a low priority."""


@dataclass(frozen=True)
class Question:
    """What is asked of one matcher, which is made when its number is met first.

    `gone` are numbers of others that nobody needs any more. `back` tokens are taken back, then `tokens` are read, and
    then `name` is asked for: ``view``, or a method of the core's matcher with `arguments`.
    """

    number: int
    gone: tuple[int, ...] = ()
    back: int = 0
    tokens: tuple[int, ...] = ()
    name: str = "view"
    arguments: tuple[Any, ...] = ()


def main() -> None:
    os.dup2(2, 1)  # whatever is printed goes to the standard error
    die_with_parent()
    door = socket.socket(fileno=0)
    hello = receive(door)
    if hello is None:
        return
    parts, limits = pickle.loads(hello)
    vocabulary = serving_vocabulary(Vocabulary(**parts))
    assert vocabulary.engine is not None  # made now
    preload()
    freeze_heap()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how the others ended
    door.sendall(READY)
    this = os.getpid()
    while True:
        word, descriptors, _, _ = socket.recv_fds(door, 1, 1)
        if not word:
            return
        child = os.fork()
        if child == 0:
            try:
                die_with_parent(this)
                door.close()
                if word == STANDS_BY:
                    run_when_idle()
                else:
                    lower_priority(LOW)
                limit_memory(limits.lane_bytes)
                with socket.socket(fileno=descriptors[0]) as line:
                    _serve(line, vocabulary)
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        door.sendall(NUMBER.pack(child))


def _serve(line: socket.socket, vocabulary: Vocabulary) -> None:
    pickled = receive(line)
    if pickled is None:
        return
    program: _core.Program | None = None

    def compile_it() -> bytes:
        nonlocal program
        program = vocabulary.engine.compile(pickle.loads(pickled).lower())
        return pack("ready")

    send(line, _answered(compile_it))
    if program is None:
        return
    matchers: dict[int, _core.Matcher] = {}
    while (frame := receive(line)) is not None:
        question: Question = pickle.loads(frame)
        for number in question.gone:
            matchers.pop(number, None)
        send(line, _answered(partial(_answer, question, program, matchers)))


def _answer(question: Question, program: _core.Program, matchers: dict[int, _core.Matcher]) -> bytes:
    matcher = matchers.get(question.number)
    if matcher is None:
        matcher = matchers[question.number] = _core.Matcher(program)
    if question.back:
        matcher.rollback(question.back)
    for token in question.tokens:
        if not matcher.advance(token):
            raise LimitExceeded(
                "a token that the mask allows was not read",
                limit="mask_steps",
                hint="Send a smaller constraint.",
            )
    if question.name == "view":
        return _view(matcher).pack()
    found = getattr(matcher, question.name)(*question.arguments)
    return pack("bytes", None, found) if isinstance(found, bytes) else pack("value", found)


def _view(matcher: _core.Matcher) -> View:
    mask = matcher.mask()
    if matcher.is_finished:
        return View(mask.tobytes(), 0, True, True, ())
    return View(
        mask.tobytes(),
        matcher.allowed_count(),
        matcher.is_complete(),
        matcher.must_stop,
        tuple(matcher.forced()),
        matcher.temperature if matcher.sets_temperature else None,
    )


def _answered(work: Callable[[], bytes]) -> bytes:
    try:
        return work()
    except StructgenError as error:
        return pack_error(error)
    except _core.LimitError as error:
        return pack_error(limit_exceeded(error))
    except MemoryError:
        return pack_error(
            LimitExceeded(
                "the request's constraint takes too much memory",
                limit="lane_bytes",
                hint="Send a smaller one; the operator of the server can raise lane_bytes.",
            )
        )
    except RecursionError:
        return pack_error(
            LimitExceeded(
                "the request's constraint is nested too deep", limit="request_depth", hint="Nest less."
            )
        )
    except Exception as error:
        logger.exception("a matcher failed")
        return pack_error(crash(error, "following the request's constraint"))


# -- frames: a length of four bytes, and so many


def send(line: socket.socket, data: bytes, wait: Callable[[], None] = lambda: None) -> None:
    """Write a frame, in one piece if the socket takes it: half of it would wake the other process in vain.

    Args:
        line: The socket.
        data: The bytes of the frame.
        wait: Called before each piece of the frame is written. It ends the writing by an exception.
    """
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        wait()
        view = view[line.send(view) :]


def receive(
    line: socket.socket, most_bytes: int = MOST_BYTES, wait: Callable[[], None] = lambda: None
) -> bytes | None:
    """Read a frame.

    Args:
        line: The socket.
        most_bytes: The longest frame that is read.
        wait: Called before each piece of the frame is read. It ends the reading by an exception.

    Returns:
        The bytes of the frame. None where the other side has closed the socket, or announces a longer frame.
    """
    head = _exactly(line, LENGTH.size, wait)
    if head is None:
        return None
    (length,) = LENGTH.unpack(head)
    return _exactly(line, length, wait) if length <= most_bytes else None


def _exactly(line: socket.socket, length: int, wait: Callable[[], None]) -> bytes | None:
    parts = []
    while length:
        wait()
        data = line.recv(min(length, 1 << 20))
        if not data:
            return None
        parts.append(data)
        length -= len(data)
    return b"".join(parts)


if __name__ == "__main__":
    main()
