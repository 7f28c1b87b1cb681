"""Constraints that are slow or too large in the server's process move to a matcher process, with the same masks."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from structgen import _core
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.serving import isolating_compiler, migrating_matcher
from structgen.serving.isolatable_constraint import IsolatableConstraint
from structgen.serving.isolating_compiler import IsolatingCompiler
from structgen.serving.limits import RequestLimits
from structgen.serving.migrating_matcher import MigratingMatcher
from structgen.serving.requests import constraint_of

from .isolation import SPECS, VOCABULARY

pytestmark = pytest.mark.usefixtures("quick_stays_quick")

PATTERN = "(ab|ba|c){2,9}"


class Tired:
    """A matcher that raises at its third mask."""

    def __init__(self, matcher: Matcher, limit: str) -> None:
        self._matcher, self._limit, self._masks = matcher, limit, 0

    def mask(self) -> Any:
        self._masks += 1
        if self._masks == 3:
            raise LimitExceeded("that is enough", limit=self._limit)
        return self._matcher.mask()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)


@pytest.fixture(scope="module")
def compiler() -> Iterator[IsolatingCompiler]:
    limits = RequestLimits(slow_mask_seconds=30.0, step_seconds=30.0, compile_seconds=60.0)
    with IsolatingCompiler(VOCABULARY, limits, workers=1) as made:
        yield made


def quick(compiler: IsolatingCompiler, kind: Any, spec: Any) -> tuple[IsolatableConstraint, MigratingMatcher]:
    found = compiler.compile(kind, spec)
    assert isinstance(found, IsolatableConstraint)
    matcher = found.open()
    assert isinstance(matcher, MigratingMatcher)
    return found, matcher


def walk_together(near: Matcher, one: Any, seed: int = 0, steps: int = 6) -> None:
    draw = random.Random(seed)
    for _ in range(steps):
        assert np.array_equal(near.mask(), one.mask()) and one.tokens == near.tokens
        allowed = np.flatnonzero(np.unpackbits(near.mask().view(np.uint8), bitorder="little"))
        onwards = [int(one) for one in allowed if one not in VOCABULARY.eos_ids]
        if not onwards:
            return
        token = draw.choice(onwards)
        assert near.advance(token) and one.advance(token)


@pytest.mark.parametrize(
    ("case", "limit"), [(0, "call_seconds"), (1, "mask_steps"), (2, "call_seconds"), (3, "earley_items")]
)
def test_a_text_that_meets_a_limit_goes_on_in_a_process_of_its_own(
    compiler: IsolatingCompiler, case: int, limit: str
) -> None:
    kind, spec = SPECS[case]
    found, one = quick(compiler, kind, spec)
    one._matcher = Tired(one._matcher, limit)
    walk_together(Matcher(constraint_of(kind, spec), VOCABULARY), one, steps=5)
    if len(one.tokens) >= 3:
        assert found.is_slow and one._origin is None


def test_a_matcher_that_is_slow_again_and_again_moves(
    compiler: IsolatingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, one = quick(compiler, "regex", PATTERN)
    near = Matcher(constraint_of("regex", PATTERN), VOCABULARY)
    clock = iter(range(10_000))
    monkeypatch.setattr(migrating_matcher, "thread_time", lambda: 0.02 * next(clock))
    monkeypatch.setattr(migrating_matcher, "_SLOW_CALL_SECONDS", 0.005)
    walk_together(near, one, steps=2)
    assert not found.is_slow
    walk_together(near, one, steps=4)
    assert found.is_slow and one._origin is None


@pytest.mark.parametrize("limit", ["regex_nodes", "space_bytes"])
def test_a_matcher_that_meets_a_full_engine_continues_in_a_fresh_one(
    compiler: IsolatingCompiler, limit: str
) -> None:
    pattern = f"{PATTERN}{limit}"
    found, one = quick(compiler, "regex", pattern)
    neighbour, _ = quick(compiler, "regex", f"{pattern}x")
    full, started = (
        compiler._shared_vocabulary,
        compiler.matcher_processes.starts if compiler.matcher_processes else 0,
    )
    one._matcher = Tired(one._matcher, limit)
    near = Matcher(constraint_of("regex", pattern), VOCABULARY)
    walk_together(near, one)
    assert (
        compiler.matcher_processes is not None
        and compiler.matcher_processes.starts == started
        and not found.is_slow
    )
    assert compiler._shared_vocabulary is not full
    assert found.compiled is not None and found.compiled.vocabulary is compiler._shared_vocabulary
    again = compiler.compile("regex", f"{pattern}x")  # what was compiled in the full one is compiled again
    assert isinstance(again, IsolatableConstraint) and again is not neighbour
    assert again.compiled is not None and again.compiled.vocabulary is compiler._shared_vocabulary
    one._matcher = Tired(one._matcher, limit)  # it fills every engine, so it leaves
    one.rollback(len(one.tokens))
    near.rollback(len(near.tokens))
    walk_together(near, one)
    assert found.is_slow and one._origin is None


def test_an_engine_that_holds_too_much_is_replaced(
    compiler: IsolatingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = compiler._shared_vocabulary
    monkeypatch.setattr(isolating_compiler, "_ENGINE_BYTES", 0)
    found = compiler.compile("regex", f"{PATTERN}y")
    assert compiler._shared_vocabulary is not full
    assert isinstance(found, IsolatableConstraint) and found.open().allowed_count()


def test_a_call_that_runs_is_stopped_when_its_client_has_left(
    compiler: IsolatingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, one = quick(compiler, "regex", f"{PATTERN}z")
    running = threading.Event()

    class Endless:
        def mask(self) -> Any:
            running.set()
            while not one._stop.is_set():
                time.sleep(0.001)
            raise _core.Stopped("the call was stopped")

    one._matcher = Endless()
    met: list[str] = []

    def wait() -> None:
        with pytest.raises(LimitExceeded) as caught:
            one.mask()
        met.append(caught.value.limit)

    thread = threading.Thread(target=wait)
    thread.start()
    assert running.wait(60)
    one.on_disconnect()
    thread.join(60)
    assert met == ["disconnected"]


def deep(levels: int) -> dict[str, Any]:
    """Return a schema with 2**levels paths through its references."""
    defs: dict[str, Any] = {
        f"d{i}": {"oneOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"not": {"$ref": f"#/$defs/d{i + 1}"}}]}
        for i in range(levels)
    }
    defs[f"d{levels}"] = {"minimum": 3}
    values = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/d0"}]}
    return {"type": "object", "additionalProperties": values, "$defs": defs}


@pytest.mark.parametrize("form", ["oneOf", "anyOf", "if"])
def test_shared_references_do_not_stop_the_server(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Whether they are quick, refused or moved, no call in this process takes long, and a neighbour goes on."""
    monkeypatch.undo()
    text = json.dumps(deep(60))
    if form == "anyOf":
        text = text.replace("oneOf", "anyOf")
    elif form == "if":
        schema = deep(60)
        for level in range(60):
            below = {"$ref": f"#/$defs/d{level + 1}"}
            schema["$defs"][f"d{level}"] = {"if": below, "then": {"type": "number"}, "else": below}
        text = json.dumps(schema)
    limits = RequestLimits(compile_seconds=2.0, step_seconds=1.0)
    with IsolatingCompiler(VOCABULARY, limits, workers=1) as compiler:
        neighbour = compiler.compile("regex", "[ab]{40}").open()
        longest = 0.0
        try:
            matcher = compiler.compile("json", text).open()
            for byte in b'{"a": 17, "b": -1':
                started = time.thread_time()
                try:
                    matcher.mask()
                    if not matcher.advance(byte):
                        break
                finally:
                    longest = max(longest, time.thread_time() - started)
                assert neighbour.advance(ord("a")) and neighbour.allowed_count() >= 2
        except LimitExceeded as error:
            assert error.limit not in ("internal", "closed")
        assert longest < 10.0  # seconds of CPU time; minutes without limits
        assert neighbour.advance(ord("b"))
