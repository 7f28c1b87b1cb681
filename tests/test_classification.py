"""Probabilities of labels, against the definition: one label at a time, from a fresh prompt."""

from __future__ import annotations

import enum
import hashlib
import math
import pickle
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

import structgen as sg
from structgen.errors import DeadEnd, LimitExceeded, OptionError
from structgen.models.memory import DistributionModel, DistributionSession
from structgen.protocols import SessionCapabilities
from tests.embedded import embedded_model
from tests.oracles.scripted_model import BYTES, ScriptedModel

VOCABULARY = sg.Vocabulary.from_tokens([b"n", b"o", b"e", b"no", b"on", b"one", b"ne", b"x", None], [8])


class Sentiment(enum.Enum):
    POSITIVE = "positive"
    NEGATIVE = "negative"


@cache
def distribution(tokens: tuple[int, ...], size: int = VOCABULARY.size) -> tuple[float, ...]:
    """Return a distribution that is a noise-like function of the tokens."""
    seed = int.from_bytes(hashlib.blake2b(repr(tokens).encode(), digest_size=8).digest(), "little")
    return tuple(np.random.default_rng(seed).dirichlet(np.ones(size)))


def toy() -> DistributionModel:
    return DistributionModel(VOCABULARY, distribution)


def tokenizations(text: bytes) -> list[tuple[int, ...]]:
    if not text:
        return [()]
    return [
        (token, *rest)
        for token in range(VOCABULARY.size - 1)
        if text.startswith(piece := VOCABULARY.token_bytes(token) or b"?")
        for rest in tokenizations(text[len(piece) :])
    ]


def log_p(tokens: tuple[int, ...], end: bool) -> float:
    steps = [distribution(tokens[:place])[token] for place, token in enumerate(tokens)]
    return sum(map(math.log, steps)) + (math.log(distribution(tokens)[8]) if end else 0.0)


LABELS = ["no", "one", "none", "x", "onno"]


@pytest.mark.parametrize("end", [True, False])
def test_all_tokenizations_are_the_sum_over_all_paths(end: bool) -> None:
    found = sg.classify(toy(), "?", LABELS, tokenizations="all", end=end)
    for label in LABELS:
        paths = tokenizations(label.encode())
        expected = math.log(sum(math.exp(log_p(path, end)) for path in paths))
        assert found.likelihoods[label] == pytest.approx(expected, abs=1e-5)
    mass = sum(map(math.exp, found.likelihoods.values()))
    assert found.mass == pytest.approx(mass)
    for label, share in found.probabilities.items():
        assert share == pytest.approx(math.exp(found.likelihoods[label]) / mass)
    assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-12)


def test_the_same_distribution_as_exact_sampling() -> None:
    found = sg.classify(toy(), "?", LABELS, tokenizations="all", end=True)
    drawn = sg.sample(toy(), "?", sg.choice(LABELS), n=3000, sampler="exact", seed=1)
    for one in drawn.merged:
        share = found.probabilities[one.text]
        assert one.weight == pytest.approx(share, abs=4 * math.sqrt(share / 3000))


def test_canonical_tokens_are_read_from_one_prompt() -> None:
    model = toy()
    found = sg.classify(model, "?", LABELS, end=False)
    for label, tokens in found.tokens.items():
        assert b"".join(VOCABULARY.token_bytes(token) or b"" for token in tokens) == label.encode()
        assert found.likelihoods[label] == pytest.approx(log_p(tuple(tokens), False), abs=1e-5)
    assert model.forward_passes <= 1  # the prompt, and all beginnings together


def test_models_that_read_no_trees_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [
        first + second + third
        for first in ("no", "one", "x")
        for second in ("n", "oe", "")
        for third in "noe"
    ]
    trees = sg.classify(toy(), "?", labels, end=True)
    monkeypatch.setattr(
        DistributionSession, "capabilities", SessionCapabilities(scores_runs=True, crops_cheaply=True)
    )
    rows = sg.classify(toy(), "?", labels, end=True)
    assert rows.likelihoods == pytest.approx(trees.likelihoods, abs=1e-5)


@pytest.fixture(scope="module")
def smollm2() -> Any:
    return embedded_model()


def test_a_real_model_read_label_by_label(smollm2: Any) -> None:
    labels = ["yes", "yes indeed", "mixed feelings"]
    prompt = "Was it good?"
    found = sg.classify(smollm2, prompt, labels)
    for label in labels:
        session = smollm2.start([smollm2.encode(prompt)])
        total = 0.0
        for token in [*found.tokens[label], None]:
            logits = session.logits()[0].astype(np.float64)
            wanted = logits[list(smollm2.vocabulary.eos_ids) if token is None else [token]]
            total += np.logaddexp.reduce(wanted) - np.logaddexp.reduce(logits)
            session.append([[0 if token is None else token]])
        assert found.likelihoods[label] == pytest.approx(total, abs=2e-3)


def test_several_prompts(smollm2: Any) -> None:
    prompts = ["Is the sky blue?", [{"role": "user", "content": "Is snow black?"}]]
    both = sg.classify(smollm2, prompts, bool)
    for one, prompt in zip(both, prompts, strict=True):
        alone = sg.classify(smollm2, prompt, bool)
        assert one.probabilities == pytest.approx(alone.probabilities, abs=1e-4)


def labelled(probabilities: dict[str, float]) -> DistributionModel:
    """Return a model over bytes whose first byte decides the label."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        chances = [1e-9] * 257
        if not tokens:
            for text, share in probabilities.items():
                chances[ord(text[0])] = share
            return chances
        (text,) = [one for one in probabilities if one.startswith(chr(tokens[0]))]
        chances[ord(text[len(tokens)]) if len(tokens) < len(text) else 256] = 1.0
        return chances

    return DistributionModel(BYTES, distribution)


@pytest.mark.parametrize(
    ("labels", "shares"),
    [
        (["positive", "negative"], {"positive": 0.75, "negative": 0.25}),
        (("positive", "negative"), {"positive": 0.75, "negative": 0.25}),
        (Sentiment, {Sentiment.POSITIVE: 0.75, Sentiment.NEGATIVE: 0.25}),
        (Literal["negative", "positive"], {"positive": 0.75, "negative": 0.25}),
        (bool, {True: 0.6, False: 0.4}),
        (bool | None, {True: 0.5, False: 1 / 3, None: 1 / 6}),
        ({"positive": "it is liked", "negative": None}, {"positive": 0.75, "negative": 0.25}),
        (["only"], {"only": 1.0}),
    ],
)
def test_labels_of_every_kind(labels: Any, shares: dict[Any, float]) -> None:
    model = labelled({"positive": 0.3, "negative": 0.1, "true": 0.3, "false": 0.2, "ull": 0.1, "only": 0.01})
    if labels == (bool | None):
        model = labelled({"true": 0.3, "false": 0.2, "null": 0.1})
    found = sg.classify(model, "?", labels)
    assert found.probabilities == pytest.approx(shares, abs=1e-6)
    assert list(found.probabilities) == sorted(shares, key=lambda label: -shares[label])
    assert found.label == next(iter(found.probabilities))
    assert found.entropy == pytest.approx(-sum(one * math.log(one) for one in shares.values()), abs=1e-5)
    assert found.log_probabilities[found.label] == pytest.approx(math.log(max(shares.values())), abs=1e-5)


def test_descriptions_go_to_the_prompt() -> None:
    model = ScriptedModel("spam")
    sg.classify(model, "A letter.", {"spam": "unwanted advertising", "ham": "anything else"})
    sg.classify(model, "A letter.", ["spam", "ham"])
    sg.classify(model, "A letter.", ["spam", "ham"], describe=True)
    assert "- spam: unwanted advertising" in model.prompts[0]
    assert model.prompts[1] == "A letter."
    assert "- ham" in model.prompts[2]


def test_the_end_counts_where_one_label_begins_another() -> None:
    model = ScriptedModel("none")
    assert sg.classify(model, "?", ["no", "none"]).label == "none"
    assert sg.classify(model, "?", ["no", "none"], end=False).label == "no"


def test_what_is_shown() -> None:
    found = sg.classify(labelled({"positive": 0.3, "negative": 0.1}), "?", Sentiment)
    assert repr(found) == "<Classification Sentiment.POSITIVE 75.0%, Sentiment.NEGATIVE 25.0%>"
    assert "75.00%" in found._repr_html_() and "Sentiment.POSITIVE" in found._repr_html_()
    assert pickle.loads(pickle.dumps(found)) == found
    many = sg.classify(ScriptedModel("a"), "?", [f"<{number}>" for number in range(40)])
    assert (
        "34 more" in repr(many)
        and "20 more labels" in many._repr_html_()
        and "&lt;3&gt;" in many._repr_html_()
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "there are no labels"),
        ({}, "there are no labels"),
        (["a", ""], "a label is the empty text"),
        (["a", 3], "a label is 3, an int; it must be a text"),
        (["a", "a"], "occurs twice"),
        ("abc", "labels is 'abc', a str"),
        (3, "labels is 3"),
        (None, "labels is None"),
        (int, "which has no finite list of texts"),
        (str, "which has no finite list of texts"),
        ({"a": 3}, "the description of 'a' is 3"),
        (sg.choice(["a"]), "which has no finite list of texts"),
        (list[bool], "which has no finite list of texts"),
        ({"a", "b"}, "labels is a set, not a list"),
        ((text for text in "ab"), "labels is a generator, not a list"),
        (np.array(["a", "b"]), "labels is a ndarray, not a list"),
    ],
)
def test_bad_labels(labels: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        sg.classify(ScriptedModel("a"), "?", labels)
    assert caught.value.hint or "twice" in message


def test_bad_calls() -> None:
    model = ScriptedModel("a")
    with pytest.raises(OptionError, match="tokenizations is 'some'"):
        sg.classify(model, "?", ["a", "b"], tokenizations="some")  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="end is 'yes'"):
        sg.classify(model, "?", ["a", "b"], end="yes")  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="not a model"):
        sg.classify("smollm2", "?", ["a", "b"])  # type: ignore[call-overload]
    with pytest.raises(OptionError, match=r"classify\(\) needs the model's logits"):
        sg.classify(SimpleNamespace(answer_steps=None), "?", ["a", "b"])
    with pytest.raises(LimitExceeded, match="context"):
        sg.classify(ScriptedModel("a", context_length=3), "?", ["a", "abcdef"])
    with pytest.raises(LimitExceeded, match="prefixes in all tokenizations"):
        sg.classify(toy(), "?", ["on" * 30], tokenizations="all")
    with pytest.raises(LimitExceeded, match="takes 600 tokens, more than 512"):
        sg.classify(ScriptedModel("a"), "?", ["a" * 600, "b"])
    silent = DistributionModel(BYTES, lambda tokens: [0.0] * 256 + [1.0])
    with pytest.raises(DeadEnd, match="none of the labels any probability"):
        sg.classify(silent, "?", ["a", "b"])
