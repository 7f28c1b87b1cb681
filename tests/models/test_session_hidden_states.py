"""Hidden states that sessions keep: those of one forward pass over the row's tokens, or none where they are unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.models import with_processors  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402

from .test_session import PROMPTS, assert_exact, model, random_path, random_tree  # noqa: E402
from .tiny import SIZE  # noqa: E402

NAMES = ["llama", "gpt2", "llama-eager"]


def hidden_states(name: str, tokens: list[int]) -> np.ndarray:
    """The last hidden state after each token."""
    with torch.inference_mode():
        output = model(name)(input_ids=torch.tensor([tokens]), use_cache=False, output_hidden_states=True)
    return np.asarray(output.hidden_states[-1][0])


def started(name: str, prompts: list[list[int]] = PROMPTS) -> Any:
    session: Any = start_session(model(name), SIZE, prompts)
    session.keeps_hidden = True
    return session


def assert_hidden(session: Any, name: str, rows: list[list[int]], known: list[bool]) -> None:
    found = session.hidden()
    assert [one is not None for one in found] == known
    for one, tokens in zip(found, rows, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, hidden_states(name, tokens)[-1], rtol=1e-3, atol=2e-4)


def test_nothing_is_known_where_no_one_asked() -> None:
    session: Any = start_session(model("llama"), SIZE, PROMPTS)
    assert session.hidden() == [None] * 3
    session.append([[7]] * 3)
    assert session.hidden() == [None] * 3
    session.keeps_hidden = True
    assert session.hidden() == [None] * 3
    session.append([[8]] * 3)
    assert_hidden(session, "llama", [[*row, 7, 8] for row in PROMPTS], [True] * 3)
    session.keeps_hidden = False
    session.append([[9, 10]] * 3)
    assert session.hidden() == [None] * 3


@pytest.mark.parametrize("name", NAMES)
def test_after_what_was_appended(name: str) -> None:
    session = started(name)
    session.append([[7], [8, 9, 10], []])
    rows = [[*PROMPTS[0], 7], [*PROMPTS[1], 8, 9, 10], PROMPTS[2]]
    assert_hidden(session, name, rows, [True, True, False])
    session.append([[], [], []])  # no pass
    session.append_trees([[], [], []], [([], [])] * 3)
    for row in range(3):
        session.keep(row, [])
    assert_hidden(session, name, rows, [True, True, False])
    session.select([1, 0, 1])
    rows = [rows[1], rows[0], rows[1]]
    assert_hidden(session, name, rows, [True] * 3)
    assert_exact(session, name, rows)


@pytest.mark.parametrize("name", NAMES)
def test_after_what_was_drafted_and_rolled_back(name: str) -> None:
    session = started(name)
    session.append_scored([[20, 21, 22, 23], [24, 25], [26]])
    session.rollback(0, 3)
    session.rollback(1, 1)
    rows = [[*PROMPTS[0], 20], [*PROMPTS[1], 24], [*PROMPTS[2], 26]]
    assert_hidden(session, name, rows, [True] * 3)
    session.rollback(1, 1)  # before what the last pass has read
    session.rollback(2, 2)
    rows = [rows[0], PROMPTS[1], PROMPTS[2][:-1]]
    assert_hidden(session, name, rows, [True, False, False])


@pytest.mark.parametrize("name", NAMES)
def test_after_what_was_kept_of_trees(name: str) -> None:
    session = started(name)
    tree = ([20, 21, 22, 23], [-1, -1, 1, 2])
    session.append_trees([[9], [], [8]], [tree, tree, tree])
    session.keep(0, [1, 2])
    session.keep(1, [])
    session.keep(2, [])
    rows = [[*PROMPTS[0], 9, 21, 22], PROMPTS[1], [*PROMPTS[2], 8]]
    assert_hidden(session, name, rows, [True, False, True])
    for n in range(1, 3):
        session.rollback(0, 1)
        assert_hidden(session, name, [rows[0][:-n], *rows[1:]], [True, False, True])
    session.rollback(0, 1)
    assert session.hidden()[0] is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_after_any_sequence_of_operations(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def run(most: int) -> list[int]:
        return [int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, most + 1))]

    rows = [list(row) for row in PROMPTS]
    session = started(name)
    reads = [0] * 3
    """The number of tokens whose hidden states the last pass has."""
    for _ in range(16):
        operation = rng.choice(["append", "scored", "trees", "rollback", "select"])
        if operation in ("append", "scored", "trees"):
            runs, trees = [run(3) for _ in rows], [random_tree(rng, 5) for _ in rows]
            if operation != "trees":
                trees = [([], [])] * len(rows)
            passed = any(runs) or any(nodes for nodes, _ in trees)
            if operation == "append":
                session.append(runs)
            elif operation == "scored":
                session.append_scored(runs)
            else:
                session.append_trees(runs, trees)
            for row, (new, (nodes, parents)) in enumerate(zip(runs, trees, strict=True)):
                path = random_path(rng, parents)
                if operation == "trees":
                    session.keep(row, path)
                more = [*new, *(nodes[node] for node in path)]
                rows[row] = [*rows[row], *more]
                if passed:
                    reads[row] = len(more)
        elif operation == "rollback":
            row = int(rng.integers(len(rows)))
            n = min(int(rng.integers(0, 4)), len(rows[row]) - 1)
            session.rollback(row, n)
            rows[row] = rows[row][: len(rows[row]) - n]
            reads[row] = max(0, reads[row] - n)
        else:
            places = [int(i) for i in rng.integers(0, len(rows), size=rng.integers(1, 4))]
            session.select(places)
            rows, reads = [rows[place] for place in places], [reads[place] for place in places]
        assert_hidden(session, name, rows, [read > 0 for read in reads])
    assert_exact(session, name, rows)


def test_models_with_processors_pass_them_on() -> None:
    class Model:
        vocabulary = Vocabulary.from_tokens([b"%d," % i for i in range(SIZE - 1)] + [None], [SIZE - 1])

        def start(self, prompts: Any) -> Any:
            return start_session(model("llama"), SIZE, prompts)

    session: Any = with_processors(Model(), lambda tokens, logits: -logits).start(PROMPTS)  # type: ignore[arg-type]
    assert session.hidden() == [None] * 3
    session.keeps_hidden = True
    session.append_trees([[9]] * 3, [([20, 21], [-1, -1])] * 3)
    for row in range(3):
        session.keep(row, [1])
    assert_hidden(session, "llama", [[*row, 9, 21] for row in PROMPTS], [True] * 3)
