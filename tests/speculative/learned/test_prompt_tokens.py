"""Drafts of `PromptTokens`: the model reads their embeddings at the ends of drafts, and the text stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.prompt_tokens import prompt_token_states  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.speculative.controllers import Fixed  # noqa: E402
from structgen.speculative.drafters import Context, ForcedBytes, Proposal, Start, TokenLookup  # noqa: E402
from structgen.speculative.learned import DraftWeights, PromptTokens, load_weights, save_weights  # noqa: E402
from structgen.speculative.learned.prompt_tokens import PromptTokenSizes, PromptTokensNetwork  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from structgen.speculative.trees import ROOT, DraftTree  # noqa: E402
from structgen.speculative.verifiers import KSeq, Rejection  # noqa: E402
from tests.models.test_session_embeddings import plain  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.oracles.naive_matcher import NaiveMatcher  # noqa: E402
from tests.speculative.tiny_sessions import DEAD, NAIVE, VOCABULARY, Model  # noqa: E402

PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4]]
SIZES = PromptTokenSizes(hidden=32, count=3)


def weights_of(embeddings: Any) -> DraftWeights:
    network = PromptTokensNetwork(PromptTokenSizes(32, len(embeddings)), embeddings)
    return DraftWeights(
        "prompt-tokens",
        PromptTokenSizes(32, len(embeddings)).as_dict(),
        VOCABULARY.fingerprint,
        np.arange(SIZE),
        network.state_dict(),
    )


def random_weights(seed: int = 0) -> DraftWeights:
    return weights_of(torch.randn((3, 32), generator=torch.Generator().manual_seed(seed)))


class Noting(PromptTokens):
    """Notes the contexts at the ends of rows; proposes any tokens, so that trees have branches."""

    def __init__(self, weights: DraftWeights, **options: Any) -> None:
        super().__init__(weights, **options)
        self.seen: list[tuple[list[int], int, np.ndarray]] = []

    def start(self, start: Start) -> Any:
        inner = super().start(start)
        outer = self

        class Row:
            name = "noting"

            def propose(self, context: Context) -> list[Proposal]:
                if context.probed is not None and not context.drafted:
                    outer.seen.append((list(context.tokens), context.probed.count, context.probed.logits))
                return [*inner.propose(context), Proposal((7, 8), "any", 0.3)]

            def observe(self, tokens: Sequence[int], start: int) -> None:
                inner.observe(tokens, start)

            def distribution(self, context: Context) -> Any:
                return inner.distribution(context)

            def finish(self, tokens: Sequence[int]) -> None:
                pass

        return Row()


def drawn(model: Any, prompts: list[list[int]], options: SamplingOptions, speculation: Any = None) -> Any:
    drafting = None if speculation is None else speculation.start(model)
    return generate_tokens(model, prompts, [None] * len(prompts), options, drafting=drafting)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("branching", [False, True])
def test_the_drafter_gets_the_logits_after_its_embeddings(name: str, rows: int, branching: bool) -> None:
    model, weights = Model(name), random_weights()
    drafter = Noting(weights, ends=3, width=2)
    options = SamplingOptions(temperature=1.0, seed=6, max_tokens=24)
    without = drawn(model, PROMPTS[:rows], options)
    speculation = Speculation([drafter, TokenLookup()], controller=Fixed(4), branching=branching)
    found = drawn(model, PROMPTS[:rows], options, speculation)
    assert [one.tokens for one in found] == [one.tokens for one in without]
    assert sum(one.drafted_tokens for one in found) > 0
    assert len(drafter.seen) > 6 * rows
    assert_seen(name, drafter)
    # Drafters take no time by these tests' clock, so this is what the passes took longer because of the embeddings.
    assert speculation.records[0].seconds > 0 == speculation.records[1].seconds
    assert sum(len(tokens) - count == 1 for tokens, count, _ in drafter.seen) > len(drafter.seen) / 2


def assert_seen(name: str, drafter: Noting) -> None:
    for tokens, count, logits in drafter.seen:
        assert count < len(tokens)
        expected = plain(name, tokens[:count], drafter.weights.tensors["embeddings"])
        np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=2e-3)


def test_constrained_rows_step_back_and_have_forced_tokens() -> None:
    model, drafter = Model("llama"), Noting(random_weights(), ends=2)
    prompts = [*PROMPTS, [7, 8]]
    matchers = [
        Matcher(sg.regex("[a-z]{2,4}"), VOCABULARY),
        Matcher(sg.regex("(abcde|abdef|xyzab){3,12}"), VOCABULARY),
        None,
        NaiveMatcher([b"ab", b"abc", b"ba"], NAIVE, DEAD),
    ]
    options = [
        SamplingOptions(temperature=1.5, seed=(4, row), max_tokens=most)
        for row, most in enumerate((4, 40, 20, 12))
    ]
    speculation = Speculation([drafter, ForcedBytes(), TokenLookup()], controller=Fixed(5))
    drafting = speculation.start(model)  # type: ignore[arg-type]
    found = generate_tokens(model, prompts, matchers, options, drafting=drafting)  # type: ignore[arg-type]
    assert sum(one.accepted_tokens for one in found) > 0 and found[3].retries > 0
    assert len(drafter.seen) > 20
    assert_seen("llama", drafter)


@pytest.mark.parametrize("name", ["llama", "mistral", "mamba"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_are_the_same_with_any_session(name: str, temperature: float) -> None:
    model = Model(name)
    options = SamplingOptions(temperature=temperature, seed=2, max_tokens=20)
    speculation = Speculation([PromptTokens(random_weights())], controller=Fixed(3))
    found = drawn(model, PROMPTS, options, speculation)
    assert [one.tokens for one in found] == [one.tokens for one in drawn(model, PROMPTS, options)]
    assert (sum(one.drafted_tokens for one in found) > 0) == (name == "llama")


@pytest.mark.parametrize("verifier", [Rejection, KSeq])
def test_verifiers_take_its_distributions(verifier: Any) -> None:
    model, options = Model("llama"), SamplingOptions(temperature=1.0, seed=2, max_tokens=20)
    speculation = Speculation([PromptTokens(random_weights())], verifier=verifier(), controller=Fixed(4))
    found = drawn(model, PROMPTS, options, speculation)
    assert sum(one.accepted_tokens for one in found) > 0 and not speculation.records[0].failed


def prompt_token_logits(whole: Any, tokens: Any, positions: list[int], embeddings: Any) -> Any:
    """The logits after each embedding at positions of one text, ``[positions, embeddings, vocabulary]``."""
    states = prompt_token_states(whole, tokens[None], torch.tensor(positions)[None], embeddings)
    return whole.get_output_embeddings()(states[0])


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_training_reads_what_drafting_reads(name: str) -> None:
    model, tokens, positions = Model(name), [5, 9, 3, 17, 8, 4, 22], [0, 2, 3, 6]
    embeddings = random_weights().tensors["embeddings"]
    with torch.no_grad():
        found = prompt_token_logits(model.model, torch.tensor(tokens), positions, embeddings)
    assert found.shape == (4, 3, SIZE)
    for place, position in enumerate(positions):
        expected = plain(name, tokens[: position + 1], embeddings)
        np.testing.assert_allclose(found[place], expected, rtol=1e-3, atol=1e-3)


def test_embeddings_that_were_trained_on_one_text_predict_it(tmp_path: Any) -> None:
    model, prompt = Model("llama"), [5, 9, 3, 17, 8]
    options = SamplingOptions(seed=1, max_tokens=6)
    (text,) = drawn(model, [prompt], options)
    tokens = torch.tensor([*prompt, *text.tokens])
    torch.manual_seed(0)
    embeddings = torch.nn.Parameter(torch.randn(2, 32) * 0.5)
    optimiser = torch.optim.Adam([embeddings], lr=0.05)
    positions = list(range(len(prompt) - 1, len(tokens) - 3))
    for _ in range(200):
        logits = prompt_token_logits(model.model, tokens, positions, embeddings)
        targets = torch.stack([tokens[position + 2 : position + 4] for position in positions])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    save_weights(weights_of(embeddings.detach()), tmp_path / "prompt-tokens.safetensors")
    assert (tmp_path / "prompt-tokens.safetensors").stat().st_size < 100_000
    weights = load_weights(tmp_path / "prompt-tokens.safetensors")
    speculation = Speculation([PromptTokens(weights, width=1)], controller=Fixed(2), branching=False)
    (found,) = drawn(model, [prompt], options, speculation)
    assert found.tokens == text.tokens
    assert found.accepted_tokens >= 2


def test_the_most_probable_ends_come_first() -> None:
    tree = DraftTree()
    assert tree.likely_ends(2) == [ROOT]
    first = tree.add(ROOT, 5, 0.8)
    second = tree.add(first, 6, 0.7)
    tree.add(ROOT, 7, 0.15)
    assert tree.likely_ends(4) == [second, 2, first, ROOT]


def test_errors() -> None:
    model = Model("llama")
    two = [PromptTokens(random_weights()), PromptTokens(random_weights(1))]
    with pytest.raises(OptionError, match="2 drafters have embeddings"):
        Speculation(two).start(model)  # type: ignore[arg-type]
    wide = DraftWeights("prompt-tokens", {"hidden": 64, "count": 2}, VOCABULARY.fingerprint, np.arange(9), {})
    with pytest.raises(ModelError, match="states of 64 numbers"):
        Speculation([PromptTokens(wide)]).start(model)  # type: ignore[arg-type]
