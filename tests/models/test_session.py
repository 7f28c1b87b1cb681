"""The invariant of sessions: each row's logits are those of a forward pass over its tokens, after any operations."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.errors import ModelError  # noqa: E402
from structgen.models.batched_session import BatchedSession  # noqa: E402
from structgen.models.recurrent_session import RecurrentSession  # noqa: E402
from structgen.models.rereading import RereadingSession  # noqa: E402
from structgen.models.separate_session import SeparateSession  # noqa: E402
from structgen.models.session import start_session  # noqa: E402

from .tiny import SIZE, tiny_model  # noqa: E402

KINDS = {
    "llama": BatchedSession,
    "gpt2": BatchedSession,
    "mistral": SeparateSession,
    "bloom": SeparateSession,
    "falcon": BatchedSession,
    "gpt_neo": SeparateSession,
    "qwen3_next": RecurrentSession,
    "roberta": SeparateSession,
    "mamba": RecurrentSession,
    "mamba2": RecurrentSession,
    "lfm2": RecurrentSession,
    "falcon_h1": RecurrentSession,
    "jamba": RecurrentSession,
    "bamba": RecurrentSession,
    "recurrent_gemma": RereadingSession,
    "rwkv": RereadingSession,
    "gpt": RereadingSession,
}
MODELS = [*KINDS, "llama-eager"]
pytestmark = pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")


@functools.cache
def model(name: str) -> Any:
    return tiny_model(*name.split("-"))


def full(name: str, tokens: list[int]) -> np.ndarray:
    """The logits after each token, from one forward pass without a cache."""
    with torch.inference_mode():
        logits = model(name)(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return np.asarray(logits)


def tolerance(name: str) -> float:
    """In Mamba-2 of transformers a decode step and a prefill differ by this much, in double precision, too.

    The logits of the tiny Mamba are large.
    """
    return {"mamba2": 0.08, "mamba": 1e-3}.get(name, 2e-4)


def assert_exact(session: Any, name: str, rows: list[list[int]]) -> None:
    logits = session.logits()
    assert logits.shape == (len(rows), SIZE) and logits.dtype == np.float32
    for row, tokens in enumerate(rows):
        expected = full(name, tokens)[-1]
        atol = tolerance(name) * max(1, np.abs(expected).max() / 4)
        np.testing.assert_allclose(logits[row], expected, rtol=1e-3, atol=atol)


Tree = tuple[list[int], list[int]]


def random_tree(rng: np.random.Generator, most: int) -> Tree:
    """The tokens of up to `most` nodes, and the parent of each."""
    nodes = [int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, most + 1))]
    return nodes, [int(rng.integers(-1, place)) for place in range(len(nodes))]


def random_path(rng: np.random.Generator, parents: list[int]) -> list[int]:
    """Some nodes, from a first one down."""
    path: list[int] = []
    while rng.random() < 0.8:
        below = [node for node, parent in enumerate(parents) if parent == (path[-1] if path else -1)]
        if not below:
            break
        path.append(int(rng.choice(below)))
    return path


PROMPTS = [[5, 6, 7, 8, 9], [3], [11, 12, 13]]


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_of_session_follows_the_models_memory(name: str) -> None:
    session = start_session(model(name), SIZE, PROMPTS)
    assert type(session) is KINDS[name]
    assert session.capabilities.scores_runs


@pytest.mark.parametrize("name", MODELS)
def test_prompts_of_different_lengths(name: str) -> None:
    assert_exact(start_session(model(name), SIZE, PROMPTS), name, PROMPTS)


@pytest.mark.parametrize("name", MODELS)
def test_one_token_at_a_time_equals_one_forward(name: str) -> None:
    tokens = [int(i) for i in np.random.default_rng(0).integers(2, SIZE, size=24)]
    session = start_session(model(name), SIZE, [tokens[:4]])
    for end in range(4, len(tokens)):
        assert_exact(session, name, [tokens[:end]])
        session.append([[tokens[end]]])
    assert_exact(session, name, [tokens])


@pytest.mark.parametrize("name", MODELS)
def test_runs_of_different_lengths_are_scored_inside(name: str) -> None:
    session = start_session(model(name), SIZE, PROMPTS)
    new = [[20, 21, 22, 23], [], [30]]
    scores = session.append_scored(new)
    rows = [[*prompt, *run] for prompt, run in zip(PROMPTS, new, strict=True)]
    assert [len(scored) for scored in scores] == [4, 0, 1]
    for scored, tokens, run in zip(scores, rows, new, strict=True):
        expected = full(name, tokens)[len(tokens) - len(run) :]
        np.testing.assert_allclose(scored, expected, rtol=1e-3, atol=tolerance(name))
    assert_exact(session, name, rows)


@pytest.mark.parametrize("name", MODELS)
def test_rows_step_back(name: str) -> None:
    session = start_session(model(name), SIZE, PROMPTS)
    session.rollback(0, 2)
    session.rollback(2, 1)
    rows = [PROMPTS[0][:3], PROMPTS[1], PROMPTS[2][:2]]
    assert_exact(session, name, rows)
    session.append([[40], [41, 42], []])
    assert_exact(session, name, [[*rows[0], 40], [*rows[1], 41, 42], rows[2]])


@pytest.mark.parametrize("name", MODELS)
def test_rows_leave_and_branch(name: str) -> None:
    session = start_session(model(name), SIZE, PROMPTS)
    session.select([2, 0, 2])
    rows = [PROMPTS[2], PROMPTS[0], PROMPTS[2]]
    assert_exact(session, name, rows)
    session.append([[31], [32], [33]])  # branches do not share what comes later
    rows = [[*row, new] for row, new in zip(rows, (31, 32, 33), strict=True)]
    assert_exact(session, name, rows)
    session.select([1])
    session.append([[34]])
    assert_exact(session, name, [[*rows[1], 34]])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_operations(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def run(most: int) -> list[int]:
        return [int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, most + 1))]

    rows = [[2, *run(12)] for _ in range(rng.integers(1, 5))]
    session = start_session(model(name), SIZE, rows)
    operations = ["append", "scored", "rollback", "select", "join", "look"]
    if session.capabilities.reads_trees:
        operations += ["trees", "trees"]
    if session.capabilities.forks:
        operations.append("fork")
    for _ in range(14):
        operation = rng.choice(operations)
        if operation in ("append", "scored"):
            new = [run(5) for _ in rows]
            if operation == "append":
                session.append(new)
            else:
                session.append_scored(new)
            rows = [[*row, *more] for row, more in zip(rows, new, strict=True)]
        elif operation == "trees":
            new = [run(3) for _ in rows]
            trees = [random_tree(rng, 6) for _ in rows]
            session.append_trees(new, trees)
            for place in rng.permutation(len(rows)).tolist():
                nodes, parents = trees[place]
                path = random_path(rng, parents)
                session.keep(place, path)
                rows[place] = [*rows[place], *new[place], *(nodes[node] for node in path)]
        elif operation == "rollback":
            row = int(rng.integers(len(rows)))
            n = int(rng.integers(0, len(rows[row])))
            session.rollback(row, n)
            rows[row] = rows[row][: len(rows[row]) - n]
        elif operation == "select":
            chosen = [int(i) for i in rng.integers(0, len(rows), size=rng.integers(1, 5))]
            session.select(chosen)
            rows = [list(rows[i]) for i in chosen]
        elif operation == "fork":  # what one of both reads is not read by the other
            chosen = [int(i) for i in rng.integers(0, len(rows), size=rng.integers(1, 5))]
            new = [run(5) for _ in chosen]
            fork = session.fork(chosen)
            fork.append(new)
            if rng.random() < 0.5:
                session, rows = fork, [[*rows[i], *more] for i, more in zip(chosen, new, strict=True)]
        elif operation == "join":
            others = [[2, *run(12)] for _ in range(rng.integers(1, 3))]
            session.join(start_session(model(name), SIZE, others))
            rows = [*rows, *others]
        else:
            assert_exact(session, name, rows)
    assert_exact(session, name, rows)


def test_a_shared_beginning_is_read_once() -> None:
    lengths: list[int] = []
    hook = model("llama").register_forward_pre_hook(
        lambda _module, _arguments, named: lengths.append(named["input_ids"].numel()), with_kwargs=True
    )
    try:
        beginning = list(range(2, 32))
        prompts = [[*beginning, 40, 41], [*beginning, 42], [*beginning]]
        session = start_session(model("llama"), SIZE, prompts)
    finally:
        hook.remove()
    assert lengths == [30, 6]
    assert_exact(session, "llama", prompts)
    same = start_session(model("llama"), SIZE, [beginning] * 3)
    assert_exact(same, "llama", [beginning] * 3)


def test_a_lone_row_runs_without_mask_even_after_others_left() -> None:
    masks: list[Any] = []
    session = start_session(model("llama"), SIZE, PROMPTS)
    session.select([1])
    hook = model("llama").register_forward_pre_hook(
        lambda _module, _arguments, named: masks.append(named.get("attention_mask")), with_kwargs=True
    )
    try:
        session.append([[9]])
        session.rollback(0, 1)
        session.append([[8, 7]])
    finally:
        hook.remove()
    assert masks == [None, None]
    assert_exact(session, "llama", [[3, 8, 7]])


def test_many_uneven_appends_do_not_fill_the_cache_with_holes() -> None:
    session = start_session(model("llama"), SIZE, [[2], [3]])
    rows = [[2], [3]]
    for step in range(40):
        new = [[4, 5, 6], [7]] if step % 2 else [[4], [5, 6, 7]]
        session.append(new)
        rows = [[*row, *more] for row, more in zip(rows, new, strict=True)]
    assert isinstance(session, BatchedSession)
    assert session._cache.get_seq_length() <= 1.5 * len(rows[0])
    assert_exact(session, "llama", rows)


def test_all_tokens_rolled_back_and_others_given() -> None:
    for name in ("llama", "mistral", "rwkv"):
        session = start_session(model(name), SIZE, [[4], [5, 6]])
        session.rollback(0, 1)
        with pytest.raises(ModelError, match="without tokens"):
            session.logits()
        session.append([[7], []])
        assert_exact(session, name, [[7], [5, 6]])


def test_misuse_is_reported() -> None:
    with pytest.raises(ModelError, match="no tokens"):
        start_session(model("llama"), SIZE, [[1], []])
    session = start_session(model("llama"), SIZE, [[1, 2]])
    with pytest.raises(ModelError, match="cannot roll back 3 tokens of row 0, which has 2"):
        session.rollback(0, 3)
    with pytest.raises(ModelError, match="1 rows, not 2"):
        session.append([[1], [2]])


def test_logits_as_a_tensor() -> None:
    session = start_session(model("llama"), SIZE, PROMPTS)
    assert np.array_equal(session.logits_tensor().numpy(), session.logits())


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind is RecurrentSession])
def test_a_recurrent_row_goes_on_after_a_rollback_to_nothing(name: str) -> None:
    session = start_session(model(name), SIZE, [[5]])
    session.rollback(0, 1)
    session.append_trees([[6, 7]], [([8, 9], [-1, 0])])
    session.keep(0, [0])
    session.append([[10]])
    session.append([[11]])
    assert_exact(session, name, [[6, 7, 8, 10, 11]])


def test_hooks_of_layers_stay_as_they_are() -> None:
    from structgen.models.mixers import mixers_of, reading_runs

    mixers = mixers_of(model("mamba"))
    assert mixers
    own = mixers[0].forward
    mixers[0].forward = own
    try:
        with contextlib.suppress(RuntimeError), reading_runs(mixers):
            assert mixers[0].forward is not own
            raise RuntimeError("in the middle of a pass")
        assert vars(mixers[0])["forward"] is own
        assert "forward" not in vars(mixers[1])
    finally:
        del mixers[0].forward
