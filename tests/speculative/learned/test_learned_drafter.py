"""What all learned drafters share: proposals follow the trimmed output layer, and weights can be replaced."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.errors import OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models import with_processors  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative import Fixed, Speculation  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    Eagle,
    learned_drafter,
    save_weights,
    speculation_with,
)
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

from .test_eagle import LAYERS, SIZES, random_weights  # noqa: E402

TOKENS = [5, 6, 7, 5, 6]


def start(drafter: Eagle, model: Any) -> Any:
    return drafter.start(Start(tuple(TOKENS), VOCABULARY, model=model))


def context(session: Any, matcher: Matcher | None, draft: list[int]) -> Context:
    if matcher is not None:
        for token in draft:
            assert matcher.advance(token)
    found = Context(
        [*TOKENS, *draft], matcher, VOCABULARY, drafted=len(draft), is_constrained=matcher is not None
    )
    found.hidden = RowStates.of(session, 0, LAYERS, len(TOKENS) - 1)
    return found


def test_proposals_are_the_best_tokens_that_the_mask_allows() -> None:
    model, weights = Model("llama"), random_weights()
    drafter = Eagle(weights, width=3, least=0.0)
    row = start(drafter, model)
    session = start_session(model.model, SIZE, [TOKENS[:-1]], LAYERS)
    free = row._known(context(session, None, [])).logits
    allowed = [int(token) for token in weights.token_ids[np.argsort(free)[:4]]]  # the least probable ones
    texts = {VOCABULARY.token_bytes(token).decode() for token in allowed}
    matcher = Matcher(sg.regex(f"[{''.join(sorted(texts))}]+"), VOCABULARY)
    here = context(session, matcher, [])
    found = list(row.propose(here))
    assert len(found) == 3
    distribution = row.distribution(here)
    distribution /= distribution.sum()
    admitted = [
        int(token) for token in weights.token_ids if VOCABULARY.token_bytes(int(token)).decode() in texts
    ]
    assert np.flatnonzero(distribution).tolist() == admitted
    assert [proposal.tokens[0] for proposal in found] == np.argsort(-distribution)[:3].tolist()
    # The row is greedy: its distribution is that of the lowest temperature.
    logits = row._known(here).logits[np.isin(weights.token_ids, admitted)].astype(float)
    sharpened = np.exp((logits - logits.max()) / 0.05)
    np.testing.assert_allclose(distribution[admitted], sharpened / sharpened.sum(), rtol=1e-6)
    chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose([one.chance for one in found], np.sort(chances)[::-1][:3], rtol=1e-4)


def test_a_constraint_that_forbids_all_listed_tokens_leaves_no_proposal() -> None:
    model, weights = Model("llama"), random_weights()
    listed = {VOCABULARY.token_bytes(int(token)) for token in weights.token_ids}
    other = next(chr(97 + i) for i in range(26) if bytes([97 + i]) not in listed)
    row = start(Eagle(weights), model)
    session = start_session(model.model, SIZE, [TOKENS[:-1]], LAYERS)
    here = context(session, Matcher(sg.regex(f"{other}+"), VOCABULARY), [])
    assert not list(row.propose(here)) and row.distribution(here) is None


def test_drafters_can_be_pickled_and_read_from_files(tmp_path: Path) -> None:
    weights, model = random_weights(), Model("llama")
    save_weights(weights, tmp_path / "draft.safetensors")
    drafter = Eagle(str(tmp_path / "draft.safetensors"))
    start(drafter, model)
    copied = pickle.loads(pickle.dumps(drafter))
    assert copied.sizes == SIZES and copied._ready.get(model) is None
    start(copied, model)


def test_weights_that_are_replaced_while_a_text_starts_are_used_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread may call `use` in the middle of `prepare`."""
    drafter, model = Eagle(random_weights()), Model("llama")
    new = {name: tensor * 2 for name, tensor in drafter.weights.tensors.items()}
    fit = learned_drafter.fit

    def interrupted(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(learned_drafter, "fit", fit)
        drafter.use(new)
        return fit(*given, **options)

    monkeypatch.setattr(learned_drafter, "fit", interrupted)
    old = drafter.prepare(model)
    assert old is not None
    again = drafter.prepare(model)
    assert again is not old and drafter.prepare(model) is again
    wanted = new["output_norm.weight"]
    assert torch.equal(again.network.output_norm.weight, wanted)


def test_models_with_processors_have_drafts() -> None:
    model: Any = Model("llama")
    processed = with_processors(model, lambda tokens, logits: logits)
    options = SamplingOptions(temperature=0.0, max_tokens=12)
    speculation = Speculation([Eagle(random_weights(), least=0.0)], controller=Fixed(3))
    drafting = speculation.start(processed)
    (drafted,) = generate_tokens(processed, [TOKENS], [None], options, drafting=drafting)
    (plain,) = generate_tokens(processed, [TOKENS], [None], options)
    assert drafted.tokens == plain.tokens and drafted.drafted_tokens > 0


def test_a_running_batch_refuses_drafters_that_are_silent_there(tmp_path: Path) -> None:
    sizes = {"hidden": 32, "count": 2}
    tensors = {"embeddings": torch.zeros(2, 32)}
    weights = replace(random_weights(), kind="prompt-tokens", sizes=sizes, tensors=tensors)
    save_weights(weights, tmp_path / "draft")
    assert speculation_with(tmp_path / "draft", Model("llama"))
    with pytest.raises(OptionError, match="does not draft in a running batch"):
        speculation_with(tmp_path / "draft", Model("llama"), in_batches=True)
