"""`RowExit`: the states of the first layers at a node, where they are worth their time."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.drafters import Context  # noqa: E402
from structgen.speculative.learned.row_exit import RowExit  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.deep_models import DeepModel  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY  # noqa: E402

PROMPT = [5, 6, 7]


def context(read: int, tokens: list[int]) -> Context:
    session = start_session(MODEL.model, SIZE, [PROMPT], (1,))
    found = Context([*PROMPT, *tokens], None, VOCABULARY, is_constrained=False)
    found.hidden = RowStates.of(session, 0, (1,), read)
    return found


MODEL = DeepModel()


def test_states_of_the_tokens_that_the_model_has_not_read() -> None:
    found = RowExit().states(context(2, [8, 9]), 2)
    with torch.inference_mode():
        output = MODEL.model(input_ids=torch.tensor([[*PROMPT, 8, 9]]), output_hidden_states=True)
    assert found is not None
    torch.testing.assert_close(found, output.hidden_states[2][0, 2:], rtol=1e-4, atol=1e-4)


def test_nothing_is_drafted_after_many_tokens_that_were_not_read() -> None:
    assert RowExit().states(context(3, [8] * 9), 1) is None
    exit_, here = RowExit(), context(3, [8] * 8)
    assert exit_.states(here, 1) is not None
    here.tokens.extend([8, 9])  # what was read for an earlier node counts no more
    assert exit_.states(here, 1) is not None


def test_rows_of_which_nothing_is_known() -> None:
    unread = context(3, [8])
    unread.hidden = None
    assert RowExit().states(unread, 1) is None
    assert RowExit().states(context(0, [8]), 1) is None
    assert RowExit().states(context(3, []), 1) is None


def test_another_exit_and_another_draft_start_again() -> None:
    exit_, here = RowExit(), context(3, [8])
    first, second = exit_.states(here, 1), exit_.states(here, 2)
    assert first is not None and second is not None and not torch.equal(first, second)
    exit_.clear()
    other = context(3, [9])
    found = exit_.states(other, 2)
    assert found is not None and not torch.equal(found, second)
