"""`DraftModel` and `LayerSkip` over some tokens: their rows of the output layer only, together with the mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.distributions import bits_of  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models.packed import pack_linear  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.model_drafters import DraftModel, LayerSkip  # noqa: E402
from structgen.speculative.trimmed_models import TrimmedModel  # noqa: E402
from structgen.vocabulary import Vocabulary  # noqa: E402
from tests.inference.toys import random_distribution  # noqa: E402
from tests.models.tiny import CONFIGS, SIZE  # noqa: E402
from tests.oracles.toy_model import ToyModel  # noqa: E402
from tests.speculative.deep_models import DeepModel  # noqa: E402
from tests.speculative.learned.test_output_layers import ARCHITECTURES, model_of  # noqa: E402
from tests.speculative.test_layer_skip import Deep, speculating  # noqa: E402
from tests.speculative.tiny_sessions import LETTERS, VOCABULARY, Model  # noqa: E402

IDS = np.array([2, 5, 7, 11, 20, 40])


def check_logits(model: Any, trimmed: Any, tolerance: float = 1e-4) -> None:
    """Compare the logits of both after tokens are appended, and after a roll back."""
    whole, some = model.start([[5, 6, 7, 8]]), trimmed.start([[5, 6, 7, 8]])
    for change in (lambda each: None, lambda each: each.append([[3, 4]]), lambda each: each.rollback(0, 1)):
        for session in (whole, some):
            change(session)
        assert some.logits().shape == (1, len(IDS))
        np.testing.assert_allclose(some.logits()[0], whole.logits()[0][IDS], rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:.* keeps no cache of transformers")
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_the_model(name: str) -> None:
    model = Model(name)
    check_logits(model, TrimmedModel(model, IDS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scales_bounds_and_biases_apply(name: str, dtype: Any) -> None:
    model = model_of(name, dtype)
    check_logits(model, TrimmedModel(model, IDS), 1e-4 if dtype == torch.float32 else 0.05)


@pytest.mark.parametrize("is_tied", [False, True])
def test_packed_and_tied_output_layers(is_tied: bool) -> None:
    model = DeepModel()
    if is_tied:
        model.model.config.tie_word_embeddings = True
        model.model.tie_weights()
    pack_linear(model.model)
    check_logits(model, TrimmedModel(model, IDS))
    assert model.model.get_output_embeddings().out_features == SIZE


def test_only_the_rows_of_these_tokens_are_computed() -> None:
    model = Deep()
    drafters = DraftModel(model, least=0.0, token_ids=IDS), LayerSkip(0.5, least=0.0, token_ids=IDS)
    sizes: list[int] = []

    def note(module: Any, given: Any, output: Any) -> None:
        sizes.append(output.shape[-1])

    model.model.lm_head.register_forward_hook(note)
    for drafter in drafters:
        row = drafter.start(Start([5], VOCABULARY, model=model))
        sizes.clear()  # those of the comparison when the rows were taken
        assert list(row.propose(Context([5, 6], None, VOCABULARY, is_constrained=False)))
        assert not sizes


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("name", ["draft model", "layers"])
def test_proposals_and_distributions_are_those_of_the_list_and_the_mask(
    name: str, temperature: float
) -> None:
    model = Deep()
    matcher = Matcher(sg.regex("[a-h][k-z]{2}[a-z]*"), VOCABULARY)
    if name == "layers":
        drafter: Any = LayerSkip(0.75, least=0.0, refresh=None, token_ids=IDS)
        drafter.start(Start([5], VOCABULARY, model=model))
        plain = drafter.draft(model)
        whole: Any = LayerSkip(0.75, least=0.0, refresh=None)
        whole.start(Start([5], VOCABULARY, model=model))
        logits_of = whole.draft(model)
        assert plain.layers == logits_of.layers
    else:
        drafter, logits_of = DraftModel(Model("llama"), least=0.0, width=3, token_ids=IDS), Model("llama")
    row = drafter.start(Start([5, 6], VOCABULARY, temperature=temperature, model=model))
    tokens, seen = [5, 6], 0
    for token in (4, 15, 20, 3):
        wanted = logits_of.start([tokens]).logits()[0].astype(np.float64) / temperature
        bits = bits_of(matcher.mask(), SIZE)
        allowed = [int(i) for i in IDS if bits[i]]
        context = Context(list(tokens), matcher, VOCABULARY)
        found = row.distribution(context)
        proposals = [proposal.tokens[0] for proposal in row.propose(context)]
        if allowed:
            masses = np.zeros(SIZE)
            masses[allowed] = np.exp(wanted[allowed] - wanted[allowed].max())
            np.testing.assert_allclose(found / found.sum(), masses / masses.sum(), rtol=1e-4, atol=1e-6)
            best = sorted(allowed, key=lambda i: -wanted[i])
            assert proposals == best[: 1 if name == "layers" else 3]
            seen += 1
        else:
            assert found is None and not proposals
        assert matcher.advance(token)
        tokens.append(token)
    assert seen >= 2


def test_a_draft_ends_where_the_mask_allows_none_of_the_tokens() -> None:
    model = Deep()
    matcher = Matcher(sg.regex("[q-z]{4}"), VOCABULARY)
    none = [2, 3]  # a and b
    assert {LETTERS[i - 2] for i in none} == {b"a", b"b"}
    for drafter in (DraftModel(model, token_ids=none), LayerSkip(token_ids=none)):
        row: Any = drafter.start(Start([5], VOCABULARY, temperature=1.0, model=model))
        context = Context([5, 6], matcher, VOCABULARY)
        assert not list(row.propose(context)) and row.distribution(context) is None
        speculation = speculating(drafter)
        options = SamplingOptions(temperature=1.0, seed=1, max_tokens=8)
        constraint = sg.regex("[q-z]{4}")
        found, plain = (
            generate_tokens(
                model,  # type: ignore[arg-type]
                [[5, 6]],
                [Matcher(constraint, VOCABULARY)],
                options,
                drafting=drafting,
            )[0].tokens
            for drafting in (speculation.start(model), None)  # type: ignore[arg-type]
        )
        assert found == plain and speculation.counts["drafted"] == 0


def test_layers_are_chosen_by_their_tokens() -> None:
    """The logits of a trimmed layer are numbered by its rows, not by tokens."""
    model = Deep(idle=(2, 3))
    drafter = LayerSkip(0.5, least=0.0, refresh=8, token_ids=range(SIZE - 1, 1, -1))
    options = SamplingOptions(temperature=0.7, seed=3, max_tokens=120)
    generate_tokens(model, [[5, 6]], [None], options, drafting=speculating(drafter).start(model))  # type: ignore[arg-type]
    assert drafter.layers == [0, 1] and drafter.changed >= 1
    kept: Any = drafter.draft(model)
    rows = kept.output
    drafter.try_another(model, list(range(5, 25)))
    assert drafter.draft(model).output is rows  # type: ignore[union-attr]


def test_tokens_beyond_a_shorter_target_are_not_proposed() -> None:
    shorter = Vocabulary.from_tokens([None, None, *LETTERS[: SIZE - 4]], [1], size=SIZE - 2)
    longer = Vocabulary.from_tokens([None, None, *LETTERS[: SIZE - 4], None, None], [1], size=SIZE)
    draft = Model("llama")
    draft.vocabulary = longer
    for ids in ([3, SIZE - 1], [SIZE - 2, SIZE - 1]):
        row = DraftModel(draft, least=0.0, token_ids=ids).start(Start([5], shorter))
        context = Context([5, 6], None, shorter, is_constrained=False)
        assert [proposal.tokens for proposal in row.propose(context)] == [(i,) for i in ids if i < SIZE - 2]


class Quantised(torch.nn.Module):
    """A linear layer with an int8 weight, as libraries for quantised models have them."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.out_features = linear.out_features
        self.weight = torch.nn.Parameter((linear.weight * 100).to(torch.int8), requires_grad=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states @ (self.weight.to(states) / 100).T


class Twice(torch.nn.Linear):
    """An output layer whose products are not those of its weight, as with an adapter."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(states)


def with_layer(made: Any) -> Model:
    model = DeepModel()
    model.model.lm_head = made(model.model.lm_head)
    return model


def twice(linear: Any) -> Any:
    made = Twice(linear.in_features, linear.out_features, bias=False)
    made.weight = linear.weight
    return made


class Methodical(torch.nn.Module):
    """A layer whose weight is a method, as in torch's own quantised layers."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.linear = linear

    def weight(self) -> torch.Tensor:
        return torch.as_tensor(self.linear.weight)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.linear(states))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (Quantised, "its weight is quantised \\(torch.int8\\)"),
        (twice, "their logits are not the model's"),
        (Methodical, "rows of the output layer of LlamaForCausalLM cannot be taken: AttributeError"),
    ],
)
def test_output_layers_whose_rows_cannot_be_taken(made: Any, message: str) -> None:
    model = with_layer(made)
    with pytest.raises(ModelError, match=message) as caught:
        DraftModel(model, token_ids=IDS)
    assert "Leave out token_ids" in str(caught.value)
    with pytest.raises(ModelError, match=message):
        LayerSkip(token_ids=IDS).start(Start([5], VOCABULARY, model=model))
    assert DraftModel(model).token_ids is None


def test_models_and_lists_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match="rows of the output layer of a ToyModel cannot be taken"):
        DraftModel(ToyModel(VOCABULARY, random_distribution(1, SIZE)), token_ids=IDS)
    processed = sg.models.with_processors(Model("llama"), lambda tokens, logits: logits)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="of a ProcessedModel cannot be taken"):
        DraftModel(processed, token_ids=IDS)
    with pytest.raises(ModelError, match=f"the token {SIZE}; the model has {SIZE} tokens"):
        DraftModel(Model("llama"), token_ids=[3, SIZE])
    with pytest.raises(ModelError, match=f"the token {SIZE}; the model has"):
        LayerSkip(token_ids=[3, SIZE]).start(Start([5], VOCABULARY, model=Deep()))
    for made in (lambda ids: DraftModel(Model("llama"), token_ids=ids), lambda ids: LayerSkip(token_ids=ids)):
        with pytest.raises(OptionError, match="token_ids is"):
            made([])
    found = DraftModel(Model("llama"), token_ids=[9, 3, 9]).token_ids
    assert found is not None and found.tolist() == [3, 9]


def test_a_draft_model_with_another_vocabulary_writes_with_its_own_tokens() -> None:
    """Its text consists of these tokens; each letter of the target is a token of both."""
    letters = [chr(97 + i).encode() for i in range(26)]

    def encode(text: str) -> list[int]:
        return [ord(letter) - 97 for letter in text]

    target = Vocabulary([*letters, None], [26], encoder=encode)
    draft = Model("llama")
    draft.vocabulary = Vocabulary(
        [None, None, *letters, *[None] * (SIZE - 28)],
        [1],
        size=SIZE,
        encoder=lambda text: [i + 2 for i in encode(text)],
    )
    ids = [4, 7, 9]  # c, f and h
    row: Any = DraftModel(draft, least=0.0, token_ids=ids).start(Start([0], target, temperature=1.0))
    context = Context([0, 1], None, target, is_constrained=False)
    (proposal,) = row.propose(context)
    assert set(proposal.tokens) <= {2, 5, 7} and len(proposal.tokens) == 6
    found = row.distribution(context)
    assert np.flatnonzero(found).tolist() == [2, 5, 7]
    wanted = draft.start([[2, 3]]).logits()[0][ids].astype(np.float64)
    np.testing.assert_allclose(found[[2, 5, 7]], np.exp(wanted) / np.exp(wanted).sum(), rtol=1e-4)
