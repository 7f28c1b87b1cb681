"""The options of heads: which sizes they give, what they are allowed with, and that such heads learn."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.heads import HeadOptions
from structgen.draft_training.recipes import Recipe, train_drafter
from structgen.errors import ModelError, OptionError
from structgen.generation import SamplingOptions, generate_tokens
from structgen.speculative import Fixed, Speculation
from structgen.speculative.learned import Hydra, Medusa
from structgen.speculative.learned.heads import MOST_BLOCKS, HeadSizes
from tests.draft_training.test_training import OPTIONS, repeated

DESIGNS = {
    "two blocks": ("medusa", HeadOptions(blocks=2, inner=24)),
    "medusa, all before": ("medusa", HeadOptions(context_layer=True)),
    "hydra++": ("hydra", HeadOptions(blocks=2, inner=24, context_layer=True)),
    "clover": ("hydra", HeadOptions(draft_layer=True, context_layer=True)),
    "chimera": ("hydra", HeadOptions(trigrams=True, context_layer=True)),
}


@pytest.mark.parametrize("name", list(DESIGNS))
def test_heads_with_options_learn_a_text_and_draft_it(name: str, tmp_path: Path) -> None:
    kind, heads = DESIGNS[name]
    model, features = repeated(tmp_path)
    options = dataclasses.replace(OPTIONS, epochs=40)
    weights, training = train_drafter(model, features, Recipe(kind, 64, options=options, heads=heads))
    sizes = HeadSizes.from_dict(weights.sizes)
    assert (sizes.blocks, sizes.inner, sizes.trigrams) == (heads.blocks, heads.inner, heads.trigrams)
    assert (sizes.context_layer is not None, sizes.draft_layer is not None) == (
        heads.context_layer,
        heads.draft_layer,
    )
    assert sizes.follows_draft == (kind == "hydra")
    assert training.best.right[0] > 0.9
    drafter = (Medusa if kind == "medusa" else Hydra)(weights, least=0.0)
    speculation = Speculation([drafter], controller=Fixed(3))
    prompts, sampling = [[20, 9, 30]], SamplingOptions(temperature=0, max_tokens=20)
    plain = generate_tokens(model, prompts, [None], sampling)[0]
    drafted = generate_tokens(model, prompts, [None], sampling, drafting=speculation.start(model))[0]
    assert drafted.tokens == plain.tokens and drafted.drafted_tokens > 0
    assert not speculation.records[0].failed


def test_options_of_heads_are_checked(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="blocks is 0"):
        HeadOptions(blocks=0)
    with pytest.raises(OptionError, match=f"from 1 to {MOST_BLOCKS}"):
        HeadOptions(blocks=MOST_BLOCKS + 1)
    with pytest.raises(OptionError, match="inner is -1"):
        HeadOptions(inner=-1)
    with pytest.raises(OptionError, match="both say how the draft is read"):
        HeadOptions(draft_layer=True, trigrams=True)
    with pytest.raises(OptionError, match="options of medusa and hydra, not of eagle"):
        Recipe("eagle", heads=HeadOptions(blocks=2))
    for heads in (HeadOptions(draft_layer=True), HeadOptions(trigrams=True)):
        with pytest.raises(OptionError, match="options of hydra, not of medusa"):
            Recipe("medusa", heads=heads)
    model, features = repeated(tmp_path)
    save, short = tmp_path / "state", dataclasses.replace(OPTIONS, epochs=1)
    train_drafter(model, features, Recipe("hydra", 64, options=short), save=save)
    other = Recipe("hydra", 64, options=short, heads=HeadOptions(trigrams=True))
    with pytest.raises(ModelError, match="other options or other texts"):
        train_drafter(model, features, other, save=save, resume=True)
