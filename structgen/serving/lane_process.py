"""The process that forks others, in each of which the matchers of one constraint live.

Why: what takes long must neither hold the interpreter nor the processor of those who serve, and Python code cannot be
stopped from another thread. Building an automaton holds the interpreter; in a process of its own it holds nobody up.
What: this process makes the vocabulary once. For each descriptor that comes over the socket at its standard input it
forks, so that a constraint's process is there in milliseconds and shares the vocabulary's memory; it answers with the
new one's number. The forked one reads a pickled constraint, compiles it, and then answers questions about matchers of
it (`Question`) by a `View` or an error, until its socket is closed.
Invariant: neither process has threads. Both end with their sockets, and with their parents.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
from dataclasses import dataclass
from typing import Any

from structgen import _core
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded, StructgenError
from structgen.serving.own_requests import preload
from structgen.serving.processes import bound_memory, die_with_parent, settle, stand_by
from structgen.serving.trial import serving_vocabulary
from structgen.vocabulary import Vocabulary

__all__ = ["NUMBER", "READY", "Question", "View", "main", "receive", "send"]

LENGTH = struct.Struct(">I")
NUMBER = struct.Struct(">q")
READY = b"r"


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


@dataclass(frozen=True)
class View:
    """All that is drawn by, at one place of a text."""

    mask: bytes
    allowed: int
    is_complete: bool
    must_stop: bool
    forced: tuple[int, ...]


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
    settle()
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
                stand_by()
                bound_memory(limits.lane_bytes)
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
    program: Any = _answered(lambda: _compiled(pickled, vocabulary))
    is_refused = isinstance(program, StructgenError)
    send(line, pickle.dumps(program if is_refused else None))
    if is_refused:
        return
    matchers: dict[int, _core.Matcher] = {}
    while (frame := receive(line)) is not None:
        question: Question = pickle.loads(frame)
        for number in question.gone:
            matchers.pop(number, None)
        answer = _answered(lambda asked=question: _answer(asked, program, matchers))
        send(line, pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def _compiled(pickled: bytes, vocabulary: Vocabulary) -> _core.Program:
    return vocabulary.engine.compile(pickle.loads(pickled).lower())


def _answer(question: Question, program: _core.Program, matchers: dict[int, _core.Matcher]) -> Any:
    matcher = matchers.get(question.number)
    if matcher is None:
        matcher = matchers[question.number] = _core.Matcher(program)
    if question.back:
        matcher.rollback(question.back)
    for token in question.tokens:
        if not matcher.advance(token):
            raise LimitExceeded("a token that the mask allows was not read", limit="mask_steps")
    if question.name == "view":
        return _view(matcher)
    return getattr(matcher, question.name)(*question.arguments)


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
    )


def _answered(work: Any) -> Any:
    try:
        return work()
    except StructgenError as error:
        return error
    except _core.LimitError as error:
        return limit_exceeded(error)
    except MemoryError:
        return LimitExceeded("the request's constraint takes too much memory", limit="lane_bytes")
    except RecursionError:
        return LimitExceeded("the request's constraint is nested too deep", limit="depth")


# -- frames: a length of four bytes, and so many


def send(line: socket.socket, data: bytes) -> None:
    """One frame, in one piece: who is woken by half of it may take the processor from who is to write the rest."""
    line.sendall(LENGTH.pack(len(data)) + data)


def receive(line: socket.socket) -> bytes | None:
    """The bytes of a frame; None where the other side has closed."""
    head = _exactly(line, LENGTH.size)
    return None if head is None else _exactly(line, LENGTH.unpack(head)[0])


def _exactly(line: socket.socket, length: int) -> bytes | None:
    parts = []
    while length:
        data = line.recv(min(length, 1 << 20))
        if not data:
            return None
        parts.append(data)
        length -= len(data)
    return b"".join(parts)


if __name__ == "__main__":
    main()
