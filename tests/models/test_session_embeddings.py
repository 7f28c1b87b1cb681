"""Embeddings that sessions read without keeping them: the logits after each are those of one forward pass over the
row's embeddings, the path to the node, and the given ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.errors import ModelError  # noqa: E402
from structgen.models import with_processors  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.protocols import start_rows  # noqa: E402

from .test_session import PROMPTS, Tree, assert_exact, model, random_path, random_tree, tolerance  # noqa: E402
from .test_session_hidden_states import Wrapped, assert_states  # noqa: E402
from .test_session_trees import NONE, WIDE, path_to  # noqa: E402
from .tiny import SIZE  # noqa: E402

NAMES = ["llama", "gpt2", "llama-eager"]
pytestmark = pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")


def random_embeddings(name: str, count: int, seed: int = 0) -> Any:
    width = model(name).get_input_embeddings().weight.shape[1]
    return torch.randn((count, width), generator=torch.Generator().manual_seed(seed))


def plain(name: str, tokens: list[int], embeddings: Any) -> np.ndarray:
    """The logits after each embedding that follows `tokens`."""
    with torch.inference_mode():
        own = model(name).get_input_embeddings()(torch.tensor([tokens]))
        logits = model(name)(inputs_embeds=torch.cat([own, embeddings[None]], 1), use_cache=False).logits
    return np.asarray(logits[0, len(tokens) :])


def read(
    session: Any,
    name: str,
    rows: list[list[int]],
    runs: list[list[int]],
    trees: list[Tree],
    embeddings: Any,
    after: list[list[int]],
) -> None:
    """Let the session read, and compare its logits with forward passes."""
    scores, probed = session.append_probed(runs, trees, embeddings, after)
    for row, (held, run, tree, ends) in enumerate(zip(rows, runs, trees, after, strict=True)):
        assert scores[row].shape == (len(run) + len(tree[0]), SIZE)
        assert probed[row].shape == (len(ends), len(embeddings), SIZE) and probed[row].dtype == np.float32
        for place, end in enumerate(ends):
            expected = plain(name, [*held, *run, *path_to(tree, end)], embeddings)
            atol = tolerance(name) * max(1, np.abs(expected).max() / 4)
            np.testing.assert_allclose(probed[row][place], expected, rtol=1e-3, atol=atol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("alone", [True, False])
def test_logits_after_embeddings(name: str, count: int, alone: bool) -> None:
    rows, runs, trees, after = PROMPTS, [[9], [], [10, 11]], [WIDE, NONE, NONE], [[-1, 3, 1], [-1], []]
    if alone:
        rows, runs, trees, after = rows[:1], runs[:1], trees[:1], after[:1]
    session: Any = start_session(model(name), SIZE, rows)
    assert session.capabilities.reads_embeddings
    embeddings = random_embeddings(name, count)
    for path in ([], [0, 3]):
        read(session, name, rows, runs, trees, embeddings, after)
        for row in range(len(rows)):
            session.keep(row, path if row == 0 else [])
        kept = [[WIDE[0][node] for node in path], [], []]
        rows = [[*held, *run, *more] for held, run, more in zip(rows, runs, kept, strict=False)]
        assert_exact(session, name, rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_after_any_sequence_of_operations(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [list(row) for row in (PROMPTS if seed % 2 else PROMPTS[:1])]
    session: Any = start_session(model(name), SIZE, rows, (1, 2))
    operations = ["append", "rollback", "probed", "probed", "probed", "select", "join"]
    for _ in range(20):
        operation = rng.choice(operations)
        runs = [[int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, 4))] for _ in rows]
        if operation == "append":
            session.append(runs)
            rows = [[*row, *new] for row, new in zip(rows, runs, strict=True)]
        elif operation == "probed":
            trees = [random_tree(rng, 4) for _ in rows]
            after = [
                [int(end) for end in rng.permutation(np.arange(-1, len(tree[0])))[: rng.integers(0, 4)]]
                for tree in trees
            ]
            embeddings = random_embeddings(name, int(rng.integers(1, 4)), seed)
            read(session, name, rows, runs, trees, embeddings, after)
            for row in rng.permutation(len(rows)):
                path = random_path(rng, trees[row][1])
                session.keep(int(row), path)
                rows[row] = [*rows[row], *runs[row], *(trees[row][0][node] for node in path)]
        elif operation == "rollback":
            row = int(rng.integers(len(rows)))
            n = min(int(rng.integers(0, 4)), len(rows[row]) - 1)
            session.rollback(row, n)
            rows[row] = rows[row][: len(rows[row]) - n]
        elif operation == "select" and seed % 2:
            places = [int(i) for i in rng.integers(0, len(rows), size=rng.integers(1, 4))]
            session.select(places)
            rows = [list(rows[place]) for place in places]
        elif operation == "join" and seed % 2 and len(rows) < 4:
            session.join(start_session(model(name), SIZE, [[7, 8]], (1, 2)))
            rows = [*rows, [7, 8]]
        assert_states(session, name, rows, (1, 2))
    assert_exact(session, name, rows)


def test_sessions_that_cannot_hide_positions_say_so() -> None:
    for name in ("mistral", "bloom", "mamba", "rwkv", "gpt"):
        assert not start_session(model(name), SIZE, PROMPTS).capabilities.reads_embeddings


def test_errors() -> None:
    session: Any = start_session(model("llama"), SIZE, PROMPTS[:1])
    embeddings = random_embeddings("llama", 2)
    with pytest.raises(ModelError, match="follow node 5 of row 0, whose tree has 5 nodes"):
        session.append_probed([[]], [WIDE], embeddings, [[5]])
    with pytest.raises(ModelError, match="for a model whose embeddings have 32 numbers"):
        session.append_probed([[]], [WIDE], embeddings[:, :8], [[0]])
    with pytest.raises(ModelError, match="1 rows, not 2"):
        session.append_probed([[]], [WIDE], embeddings, [[0], [0]])
    session.append_probed([[]], [WIDE], embeddings, [[-1]])
    with pytest.raises(ModelError, match="are not a path"):
        session.keep(0, [5])  # the first embedding
    session.keep(0, [0])
    assert_exact(session, "llama", [[*PROMPTS[0], WIDE[0][0]]])


def test_models_with_processors_pass_them_on() -> None:
    processed = with_processors(Wrapped("llama"), lambda tokens, logits: -logits)
    session: Any = start_rows(processed, PROMPTS[:1], ())
    assert session.capabilities.reads_embeddings
    embeddings = random_embeddings("llama", 2)
    scores, probed = session.append_probed([[9]], [([20], [-1])], embeddings, [[0]])
    own: Any = start_session(model("llama"), SIZE, PROMPTS[:1])
    expected, wanted = own.append_probed([[9]], [([20], [-1])], embeddings, [[0]])
    np.testing.assert_array_equal(scores[0], -expected[0])
    np.testing.assert_array_equal(probed[0], wanted[0])
    session.keep(0, [0])
    np.testing.assert_array_equal(session.logits()[0], -expected[0][1])
