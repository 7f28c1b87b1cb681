"""Each client of a queue has the same share."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from structgen.serving.fair_queue import FairQueue, Queued


def test_one_client_does_not_hold_up_the_others() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(8):
        queue.put("a", 1_000_000, f"a{number}")
    assert queue.take() == "a0"
    for number in range(3):
        queue.put("b", 100, f"b{number}")
    queue.put("c", 1_000_000, "c0")
    queue.put("c", 1_000_000, "c1")
    order = [queue.take() for _ in range(len(queue))]
    assert set(order[:4]) == {"b0", "b1", "b2", "c0"}
    assert [one for one in order if one[0] == "a"] == [f"a{number}" for number in range(1, 8)]
    assert order.index("c1") < order.index("a3")


def test_every_client_has_the_same_share_of_bytes() -> None:
    draw = random.Random(0)
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for client in "abc":
        for _ in range(300):
            size = draw.randint(1, {"a": 1000, "b": 100, "c": 10}[client])
            queue.put(client, size, (client, size))
    had = dict.fromkeys("abc", 0)
    while len(queue._waiting) == 3:
        client, size = queue.take()
        had[client] += size
        assert max(had.values()) - min(had.values()) <= 2 * 1000
    while queue:
        queue.take()
    assert not queue._ends  # clients without waiting prompts take no memory


def test_a_queue_that_was_cleared_is_empty_and_forgets_its_clients() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(5):
        queue.put("a", 10, number)
    queue.clear()
    assert not queue and not queue._ends
    queue.put("b", 1, 1)
    assert queue.take() == 1


class ObviousQueue:
    """Every start is worked out from scratch, and what is removed was never there."""

    def __init__(self) -> None:
        self.items: list[tuple[str, int, int, float]] = []
        self.ends: dict[str, float] = {}
        self.now = 0.0

    def put(self, client: str, size: int, number: int) -> None:
        self.items.append((client, size, number, self.now))

    def remove(self, number: int) -> None:
        self.items = [item for item in self.items if item[2] != number]
        if not self.items:
            self.ends.clear()

    def take(self) -> int:
        ends, starts = dict(self.ends), {}
        for client, size, number, arrived in self.items:
            starts[number] = max(arrived, ends.get(client, 0.0))
            ends[client] = starts[number] + size
        first = min(self.items, key=lambda item: (starts[item[2]], item[2]))
        self.now = max(self.now, starts[first[2]])
        self.ends[first[0]] = starts[first[2]] + first[1]
        self.remove(first[2])
        return first[2]


@given(st.lists(st.tuples(st.sampled_from("pprtt"), st.sampled_from("abc"), st.integers(1, 5)), max_size=60))
def test_the_order_is_that_of_a_queue_without_what_was_removed(
    steps: list[tuple[str, str, int]],
) -> None:
    queue: FairQueue[int] = FairQueue()
    obvious = ObviousQueue()
    entries: list[Queued[int]] = []
    for step, client, size in steps:
        if step == "p":
            entries.append(queue.put(client, size, len(entries)))
            obvious.put(client, size, len(entries) - 1)
        elif step == "r" and entries:
            entry = entries[7 * size % len(entries)]
            queue.remove(entry)
            obvious.remove(entry.what)
        elif step == "t" and queue:
            assert queue.take() == obvious.take()
        assert len(queue) == len(obvious.items)
    while queue:
        assert queue.take() == obvious.take()
    assert not obvious.items and not queue._ends and not queue._waiting


def test_what_was_removed_costs_nothing_and_takes_no_memory() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(16):
        queue.put("a", 1, f"a{number}")
    for _ in range(20_000):
        queue.remove(queue.put("b", 1, "hung up"))
    assert len(queue) == 16 and list(queue._waiting) == ["a"]
    queue.put("b", 1, "b")
    assert "b" in (queue.take(), queue.take())


def test_what_was_taken_in_vain_comes_back_to_its_place() -> None:
    queue: FairQueue[str] = FairQueue()
    first = queue.put("a", 1, "a0")
    queue.put("a", 1, "a1")
    queue.put("b", 1, "b0")
    assert queue.take() == "a0"
    queue.put_back(first)
    assert [queue.take() for _ in range(3)] == ["a0", "b0", "a1"]
