"""Each client of a queue has the same share."""

from __future__ import annotations

import random

from structgen.serving.fair_queue import FairQueue


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
    while min(sum(one[2][0] == client for one in queue._heap) for client in "abc"):
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
