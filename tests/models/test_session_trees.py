"""Sessions that read trees: the logits at a node are those of one forward pass over the path to it, and what is kept of
a tree is as if it had been appended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.errors import ModelError  # noqa: E402
from structgen.models import DistributionModel, with_processors  # noqa: E402
from structgen.models.batched_session import BatchedSession  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402

from .test_session import PROMPTS, Tree, assert_exact, full, model, random_path, random_tree, tolerance  # noqa: E402
from .tiny import SIZE, tiny_model  # noqa: E402

BATCHED = ["llama", "gpt2", "llama-eager"]
READERS = [
    *BATCHED,
    "llama",
    "gpt2",
    "llama-eager",
    "mamba",
    "mamba2",
    "jamba",
    "bamba",
    "lfm2",
    "falcon_h1",
    "qwen3_next",
]
WIDE: Tree = ([20, 21, 22, 23, 24], [-1, -1, -1, 0, 1])
CHAIN: Tree = ([30, 31, 32], [-1, 0, 1])
NONE: Tree = ([], [])


def path_to(tree: Tree, node: int) -> list[int]:
    """The tokens from the first node down to `node`."""
    tokens, parents = tree
    return [] if node < 0 else [*path_to(tree, parents[node]), tokens[node]]


def close(name: str, found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=tolerance(name))


def read_trees(
    session: Any, name: str, rows: list[list[int]], runs: list[list[int]], trees: list[Tree]
) -> Any:
    """Let the session read, and compare its logits after each token with a forward pass over the path to it."""
    scores = session.append_trees(runs, trees)
    for held, run, tree, scored in zip(rows, runs, trees, scores, strict=True):
        assert scored.shape == (len(run) + len(tree[0]), SIZE) and scored.dtype == np.float32
        if run:
            close(name, scored[: len(run)], full(name, [*held, *run])[len(held) :])
        for node in range(len(tree[0])):
            close(name, scored[len(run) + node], full(name, [*held, *run, *path_to(tree, node)])[-1])
    return scores


BATCHES = {
    "lone": ([[]], [WIDE]),
    "lone with a run": ([[7, 8]], [WIDE]),
    "different ones": ([[9], [], [10, 11, 12]], [WIDE, CHAIN, ([40], [-1])]),
    "some are empty": ([[9], [], []], [NONE, WIDE, NONE]),
    "chains": ([[9], [9], [9]], [CHAIN, CHAIN, CHAIN]),
    "runs alone": ([[9, 10], [9], []], [NONE, NONE, NONE]),
    "nothing": ([[], [], []], [NONE, NONE, NONE]),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("batch", BATCHES)
def test_each_node_is_reported_as_by_a_forward_pass(name: str, batch: str) -> None:
    runs, trees = BATCHES[batch]
    rows = PROMPTS[: len(runs)]
    session = start_session(model(name), SIZE, rows)
    scores = read_trees(session, name, rows, runs, trees)
    before = [scored.copy() for scored in scores]
    for row in range(len(rows)):
        session.keep(row, [])
    rows = [[*held, *run] for held, run in zip(rows, runs, strict=True)]
    assert_exact(session, name, rows)
    read_trees(session, name, rows, runs, trees)
    for one, other in zip(scores, before, strict=True):
        assert np.array_equal(one, other), "earlier results do not change"


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("path", [[], [0], [1], [2], [0, 3], [1, 4]])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("then", ["look", "append", "scored", "rollback", "far back", "select", "trees"])
def test_what_is_kept_is_as_if_it_had_been_appended(
    name: str, path: list[int], alone: bool, then: str
) -> None:
    rows, runs, trees = (
        ([PROMPTS[0]], [[9]], [WIDE]) if alone else (PROMPTS, [[9], [], [8]], [WIDE, WIDE, CHAIN])
    )
    paths = [path] if alone else [path, [0], [0, 1]]
    session = start_session(model(name), SIZE, rows)
    session.append_trees(runs, trees)
    for row in reversed(range(len(rows))):
        session.keep(row, paths[row])
    rows = [
        [*held, *run, *(tree[0][node] for node in kept)]
        for held, run, tree, kept in zip(rows, runs, trees, paths, strict=True)
    ]
    more = [[40 + row] * (row + 1) for row in range(len(rows))]
    if then == "append":
        session.append(more)
        rows = [[*held, *new] for held, new in zip(rows, more, strict=True)]
    elif then == "scored":
        scores = session.append_scored(more)
        rows = [[*held, *new] for held, new in zip(rows, more, strict=True)]
        for scored, held, new in zip(scores, rows, more, strict=True):
            close(name, scored, full(name, held)[len(held) - len(new) :])
    elif then in ("rollback", "far back"):
        n = 1 if then == "rollback" else len(path) + 2
        session.rollback(0, n)
        rows[0] = rows[0][:-n]
    elif then == "select":
        places = [0, 0] if alone else [2, 0, 0]
        session.select(places)
        rows = [rows[place] for place in places]
    elif then == "trees":
        read_trees(session, name, rows, [[] for _ in rows], [WIDE for _ in rows])
        for row in range(len(rows)):
            session.keep(row, [1, 4])
        rows = [[*held, 21, 24] for held in rows]
    assert_exact(session, name, rows)
    session.append([[3]] * len(rows))
    assert_exact(session, name, [[*held, 3] for held in rows])


@pytest.mark.parametrize("name", BATCHED)
def test_a_lone_row_is_even_again_after_any_keep(name: str) -> None:
    session = start_session(model(name), SIZE, [PROMPTS[0]])
    assert isinstance(session, BatchedSession)
    session.append_trees([[9]], [WIDE])
    session.keep(0, [1, 4])
    assert session._is_even and session._cache.get_seq_length() == len(PROMPTS[0]) + 3
    close(name, session.logits()[0], full(name, [*PROMPTS[0], 9, 21, 24])[-1])


def test_a_row_whose_tokens_were_all_rolled_back_reads_a_tree() -> None:
    session: Any = start_session(model("llama"), SIZE, [[4], [5, 6]])
    session.rollback(0, 1)
    read_trees(session, "llama", [[], [5, 6]], [[], []], [WIDE, NONE])
    session.keep(1, [])
    session.keep(0, [2])
    assert_exact(session, "llama", [[22], [5, 6]])


def test_a_row_that_stepped_back_keeps_nothing_of_its_tree() -> None:
    session: Any = start_session(model("llama"), SIZE, PROMPTS)
    session.rollback(0, 2)
    rows = [PROMPTS[0][:-2], *PROMPTS[1:]]
    read_trees(session, "llama", rows, [[], [], [9]], [WIDE, CHAIN, WIDE])
    for row in range(3):
        session.keep(row, [])
    assert_exact(session, "llama", [*rows[:2], [*rows[2], 9]])


def test_what_was_reported_before_is_not_written_to() -> None:
    session: Any = start_session(model("llama"), SIZE, PROMPTS)
    reported = [*session.append_scored([[7], [7], [7, 8]]), session.logits()]
    before = [one.copy() for one in reported]
    session.append_trees([[]] * 3, [WIDE] * 3)
    for row in range(3):
        session.keep(row, [1, 4])
    for one, other in zip(reported, before, strict=True):
        assert np.array_equal(one, other)


def test_trees_after_a_shared_beginning() -> None:
    beginning = list(range(2, 32))
    rows = [[*beginning, 40, 41], [*beginning, 42], beginning]
    session: Any = start_session(model("llama"), SIZE, rows)
    read_trees(session, "llama", rows, [[], [9], []], [WIDE, CHAIN, WIDE])
    for row, path in enumerate([[1], [0, 1], []]):
        session.keep(row, path)
    assert_exact(session, "llama", [[*rows[0], 21], [*rows[1], 9, 30, 31], rows[2]])


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision(name: str, kind: Any) -> None:
    half = tiny_model(name, dtype=kind)
    session: Any = start_session(half, SIZE, PROMPTS)
    runs, trees = [[9], [], [8, 7]], [WIDE, CHAIN, NONE]
    scores = session.append_trees(runs, trees)
    rows = [[*held, *run] for held, run in zip(PROMPTS, runs, strict=True)]

    def expected(tokens: list[int]) -> Any:
        with torch.inference_mode():
            return half(input_ids=torch.tensor([tokens])).logits[0, -1].float().numpy()

    def near(found: Any, tokens: list[int]) -> None:
        scale = 0.06 if kind == torch.bfloat16 else 0.01  # of the largest logit
        wanted = expected(tokens)
        assert np.isfinite(found).all() and abs(found - wanted).max() < scale * abs(wanted).max()

    for held, run, tree, scored in zip(rows, runs, trees, scores, strict=True):
        for node in range(len(tree[0])):
            near(scored[len(run) + node], [*held, *path_to(tree, node)])
    for row, path in enumerate([[1, 4], [0, 1], []]):
        session.keep(row, path)
        rows[row] = [*rows[row], *(trees[row][0][node] for node in path)]
    for row, tokens in enumerate(rows):
        near(session.logits()[row], tokens)
    session.append([[3], [4], [5]])
    for row, tokens in enumerate(rows):
        near(session.logits()[row], [*tokens, 3 + row])


VOCABULARY = Vocabulary.from_tokens([b"%d," % i for i in range(SIZE - 1)] + [None], [SIZE - 1])


def distribution(tokens: tuple[int, ...]) -> list[float]:
    return list(np.random.default_rng([7, *tokens]).dirichlet(np.ones(SIZE)))


def sessions() -> dict[str, Any]:
    """A session of each kind that reads trees."""
    toy = DistributionModel(VOCABULARY, distribution)
    return {
        "transformers": start_session(model("llama"), SIZE, PROMPTS[:2]),
        "memory": toy.start(PROMPTS[:2]),
        "processed": with_processors(toy, lambda tokens, logits: logits).start(PROMPTS[:2]),
    }


@pytest.mark.parametrize("kind", ["transformers", "memory", "processed"])
def test_misuse_is_reported(kind: str) -> None:
    session = sessions()[kind]
    with pytest.raises(ModelError, match="row 0 has no tree to choose from"):
        session.keep(0, [])
    with pytest.raises(ModelError, match="row 1 the parent of node 0 is node 0"):
        session.append_trees([[], []], [NONE, ([5], [0])])
    with pytest.raises(ModelError, match="row 0 has 2 nodes and 1 parents"):
        session.append_trees([[], []], [([5, 6], [-1]), NONE])
    session.append_trees([[9], []], [WIDE, CHAIN])
    asked: dict[str, Any] = {
        "logits": session.logits,
        "append": lambda: session.append([[1], [2]]),
        "scored": lambda: session.append_scored([[1], [2]]),
        "trees": lambda: session.append_trees([[], []], [NONE, NONE]),
        "select": lambda: session.select([0]),
        "rollback": lambda: session.rollback(0, 1),
    }
    for ask in asked.values():
        with pytest.raises(ModelError, match=r"rows \[0, 1\] have read trees"):
            ask()
    for path in ([3], [0, 4], [0, 0], [1, 3], [5], [-1]):
        with pytest.raises(ModelError, match="are not a path in the tree of row 0"):
            session.keep(0, path)
    session.keep(0, [1, 4])
    with pytest.raises(ModelError, match="row 0 has no tree to choose from"):
        session.keep(0, [])
    for ask in asked.values():
        with pytest.raises(ModelError, match=r"rows \[1\] have read trees"):
            ask()
    session.keep(1, [0, 1])
    assert session.logits().shape == (2, SIZE)
    if kind == "transformers":
        assert_exact(session, "llama", [[*PROMPTS[0], 9, 21, 24], [*PROMPTS[1], 30, 31]])


def test_batches_of_another_size_are_reported() -> None:
    session: Any = start_session(model("llama"), SIZE, PROMPTS)
    with pytest.raises(ModelError, match="3 rows, not 1"):
        session.append_trees([[]], [WIDE])
    with pytest.raises(ModelError, match="3 rows, not 1"):
        session.append_trees([[], [], []], [WIDE])
    assert_exact(session, "llama", PROMPTS)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["memory", "processed"])
def test_models_in_memory_and_processed_ones_read_trees(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def changed(tokens: Sequence[int], logits: Any) -> Any:
        return logits * (1 + sum(tokens) % 5)

    toy = DistributionModel(VOCABULARY, distribution)
    session: Any = (toy if kind == "memory" else with_processors(toy, changed)).start([[0], [0, 1], [1]])

    def expected(tokens: Sequence[int]) -> Any:
        logits = np.log(distribution(tuple(tokens))).astype(np.float32)
        return logits if kind == "memory" else changed(tokens, logits)

    rows: list[list[int]] = [[], [], []]
    for _ in range(8):
        runs = [[int(i) for i in rng.integers(0, SIZE, size=rng.integers(0, 3))] for _ in rows]
        trees = [random_tree(rng, 5) for _ in rows]
        scores = session.append_trees(runs, trees)
        for row, (run, tree, scored) in enumerate(zip(runs, trees, scores, strict=True)):
            assert len(scored) == len(run) + len(tree[0])
            paths = [run[: place + 1] for place in range(len(run))]
            paths += [[*run, *path_to(tree, node)] for node in range(len(tree[0]))]
            for reported, more in zip(scored, paths, strict=True):
                np.testing.assert_allclose(reported, expected([*rows[row], *more]), rtol=1e-5)
        for row in rng.permutation(len(rows)).tolist():
            path = random_path(rng, trees[row][1])
            session.keep(row, path)
            rows[row] = [*rows[row], *runs[row], *(trees[row][0][node] for node in path)]
        back = min(len(rows[0]), int(rng.integers(0, 3)))
        session.rollback(0, back)
        rows[0] = rows[0][: len(rows[0]) - back]
        np.testing.assert_allclose(session.logits(), [expected(row) for row in rows], rtol=1e-5)


def test_who_reads_trees() -> None:
    for name in READERS:
        assert start_session(model(name), SIZE, PROMPTS).capabilities.reads_trees
    for name in ("mistral", "falcon"):
        assert not start_session(model(name), SIZE, PROMPTS).capabilities.reads_trees
