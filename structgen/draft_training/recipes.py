"""From a model and features to the weights of a drafter: the sizes and the training of each kind.

Invariant: what a recipe returns fits the model: it has the model's fingerprint, its sizes, and the tokens that its
texts consist of.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.errors import OptionError, VocabularyMismatch
from structgen.speculative.checks import check_whole
from structgen.speculative.learned import DraftWeights
from structgen.speculative.learned.acceptance import network_tensors
from structgen.speculative.learned.eagle import EagleNetwork, EagleSizes
from structgen.speculative.learned.heads import HeadSizes, HeadsNetwork
from structgen.speculative.learned.kangaroo import KangarooNetwork, KangarooSizes
from structgen.speculative.learned.layers import LayerSizes
from structgen.speculative.learned.loading import check_tensors
from structgen.speculative.learned.nested_layers import NestedNetwork, NestedSizes
from structgen.speculative.learned.output_layers import logit_map_of, output_rows
from structgen.speculative.learned.prompt_tokens import PromptTokens, PromptTokenSizes, PromptTokensNetwork
from structgen.speculative.learned.shipped_weights import base_of
from structgen.speculative.learned.wrapped_models import transformers_model

from .eagle import EagleOptions, EagleTraining, eagle_outputs, eagle_sizes
from .features import Features
from .first_layers import first_layers
from .heads import HeadOptions, head_outputs, head_sizes
from .masks import TextMasks
from .nesting import nested_outputs
from .on_policy import OnPolicy
from .output_rows import OutputRows
from .prompt_tokens import PromptTokenTraining
from .training import Outputs, Training, TrainingOptions, most_frequent_tokens

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["KINDS", "Recipe", "frozen_rows", "layers_read", "outputs_of", "train_drafter"]


@dataclass(frozen=True)
class Recipe:
    """What a drafter is trained as."""

    kind: str = "eagle"
    drafted_tokens: int = 8192
    """The largest number of tokens that it may draft."""
    reference: DraftWeights | None = None
    """Weights of the same kind that were trained before: train on what can still be learned (AdaSPEC)."""
    options: TrainingOptions = field(default_factory=TrainingOptions)
    eagle: EagleOptions = field(default_factory=EagleOptions)
    """Further options, of the kind "eagle"."""
    heads: HeadOptions = field(default_factory=HeadOptions)
    """Further options, of the kinds "medusa" and "hydra"."""
    exits: tuple[int, ...] = (1, 2)
    """For the kind "layers": after how many layers the draft model has exits. The last one is its depth."""
    start: DraftWeights | None = None
    """Weights of the same kind that the training starts from. Without, they are random."""

    def __post_init__(self) -> None:
        if self.kind != PromptTokens.kind:
            outputs_of(self.kind)
        if self.kind != "eagle" and self.eagle != EagleOptions():
            raise OptionError(
                "features, feature sampling, alignment and tokens for each pass are options of eagle, not of "
                f"{self.kind}"
            )
        if self.kind not in ("medusa", "hydra") and self.heads != HeadOptions():
            raise OptionError(
                "blocks, inner layers, layers over the text or the draft, and trigrams are options of medusa and "
                f"hydra, not of {self.kind}"
            )
        if self.kind == "medusa" and self.heads.follow_draft:
            raise OptionError(
                "a layer over drafted tokens and trigrams are options of hydra, not of medusa",
                hint="Use the kind 'hydra'.",
            )
        if self.eagle.tokens_a_pass > self.options.steps_ahead:
            raise OptionError(
                f"a pass gives {self.eagle.tokens_a_pass} tokens, and {self.options.steps_ahead} steps ahead are "
                "trained",
                hint="Set steps_ahead to a multiple of tokens_a_pass.",
            )
        if self.options.on_policy and self.kind != "layers":
            raise OptionError(
                f"a drafter of the kind {self.kind!r} draws no texts of its own, so none can be on-policy",
                hint="On-policy shares are for the kind 'layers'.",
            )
        check_whole("drafted_tokens", self.drafted_tokens, high=10_000_000)
        check_whole("steps_ahead", self.options.steps_ahead)
        if not self.exits or not all(
            isinstance(after, int) and before < after for before, after in pairwise((0, *self.exits))
        ):
            raise OptionError(f"exits is {self.exits!r:.80}; it must be numbers of layers above 0, ascending")
        for role, given in (("reference", self.reference), ("start", self.start)):
            if given is not None and given.kind != self.kind:
                raise OptionError(
                    f"the {role} is a drafter of the kind {given.kind!r:.40}, not {self.kind!r}",
                    hint="Train it with the same options.",
                )
            if given is not None:
                check_tensors(given)


def layers_read(model: HuggingFaceModel) -> tuple[int, ...]:
    """Return the layers whose states are kept: an early one, the middle, and what the output layer reads."""
    count = model.layer_count
    return tuple(sorted({max(1, count // 10), max(1, count // 2), count}))


def train_drafter(
    model: HuggingFaceModel,
    features: Features,
    recipe: Recipe,
    *,
    save: Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> tuple[DraftWeights, Training]:
    """Train a drafter.

    Args:
        model: The transformers model that wrote the texts.
        features: The texts and their states.
        recipe: What to train.
        save: Where the state of the training is saved.
        resume: Whether to go on from there.
        progress: Whether to show a progress bar.

    Returns:
        The weights, and the training with its validations.
    """
    torch.manual_seed(recipe.options.seed)
    ids = most_frequent_tokens(features, recipe.drafted_tokens)
    embeddings, rows = frozen_rows(model, ids)
    make, outputs = KINDS.get(recipe.kind, (_prompt_tokens, None))
    sizes, network = make(model, features, recipe)
    reference = None
    if recipe.start is not None:
        network.load_state_dict(_tensors(recipe.start, "start", model, sizes))
    if recipe.reference is not None:
        reference = copy.deepcopy(network)
        reference.load_state_dict(_tensors(recipe.reference, "reference", model, sizes))
        reference.eval().requires_grad_(False)
        reference.to(embeddings.device)
    network.to(embeddings.device)
    masks = TextMasks(features, model.vocabulary, ids)
    read = (
        features,
        sizes.hidden_layers,
        embeddings,
        rows,
        ids,
        recipe.options,
        masks,
        reference,
        save,
        OnPolicy(model, features, masks, embeddings, rows, ids, recipe.options.seed),
    )
    if outputs is None:
        training: Training = PromptTokenTraining(transformers_model(model), network, *read)
    elif recipe.kind == "eagle":
        training = EagleTraining(network, outputs, *read, eagle=recipe.eagle)
    else:
        training = Training(network, outputs, *read)
    best = training.run(progress=progress, resume=resume)
    notes = {
        "model": str(getattr(model.model, "name_or_path", "")).rpartition("/")[2],
        "base": base_of(model),
        "texts": len(features),
        "tokens": len(features.tokens),
        **_all_tokens(features, recipe.start),
        "minutes": round(training.seconds / 60, 1),
        "validation": [round(share, 4) for share in training.best.right],
    }
    tensors = {name: tensor.float().cpu() for name, tensor in best.items()}
    weights = DraftWeights(recipe.kind, sizes.as_dict(), model.vocabulary.fingerprint, ids, tensors, notes)
    return weights, training


def _all_tokens(features: Features, start: DraftWeights | None) -> dict[str, int]:
    """Return the note of the tokens of all trainings up to this one; nothing if those before are not known."""
    before = 0 if start is None else start.notes.get("all_tokens")
    return {"all_tokens": before + len(features.tokens)} if isinstance(before, int) else {}


def _tensors(
    given: DraftWeights, role: str, model: HuggingFaceModel, sizes: _Sizes
) -> dict[str, torch.Tensor]:
    """Return the weights of a drafter that was trained before; check that they fit the one that is trained."""
    if given.vocabulary != model.vocabulary.fingerprint:
        raise VocabularyMismatch(f"the {role} drafter was trained with another tokenizer")
    try:
        is_same = type(sizes).from_dict(given.sizes) == sizes
    except (KeyError, TypeError, ValueError):
        is_same = False
    if not is_same:
        raise OptionError(
            f"the {role} drafter has other sizes than the one that is trained",
            hint="Train it with the same options.",
        )
    return network_tensors(given)


_Sizes = EagleSizes | HeadSizes | KangarooSizes | NestedSizes | PromptTokenSizes
_Made = tuple[_Sizes, nn.Module]


def _eagle(model: HuggingFaceModel, features: Features, recipe: Recipe) -> _Made:
    sizes = eagle_sizes(_layer_sizes(model), features.layers, recipe.eagle)
    return sizes, EagleNetwork(sizes)


def _medusa(model: HuggingFaceModel, features: Features, recipe: Recipe) -> _Made:
    return _heads(model, recipe, reads_draft=False)


def _hydra(model: HuggingFaceModel, features: Features, recipe: Recipe) -> _Made:
    return _heads(model, recipe, reads_draft=True)


def _heads(model: HuggingFaceModel, recipe: Recipe, *, reads_draft: bool) -> _Made:
    steps, layer = recipe.options.steps_ahead, _layer_sizes(model)
    sizes = head_sizes(layer, model.layer_count, steps, recipe.heads, reads_draft=reads_draft)
    return sizes, HeadsNetwork(sizes)


def _kangaroo(model: HuggingFaceModel, features: Features, recipe: Recipe) -> _Made:
    sizes = KangarooSizes(replace(_layer_sizes(model), mlp=0), features.layers[0])
    return sizes, KangarooNetwork(sizes)


def _prompt_tokens(model: HuggingFaceModel, features: Features, recipe: Recipe) -> _Made:
    embeddings = transformers_model(model).get_input_embeddings().weight.detach()
    sizes = PromptTokenSizes(embeddings.shape[1], recipe.options.steps_ahead)
    return sizes, PromptTokensNetwork(sizes, embeddings.float().mean(0))


def _layers(model: HuggingFaceModel, features: Features, recipe: Recipe) -> _Made:
    network = first_layers(model, _layer_sizes(model), recipe.exits)
    return network.sizes, network


def _layer_sizes(model: HuggingFaceModel) -> LayerSizes:
    """Return the sizes of one of the model's layers."""
    config = model.model.config.get_text_config()
    heads = int(config.num_attention_heads)
    rope = getattr(config, "rope_parameters", None) or {}
    return LayerSizes(
        hidden=int(config.hidden_size),
        heads=heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_size=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
        mlp=int(getattr(config, "intermediate_size", None) or 4 * config.hidden_size),
        rope_theta=float(rope.get("rope_theta") or 10_000.0),
    )


def _eagle_outputs(
    network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
) -> Sequence[torch.Tensor]:
    assert isinstance(network, EagleNetwork)
    return [network.predicted(output) for output in eagle_outputs(network, states, embeddings, steps)]


def _head_outputs(
    network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
) -> Sequence[torch.Tensor]:
    assert isinstance(network, HeadsNetwork)
    return head_outputs(network, states[:, : states.shape[1] - steps, -1], embeddings)


def _kangaroo_outputs(
    network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
) -> Sequence[torch.Tensor]:
    """Return the outputs of each step: those of one causal pass over the model's own states.

    The adapter reads the states of the model's first layers at draft tokens as at others, so nothing is unrolled.
    """
    assert isinstance(network, KangarooNetwork)
    output = network.output_norm(network.layer(states[:, :, 0], None))
    count = states.shape[1] - steps
    return [output[:, 1 + step : 1 + step + count] for step in range(steps)]


def _layers_outputs(
    network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
) -> Sequence[torch.Tensor]:
    assert isinstance(network, NestedNetwork)
    return nested_outputs(network, embeddings, steps)


KINDS: dict[str, tuple[Callable[[HuggingFaceModel, Features, Recipe], _Made], Outputs]] = {
    "eagle": (_eagle, _eagle_outputs),
    "medusa": (_medusa, _head_outputs),
    "hydra": (_hydra, _head_outputs),
    "kangaroo": (_kangaroo, _kangaroo_outputs),
    "layers": (_layers, _layers_outputs),
}
"""For each kind a function from a model, features and a recipe to sizes and a new network; and the outputs of the
network for whole texts."""


def outputs_of(kind: str) -> Outputs:
    """Return the outputs of a kind of network for whole texts."""
    if kind not in KINDS:
        raise OptionError(
            f"drafters of the kind {kind!r:.40} are not trained here", hint=f"Use one of {', '.join(KINDS)}."
        )
    return KINDS[kind][1]


def frozen_rows(
    model: HuggingFaceModel, ids: NDArray[np.int64], *, dtype: torch.dtype | None = torch.float32
) -> tuple[torch.Tensor, OutputRows]:
    """Return the model's embeddings and its output rows for these tokens.

    Args:
        model: The model.
        ids: The tokens.
        dtype: The precision. None for that of the model; then the embeddings are the model's own, without a copy.

    Raises:
        ModelError: The model's logits do not follow from its states by its output layer, a scale and a bound.
    """
    whole = transformers_model(model)
    embeddings = whole.get_input_embeddings().weight.detach()
    layer = output_rows(whole, ids)
    bias = None if layer.bias is None else layer.bias.detach().float()
    weight = layer.weight.detach()
    rows = OutputRows(weight.to(dtype or weight.dtype), bias, logit_map_of(whole))
    return embeddings.to(dtype or embeddings.dtype), rows
