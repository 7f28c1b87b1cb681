"""Labels of a judge: the value after another token, as an independent continuation finds it; files; errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.features import compute_features  # noqa: E402
from structgen.draft_training.judging import LabelledDrafts, fit_judge, label_drafts  # noqa: E402
from structgen.draft_training.recipes import layers_read  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.errors import ModelError, OptionError, VocabularyMismatch  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.distributions import bits_of  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.speculative import Judge  # noqa: E402
from structgen.speculative.learned import load_judge, save_judge  # noqa: E402
from tests.draft_training.test_training import Tiny  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.learned.test_eagle import random_weights  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY  # noqa: E402

PATTERN = "[ab]{1,3}(cab|abc){1,4}[a-f]?"


def answered(model: Any, prompt: list[int], source: dict[str, Any], seed: int) -> Text:
    matcher = Matcher(sg.regex(source["regex"]), VOCABULARY)
    options = SamplingOptions(temperature=0.0, seed=seed, max_tokens=40)
    (answer,) = generate_tokens(model, [prompt], [matcher], options)
    ended = [] if answer.end_token is None else [answer.end_token]
    return Text(prompt, [*answer.tokens, *ended], "x", 0.0, source)


def greedy_after(model: Any, prompt: list[int], answer: list[int]) -> tuple[bytes, Any]:
    """Continue an answer with one whole pass for each token; return the text, and the first pass's last state."""
    matcher, tokens, first = Matcher(sg.regex(PATTERN), VOCABULARY), [*prompt, *answer], None
    assert all(matcher.advance(token) for token in answer)
    while True:
        with torch.inference_mode():
            output = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
        first = output.hidden_states[-1][0, -1] if first is None else first
        if matcher.must_stop:
            return matcher.text, first
        allowed = bits_of(matcher.mask(), SIZE)
        best = int(np.where(allowed, output.logits[0, -1].numpy(), -np.inf).argmax())
        if best in VOCABULARY.eos_ids:
            return matcher.text, first
        assert matcher.advance(best)
        tokens.append(best)


def test_labels_are_those_of_answers_that_go_on_from_the_other_token(tmp_path: Path) -> None:
    model, weights = Tiny(), random_weights(token_ids=np.arange(2, SIZE))
    rng = np.random.default_rng(0)
    prompts = [[int(i) for i in rng.integers(2, SIZE, size=5)] for _ in range(10)]
    texts = [answered(model, prompt, {"regex": PATTERN}, number) for number, prompt in enumerate(prompts)]
    texts += [replace(texts[0], constraint=None), replace(texts[1], temperature=0.7)]
    texts += [replace(texts[2], answer=texts[2].answer[:1])]  # not complete
    features = compute_features(model, texts, tmp_path, layers_read(model), most_bytes=1 << 20)
    found = label_drafts(weights, model, features, most=1000)
    assert set(found.texts.tolist()) <= set(range(10))
    rows = zip(found.texts.tolist(), found.places, found.states, found.labels.tolist(), strict=True)
    for text, (position, token), state, label in rows:
        prompt, answer = texts[text].prompt, texts[text].answer
        before = answer[: position - len(prompt)]
        assert token != answer[len(before)]
        written, last = greedy_after(model, prompt, [*before, token])
        own = VOCABULARY.decode(each for each in answer if each not in VOCABULARY.eos_ids)
        assert label == float(written == own)
        torch.testing.assert_close(state, last, rtol=1e-3, atol=1e-3)
    assert 0 < found.labels.sum() < len(found.labels)
    some = label_drafts(weights, model, features, most=5)
    assert len(some.labels) == 5 and set(some.places) <= set(found.places)
    others = compute_features(model, texts[10:], tmp_path / "others", layers_read(model), most_bytes=1 << 20)
    with pytest.raises(OptionError, match="none of the texts is a complete greedy answer"):
        label_drafts(weights, model, others)


def labelled(count: int = 400) -> LabelledDrafts:
    torch.manual_seed(0)
    states = torch.randn(count, 8)
    labels = (states[:, 0] + 0.2 * torch.randn(count) > 0.5).float()
    return LabelledDrafts(states, labels, torch.arange(count) // 10, [(0, 0)] * count)


def test_a_judge_is_measured_on_texts_that_were_set_apart() -> None:
    _, report = fit_judge(labelled())
    assert report.tokens == 100 and 0.2 < report.fine < 0.45
    assert report.right > 0.85 * report.accepted > 0
    careful, other = fit_judge(labelled(), threshold=0.95, rejection_weight=4.0)
    assert careful.threshold == 0.95 and other.accepted < report.accepted
    few = labelled(12)
    with pytest.raises(OptionError, match="of 12 draft tokens lead to the same value"):
        fit_judge(few)
    with pytest.raises(OptionError, match="0 of 400 draft tokens"):
        fit_judge(replace(labelled(), labels=torch.zeros(400)))
    given = labelled()
    with pytest.raises(OptionError, match="nothing to learn from"):
        fit_judge(replace(given, texts=torch.zeros_like(given.texts)))
    texts = np.random.default_rng(0).permutation(np.unique(given.texts.numpy()))
    with pytest.raises(OptionError, match="in the texts that are set apart"):
        fit_judge(replace(given, labels=(given.texts == int(texts[0])).to(given.labels.dtype)))


def test_files_of_judges(tmp_path: Path) -> None:
    judge, model = Judge(np.arange(32) / 3, 0.25, 0.75), Tiny()
    path = tmp_path / "judge.json"
    save_judge(judge, path, model.vocabulary.fingerprint, {"labels": 3})
    loaded = load_judge(path, model)
    np.testing.assert_array_equal(loaded.weight, judge.weight)
    assert (loaded.bias, loaded.threshold) == (0.25, 0.75)
    about = json.loads(path.read_text())
    broken = [b"", path.read_bytes()[:40], b"[]", b"{}", json.dumps(about | {"format": "x"}).encode()]
    broken += [json.dumps(about | {"weight": value}).encode() for value in ([], ["a"], [[1.0]], [10**400])]
    broken.append(json.dumps(about | {"bias": 10**400}).encode())
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(ModelError, match="not a complete file of a judge"):
            load_judge(path, model)
    path.write_text(json.dumps(about | {"weight": [1.0] * 31}))
    with pytest.raises(ModelError, match="states of 31 numbers; this model's have 32"):
        load_judge(path, model)
    path.write_text(json.dumps(about | {"vocabulary": "other"}))
    with pytest.raises(VocabularyMismatch, match="trained with another tokenizer"):
        load_judge(path, model)
    with pytest.raises(ModelError, match="cannot be read"):
        load_judge(tmp_path / "none", model)
    with pytest.raises(ModelError, match="cannot be written"):
        save_judge(judge, tmp_path / "no" / "folder", "")
