"""The answers of a matcher process are checked against the query, and bounded in time and bytes by it."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from structgen._sandbox.frames import read_frame
from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded
from structgen.serving.isolated_matcher import IsolatedMatcher, open_isolated_matcher
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_answers import MatcherView
from structgen.serving.matcher_process import MatcherProcess
from structgen.serving.wire import pack

SIZE = 257
WORDS = 9
MASK = b"\xff" * (4 * WORDS)
VIEW = pack("view", [1, False, False, [256], None], MASK)
QUERIES: dict[str, Callable[[IsolatedMatcher], Any]] = {
    "view": IsolatedMatcher.mask,
    "forced_bytes": lambda matcher: matcher.forced_bytes(10),
    "witness": IsolatedMatcher.witness,
    "least_tokens": lambda matcher: matcher.least_tokens(100),
}
GOOD = {
    "view": [VIEW, pack("view", [0, True, True, [], None], bytes(4 * WORDS))],
    "forced_bytes": [pack("bytes", None, b""), pack("bytes", None, b"0123456789")],
    "witness": [pack("value", None), pack("value", []), pack("value", [0, 256])],
    "least_tokens": [pack("value", None), pack("value", 0), pack("value", 1 << 70)],
}
BAD = {
    "view": [
        pack("view", [1, False, False, [257], None], MASK),
        pack("view", [258, False, False, [], None], MASK),
        pack("view", [-1, False, False, [], None], MASK),
        pack("view", [True, False, False, [], None], MASK),
        pack("view", [1, False, False, [], None], MASK + b"\0"),
    ],
    "forced_bytes": [pack("bytes", None, b"0123456789a"), pack("bytes", 5)],
    "witness": [
        pack("value", 5),
        pack("value", [257]),
        pack("value", [-1]),
        pack("value", [True]),
        pack("value", [[1]]),
        pack("value", None, b"x"),
    ],
    "least_tokens": [
        pack("value", [1]),
        pack("value", -(1 << 70)),
        pack("value", True),
        pack("value", 1.5),
        pack("value", 1, b"x"),
    ],
}
KINDS = ["view", "bytes", "value", "ready", "", "probe"]


@pytest.fixture
def hostile() -> Iterator[Callable[[Callable[[socket.socket], None]], MatcherProcess]]:
    """Make a matcher process whose answers the test writes."""
    with contextlib.ExitStack() as stack:

        def made(answer: Callable[[socket.socket], None]) -> MatcherProcess:
            mine, theirs = socket.socketpair()
            child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            process = MatcherProcess(mine, child.pid, SIZE, RequestLimits(), SlowWork(), None)

            def play() -> None:
                with theirs, contextlib.suppress(OSError):
                    while read_frame(theirs.recv) is not None:
                        answer(theirs)

            thread = threading.Thread(target=play, daemon=True)
            thread.start()
            stack.callback(child.communicate)
            stack.callback(process.kill)
            return process

        yield made


def frame(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def matcher_of(process: MatcherProcess) -> IsolatedMatcher:
    matcher = open_isolated_matcher(process)
    assert matcher is not None
    return matcher


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_reads_its_own_answers(query: str, hostile: Any) -> None:
    # If no completion is found, a second query requests the reason.
    none_found = [pack("value", None), pack("value", "it is too long")]
    answers = iter(
        [
            answer
            for good in GOOD[query]
            for answer in (none_found if query == "witness" and good == none_found[0] else [good])
        ]
    )
    process = hostile(lambda line: line.sendall(frame(next(answers))))
    for _ in GOOD[query]:
        QUERIES[query](matcher_of(process))
    assert not process.has_ended


@pytest.mark.parametrize(
    "reason", [pack("value", 1), pack("value", ["x"]), pack("value", "a\x1b[0m"), pack("bytes", None, b"x")]
)
def test_a_reason_is_a_printable_text(reason: bytes, hostile: Any) -> None:
    answers = iter([pack("value", None), reason])
    process = hostile(lambda line: line.sendall(frame(next(answers))))
    with pytest.raises(LimitExceeded) as caught:
        matcher_of(process).witness()
    assert caught.value.limit == "internal" and process.has_ended


@pytest.mark.parametrize("query", QUERIES)
def test_other_answers_are_an_internal_error(query: str, hostile: Any) -> None:
    others = [one for name, good in GOOD.items() for one in good if name != query]
    others = [one for one in others if one not in GOOD[query]]  # a witness may be null, and so may a count
    kinds = [pack(kind, content) for kind, content in itertools.product(KINDS, [{}, "x", [[]], {"a": 1}])]
    for answer in [*BAD[query], *others, *kinds, b"", b"\0"]:
        process = hostile(lambda line, answer=answer: line.sendall(frame(answer)))
        with pytest.raises(LimitExceeded) as caught:
            QUERIES[query](matcher_of(process))
        assert caught.value.limit == "internal", answer
        assert process.has_ended


@pytest.mark.parametrize("answer", [VIEW, pack("ready", 1), pack("ready", None, b"x"), pack("value", None)])
def test_only_a_message_that_says_so_means_that_the_automaton_is_built(answer: bytes, hostile: Any) -> None:
    process = hostile(lambda line: line.sendall(frame(answer)))
    with pytest.raises(LimitExceeded, match="invalid answer"):
        process.build(b"", lambda: True)
    hostile(lambda line: line.sendall(frame(pack("ready")))).build(b"", lambda: True)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 257])
def test_the_padding_of_a_mask_is_cleared(size: int) -> None:
    words = (size + 31) // 32
    view = MatcherView.unpacked([size, False, False, [], None], b"\xff" * (4 * words), size)
    bits = np.unpackbits(np.frombuffer(view.mask, np.uint8), bitorder="little")
    assert bits[:size].all() and not bits[size:].any()


def drip(line: socket.socket) -> None:
    """Announce a frame, and send it so slowly that it never ends."""
    line.sendall(struct.pack(">I", 4 * WORDS))
    while True:
        line.sendall(b"x")
        if stopped.wait(0.2):
            return


stopped = threading.Event()


def test_an_answer_byte_by_byte_meets_the_deadline(hostile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.serving.matcher_process.wall_limit", lambda used: 0.5)
    with pytest.raises(LimitExceeded) as caught:
        matcher_of(hostile(drip)).mask()
    assert caught.value.limit == "busy"


def test_an_answer_byte_by_byte_ends_when_the_client_has_left(hostile: Any) -> None:
    matcher = matcher_of(hostile(drip))
    threading.Timer(0.3, matcher.on_disconnect).start()
    with pytest.raises(LimitExceeded) as caught:
        matcher.mask()
    assert caught.value.limit in ("disconnected", "matcher_bytes")


def test_an_answer_byte_by_byte_meets_the_limit_of_cpu_time(
    hostile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()
    monkeypatch.setattr("structgen._sandbox.usage.CpuClock.used", lambda self: float(next(calls)))
    with pytest.raises(LimitExceeded) as caught:
        matcher_of(hostile(drip)).mask()
    assert caught.value.limit == "step_seconds"


@pytest.mark.parametrize("query", QUERIES)
def test_a_frame_is_not_longer_than_the_query_needs(query: str, hostile: Any) -> None:
    """Nothing after the announcement is read, or waited for."""
    process = hostile(lambda line: line.sendall(struct.pack(">I", 17 << 20)))
    with pytest.raises(LimitExceeded, match="has ended"):
        QUERIES[query](matcher_of(process))
    assert process.has_ended
