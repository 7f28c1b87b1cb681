"""Matchers in several threads, and in child processes of fork()."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import structgen as sg
from structgen.errors import ConcurrentUse
from structgen.matcher import fill_masks

LETTERS = b"abc"


def letters() -> sg.Matcher:
    return sg.Matcher(sg.regex("[abc]*"), sg.Vocabulary.of_bytes())


# ------------------------------------------------------------------ threads

DAEMONS = """
import threading, time
import structgen as sg

class Letters:
    start = 0
    def accepts(self, state): return True
    def edges(self, state): return [(("literal", "a"), (state + 1) % 1000)]
    def completion(self, state): return ""

vocabulary = sg.Vocabulary.of_bytes()
started = threading.Barrier(5)

def call(make):
    started.wait()
    while True:
        make()

matcher = sg.Matcher(sg.regex("[ab]*"), vocabulary)
def steps(): matcher.mask(); matcher.fork().advance(97)
def texts(): sg.Matcher(sg.json_schema({"type": "object"}), vocabulary).witness()
def errors(): sg.Matcher(sg.json_schema({"type": "object"}), vocabulary).explain("[")
from structgen import _core
engine = sg.Vocabulary.of_bytes().engine
def unfolding(): _core.Matcher(engine.compile(("regex", ("unfold", Letters())))).advance(97)
for make in (steps, texts, errors, unfolding):
    threading.Thread(target=call, args=[make], daemon=True).start()
started.wait()
time.sleep(0.05)
"""


@pytest.mark.parametrize("_attempt", range(3))
def test_a_process_may_end_while_daemon_threads_call_the_core(_attempt: int) -> None:
    ended = subprocess.run([sys.executable, "-c", DAEMONS], capture_output=True, text=True, timeout=600)
    assert (ended.returncode, ended.stderr) == (0, "")


def from_four_threads(calls: list[Callable[[], object]]) -> list[BaseException]:
    """What random calls raise but for `ConcurrentUse`, and `IndexError` of a call that came too early."""
    strange: list[BaseException] = []

    def work(seed: int) -> None:
        source = random.Random(seed)
        for _ in range(1500):
            try:
                source.choice(calls)()
            except (ConcurrentUse, IndexError):
                pass
            except BaseException as error:
                strange.append(error)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return strange


def test_one_matcher_in_several_threads_is_an_error_or_in_turn() -> None:
    matcher = sg.Matcher(sg.json_schema({"type": "object"}), sg.Vocabulary.of_bytes())
    out = np.zeros((1, matcher.vocabulary.words), np.int32)
    calls: list[Callable[[], object]] = [
        matcher.mask,
        lambda: matcher.advance(ord("{")),
        lambda: matcher.native.rollback(1),
        matcher.reset,
        matcher.fork,
        lambda: (matcher.text, matcher.tokens, matcher.is_finished, matcher.must_stop, matcher.native.memory),
        lambda: matcher.fill(out),
        lambda: fill_masks([matcher], out),
        matcher.witness,
        lambda: matcher.explain(b"{]"),
        lambda: matcher.accepts([123]),
    ]
    assert not from_four_threads(calls)
    matcher.reset()  # nothing is left locked
    assert matcher.advance(ord("{")) and matcher.witness_text() == b"}"


def test_a_batch_may_contain_a_matcher_twice() -> None:
    matcher = letters()
    out = np.zeros((2, matcher.vocabulary.words), np.int32)
    fill_masks([matcher, matcher], out)
    assert (out[0] == out[1]).all() and out.any()


# ------------------------------------------------------------------ forks of matchers


def test_forks_share_their_history() -> None:
    matcher = letters()
    for place in range(20_000):
        assert matcher.advance(LETTERS[place % 3])
    whole = matcher.native.memory
    forks = [matcher.fork() for _ in range(300)]
    for fork in forks:
        assert fork.advance(LETTERS[0])
    assert sum(fork.native.memory for fork in forks) < whole / 2
    assert forks[0].text == matcher.text + b"a"


def test_histories_of_forks_are_their_own() -> None:
    """Forks, steps and steps back in any order: each matcher keeps the text that it has read itself."""
    for seed in range(20):
        source = random.Random(seed)
        matchers, texts = [letters()], [b""]
        for _ in range(300):
            which = source.randrange(len(matchers))
            matcher = matchers[which]
            match source.randrange(4):
                case 0 if len(matchers) < 12:
                    matchers.append(matcher.fork())
                    texts.append(texts[which])
                case 1:
                    back = source.randrange(len(texts[which]) + 1) if source.random() < 0.2 else 0
                    matcher.rollback(back)
                    texts[which] = texts[which][: len(texts[which]) - back]
                case 2 if len(matchers) > 6:
                    del matchers[which], texts[which]
                case _:
                    more = bytes(source.choices(LETTERS, k=source.randrange(1, 9)))
                    assert all(map(matcher.advance, more))
                    texts[which] += more
        for matcher, text in zip(matchers, texts, strict=True):
            assert matcher.text == text and matcher.tokens == list(text)
            assert matcher.is_complete()


def test_one_canvas_in_many_threads() -> None:
    """A second thread gets an error; the canvas is as the calls that came through left it."""
    canvas = sg.diffusion.Canvas(sg.regex("[a-c]*(d|e){2}"), sg.Vocabulary.of_bytes(), [sg.diffusion.Hole(6)])
    log_p = np.log(np.full((6, canvas.vocabulary.size), 0.1, dtype=np.float32))
    calls: list[Callable[[], object]] = [
        canvas.completable,
        lambda: canvas.mask(1),
        canvas.masks,
        lambda: canvas.commit(1, ord("a")),
        lambda: canvas.reopen(1),
        canvas.completion,
        lambda: canvas.prefer([ord("b")] * 6),
        lambda: canvas.best(log_p),
        lambda: canvas.draw(log_p, 3),
        lambda: canvas.fork().completable(),
    ]
    assert not from_four_threads(calls)
    assert canvas.completable() and canvas.completion() is not None


# ------------------------------------------------------------------ fork()

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def child(work: Callable[[], object], seconds: float = 60.0) -> int | None:
    """The exit status of a child that does this: 0 done, 1 `ConcurrentUse`, 2 another error; None: it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        status = 2
        try:
            work()
            status = 0
        except ConcurrentUse:
            status = 1
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := os.waitpid(pid, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(found[1])
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
def test_a_child_continues_while_another_thread_compiles() -> None:
    vocabulary = sg.Vocabulary.of_bytes()
    kept = sg.Matcher(sg.regex("a+b"), vocabulary)
    ends = threading.Event()

    def schema(number: int, keys: int) -> object:
        names = {
            f"k{number}_{key}": {"type": "string", "pattern": f"^a{{{key}}}[b-z]+$"} for key in range(keys)
        }
        return {"type": "object", "properties": names}

    def compile_always() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            matcher = sg.Matcher(sg.json_schema(schema(number, 20)), vocabulary)
            matcher.mask()
            matcher.least_tokens(3)

    def work() -> None:
        assert kept.advance(ord("a")) and kept.witness_text() == b"b"
        assert kept.least_tokens(5) == 2
        other = sg.Matcher(sg.json_schema(schema(-1, 2)), vocabulary)
        assert other.mask().any() and other.witness_text() == b"{}"
        assert sg.Matcher(sg.regex("ab+"), sg.Vocabulary.of_bytes()).mask().any()

    work_here = kept.fork()
    work()  # what is imported when it is first needed is there before the threads
    kept = work_here
    thread = threading.Thread(target=compile_always)
    thread.start()
    try:
        results = [child(work) for _ in range(12)]
    finally:
        ends.set()
        thread.join()
    assert results == [0] * 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
def test_a_matcher_that_was_in_use_is_an_error_in_the_child() -> None:
    """A fork does not wait for a thread that holds the matcher, but not the vocabulary's caches."""
    vocabulary = sg.Vocabulary.of_bytes()
    matcher = sg.Matcher(sg.json_schema({"type": "array", "items": {"type": "integer"}}), vocabulary)
    ends = threading.Event()

    def use() -> None:
        while not ends.is_set():
            matcher.mask()
            matcher.advance(ord("["))
            matcher.reset()

    thread = threading.Thread(target=use)
    thread.start()
    try:
        results = [child(matcher.mask) for _ in range(12)]
    finally:
        ends.set()
        thread.join()
    assert set(results) <= {0, 1}
