"""What was learned, as a file: it draws as before, and is refused where it is about something else or damaged."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import GenerationError, LimitExceeded, OptionError
from structgen.inference.bound_trie import BoundTrie
from structgen.inference.prefixes import Distribution
from structgen.inference.trie_files import read_trie, write_trie
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary
from tests.inference.three_bits import LANGUAGE, VOCABULARY, draw
from tests.inference.toys import END, t1_distribution


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    learned = sg.inference.KnownDistributions()
    draw(learned=learned)
    path = tmp_path / "known.npz"
    learned.save(path)
    return path


def test_it_draws_as_before(saved: Path) -> None:
    kept = sg.inference.KnownDistributions()
    draw(learned=kept)
    wanted = draw(learned=kept, seed=6)
    found = draw(learned=sg.inference.KnownDistributions.load(saved), seed=6)
    assert list(found) == list(wanted)
    assert 1 < found.account.calls <= 8  # distributions that are compared
    assert 1 < wanted.account.calls <= 8  # of another model


def test_distributions_of_another_model_are_refused() -> None:
    """Also where it says the same at first; the same model again is not asked at all."""
    model = DistributionModel(VOCABULARY, t1_distribution)
    kept = sg.inference.KnownDistributions()
    draw(model, learned=kept)
    assert draw(model, learned=kept).account.calls == 0
    draw(DistributionModel(VOCABULARY, t1_distribution), learned=kept)
    for other in (
        lambda tokens: (0.9, 0.1, 0),
        lambda tokens: t1_distribution(tokens) if len(tokens) < 2 else (0.3, 0.3, 0.4),
    ):
        with pytest.raises(OptionError, match="belongs to another model"):
            draw(DistributionModel(VOCABULARY, other), learned=kept)


def test_one_call_at_a_time() -> None:
    """Distributions that are forgotten all the time, by calls in several threads; and a call within a call."""
    model = DistributionModel(VOCABULARY, t1_distribution)
    kept = sg.inference.KnownDistributions(limit=3_000)

    async def together() -> list[sg.inference.Posterior[str]]:
        return await asyncio.gather(
            *(
                sg.inference.sample_async(model, "", LANGUAGE, n=200, seed=seed, learned=kept)
                for seed in range(4)
            )
        )

    assert [len(one) for one in asyncio.run(together())] == [200] * 4

    async def waiting() -> None:
        started, go_on = threading.Event(), threading.Event()
        slow = sg.inference.potential(lambda text: started.set() or go_on.wait(120))
        first = asyncio.ensure_future(
            sg.inference.sample_async(model, "", LANGUAGE, n=3, learned=kept, potentials=slow, seed=1)
        )
        assert await asyncio.to_thread(started.wait, 120)
        with pytest.raises(LimitExceeded, match="another call used the same KnownDistributions"):
            await sg.inference.sample_async(model, "", LANGUAGE, learned=kept, max_seconds=0.1)
        go_on.set()
        await first

    kept = sg.inference.KnownDistributions()
    asyncio.run(waiting())

    def inner(text: str) -> bool:
        return bool(draw(model, learned=kept, potentials=within))

    within = sg.inference.potential(inner)
    kept = sg.inference.KnownDistributions()
    with pytest.raises(GenerationError, match="used by a call that is in progress"):
        draw(model, learned=kept, potentials=within)
    assert repr(kept).startswith("<KnownDistributions of")


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"output": sg.choice(["000"])}, "constraint"),
        ({"temperature": 0.5}, "temperature"),
        ({"max_tokens": 7}, "max_tokens"),
        ({"sampler": "asap"}, "sampler"),
        ({"potentials": sg.inference.potential(lambda text: True)}, "potential"),
        (
            {"model": DistributionModel(Vocabulary.from_tokens([b"1", b"0", None], [END]), t1_distribution)},
            "vocabulary",
        ),
        ({"model": DistributionModel(VOCABULARY, lambda tokens: (0.2, 0.3, 0.5))}, "model"),
    ],
)  # fmt: skip
def test_distributions_about_something_else_are_refused(
    saved: Path, changed: dict[str, Any], what: str
) -> None:
    with pytest.raises(OptionError, match=f"belongs to another {what}"):
        draw(learned=sg.inference.KnownDistributions.load(saved), **changed)


def test_distributions_under_potentials_are_not_saved(tmp_path: Path) -> None:
    learned = sg.inference.KnownDistributions()
    draw(learned=learned, potentials=sg.inference.potential(lambda text: "0" in text))
    with pytest.raises(OptionError, match="a file cannot identify functions"):
        learned.save(tmp_path / "known.npz")


def test_another_process_reads_them(saved: Path) -> None:
    program = f"""
        import structgen as sg
        from tests.inference.three_bits import draw
        from pathlib import Path
        print(draw(learned=sg.inference.KnownDistributions.load({str(saved)!r}), seed=6).account.calls)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "8"  # distributions that are compared


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_files_are_refused_or_read(saved_bytes: bytes, place: int, value: int) -> None:
    data = bytearray(saved_bytes)
    data[place % len(data)] = value
    path = Path("/dev/shm" if Path("/dev/shm").is_dir() else ".") / f"structgen-known-{id(saved_bytes)}.npz"
    try:
        path.write_bytes(data)
        read_trie(path, 1 << 20)
    except (OptionError, LimitExceeded):
        pass
    finally:
        path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def saved_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    learned = sg.inference.KnownDistributions()
    draw(learned=learned)
    path = tmp_path_factory.mktemp("known") / "known.npz"
    learned.save(path)
    return path.read_bytes()


def _changed(parts: dict[str, Any], name: str, place: int, value: float) -> None:
    parts[name] = parts[name].copy()
    parts[name][place] = value


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("parents", 1, 5),
        ("parents", 2, -1),
        ("parents", 0, 0),
        ("tokens_taken", 1, 77),
        ("counts", 0, 9),
        ("counts", 1, -1),
        ("tokens", 0, 2),
        ("log_p", 0, 1.0),
        ("log_p", 1, np.nan),
        ("theta", 0, 0.5),
        ("tails", 0, 3.0),
        ("log_p", 0, -1e-9),
        ("parents", 3, -2),
        ("tokens", 0, -4),
    ],
)
def test_distributions_that_do_not_fit_together_are_refused(
    saved: Path, name: str, place: int, value: float
) -> None:
    with np.load(saved) as file:
        parts = dict(file)
    _changed(parts, name, place, value)
    np.savez(saved, **parts)
    with pytest.raises(OptionError, match="was not written by KnownDistributions.save"):
        sg.inference.KnownDistributions.load(saved)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("parents", lambda one: one.astype(float)),
        ("parents", lambda one: np.array(0)),
        ("counts", lambda one: one.astype(str)),
        ("counts", lambda one: one.astype(float)),
        ("tokens", lambda one: one.astype(complex)),
        ("theta", lambda one: one.astype(str)),
        ("tails", lambda one: one.reshape(1, -1)),
        ("tokens_taken", lambda one: one * 1.5),
        ("log_p", lambda one: one * 0),
        ("log_p", lambda one: one[:-1]),
        ("format", lambda one: one + 1),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(saved: Path, name: str, change: Any) -> None:
    with np.load(saved) as file:
        parts = dict(file)
    parts[name] = change(parts[name])
    np.savez(saved, **parts)
    with pytest.raises(OptionError, match="was not written by KnownDistributions.save"):
        sg.inference.KnownDistributions.load(saved)


def test_tokens_beyond_the_vocabulary_are_refused(saved: Path) -> None:
    with np.load(saved) as file:
        parts = dict(file)
    place = np.flatnonzero(parts["tokens"] == END)[-1]
    parts["tokens"] = parts["tokens"].copy()
    parts["tokens"][place] = 77
    np.savez(saved, **parts)
    with pytest.raises(OptionError, match="belongs to another vocabulary"):
        draw(learned=sg.inference.KnownDistributions.load(saved))


def test_large_files_and_missing_ones(saved: Path) -> None:
    with pytest.raises(LimitExceeded, match="holds more than 100 bytes"):
        sg.inference.KnownDistributions.load(saved, limit=100)
    with pytest.raises(FileNotFoundError):
        sg.inference.KnownDistributions.load(saved.with_name("none"))


def test_nothing_learned_yet_is_saved_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "known.npz"
    write_trie(path, BoundTrie(), "{}")
    trie, label = read_trie(path, 1 << 20)
    assert trie.root is None and trie.nodes == 0 and label == "{}"


def test_memory_is_counted_as_it_grows_and_shrinks() -> None:
    rng = np.random.default_rng(3)
    trie = BoundTrie(20_000)
    distribution = Distribution.of(np.zeros(40_000, np.float32))
    nodes = [trie.add(None, 0, None, distribution)]
    for _ in range(300):
        parent = nodes[rng.integers(len(nodes))]
        token = int(rng.integers(40_000))
        trie.hold(parent, token, None, distribution)
        if token not in parent.children:
            nodes.append(trie.add(parent, token, None, distribution))
    assert trie.memory == sum(node.memory() for node in trie.in_order())
    assert trie.trim() > 0
    kept = trie.in_order()
    assert trie.memory == sum(node.memory() for node in kept) <= trie.limit
    assert all(node.parent is None or node.parent.children[node.token] is node for node in kept)


def test_sampling_does_not_block_the_event_loop() -> None:
    async def both() -> tuple[sg.inference.Posterior[str], int]:
        ticks, ticked = 0, threading.Event()

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                if ticks > 10:
                    ticked.set()
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        found = await sg.inference.sample_async(
            DistributionModel(VOCABULARY, t1_distribution),
            "",
            LANGUAGE,
            n=9000,
            seed=5,
            cancel=lambda: not ticked.wait(600),  # the loop goes on while this waits
        )
        ticking.cancel()
        return found, ticks

    found, ticks = asyncio.run(both())
    assert list(found) == list(draw(n=9000)) and ticks > 10


def test_cancelling_stops_the_sampling() -> None:
    asked: list[int] = []

    async def cancelled() -> None:
        task = asyncio.ensure_future(
            sg.inference.sample_async(
                DistributionModel(VOCABULARY, t1_distribution),
                "",
                LANGUAGE,
                n=10**9,
                cancel=lambda: bool(asked.append(1)),
            )
        )  # fmt: skip
        while not asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    seen, end = 0, time.monotonic() + 600
    while len(asked) != seen:  # at most one more round was under way
        assert time.monotonic() < end, "it goes on"
        seen = len(asked)
        time.sleep(0.2)


def test_a_budget_that_ends_at_once_is_an_error() -> None:
    with pytest.raises(LimitExceeded, match="no text was drawn within max_attempts"):
        draw(max_attempts=0)
