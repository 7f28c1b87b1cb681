"""Rows of a running batch grow their drafts on several threads: none waits for another, and drafts stay the same."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.online import OnlineDrafter  # noqa: E402
from structgen.generation import SamplingOptions  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.generation.row import Row  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative import Fixed, Speculation, TriGrams  # noqa: E402
from structgen.speculative.guarded import grows_without_lock  # noqa: E402
from structgen.speculative.learned import DEL, Eagle, NestedLayers, learned_drafter  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.letters import SilentDrafter  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

from .test_eagle import VARIANTS, random_weights  # noqa: E402
from .test_heads import DESIGNS, drafter_of  # noqa: E402
from .test_heads import random_weights as random_heads  # noqa: E402
from .test_nested_layers import random_weights as random_layers  # noqa: E402

SECONDS = 60
"""After which a test fails instead of waiting for ever."""


class Slow(Matcher):
    """A matcher whose mask takes until the test goes on."""

    is_slow: threading.Event
    goes_on: threading.Event

    def mask(self) -> Any:
        self.is_slow.set()
        assert self.goes_on.wait(SECONDS)
        return super().mask()

    def fork(self) -> Slow:
        return self  # its users only read


def row_of(number: int, prompt: Sequence[int], matcher: Any = None) -> Row:
    options = SamplingOptions(temperature=0.0, max_tokens=40, speculate=True)
    row = Row(number, list(prompt), matcher, options, VOCABULARY, (1, number))
    row.prepare(None)
    row.draft_limit = None
    return row


def states_of(model: Model, tokens: Sequence[int], layers: tuple[int, ...]) -> RowStates | None:
    if not layers:
        return None
    session = start_session(model.model, SIZE, [list(tokens)], layers)
    return RowStates(session.hidden_states(0).clone(), layers, len(tokens))


def eagle() -> Eagle:
    return Eagle(random_weights(), least=0.0)


@pytest.mark.parametrize(
    "drafter", [eagle, lambda: OnlineDrafter(eagle()), lambda: NestedLayers(random_layers(), least=0.0)]
)
def test_a_slow_constraint_delays_its_own_row_only(drafter: Any) -> None:
    """The batch ends its pass and chooses drafts, and other rows draft, while one row waits for a mask."""
    model, prompt, matcher = Model("llama"), [5, 6, 7, 5, 6], Slow(sg.regex("[a-z]+"), VOCABULARY)
    matcher.is_slow, matcher.goes_on = threading.Event(), threading.Event()
    speculation = Speculation([*Speculation().drafters, drafter()], controller=Fixed(4), branching=True)
    drafting = speculation.start(model)  # type: ignore[arg-type]
    hidden = states_of(model, prompt[:-1], drafting.hidden_layers)
    slow, quick = row_of(0, prompt, matcher), row_of(1, prompt)
    growing = threading.Thread(target=drafting.grow, args=(slow, hidden), kwargs={"trees": True})
    growing.start()
    trees: list[Any] = []

    def others() -> None:
        drafting.on_pass(2, 1, 0.01)
        drafting.on_step(quick, 1, 1)
        drafting.grow(quick, hidden, trees=True)
        quick.pending.append(5)
        trees.extend(drafting.choose([quick], [1], rows_in_pass=2))

    try:
        assert matcher.is_slow.wait(SECONDS)
        batch = threading.Thread(target=others)
        batch.start()
        batch.join(SECONDS)
        is_done = not batch.is_alive()
        assert growing.is_alive()
    finally:
        matcher.goes_on.set()
        growing.join(SECONDS)
    batch.join(SECONDS)
    assert is_done and len(trees[0]) == 4
    assert not any(record.failed for record in speculation.records)
    assert len(drafting._rows[slow].grown.tree) == 4


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


_Tree = tuple[list[int], list[int], list[float]]


def drafts(
    speculation: Speculation, model: Model, texts: Sequence[Sequence[int]], threads: bool
) -> list[list[_Tree]]:
    """The trees that each row grows as its text gets longer; with threads, each row on its own one."""
    drafting = speculation.start(model)  # type: ignore[arg-type]
    whole = [states_of(model, text, drafting.hidden_layers) for text in texts]
    begin = threading.Barrier(len(texts) if threads else 1)
    found: list[list[_Tree]] = [[] for _ in texts]

    def grow(number: int) -> None:
        text = texts[number]
        matcher = Matcher(sg.regex("[a-y]+"), VOCABULARY) if number % 2 else None
        row = row_of(number, text[:4], matcher)
        begin.wait(SECONDS)
        for end in range(5, len(text) + 1, 3):
            row.tokens = list(text[4:end])
            known = whole[number]
            hidden = None if known is None else RowStates(known.states, known.layers, end - 1)
            drafting.grow(row, hidden, trees=True)
            tree = drafting._rows[row].grown.tree
            found[number].append((list(tree.tokens), list(tree.parents), list(tree.reach)))

    workers = [threading.Thread(target=grow, args=(number,)) for number in range(len(texts))]
    for worker in workers:
        worker.start()
        if not threads:
            worker.join(SECONDS)
    while threads and any(worker.is_alive() for worker in workers):
        drafting.on_pass(len(texts), 1, 0.01)  # the model goes on
        workers[0].join(0.001)
    for worker in workers:
        worker.join(SECONDS)
    return found


@pytest.mark.parametrize(
    "name", ["plain", "both", "three tokens a pass, and both", "medusa", "everything", "layers"]
)
def test_rows_draft_the_same_on_several_threads_as_on_one(
    name: str, switching: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, model = np.random.default_rng(3), Model("llama")
    texts = [[int(token) for token in rng.integers(2, 27, size=18 + number)] for number in range(4)]
    fits, fit = [], learned_drafter.fit

    def counted(*given: Any, **options: Any) -> Any:
        fits.append(given)
        return fit(*given, **options)

    monkeypatch.setattr(learned_drafter, "fit", counted)

    def speculation() -> Speculation:
        if name in DESIGNS:
            drafter: Any = drafter_of(random_heads(DESIGNS[name]), least=0.0)
        elif name == "layers":
            drafter = NestedLayers(random_layers(), least=0.0)
        else:
            drafter = Eagle(random_weights(1, VARIANTS[name]), most=6, least=0.0)
        return Speculation([*Speculation().drafters, drafter], controller=Fixed(8), branching=True)

    alone = speculation()
    wanted = drafts(alone, model, texts, threads=False)
    together = speculation()
    found = drafts(together, model, texts, threads=True)
    assert [len(row) for row in found] == [len(row) for row in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        for (tokens, parents, reach), expected in zip(mine, theirs, strict=True):
            assert tokens and (tokens, parents) == expected[:2]
            np.testing.assert_allclose(reach, expected[2], rtol=1e-5)
    assert len(fits) == 2  # rows that start at once get the weights ready once
    for record in (*alone.records, *together.records):
        assert not record.failed


def test_failures_of_several_threads_are_all_counted(switching: None) -> None:
    class Fails(SilentDrafter):
        grows_without_lock = True

        def propose(self, context: Any) -> Any:
            raise RuntimeError("broken")

    model, speculation = Model("llama"), Speculation([Fails()], controller=Fixed(4))
    drafting = speculation.start(model)  # type: ignore[arg-type]
    rows = [row_of(number, [5, 6, 7]) for number in range(40)]
    workers = [threading.Thread(target=drafting.grow, args=(row,), kwargs={"trees": False}) for row in rows]

    def run() -> None:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(SECONDS)

    with pytest.warns(UserWarning, match="Fails failed and is left out"):
        run()
    assert speculation.records[0].failed == 40 and "broken" in speculation.records[0].why


class Users(Eagle):
    """A user's own drafter, whose rows may share anything."""


class Careful(Eagle):
    """One that declares that they do not."""

    grows_without_lock = True


def test_only_classes_that_declare_it_grow_without_a_lock() -> None:
    weights = random_weights()
    assert all(map(grows_without_lock, Speculation().drafters))
    for drafter, expected in (
        (Eagle(weights), True),
        (OnlineDrafter(Eagle(weights)), True),
        (Users(weights), False),
        (OnlineDrafter(Users(weights)), False),
        (Careful(weights), True),
        (TriGrams(), False),  # it counts in `observe`
        (DEL(), False),
        (SilentDrafter(), False),
    ):
        assert grows_without_lock(drafter) == expected
        drafting = Speculation([drafter]).start(Model("llama"))  # type: ignore[arg-type, list-item]
        assert (drafting._growth_lock is drafting._all.lock) != expected
