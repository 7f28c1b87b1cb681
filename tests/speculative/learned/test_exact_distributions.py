"""Whole texts with drafts of a trimmed vocabulary: their exact distribution is that of drawing without drafts.

All choices of a generation are enumerated (`tests.speculative.enumeration`). The networks have random weights, and the
model has four tokens. The other side comes from one plain forward pass over each text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, LlamaConfig  # noqa: E402

import structgen as sg  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.distributions import bits_of  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.controllers import Confidence, Controller, Fixed  # noqa: E402
from structgen.speculative.growth import GrownTree  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    DEL,
    AcceptanceHead,
    DraftWeights,
    Eagle,
    Hydra,
    Kangaroo,
    Medusa,
    NestedLayers,
)
from structgen.speculative.learned.dynamic_exit import ExitCosts  # noqa: E402
from structgen.speculative.learned.eagle import EagleNetwork, EagleSizes  # noqa: E402
from structgen.speculative.learned.heads import HeadSizes, HeadsNetwork  # noqa: E402
from structgen.speculative.learned.kangaroo import KangarooNetwork, KangarooSizes  # noqa: E402
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from structgen.speculative.learned.nested_layers import NestedNetwork, NestedSizes  # noqa: E402
from structgen.speculative.learned.prompt_tokens import (  # noqa: E402
    PromptTokens,
    PromptTokenSizes,
    PromptTokensNetwork,
)
from structgen.speculative.model_drafters import DraftModel, LayerSkip  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from structgen.speculative.verifiers import (  # noqa: E402
    GreedyTransport,
    KSeq,
    Match,
    Outcome,
    Recursive,
    Rejection,
    Verifier,
)
from structgen.vocabulary import Vocabulary  # noqa: E402
from tests.speculative.enumeration import text_distribution  # noqa: E402

VOCABULARY = Vocabulary.from_tokens([b"a", b"b", b"c", None], [3])
PROMPT = [0, 1, 2]
CONSTRAINT = sg.regex("(ab|ba|b?c|a)+")
LAYER = LayerSizes(hidden=16, heads=2, kv_heads=2, head_size=8, mlp=24)


class LetterModel:
    """A Llama of three letters, in float64."""

    context_length = 64
    layer_count = 2
    cache_bytes_per_token = 1024
    vocabulary = VOCABULARY

    def __init__(self, seed: int = 5) -> None:
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=VOCABULARY.size,
            bos_token_id=0,
            eos_token_id=3,
            pad_token_id=3,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
        self.model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float64)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(4)
        self.model.eval()

    def start(self, prompts: Any) -> Any:
        """See `LanguageModel.start`."""
        return self.start_with_hidden_states(prompts, ())

    def start_with_hidden_states(self, prompts: Any, layers: Any) -> Any:
        """See `HiddenStatesModel.start_with_hidden_states`."""
        return start_session(self.model, VOCABULARY.size, prompts, layers)


MODEL = LetterModel()


def random_weights(kind: str, sizes: Any, network: Any, tokens: Sequence[int]) -> DraftWeights:
    torch.manual_seed(1)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return DraftWeights(kind, sizes.as_dict(), VOCABULARY.fingerprint, np.array(tokens), network.state_dict())


HEADS = HeadSizes(hidden=16, layer=2, count=3)
EAGLES = {
    "eagle": EagleSizes(LAYER, (1, 2)),
    "eagle-1": EagleSizes(LAYER, (2,), input_norms="none", fuses_embeddings=True),
    "eagle with a sampler": EagleSizes(LAYER, (1, 2), sampler=24, second_output=True),
    "eagle in blocks": EagleSizes(LAYER, (1, 2), tokens_a_pass=2),
}
DESIGNS = {
    "medusa": HEADS,
    "hydra": replace(HEADS, reads=3),
    "hydra++": replace(HEADS, reads=3, blocks=2, inner=20, context_layer=LAYER),
    "clover": replace(HEADS, draft_layer=LAYER, context_layer=LAYER),
    "chimera": replace(HEADS, reads=1, trigrams=True, context_layer=LAYER),
}


def drafter_of(
    kind: str, tokens: Sequence[int], acceptance: AcceptanceHead | None = None, threshold: float = 0.0
) -> Any:
    """Return a drafter that may propose `tokens`."""
    options: Any = {"least": 0.0, "acceptance": acceptance}
    if kind in EAGLES:
        eagle = EAGLES[kind]
        return Eagle(random_weights("eagle", eagle, EagleNetwork(eagle), tokens), **options)
    if kind == "kangaroo":
        exits = KangarooSizes(LAYER, 1)
        weights = random_weights(kind, exits, KangarooNetwork(exits), tokens)
        return Kangaroo(weights, threshold=threshold, **options)
    if kind == "prompt-tokens":
        prompts = PromptTokenSizes(16, 2)
        return PromptTokens(random_weights(kind, prompts, PromptTokensNetwork(prompts), tokens))
    if kind == "layers":
        nested = NestedSizes(LAYER, (1, 2))
        return NestedLayers(random_weights(kind, nested, NestedNetwork(nested), tokens), **options)
    if kind == "del":  # costs with which its exit pays
        return DEL(token_ids=tokens, every=1, costs=ExitCosts(layer=0.01, head=0.01), least=0.0, width=2)
    if kind == "draft-model":
        return DraftModel(LetterModel(seed=6), least=0.0, token_ids=tokens)
    if kind == "layer-skip":
        return LayerSkip(0.5, least=0.0, refresh=None, token_ids=tokens)
    heads = DESIGNS[kind]
    made = Hydra if heads.follows_draft else Medusa
    return made(random_weights(made.kind, heads, HeadsNetwork(heads), tokens), **options)


def plain_distribution(constraint: Any, begin: Sequence[int], most: int) -> Counter[Any]:
    """Return the distribution of texts that begin so, from one forward pass for each of their positions."""
    found: Counter[Any] = Counter()

    def follow(tokens: tuple[int, ...], probability: float) -> None:
        matcher = None if constraint is None else Matcher(constraint, VOCABULARY)
        bits = np.ones(VOCABULARY.size)
        if matcher is not None:
            assert all(matcher.advance(token) for token in tokens)
            bits = bits_of(matcher.mask(), VOCABULARY.size)
        with torch.inference_mode():
            logits = MODEL.model(input_ids=torch.tensor([[*PROMPT, *tokens]])).logits[0, -1]
        masses = logits.softmax(-1).numpy() * bits
        for token in np.flatnonzero(masses).tolist():
            reach = probability * float(masses[token] / masses.sum())
            if token in VOCABULARY.eos_ids or len(tokens) == most:
                found[(*tokens, token in VOCABULARY.eos_ids)] += reach  # type: ignore[assignment]
            else:
                follow((*tokens, token), reach)

    follow(tuple(begin), 1.0)
    return found


def drawn_distribution(
    make: Callable[[], Any],
    verifier: Verifier,
    constraint: Any,
    begin: Sequence[int],
    most: int,
    *,
    branching: bool,
    controller: Controller | None = None,
) -> tuple[Counter[Any], Counter[str]]:
    """Return the distribution of texts that begin so, with drafts; and how many tokens were drafted and accepted.

    `make` returns the drafter. It is called for each text: what a drafter learns from one changes the next.
    """
    counts: Counter[str] = Counter()

    def generate() -> Any:
        speculation = Speculation(
            [make()], verifier, controller or Fixed(2), branching=branching, depth=2, width=2
        )
        (text,) = generate_tokens(
            MODEL,  # type: ignore[arg-type]
            [PROMPT],
            [None if constraint is None else Matcher(constraint, VOCABULARY)],
            SamplingOptions(temperature=1.0, seed=1, max_tokens=most, noise="uniform", forced=False),
            drafting=speculation.start(MODEL),  # type: ignore[arg-type]
        )
        assert not any(record.failed for record in speculation.records)
        counts.update(drafted=text.drafted_tokens, accepted=text.accepted_tokens)
        counts["predicted"] += sum(
            known[0] for kind, known in speculation.tallies.known.items() if " head" in kind
        )
        return (*text.tokens, text.end_token is not None)

    return text_distribution(generate, begin), counts


def distance(found: Counter[Any], wanted: Counter[Any]) -> float:
    return max(abs(found[text] - wanted[text]) for text in {*found, *wanted})


KINDS = ["eagle", "medusa", "hydra", "kangaroo", "prompt-tokens", "layers", "del"]
MODELS = ["draft-model", "layer-skip"]
CASES: list[tuple[Verifier, bool, Any]] = [
    (Match(), True, CONSTRAINT),
    (Rejection(), False, None),
    (Rejection(), False, CONSTRAINT),
    (Recursive(), True, None),
    (Recursive(), True, CONSTRAINT),
    (KSeq(), True, CONSTRAINT),
    (GreedyTransport(), True, CONSTRAINT),
]
SOME_CASES = [(Match(), True, CONSTRAINT), (Rejection(), False, CONSTRAINT), (Recursive(), True, CONSTRAINT)]
"""Those of designs whose kind takes all of them."""


def named(value: Any) -> str:
    if isinstance(value, str):
        return value
    return (
        {False: "sequences", True: "trees"}.get(value, "")
        if isinstance(value, bool)
        else ("free" if value is None else "constrained" if value is CONSTRAINT else type(value).__name__)
    )


def check_distribution(kind: str, verifier: Verifier, branching: bool, constraint: Any) -> None:
    # The first draft follows the first token, that of prompt tokens the second one; these are given.
    begin = [0, 1] if kind == "prompt-tokens" else [0]
    # The most probable token is drafted in any case, so there must be several others.
    tokens = [0, 1, 3] if isinstance(verifier, GreedyTransport) else [0, 1]
    most, drafter = len(begin) + 2, drafter_of(kind, tokens)
    make = partial(drafter_of, kind, tokens) if kind == "del" else lambda: drafter
    found, counts = drawn_distribution(make, verifier, constraint, begin, most, branching=branching)
    wanted = plain_distribution(constraint, begin, most)
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    assert distance(found, wanted) < 1e-6
    assert 0 < counts["accepted"] < counts["drafted"]


@pytest.mark.parametrize(
    ("kind", "verifier", "branching", "constraint"),
    [
        *((kind, *case) for kind in KINDS for case in CASES),
        *((kind, *case) for kind in MODELS for case in CASES if not isinstance(case[0], KSeq)),
    ],
    ids=named,
)
def test_texts_have_the_distribution_of_plain_draws(
    kind: str, verifier: Verifier, branching: bool, constraint: Any
) -> None:
    check_distribution(kind, verifier, branching, constraint)


@pytest.mark.parametrize(("verifier", "branching", "constraint"), SOME_CASES, ids=named)
@pytest.mark.parametrize("kind", [kind for kind in (*EAGLES, *DESIGNS) if kind not in KINDS])
def test_other_designs_have_it_too(kind: str, verifier: Verifier, branching: bool, constraint: Any) -> None:
    check_distribution(kind, verifier, branching, constraint)


class Careless(Rejection):
    """Assumes that all drafts were drawn from a uniform distribution."""

    def outcome(self, target: Any, draft: Any, children: Sequence[int]) -> Outcome:
        return super().outcome(target, np.full(len(target), 1 / len(target)), children)


def test_a_wrong_verifier_changes_the_distribution() -> None:
    drafter, begin = drafter_of("eagle", [0, 1]), [0]
    found, _ = drawn_distribution(lambda: drafter, Careless(), None, begin, 3, branching=False)
    assert distance(found, plain_distribution(None, begin, 3)) > 0.01


CONFIDENCE = Confidence(least=0.45, size=2)


def random_head() -> AcceptanceHead:
    """A head whose numbers differ much from one state to the next."""
    torch.manual_seed(2)
    head = AcceptanceHead(16, 1)
    torch.nn.init.normal_(head.output.weight, std=0.8)
    return head


HEAD_CASES = [
    *(("eagle", *case) for case in CASES),
    *((kind, Rejection(), False, CONSTRAINT) for kind in ("medusa", "hydra", "kangaroo")),
]


@pytest.mark.parametrize(("kind", "verifier", "branching", "constraint"), HEAD_CASES, ids=named)
def test_an_acceptance_head_decides_what_is_read_and_leaves_the_distribution_alone(
    kind: str, verifier: Verifier, branching: bool, constraint: Any
) -> None:
    begin, most = [0], 2 if isinstance(verifier, KSeq) else 3  # that one has the most draws
    tokens = [0, 1, 3] if isinstance(verifier, GreedyTransport) else [0, 1]
    drafter = drafter_of(kind, tokens, random_head(), threshold=0.4)
    found, counts = drawn_distribution(
        lambda: drafter, verifier, constraint, begin, most, branching=branching, controller=CONFIDENCE
    )
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    assert distance(found, plain_distribution(constraint, begin, most)) < 1e-6
    assert counts["accepted"] and counts["predicted"]


def test_draws_that_are_left_out_because_of_the_head_change_the_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The verifier must learn of children that the model does not read."""
    learned, cut = drafter_of("eagle", [0, 1], random_head()), GrownTree.cut

    def cut_draws(grown: GrownTree, size: int) -> None:
        cut(grown, size)
        for node, drawn in list(grown.sampled.items()):
            if not any(grown.tree.has(node, token) for token in drawn.tokens):
                del grown.sampled[node]

    monkeypatch.setattr(GrownTree, "cut", cut_draws)
    found, _ = drawn_distribution(
        lambda: learned, Rejection(), None, [0], 3, branching=False, controller=CONFIDENCE
    )
    assert distance(found, plain_distribution(None, [0], 3)) > 0.01
