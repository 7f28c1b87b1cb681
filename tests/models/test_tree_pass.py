"""Trees of recurrent models in one packed pass: each node's logits are those of a plain pass over the path to it.

Logits are compared in float32, and may differ by 1e-4 of the largest one. The tiny Mamba and Mamba-2 amplify rounding,
so theirs may differ by 1e-3: with either, a decode step and a prefill of `transformers` differ by as much.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.models import tree_pass  # noqa: E402
from structgen.models.recurrent_session import RecurrentSession  # noqa: E402
from structgen.models.tree_pass import MOST_NODES, tree_reader_of  # noqa: E402

from .test_session import Tree, full, model, random_path  # noqa: E402
from .tiny import SIZE, tiny_model  # noqa: E402

PACKED = ["mamba", "mamba2", "jamba", "bamba", "lfm2", "falcon_h1"]
OTHERS = ["falcon_mamba", "granite_hybrid"]
PROMPTS = [[5, 6, 7, 8, 9], [3], [11, 12, 13]]


def random_tokens(rng: np.random.Generator, count: int) -> list[int]:
    return [int(token) for token in rng.integers(2, SIZE, size=count)]


def random_tree(rng: np.random.Generator, nodes: int) -> Tree:
    """A tree that is deep as well as wide."""
    return random_tokens(rng, nodes), [int(rng.integers(max(-1, node - 4), node)) for node in range(nodes)]


def path_to(tree: Tree, node: int) -> list[int]:
    tokens, parents = tree
    return [] if node < 0 else [*path_to(tree, parents[node]), tokens[node]]


def assert_close(name: str, found: Any, tokens: list[int]) -> None:
    wanted = full(name, tokens)[-1]
    bound = 1e-3 if name in ("mamba", "mamba2") else 1e-4
    assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


@contextmanager
def counted(name: str) -> Iterator[list[tuple[int, ...]]]:
    """The shapes of the ids of each forward pass."""
    shapes: list[tuple[int, ...]] = []
    hook = model(name).register_forward_pre_hook(
        lambda _module, _arguments, named: shapes.append(tuple(named["input_ids"].shape)), with_kwargs=True
    )
    try:
        yield shapes
    finally:
        hook.remove()


@pytest.mark.parametrize(
    ("name", "packs"),
    [*((name, True) for name in PACKED + OTHERS), ("mamba2", False), ("jamba", False), ("lfm2", False)],
)
def test_random_trees_are_read_and_kept_as_their_paths(name: str, packs: bool) -> None:
    rng = np.random.default_rng(len(name))
    rows = [list(prompt) for prompt in PROMPTS]
    session = RecurrentSession(model(name), SIZE, rows, packs_trees=packs)
    for step in range(3 if packs else 2):
        runs = [random_tokens(rng, int(rng.integers(0, 4))) for _ in rows]
        trees = [random_tree(rng, int(rng.integers(2, 12))) for _ in rows]
        with counted(name) as shapes:
            scores = session.append_trees(runs, trees)
        if packs:  # one pass for each row, over each of its new tokens once
            assert shapes == [(1, len(run) + len(nodes)) for run, (nodes, _) in zip(runs, trees, strict=True)]
        for row, (run, tree, scored) in enumerate(zip(runs, trees, scores, strict=True)):
            for offset in range(len(run)):
                assert_close(name, scored[offset], [*rows[row], *run[: offset + 1]])
            for node in range(len(tree[0])):
                assert_close(name, scored[len(run) + node], [*rows[row], *run, *path_to(tree, node)])
        kept = [0] * len(rows)
        for row in rng.permutation(len(rows)).tolist():
            path = random_path(rng, trees[row][1])
            session.keep(row, path)
            rows[row] = [*rows[row], *runs[row], *(trees[row][0][node] for node in path)]
            kept[row] = len(runs[row]) + len(path)
        for row in range(len(rows) if step % 2 else 0):
            back = int(rng.integers(0, kept[row] + 1))
            session.rollback(row, back)
            rows[row] = rows[row][: len(rows[row]) - back]
        for row, found in enumerate(session.logits()):
            assert_close(name, found, rows[row])


@pytest.mark.parametrize("name", PACKED)
def test_no_token_is_read_again_after_a_draft(name: str) -> None:
    session = RecurrentSession(model(name), SIZE, [[5, 6, 7]])
    with counted(name) as shapes:
        session.append_scored([[8, 9, 10, 11]])
        session.rollback(0, 2)
        session.append_scored([[12, 13]])
        session.rollback(0, 1)
        session.append([[14]])
        session.append_trees([[15]], [([16, 17, 18], [-1, -1, 0])])
        session.keep(0, [0, 2])
        (logits,) = session.logits()
    assert shapes == [(1, 4), (1, 2), (1, 1), (1, 4)]
    assert_close(name, logits, [5, 6, 7, 8, 9, 12, 14, 15, 16, 18])


def test_a_batch_of_paths_does_not_read_ever_more_tokens() -> None:
    session = RecurrentSession(model("lfm2"), SIZE, [[5, 6, 7]], packs_trees=False)
    rows = [5, 6, 7]
    with counted("lfm2") as shapes:
        for step in range(20):
            session.append_trees([[8 + step]], [([16, 17, 18], [-1, -1, 0])])
            session.keep(0, [0, 2])
            rows += [8 + step, 16, 18]
    assert max(length for _, length in shapes) < 30 and len(shapes) < 25
    assert_close("lfm2", session.logits()[0], rows)


@pytest.mark.parametrize("name", PACKED)
def test_long_runs_and_large_trees(name: str) -> None:
    rng = np.random.default_rng(0)
    text, tree = random_tokens(rng, MOST_NODES + 3), random_tree(rng, MOST_NODES + 1)
    session = RecurrentSession(model(name), SIZE, [[5]])
    session.append([text])
    session.rollback(0, 2)
    rows = [5, *text[:-2]]
    (scores,) = session.append_trees([[7]], [tree])
    for node in (0, 3, MOST_NODES):
        assert_close(name, scores[1 + node], [*rows, 7, *path_to(tree, node)])
    path = random_path(rng, tree[1])
    session.keep(0, path)
    rows = [*rows, 7, *(tree[0][node] for node in path)]
    assert_close(name, session.logits()[0], rows)
    session.append_scored([[8, 9]])
    assert_close(name, session.logits()[0], [*rows, 8, 9])


@pytest.mark.parametrize("name", PACKED)
def test_a_rejected_tree_leaves_the_cache_as_it_was(name: str) -> None:
    session = RecurrentSession(model(name), SIZE, [PROMPTS[0]])
    session.append([[4]])  # a decode step, which writes into the state
    session.append_trees([[]], [([16, 17, 18], [-1, -1, 0])])
    session.keep(0, [])
    session.append([[20]])
    session.append([[21]])
    assert_close(name, session.logits()[0], [*PROMPTS[0], 4, 20, 21])
    # An older path of the same pass is not changed by what was read after a later one.
    session.append_trees([[]], [([16, 17, 18], [-1, -1, 0])])
    session.keep(0, [0, 2])
    session.select([0, 0])
    session.append([[22], []])
    session.rollback(1, 1)
    for found, tokens in zip(session.logits(), ([16, 18, 22], [16]), strict=True):
        assert_close(name, found, [*PROMPTS[0], 4, 20, 21, *tokens])


@pytest.mark.parametrize(
    "name", ["jamba", "bamba", "lfm2", "falcon_h1"]
)  # rounding drowns the tiny Mamba's logits
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision(name: str, kind: Any) -> None:
    half = tiny_model(name, dtype=kind)
    assert tree_reader_of(half, SIZE) is not None
    tree = random_tree(np.random.default_rng(0), 8)
    session = RecurrentSession(half, SIZE, [PROMPTS[0]])
    (scores,) = session.append_trees([[]], [tree])
    path = random_path(np.random.default_rng(2), tree[1])
    session.keep(0, path)
    session.append([[9]])
    texts = [[*PROMPTS[0], *path_to(tree, node)] for node in range(8)]
    texts.append([*PROMPTS[0], *(tree[0][node] for node in path), 9])
    for found, tokens in zip([*scores, session.logits()[0]], texts, strict=True):
        wanted = full(name, tokens)[-1]
        bound = 0.06 if kind == torch.bfloat16 else 0.01
        assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


def test_which_models_are_packed() -> None:
    for name in PACKED + OTHERS:
        assert tree_reader_of(model(name), SIZE) is not None
    for name in ("llama", "mistral", "qwen3_next"):
        assert tree_reader_of(model(name), SIZE) is None


def test_a_layer_that_something_wrapped_is_not_packed() -> None:
    wrapped = tiny_model("mamba2")
    mixer = wrapped.backbone.layers[0].mixer
    mixer.forward = mixer.forward
    assert tree_reader_of(wrapped, SIZE) is None
    session = RecurrentSession(wrapped, SIZE, [PROMPTS[0]])
    (scores,) = session.append_trees([[]], [([16, 17, 18], [-1, -1, 0])])
    assert_close("mamba2", scores[2], [*PROMPTS[0], 16, 18])


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_model_whose_packed_logits_differ_is_not_packed(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    exact = tree_pass.tree_convolution

    def of_siblings(shape: Any, *arguments: Any) -> Any:
        return exact(type(shape)(range(-1, len(shape) - 1)), *arguments)

    monkeypatch.setattr(tree_pass, "tree_convolution", of_siblings)
    assert tree_reader_of(tiny_model("lfm2", dtype=kind), SIZE) is None


def test_a_cache_with_layers_of_another_type_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_pass, "_LAYERS", {"DynamicLayer"})
    assert tree_reader_of(tiny_model("bamba"), SIZE) is None


def test_layers_are_as_before_after_a_pass_that_fails() -> None:
    failing = tiny_model("mamba2")
    reader = tree_reader_of(failing, SIZE)
    session = RecurrentSession(failing, SIZE, [PROMPTS[0]])
    assert reader is not None

    def fail(*_: object, **__: object) -> Any:
        assert all("forward" in vars(layer.mixer) for layer in failing.backbone.layers)
        raise MemoryError

    with pytest.raises(MemoryError):
        reader.read(fail, session._caches[0], [1, 2], [-1, -1], 5, 2)
    assert not any("forward" in vars(layer.mixer) for layer in failing.backbone.layers)


def test_a_reader_does_not_keep_its_model() -> None:
    forgotten = tiny_model("lfm2")
    assert tree_reader_of(forgotten, SIZE) is not None
    alive = weakref.ref(forgotten)
    del forgotten
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", ["bamba", "lfm2", "jamba"])
def test_sessions_of_one_model_on_several_threads(name: str) -> None:
    """Each pass replaces functions of the model's layers, and no pass may meet those of another."""
    RecurrentSession(model(name), SIZE, [[3]])  # builds the reader

    def logits_of(seed: int) -> list[tuple[Any, list[int]]]:
        rng = np.random.default_rng(seed)
        text, found = random_tokens(rng, 3), []
        session = RecurrentSession(model(name), SIZE, [text])
        for nodes in (5, 1, 3, 6):
            run, tree = random_tokens(rng, 1), random_tree(rng, nodes)
            session.append_trees([run], [tree])
            path = random_path(rng, tree[1])
            session.keep(0, path)
            text = [*text, *run, *(tree[0][node] for node in path)]
            found.append((session.logits()[0].copy(), text))
        return found

    with ThreadPoolExecutor(4) as threads:
        for found in list(threads.map(logits_of, range(8))):
            for logits, text in found:
                assert_close(name, logits, text)
    assert not any("forward" in vars(module) for module in model(name).modules())
