"""Every call of the core is metered: limits, stop flags and signals end it, and other constraints continue."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen import _core
from structgen.constraints.base import Constraint
from structgen.errors import ConcurrentUse, LimitExceeded, OptionError, Stopped
from structgen.matcher import Matcher, fill_masks
from structgen.vocabulary import Vocabulary

FOREVER = 10**15
"""Steps that no test waits for."""


def exploding_patterns(count: int = 30) -> dict[str, Any]:
    """Strings whose automaton grows exponentially in the length of what was read."""
    patterns = [{"pattern": f"^(.*a.{{{i + 5}}}b|.*c.{{{i + 7}}}d)$"} for i in range(count)]
    value = {"anyOf": [{"type": "null"}, {"type": "string", "allOf": patterns}]}
    return {"type": "object", "additionalProperties": value}


def endless(vocabulary: Vocabulary) -> Callable[[], None]:
    """A call that takes hours: equal readings of an expression that doubles with each character."""
    matcher = Matcher(sg.json_schema(exploding_patterns()), vocabulary)
    for byte in b'{"k":"':
        assert matcher.advance(byte)
    draw = random.Random(7)

    def read_on() -> None:
        while True:
            matcher.accepts([draw.choice(b"abcd") for _ in range(200)])

    return read_on


def unlimited() -> Vocabulary:
    return Vocabulary.of_bytes().with_limits(
        call_steps=FOREVER, regex_nodes=10**9, automaton_states=10**9, program_bytes=10**12
    )


# ------------------------------------------------------------------ limits of one call


def test_steps_are_deterministic_and_end_a_call() -> None:
    counts = []
    for _ in range(2):
        vocabulary = Vocabulary.of_bytes().with_limits(call_steps=10**6)
        matcher = Matcher(sg.json_schema(exploding_patterns(6)), vocabulary)
        for byte in b'{"k":"':
            assert matcher.advance(byte)
        before = _core.work_done()
        with pytest.raises(LimitExceeded) as caught:
            matcher.accepts(list(b"abcd" * 1000))
        assert caught.value.limit == "call_steps"
        assert matcher.tokens == list(b'{"k":"')
        counts.append(_core.work_done() - before)
    assert counts[0] == counts[1] and 10**6 < counts[0] < 1.1 * 10**6


def test_time_limits_end_calls() -> None:
    for limits in ({"cpu_seconds": 0.02}, {"seconds": 0.02}, {"cpu_seconds": 60, "seconds": 0.02}):
        call = endless(unlimited())
        with pytest.raises(LimitExceeded) as caught, sg.call_limits(**limits):
            call()
        assert caught.value.limit == "call_seconds"


def test_inner_blocks_do_not_lift_outer_limits() -> None:
    call = endless(unlimited())
    with pytest.raises(LimitExceeded), sg.call_limits(seconds=0.02), sg.call_limits(seconds=3600):
        call()


@pytest.mark.parametrize("name", ["cpu_seconds", "seconds"])
@pytest.mark.parametrize("value", [-1, True, False, float("nan"), float("-inf"), "1", [1], 1j])
def test_an_invalid_number_of_seconds_is_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=name), sg.call_limits(**{name: value}):
        pass


@pytest.mark.parametrize("value", ["x", True, 0, threading.Event(), sg.StopFlag])
def test_an_invalid_flag_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="stop must be a StopFlag"), sg.call_limits(stop=value):
        pass


@pytest.mark.parametrize("value", [10**400, float("inf"), 1e300], ids=["int", "inf", "float"])
def test_a_very_large_number_of_seconds_is_no_limit(value: Any) -> None:
    with sg.call_limits(cpu_seconds=value, seconds=value):
        assert unlimited() is not None


@contextmanager
def after(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def test_a_flag_ends_calls_and_those_after() -> None:
    flag, call = sg.StopFlag(), endless(unlimited())
    with pytest.raises(Stopped), after(0.05, flag.set), sg.call_limits(stop=flag):
        call()
    assert flag.is_set()
    with pytest.raises(Stopped), sg.call_limits(stop=flag):
        call()


def test_a_flag_ends_a_compilation() -> None:
    flag = sg.StopFlag()
    flag.set()
    schema = {"enum": [f"text {i * 7919}" for i in range(20_000)]}
    with pytest.raises(Stopped), sg.call_limits(stop=flag):
        Matcher(sg.json_schema(schema), Vocabulary.of_bytes())


LONG_PATTERN = "".join(f"(?:a|[b{chr(0x4E00 + i)}])" for i in range(20_000))
LARGE_GRAMMAR = (
    "start: "
    + " | ".join(f"r{i}" for i in range(500))
    + "".join(f'\nr{i}: "a{i}" K{i}\nK{i}: /k{i}(?![a-z])/' for i in range(500))
)
READINGS: dict[str, Callable[[], Any]] = {
    "a schema": lambda: sg.json_schema({"properties": {f"a{i}": {"type": "string"} for i in range(100_000)}}),
    "a schema's text": lambda: sg.json_schema("[" + '{"a": 1},' * 100_000 + "1]"),
    "a pattern": lambda: sg.regex(LONG_PATTERN),
    "a pattern of a schema": lambda: sg.json_schema({"pattern": LONG_PATTERN}),
    "a grammar": lambda: sg.lark(LARGE_GRAMMAR),
    "an example": lambda: sg.json_schema({"minimum": 1}).example(seed=1),
    "a minimal value": lambda: sg.json_schema({"enum": ["x" * i for i in range(2000)]}).minimal(),
}


@pytest.mark.parametrize("reading", READINGS)
def test_reading_ends_with_the_limits_too(reading: str) -> None:
    """The error of each call is the package's own, inside the block and outside."""
    flag = sg.StopFlag()
    flag.set()
    ways = [({"seconds": 0}, LimitExceeded), ({"cpu_seconds": 0}, LimitExceeded), ({"stop": flag}, Stopped)]
    for limits, kind in ways:
        inside: list[BaseException] = []

        def read(limits: Any = limits, inside: list[BaseException] = inside) -> None:
            with sg.call_limits(**limits):
                try:
                    READINGS[reading]()
                except sg.StructgenError as error:
                    inside.append(error)
                    raise

        with pytest.raises(kind) as outside:
            read()
        assert isinstance(inside[0], kind)
        if kind is LimitExceeded:
            assert outside.value.limit == "call_seconds" and outside.value.hint


def test_patterns_with_large_classes_are_read_quickly_or_refused() -> None:
    """A pattern of 20 kB took 18 s to read, since the other cases of each `\\p{L}` were looked up again."""
    for pattern in (
        r"(?i:\p{L})" * 2000,
        r"(?:\p{Lu}|\P{Lu})" * 1000,
        "(?i)" + "".join(rf"[\p{{L}}{chr(0x4E00 + i)}]" for i in range(5000)),
        "(?i)" + "".join(rf"[^\w{chr(0x4E00 + i)}]" for i in range(5000)),
    ):
        start = time.process_time()
        try:
            sg.regex(pattern, dialect="ecma")
        except LimitExceeded as error:
            assert error.limit == "class_ranges"
        assert time.process_time() - start < 30  # it takes up to two seconds


def test_a_flag_ends_masks_in_other_threads() -> None:
    flag = sg.StopFlag()
    flag.set()
    matchers = [Matcher(sg.json_schema(exploding_patterns(5)), Vocabulary.of_bytes()) for _ in range(3)]
    for matcher in matchers:
        for byte in b'{"k":"abcaabbcadcb':
            assert matcher.advance(byte)
    out = np.zeros((3, matchers[0].vocabulary.words), np.int32)

    def fill() -> None:
        for _ in range(10_000):  # each mask is little work, and remembered
            fill_masks(matchers, out, threads=3)
            for matcher in matchers:
                matcher.advance(ord("a"))

    with pytest.raises(Stopped), sg.call_limits(stop=flag):
        fill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_calls(number: int) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        call = endless(unlimited())
        with pytest.raises(KeyboardInterrupt), after(0.05, lambda: signal.raise_signal(number)):
            call()
    finally:
        signal.signal(number, before)


def read_on(matcher: Matcher, flag: sg.StopFlag) -> None:
    """Each turn that is waited for is short, or ends by the flag."""
    while not flag.is_set():
        matcher.mask()
        matcher.advance(ord("a"))
    raise _core.Stopped


def test_a_thread_that_waits_for_its_turn_can_be_stopped() -> None:
    vocabulary = unlimited()
    call, waits = endless(vocabulary), Matcher(sg.regex("[ab]+"), vocabulary)
    flag, other_flag = sg.StopFlag(), sg.StopFlag()

    def run() -> None:
        with pytest.raises(Stopped), sg.call_limits(stop=flag):
            call()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        time.sleep(0.05)  # it is in the core by now, mostly
        with pytest.raises(Stopped), after(0.1, other_flag.set), sg.call_limits(stop=other_flag):
            read_on(waits, other_flag)
    finally:
        flag.set()
        thread.join()


# ------------------------------------------------------------------ one constraint alone


def exhaust(matcher: Matcher, text: bytes) -> None:
    draw = random.Random(3)
    for byte in text:
        assert matcher.advance(byte)
    while True:
        matcher.accepts([draw.choice(b"abcd") for _ in range(24)])


@pytest.mark.parametrize(
    ("limit", "value"), [("regex_nodes", 40_000), ("program_bytes", 4 << 20), ("automaton_states", 2_000)]
)
def test_a_constraint_meets_its_limits_alone(limit: str, value: int) -> None:
    vocabulary = Vocabulary.of_bytes().with_limits(**{"call_steps": FOREVER, limit: value})
    harmless = sg.json_schema(
        {"type": "object", "properties": {"a": {"pattern": "^[a-z]+(foo|bar)[0-9]{1,3}$"}}}
    )
    early = Matcher(harmless, vocabulary)
    hostile = Matcher(sg.json_schema(exploding_patterns()), vocabulary)
    with pytest.raises(LimitExceeded) as caught:
        exhaust(hostile, b'{"k":"')
    assert caught.value.limit == limit
    for matcher in (early, Matcher(harmless, vocabulary), Matcher(sg.regex("x(a|b)+c"), vocabulary)):
        for byte in b'{"a":"zzfoo12"}' if matcher.constraint is harmless else b"xabac":
            assert matcher.mask()[byte >> 5] >> (byte & 31) & 1
            assert matcher.advance(byte)
        assert matcher.is_complete()


def test_memory_of_constraints_is_counted_and_given_back() -> None:
    vocabulary = Vocabulary.of_bytes()
    start = vocabulary.engine.memory
    program = vocabulary.engine.compile(
        sg.json_schema({"enum": [f"text {i * 7919}" for i in range(5000)]}).lower()
    )
    assert program.memory > 100_000
    assert vocabulary.engine.memory >= start + program.memory
    numbers = [
        vocabulary.engine.compile(sg.json_schema({"multipleOf": 10**6 + 3 + 2 * i}).lower())
        for i in range(50)
    ]
    grown = vocabulary.engine.memory
    for number in numbers:
        matcher = _core.Matcher(number)
        for byte in b"123":
            matcher.mask()
            matcher.advance(byte)
    assert vocabulary.engine.memory > grown + 50 * 1000  # what reading them makes


def test_memory_of_results_and_matchers_is_not_charged() -> None:
    constraint: Constraint = sg.regex("(ab)*")
    program = Vocabulary.of_bytes().engine.compile(constraint.lower())
    sizes = []
    for _ in range(6):
        for _ in range(300):
            matcher = _core.Matcher(program)
            for byte in b"abab" * 5:
                assert matcher.advance(byte)
            matcher.mask(), matcher.forced_bytes(), matcher.fork()
            matcher.witness(), matcher.witness_tokens(), matcher.accepts([97, 98] * 40), matcher.forced()
        sizes.append(program.memory)
    assert sizes[-1] == sizes[1]


def test_a_new_space_starts_when_one_is_full() -> None:
    vocabulary = Vocabulary.of_bytes().with_limits(space_bytes=2 << 20)
    most = 0
    for i in range(60):
        matcher = Matcher(
            sg.json_schema({"pattern": f"^(.*a.{{8}}b{i}|.*c.{{6}}d)$", "type": "string"}), vocabulary
        )
        for byte in b'"acacaacbsacb':
            assert matcher.advance(byte)
            matcher.mask()
        most = max(most, vocabulary.engine.memory)
    assert most < 8 << 20


# ------------------------------------------------------------------ found by review


def test_limits_that_end_in_another_thread_have_ended_in_the_first() -> None:
    def bounded() -> Iterator[None]:
        with _core.CallLimits(steps=5):
            yield

    generator = bounded()
    thread = threading.Thread(target=generator.close)
    next(generator)
    thread.start()
    thread.join()
    matcher = Matcher(sg.regex("[a-z]+(foo|bar)"), Vocabulary.of_bytes())
    assert matcher.advance(ord("a")) and matcher.mask() is not None


def test_many_small_calls_are_stopped_too() -> None:
    matcher, flag = Matcher(sg.regex("[ab]*"), Vocabulary.of_bytes()), sg.StopFlag()
    flag.set()

    def read() -> None:
        for _ in range(10**6):
            matcher.mask()

    with pytest.raises(Stopped), sg.call_limits(stop=flag):
        read()
    with pytest.raises(LimitExceeded, match="call_seconds"), sg.call_limits(cpu_seconds=0.01):
        read()


def test_a_signal_handler_that_uses_the_vocabulary_does_not_wait_for_its_own_thread() -> None:
    vocabulary = unlimited()
    call, other = endless(vocabulary), Matcher(sg.regex("x"), vocabulary)
    before = signal.signal(signal.SIGTERM, lambda *_: other.mask())
    try:
        with (
            pytest.raises(ConcurrentUse, match="signal handler"),
            after(0.1, lambda: signal.raise_signal(15)),
        ):
            call()
    finally:
        signal.signal(signal.SIGTERM, before)
