"""Early exits of sessions: the states of the first layers over draft paths are those of one forward pass."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    Cohere2Config,
    Gemma2Config,
    GraniteConfig,
    MixtralConfig,
    Olmo2Config,
    Phi3Config,
    PhiConfig,
    Qwen2Config,
    Qwen3Config,
)

from structgen.errors import ModelError  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.models import with_processors  # noqa: E402
from structgen.models.early_exit import can_exit  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from tests.speculative.tiny_sessions import Model  # noqa: E402

from .test_session import random_path, random_tree, tolerance  # noqa: E402
from .tiny import CONFIGS, SIZE, tiny_model  # noqa: E402

LAYERS = 4
DEEP = {
    "deep llama": type(CONFIGS["llama"]()),
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "mixtral": MixtralConfig,
    "olmo2": Olmo2Config,
    "granite": GraniteConfig,
    "phi": PhiConfig,
    "phi3": Phi3Config,
}
OTHERS = {"gemma2": Gemma2Config, "cohere2": Cohere2Config}  # with sliding windows
PROMPTS = [[5, 6, 7], [9, 9, 9, 9, 9, 8], [3], [30, 31, 2, 4, 5, 6, 7, 8, 9]]


@functools.cache
def model(name: str) -> Any:
    if name not in DEEP | OTHERS:
        return tiny_model(*name.split("-"))
    torch.manual_seed(3)
    config = (DEEP | OTHERS)[name](
        vocab_size=SIZE,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        **({"num_local_experts": 2} if name == "mixtral" else {}),
        **({"embedding_multiplier": 3.0, "residual_multiplier": 0.5} if name == "granite" else {}),
    )
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(4)
    return made.eval()


def plain(name: str, tokens: list[int], layers: int) -> Any:
    """The states after each token, from one forward pass without a cache, ``[tokens, hidden size]``."""
    with torch.inference_mode():
        output = model(name)(input_ids=torch.tensor([tokens]), output_hidden_states=True, use_cache=False)
    return output.hidden_states[layers][0]


def assert_close(found: Any, wanted: Any, name: str) -> None:
    atol = 4 * tolerance(name) * max(1.0, float(wanted.abs().max()) / 4)
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=atol)


@pytest.mark.parametrize("name", ["llama-eager", *DEEP])
@pytest.mark.parametrize("seed", range(3))
def test_states_of_draft_trees_after_any_sequence_of_operations(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(model(name).config.num_hidden_layers)
    rows = [list(row) for row in PROMPTS]
    session: Any = start_session(model(name), SIZE, PROMPTS, (1,))
    assert session.capabilities.exits
    checked = 0

    def run(most: int) -> list[int]:
        return [int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, most + 1))]

    for _ in range(12):
        operation = rng.choice(["append", "rollback", "select", "trees", "fork"])
        if operation == "append":
            new = [run(4) for _ in rows]
            session.append(new)
            rows = [[*row, *added] for row, added in zip(rows, new, strict=True)]
        elif operation == "rollback":
            cropped = int(rng.integers(len(rows)))
            n = int(rng.integers(0, min(4, len(rows[cropped]))))
            session.rollback(cropped, n)
            del rows[cropped][len(rows[cropped]) - n :]
        elif operation in ("select", "fork"):
            kept = [int(i) for i in rng.integers(len(rows), size=rng.integers(1, 5))]
            session = session.fork(kept) if operation == "fork" else (session.select(kept) or session)
            rows = [list(rows[index]) for index in kept]
        else:
            new, trees = [run(2) for _ in rows], [random_tree(rng, 5) for _ in rows]
            session.append_trees(new, trees)
            for index, (added, (nodes, parents)) in enumerate(zip(new, trees, strict=True)):
                path = random_path(rng, parents)
                session.keep(index, path)
                rows[index] += [*added, *(nodes[node] for node in path)]
        before = session.logits().copy()
        held = [layer.keys.clone() for layer in session._cache.layers]
        for index, row in enumerate(rows):
            layers = int(rng.integers(1, count))
            read = int(
                rng.integers(max(1, len(row) - 3), len(row) + 1)
            )  # the last tokens may be to be cropped
            exit_ = session.early_exit(index, read, layers)
            paths: list[list[int]] = [[]]
            for _ in range(5):  # a tree, in any order of growth
                path = [*paths[int(rng.integers(len(paths)))], *run(2), int(rng.integers(2, SIZE))]
                wanted = plain(name, [*row[:read], *path], layers)[read:]
                assert_close(exit_.states(path), wanted, name)
                assert exit_.unread(path) == 0
                paths.append(path)
                checked += 1
        assert all(torch.equal(a, b.keys) for a, b in zip(held, session._cache.layers, strict=True))
        np.testing.assert_array_equal(session.logits(), before)  # what was drafted leaves no trace
    assert checked > 60


def test_a_path_is_read_once() -> None:
    session: Any = start_session(model("deep llama"), SIZE, [[5, 6, 7]], (1,))
    exit_ = session.early_exit(0, 3, 2)
    exit_.states([4, 5])
    assert [exit_.unread(path) for path in ([4, 5], [4, 5, 6], [4], [4, 6], [5])] == [0, 1, 1, 2, 1]


@pytest.mark.parametrize("name", list(CONFIGS) + list(OTHERS))
@pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")
def test_models_that_cannot_exit_say_so(name: str) -> None:
    session: Any = start_session(model(name), SIZE, [[5, 6, 7]], (1,))
    assert session.capabilities.exits == (name == "llama")
    if name != "llama":
        assert RowStates.of(session, 0, (1,), 3).early_exit(1) is None


def test_sessions_without_hidden_states_have_none() -> None:
    assert not start_session(model("deep llama"), SIZE, [[5, 6]]).capabilities.exits


def test_processors_leave_exits_as_they_are() -> None:
    processed: Any = with_processors(Model("llama"), lambda tokens, logits: -logits)  # type: ignore[arg-type]
    session = processed.start_with_hidden_states([[5, 6, 7]], (1,))
    exit_ = RowStates.of(session, 0, (1,), 2).early_exit(1)
    assert exit_ is not None
    assert_close(exit_.states([4]), plain("llama", [5, 6, 4], 1)[2:], "llama")


@pytest.mark.parametrize(("count", "layers"), [(3, 0), (3, LAYERS), (0, 1), (4, 1)])
def test_there_is_no_such_exit(count: int, layers: int) -> None:
    session: Any = start_session(model("deep llama"), SIZE, [[5, 6, 7]], (1,))
    with pytest.raises(ModelError, match="there is no exit"):
        session.early_exit(0, count, layers)


def test_a_model_whose_layers_do_more_than_they_show() -> None:
    """The test of a model finds that its first layers alone give other states."""
    other = tiny_model("llama")
    forward = other.model.layers[0].forward

    def changed(states: Any, *arguments: Any, **options: Any) -> Any:
        cache = options["cache"]
        # Reads what only the whole model has: its last layer's keys.
        return forward(
            states * (2 if cache is not None and len(cache.layers) < 2 else 1), *arguments, **options
        )

    other.model.layers[0].forward = changed
    assert not can_exit(other, "cache")
    assert can_exit(tiny_model("llama"), "cache")
