"""A model with processors is a model: its distribution is the processed one, after any operations of a session."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import structgen as sg
from structgen.errors import ModelError, OptionError
from structgen.models import DistributionModel, with_processors
from structgen.protocols import LanguageModel
from structgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary.from_tokens([b"a", b"b", None], [2])
Logits = NDArray[np.float32]


def distribution(tokens: tuple[int, ...]) -> list[float]:
    return [0.5, 0.3, 0.2] if len(tokens) < 3 else [0.0, 0.0, 1.0]


def half_of_last(tokens: Sequence[int], logits: Logits) -> Logits:
    """What came last is half as probable."""
    made = logits.copy()
    if tokens:
        made[tokens[-1]] -= np.log(2, dtype=np.float32)
    return made


def bias(tokens: Sequence[int], logits: Logits) -> Logits:
    return logits + np.array([0, len(tokens), 0], dtype=np.float32)


def expected(tokens: tuple[int, ...]) -> Logits:
    with np.errstate(divide="ignore"):
        return bias(tokens, half_of_last(tokens, np.log(distribution(tokens)).astype(np.float32)))


def test_any_way_through_a_session_leads_to_the_same_distribution() -> None:
    model: LanguageModel = with_processors(DistributionModel(VOCABULARY, distribution), half_of_last, bias)
    source = random.Random(1)
    session = model.start([[0], [0, 1], [1]])
    rows: list[list[int]] = [[], [], []]
    for _ in range(400):
        match source.choice(("append", "scored", "select", "rollback")):
            case "append" | "scored" as how:
                new = [[source.randrange(2) for _ in range(source.choice((0, 1, 1, 2)))] for _ in rows]
                if how == "append":
                    session.append(new)
                else:
                    assert session.capabilities.scores_runs
                    for row, more, scored in zip(rows, new, session.append_scored(new), strict=True):
                        for place in range(len(more)):
                            np.testing.assert_allclose(
                                scored[place], expected((*row, *more[: place + 1])), 1e-6
                            )
                for row, more in zip(rows, new, strict=True):
                    row.extend(more)
            case "select":
                chosen = [source.randrange(len(rows)) for _ in range(source.choice((2, 3)))]
                session.select(chosen)
                rows = [list(rows[at]) for at in chosen]
            case _:
                at = source.randrange(len(rows))
                n = source.randrange(len(rows[at]) + 1)
                session.rollback(at, n)
                del rows[at][len(rows[at]) - n :]
        np.testing.assert_allclose(session.logits(), [expected(tuple(row)) for row in rows], rtol=1e-6)


def test_a_prompt_that_is_rolled_back_and_comes_again_is_no_part_of_the_text() -> None:
    session = with_processors(DistributionModel(VOCABULARY, distribution), bias).start([[0, 1]])
    session.append([[0]])
    session.rollback(0, 2)
    session.append([[1, 0, 0]])
    np.testing.assert_allclose(
        session.logits(), [bias((0, 0), np.log(distribution((0, 0))).astype(np.float32))], rtol=1e-6
    )


def test_samplers_draw_from_the_distribution_that_results() -> None:
    """Exact draws of 'a' and 'b' texts, by a chi-squared statistic that exceeds its bound once in a thousand."""
    model = with_processors(DistributionModel(VOCABULARY, distribution), half_of_last)
    posterior = sg.sample(model, "", sg.regex("a[ab]{2}|b"), n=4000, sampler="exact", seed=1)
    mass = {}
    for text in ("aaa", "aab", "aba", "abb", "b"):
        tokens = tuple("ab".index(letter) for letter in text)
        log_p = 0.0
        for place in range(len(tokens) + 1):
            scores = half_of_last(
                tokens[:place], np.log(np.maximum(distribution(tokens[:place]), 1e-30)).astype(np.float32)
            )
            next_token = tokens[place] if place < len(tokens) else 2
            log_p += float(scores[next_token]) - float(np.log(np.exp(scores).sum()))
        mass[text] = np.exp(log_p)
    total = sum(mass.values())
    counts = {text: sum(drawn == text for drawn in posterior) for text in mass}
    chi = sum((counts[text] - 4000 * p / total) ** 2 / (4000 * p / total) for text, p in mass.items())
    assert sum(counts.values()) == 4000
    assert chi < 18.47  # four degrees of freedom
    assert abs(posterior.log_z - np.log(total)) < 0.1


def test_misuse_is_reported() -> None:
    model = DistributionModel(VOCABULARY, distribution)
    with pytest.raises(OptionError, match="needs a processor"):
        with_processors(model)
    with pytest.raises(OptionError, match="a processor is a function"):
        with_processors(model, 3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the class RPG"):
        with_processors(model, sg.models.RPG)  # type: ignore[arg-type]

    def fails(tokens: object, logits: object) -> object:
        raise KeyError("x")

    with pytest.raises(ModelError, match="the processor fails failed after 0 tokens: KeyError"):
        with_processors(model, fails).start([[0]]).logits()  # type: ignore[arg-type]
    wrong = with_processors(model, lambda tokens, logits: logits[:2])
    with pytest.raises(ModelError, match=r"shape \(2,\) for logits of \(3,\)"):
        wrong.start([[0]]).logits()


def test_what_was_learned_under_processors_stays_in_its_process(tmp_path: object) -> None:
    learned = sg.inference.KnownDistributions()
    model = with_processors(DistributionModel(VOCABULARY, distribution), half_of_last)
    sg.sample(model, "", sg.regex("a"), n=2, seed=1, learned=learned)
    with pytest.raises(OptionError, match="processors cannot be saved"):
        learned.save(f"{tmp_path}/known.npz")
    with pytest.raises(OptionError, match="belongs to another model"):
        sg.sample(
            DistributionModel(VOCABULARY, distribution), "", sg.regex("a"), n=2, seed=1, learned=learned
        )
