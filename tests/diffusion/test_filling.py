"""Filling canvases: valid in every order, equal to the slow definition, and drafts change nothing that comes out."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.diffusion import GAP, Canvas, DecodingOptions, Hole, fill
from structgen.errors import CanvasInfeasible, ModelError, OptionError

from .toy import CLOSE, MASK, VOCABULARY, Toy, texts_of

NESTED = sg.gbnf('root ::= part*\npart ::= "a" | "b" | "(" root ")"')
WORDS = sg.regex(r"(ab|\(a*\))*b?")
CONSTRAINTS = [NESTED, WORDS]


def log_softmax(logits: Any) -> Any:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def slowly(model: Toy, constraint: sg.Constraint, cells: list[int | None]) -> tuple[int, ...]:
    """One commit after the other by the definition: of all pairs that some text agrees with, each cell's likeliest; of
    these the surest."""
    cells = list(cells)
    found = texts_of(constraint, cells, model.closing)
    while None in cells:
        row = [MASK if cell is None else cell for cell in cells]
        log_p = log_softmax(model.logits(np.array([row]))[0])
        best = []
        for place, cell in enumerate(cells):
            if cell is None:
                token = max({one[place] for one in found}, key=lambda one: log_p[place, one])
                best.append((log_p[place, token], -place, token))
        _, place, token = max(best)
        cells[-place] = token
        found = {one for one in found if one[-place] == token}
    (text,) = found
    return text


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=["nested", "words"])
@pytest.mark.parametrize("closes", [False, True])
def test_the_surest_first_by_the_definition(constraint: sg.Constraint, closes: bool) -> None:
    rng = random.Random(5)
    done = 0
    for seed in range(30):
        cells: list[int | None] = [None if rng.random() < 0.8 else rng.randrange(2, 6) for _ in range(5)]
        model = Toy(closes=closes)
        pieces = [Hole(1) if cell is None else cell for cell in cells]
        canvas = Canvas(constraint, VOCABULARY, pieces, closing=model.closing)
        if not texts_of(constraint, cells, model.closing):
            with pytest.raises(CanvasInfeasible):
                fill(model, canvas)
            assert model.passes == 0
            continue
        done += 1
        found = fill(model, canvas, seed=seed)
        assert tuple(found.tokens) == slowly(Toy(closes=closes), constraint, cells)
        assert found.steps == cells.count(None) and len(canvas.open_cells) == cells.count(None)
    assert done > 8


WAYS: list[dict[str, Any]] = [
    {"tokens_per_step": 3},
    {"threshold": 0.5},
    {"schedule": "entropy", "tokens_per_step": 2},
    {"schedule": "margin"},
    {"schedule": "random", "seed": 3},
    {"schedule": "left-to-right"},
    {"temperature": 1.0, "seed": 4},
    {"block": 4, "tokens_per_step": 2},
    {"joint": True, "tokens_per_step": 2},
    {"early": (9.0, 5.0, 1.0)},
    {"remask": 0.5},
    {"draft": 3},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=["nested", "words"])
@pytest.mark.parametrize("closes", [False, True])
def test_every_way_ends_in_a_text(constraint: sg.Constraint, closes: bool, options: dict[str, Any]) -> None:
    model = Toy(closes=closes)
    for length in (1, 7, 12):
        canvas = Canvas(constraint, VOCABULARY, [Hole(length)], closing=model.closing)
        found = fill(model, canvas, **options)
        text = [token for token in found.tokens if token != CLOSE]
        assert len(found.tokens) == length
        assert found.tokens == text + [CLOSE] * (length - len(text))
        matcher = sg.Matcher(constraint, VOCABULARY)
        assert all(map(matcher.advance, text)) and matcher.is_complete()
        assert VOCABULARY.decode(text).decode() == found.text
        assert sorted(set(found.order)) == list(range(length))
        assert found.steps <= length + found.reopened


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=["nested", "words"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("schedule", ["confidence", "entropy", "random", "left-to-right"])
def test_drafts_change_nothing_but_the_passes(
    constraint: sg.Constraint, temperature: float, schedule: Any
) -> None:
    class Smooth(Toy):
        """Logits that depend on how much is filled only, so that drafts are often right."""

        def logits(self, rows: Any) -> Any:
            few = np.where(rows == MASK, MASK, 2)
            few[:, : few.shape[1] // 2] = 0
            return super().logits(few)

    saved = 0
    for seed in range(8):
        canvas = Canvas(constraint, VOCABULARY, [Hole(12)])
        options: dict[str, Any] = {"temperature": temperature, "schedule": schedule, "seed": seed}
        for make in (Toy, Smooth):
            plain, drafted = fill(make(), canvas, **options), fill(make(), canvas, draft=4, **options)
            assert plain.tokens == drafted.tokens and plain.order == drafted.order
            assert drafted.steps <= plain.steps
            saved += plain.steps - drafted.steps
    assert saved > 0


def test_joint_steps_follow_the_most_likely_completion() -> None:
    model = Toy()
    canvas = Canvas(NESTED, VOCABULARY, [Hole(6)])
    log_p = log_softmax(model.logits(np.full((1, 6), MASK))[0]).astype(np.float32)
    best = canvas.best(log_p)
    assert best is not None
    found = fill(Toy(), canvas, joint=True, tokens_per_step=6)
    assert found.tokens == best[0] and found.steps == 1
    at_once = fill(Toy(), canvas, early=(0.0, 0.0, 0.0))
    assert at_once.tokens == best[0] and at_once.ended_early and at_once.steps == 1


def test_the_distribution_of_draws_at_a_high_temperature_covers_the_language() -> None:
    canvas = Canvas(sg.regex("[ab]{3}"), VOCABULARY, [Hole(3)])
    texts = {fill(Toy(sharpness=0.1), canvas, temperature=2.0, seed=seed).text for seed in range(120)}
    assert texts == {a + b + c for a in "ab" for b in "ab" for c in "ab"}


class Against:
    """A monitor that refuses all, or texts that hold a token."""

    def __init__(self, token: int | None = None) -> None:
        self.token, self.calls = token, 0

    def allows(self, tokens: Any, cell: int, token: int) -> bool:
        """Nothing is."""
        self.calls += 1
        return self.token is not None

    def faults(self, tokens: Any) -> list[int]:
        """Where the token stands, or the first cell."""
        return [0] if self.token is None else [cell for cell, one in enumerate(tokens) if one == self.token]


class Content(Against):
    """Lets every token stand, and finds the first cell at fault in the end."""

    def allows(self, tokens: Any, cell: int, token: int) -> bool:
        """All are."""
        return True


def test_a_cell_is_overruled_only_where_its_token_was_refused() -> None:
    found = fill(Toy(), Canvas(sg.regex("[ab]{4}"), VOCABULARY, [Hole(4)]), monitor=Content(), repairs=3)
    assert found.is_right is False and found.overruled == []
    assert found.reason is not None and "it refused" not in found.reason


def test_a_monitor_that_refuses_all_is_overruled_and_it_is_reported() -> None:
    monitor = Against()
    canvas = Canvas(sg.regex("[ab]{4}"), VOCABULARY, [Hole(4)])
    found = fill(Toy(), canvas, monitor=monitor, repairs=2)
    assert found.is_right is False and found.faults == [0] and sorted(found.overruled) == [0, 1, 2, 3]
    assert (
        found.reason is not None
        and "fault in cell 0" in found.reason
        and "2 repairs did not help" in found.reason
    )
    assert monitor.calls <= 3 * 4 * 4 * 3
    wide = sg.Vocabulary.of_bytes()

    class Wide(Toy):
        """The same over bytes."""

        def __init__(self) -> None:
            super().__init__()
            self.vocabulary = wide

        def logits(self, rows: Any) -> Any:
            return np.zeros((*rows.shape, wide.size), dtype=np.float32)

    monitor = Against()
    found = fill(Wide(), Canvas(sg.regex("[^a]{3}"), wide, [Hole(3)]), monitor=monitor, repairs=0)
    assert monitor.calls <= 65 * 3 * 3 and len(found.overruled) == 3
    right = fill(Toy(), canvas, monitor=Against(token=99))
    assert right.is_right and right.reason is None and not right.overruled


def test_bad_input() -> None:
    canvas = Canvas(NESTED, VOCABULARY, [Hole(3)])
    for options, said in (
        ({"tokens_per_step": 0}, "tokens_per_step is 0"),
        ({"schedule": "best"}, "schedule is 'best'"),
        ({"threshold": 2}, "threshold is 2"),
        ({"early": 3}, "early is 3"),
        ({"joint": True, "temperature": 1}, "joint"),
        ({"draft": 2, "threshold": 0.5}, "draft"),
        ({"stepps": 2}, "no option 'stepps'"),
        ({"block": 0}, "block is 0"),
    ):
        with pytest.raises(OptionError, match=said):
            fill(Toy(), canvas, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="not a diffusion model"):
        fill(object(), canvas)  # type: ignore[arg-type]
    without = Toy()
    without.mask_id = -1
    with pytest.raises(ModelError, match="no mask token"):
        fill(without, canvas)
    with pytest.raises(OptionError, match="any length"):
        fill(Toy(), Canvas(NESTED, VOCABULARY, [Hole(1, 3)]))
    with pytest.raises(OptionError, match="any length"):
        fill(Toy(), Canvas(NESTED, VOCABULARY, [GAP]))
    with pytest.raises(OptionError, match="another vocabulary"):
        fill(Toy(), Canvas(NESTED, sg.Vocabulary.of_bytes(), [Hole(2)]))
    assert DecodingOptions.of({}) == DecodingOptions()
