"""Hidden states that sessions keep: after every token, they are those of one forward pass over the row's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.models import with_processors  # noqa: E402
from structgen.models.hugging_face import HuggingFaceModel  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.protocols import start_rows  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402

from .test_session import PROMPTS, assert_exact, model, random_path, random_tree, tolerance  # noqa: E402
from .tiny import SIZE  # noqa: E402

BATCHED = ["llama", "gpt2", "llama-eager"]
NAMES = [*BATCHED, "mistral", "bloom", "mamba", "mamba2", "qwen3_next", "lfm2", "jamba", "rwkv", "gpt"]
pytestmark = pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")


def layer_count(name: str) -> int:
    return int(model(name).config.get_text_config().num_hidden_layers)


def plain(name: str, tokens: list[int], layers: Sequence[int]) -> Any:
    """The states after each token, from one forward pass without a cache, ``[tokens, layers, hidden size]``."""
    with torch.inference_mode():
        output = model(name)(input_ids=torch.tensor([tokens]), output_hidden_states=True)
    return torch.stack([output.hidden_states[layer][0] for layer in layers], dim=1)


def assert_states(session: Any, name: str, rows: list[list[int]], layers: Sequence[int]) -> None:
    for row, tokens in enumerate(rows):
        found = session.hidden_states(row)
        assert_close(found, name, plain(name, tokens, layers))
        assert torch.equal(session.hidden_states(row, len(tokens) // 2), found[len(tokens) // 2 :])


def assert_close(found: Any, name: str, wanted: Any) -> None:
    assert found.shape == wanted.shape
    atol = 4 * tolerance(name) * max(1.0, float(wanted.abs().max()) / 4)
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=atol)


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_included(name: str) -> None:
    layers = range(layer_count(name) + 1)
    session = start_session(model(name), SIZE, PROMPTS, layers)
    assert session.capabilities.hidden_states
    assert_states(session, name, PROMPTS, layers)


@pytest.mark.parametrize("name", BATCHED)
def test_a_shared_prefix_is_read_once(name: str) -> None:
    prefix = [5 + i % 7 for i in range(24)]
    prompts = [[*prefix, 3], [*prefix, 4, 5, 6]]
    session = start_session(model(name), SIZE, prompts, (1, 2))
    assert_states(session, name, prompts, (1, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_after_any_sequence_of_operations(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = layer_count(name)
    layers = sorted(int(i) for i in rng.choice(count + 1, size=min(2, count), replace=False))

    def run(most: int) -> list[int]:
        return [int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, most + 1))]

    rows = [list(row) for row in PROMPTS]
    session: Any = start_session(model(name), SIZE, PROMPTS, layers)
    can = session.capabilities
    operations = ["append", "scored", "rollback", "select", "join"]
    operations += ["trees"] * can.reads_trees + ["fork"] * can.forks + ["chunks"]
    for _ in range(16):
        operation = rng.choice(operations)
        if operation in ("append", "scored"):
            runs = [run(3) for _ in rows]
            (session.append if operation == "append" else session.append_scored)(runs)
            rows = [[*row, *new] for row, new in zip(rows, runs, strict=True)]
        elif operation == "chunks":  # a long prompt that is read in parts
            chunk = run(8)
            for start in range(0, len(chunk), 3):
                session.append([chunk[start : start + 3], *[[]] * (len(rows) - 1)])
            rows[0] = [*rows[0], *chunk]
        elif operation == "trees":
            runs, trees = [run(3) for _ in rows], [random_tree(rng, 5) for _ in rows]
            session.append_trees(runs, trees)
            paths = [random_path(rng, parents) for _, parents in trees]
            for row, (new, (nodes, _), path) in enumerate(zip(runs, trees, paths, strict=True)):
                read, found = len(rows[row]) + len(new), session.hidden_states(row)
                assert len(found) == read + len(nodes)  # those of the nodes follow
                rows[row] = [*rows[row], *new, *(nodes[node] for node in path)]
                places = [*range(read), *(read + node for node in path)]
                assert_close(found[places], name, plain(name, rows[row], layers))
            for row in rng.permutation(len(rows)):  # a decision about one row changes nothing of another one
                held = [session.hidden_states(other).clone() for other in range(len(rows)) if other != row]
                session.keep(int(row), paths[row])
                for other, before in zip([i for i in range(len(rows)) if i != row], held, strict=True):
                    assert torch.equal(session.hidden_states(other), before)
        elif operation == "rollback":
            row = int(rng.integers(len(rows)))
            n = min(int(rng.integers(0, 4)), len(rows[row]) - 1)
            session.rollback(row, n)
            rows[row] = rows[row][: len(rows[row]) - n]
        elif operation == "select":
            places = [int(i) for i in rng.integers(0, len(rows), size=rng.integers(1, 4))]
            session.select(places)
            rows = [rows[place] for place in places]
        elif operation == "fork":  # the reuse of a prefix: both sessions go on
            other = session.fork([0])
            other.append([[2, 3, 4]])
            other.rollback(0, 1)
            assert_states(other, name, [[*rows[0], 2, 3]], layers)
        elif len(rows) < 4:
            more = [7, *run(6)]
            session.join(start_session(model(name), SIZE, [more], layers))
            rows = [*rows, more]
        assert_states(session, name, rows, layers)
    assert_exact(session, name, rows)
    assert_states(session, name, rows, layers)


def test_sessions_without_layers_say_so() -> None:
    session: Any = start_session(model("llama"), SIZE, PROMPTS)
    assert not session.capabilities.hidden_states
    with pytest.raises(ModelError, match="keeps no hidden states"):
        session.hidden_states(0)


@pytest.mark.parametrize("name", ["llama", "mamba2"])
def test_states_of_tokens_stay_where_they_are_until_the_row_reads_again(name: str) -> None:
    """A running batch relies on it: its threads read states while rows are decided, rolled back, and join and leave."""
    session: Any = start_session(model(name), SIZE, PROMPTS, (1,))
    session.append_trees([[7]] * 3, [([9, 8, 7], [-1, -1, 1])] * 3)
    held = [session.hidden_states(row) for row in range(3)]
    before = [states.clone() for states in held]
    session.keep(1, [])
    session.keep(0, [1, 2])
    session.keep(2, [])
    session.rollback(1, 2)
    session.append_scored([[6, 5], [], []])
    session.join(start_session(model(name), SIZE, [[4, 5]], (1,)))
    session.select([1, 2, 3])
    session.append_scored([[], [], [9]])
    for row in (1, 2):
        assert torch.equal(held[row], before[row])


class Wrapped(HuggingFaceModel):
    """A tiny model without a tokenizer."""

    def __init__(self, name: str) -> None:
        self.model = model(name)
        self.vocabulary = Vocabulary.from_tokens([b"%d," % i for i in range(SIZE - 1)] + [None], [SIZE - 1])


def test_models_name_the_layers_that_there_are() -> None:
    wrapped = Wrapped("llama")
    assert wrapped.layer_count == layer_count("llama")
    for wrong in (-1, wrapped.layer_count + 1):
        with pytest.raises(OptionError, match=f"no hidden state {wrong}"):
            wrapped.start_with_hidden_states(PROMPTS, [0, wrong])


def test_models_with_processors_pass_them_on() -> None:
    processed = with_processors(Wrapped("llama"), lambda tokens, logits: -logits)
    session: Any = start_rows(processed, PROMPTS, (0, 2))
    session.append_trees([[9]] * 3, [([20, 21], [-1, -1])] * 3)
    for row in range(3):
        session.keep(row, [1])
    assert_states(session, "llama", [[*row, 9, 21] for row in PROMPTS], (0, 2))
    assert not start_rows(processed, PROMPTS, ()).capabilities.hidden_states
