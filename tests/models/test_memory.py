"""The model in memory: its distribution is the given one, after any operations of a session."""

from __future__ import annotations

import numpy as np
import pytest

from structgen.errors import ModelError
from structgen.models import DistributionModel
from structgen.protocols import LanguageModel
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.from_tokens([b"a", b"b", None], [2])


def distribution(tokens: tuple[int, ...]) -> list[float]:
    return [0.5, 0.5, 0.0] if len(tokens) < 2 else [0.0, 0.25, 0.75]


def test_logits_are_the_written_logarithms() -> None:
    model: LanguageModel = DistributionModel(VOCABULARY, distribution)
    session = model.start([[0], [0, 1]])
    assert session.capabilities.scores_runs
    assert session.logits().dtype == np.float32
    np.testing.assert_allclose(session.logits()[:, 0], np.log(0.5), rtol=1e-6)
    assert session.logits()[0, 2] == -np.inf
    scores = session.append_scored([[0, 1], []])
    assert [len(scored) for scored in scores] == [2, 0]
    np.testing.assert_allclose(np.exp(scores[0]), [distribution((0,)), distribution((0, 1))], rtol=1e-6)
    np.testing.assert_allclose(np.exp(session.logits()), [distribution((0, 1)), distribution(())], rtol=1e-6)
    session.rollback(0, 1)
    session.select([1, 0, 0])
    np.testing.assert_allclose(
        np.exp(session.logits()), [distribution(()), distribution((0,)), distribution((0,))], rtol=1e-6
    )


def test_a_table_and_the_number_of_passes() -> None:
    model = DistributionModel(VOCABULARY, {(): [1, 0, 0], (0,): [0, 0, 1]}, context_length=9)
    session = model.start([model.encode("any prompt")])
    session.append([[0]])
    assert np.exp(session.logits()).tolist() == [[0, 0, 1]]
    assert (model.forward_passes, model.context_length, model.decode([0, 1])) == (1, 9, "ab")
    session.append([[1]])
    with pytest.raises(ModelError, match=r"no probabilities after \(0, 1\)"):
        session.logits()


def test_misuse_is_reported() -> None:
    with pytest.raises(ModelError, match="prompt has no tokens"):
        DistributionModel(VOCABULARY, distribution).start([[]])
    with pytest.raises(ModelError, match=r"2 probabilities after \(\), for 3 tokens"):
        DistributionModel(VOCABULARY, lambda tokens: [0.5, 0.5]).start([[0]]).logits()
    session = DistributionModel(VOCABULARY, distribution).start([[0]])
    with pytest.raises(ModelError, match="cannot roll back 2 tokens of row 0, which has 1"):
        session.rollback(0, 2)
