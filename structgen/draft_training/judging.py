"""Labels for a judge without people: draft tokens that the model would not draw, and whether the value stays the same.

What: the texts are greedy answers that obey a constraint, so each has a value: the parsed JSON, or else the text. At
positions where a drafter guesses another token than the model's, the answer is continued greedily after that token. The
label is 1 if the value is the same as before, and else 0. So a token that changes white space, the order of members or
the spelling of a number's exponent may be fine, and one that changes a letter of a string is not.
Limits: a label says that the value is the same, not that it is true, and never that another value is as good. Where
values are long free texts, few labels are 1. Tokens that the model draws itself get no label: verification accepts them
without a judge.
Source: Bachmann et al. 2025 (Judge Decoding), https://arxiv.org/abs/2501.19309. Their labels are made by people.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from structgen.errors import OptionError
from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.progress import ProgressBar
from structgen.speculative import Judge
from structgen.speculative.learned import DraftWeights

from .features import Features
from .guesses import guesses_in_texts
from .probes import train_judge
from .requests import constraint_of

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["JudgeReport", "LabelledDrafts", "fit_judge", "label_drafts"]

_BATCH = 16
_FEWEST = 20


@dataclass(frozen=True)
class LabelledDrafts:
    """Draft tokens that the model would not have drawn."""

    states: torch.Tensor
    """The model's last hidden state after each of them, ``[tokens, hidden size]``."""
    labels: torch.Tensor
    """1 where the answer that goes on from it has the same value, ``[tokens]``."""
    texts: torch.Tensor
    """The number of the text of each, ``[tokens]``."""
    places: list[tuple[int, int]]
    """The position of each in its text, and the token."""


@dataclass(frozen=True)
class JudgeReport:
    """How a judge does on texts that were set apart."""

    tokens: int
    """The number of labelled draft tokens there."""
    fine: float
    """The share of them with the label 1: what accepting all of them would give."""
    accepted: int
    """How many of them the judge accepts."""
    right: int
    """How many of these have the label 1."""


def label_drafts(
    weights: DraftWeights,
    model: HuggingFaceModel,
    features: Features,
    *,
    most: int = 400,
    seed: int = 0,
    progress: bool = False,
) -> LabelledDrafts:
    """Find draft tokens that the model would not draw, and label them.

    Args:
        weights: The drafter's weights.
        model: The model.
        features: Its texts, with the states that the drafter reads. Greedy ones with a constraint are used.
        most: The largest number of labels. Each takes an answer of the model.
        seed: Of the choice among the tokens.
        progress: Whether to show progress bars.

    Raises:
        OptionError: No such text is complete, or the drafter guesses no other token in them.
    """
    values = {
        text: value
        for text in range(len(features))
        if (value := _own_value(model, features, text)) is not None
    }
    if not values:
        raise OptionError(
            "none of the texts is a complete greedy answer with a constraint",
            hint="Give prompts with a constraint: --prompts FILE.",
        )
    found = _other_tokens(weights, model, features, set(values), progress)
    if not found:
        raise OptionError(
            "the drafter guesses no token that the model would not draw", hint="Give more prompts."
        )
    rng = np.random.default_rng(seed)
    chosen = [found[index] for index in sorted(rng.permutation(len(found))[:most])]
    states, labels = [], []
    with ProgressBar(len(chosen), "labels", progress) as bar:
        for start in range(0, len(chosen), _BATCH):
            batch = chosen[start : start + _BATCH]
            rows = [[*_tokens(features, text)[:position], token] for text, position, token in batch]
            states.append(_last_states(model, rows))
            continued = _values_after(model, features, [text for text, _, _ in batch], rows)
            labels += [
                float(value == values[text]) for value, (text, _, _) in zip(continued, batch, strict=True)
            ]
            bar.advance(len(batch))
    texts = torch.tensor([text for text, _, _ in chosen])
    places = [(position, token) for _, position, token in chosen]
    return LabelledDrafts(torch.cat(states), torch.tensor(labels), texts, places)


def fit_judge(
    given: LabelledDrafts,
    *,
    threshold: float = 0.5,
    rejection_weight: float = 1.0,
    held_out: float = 0.25,
    seed: int = 0,
) -> tuple[Judge, JudgeReport]:
    """Train a judge, and measure it on texts that are set apart.

    Args:
        given: The labelled tokens.
        threshold: The probability of "fine" above which the judge accepts a token.
        rejection_weight: See `train_judge`.
        held_out: The share of texts that are set apart.
        seed: Of the choice of these.

    Raises:
        OptionError: There are too few labels, or all of them are equal.
    """
    fine = int(given.labels.sum())
    if len(given.labels) < _FEWEST or fine in (0, len(given.labels)):
        raise OptionError(
            f"{fine} of {len(given.labels)} draft tokens lead to the same value; a judge needs at least {_FEWEST} "
            "tokens, some that do and some that do not",
            hint="Give more prompts, or others.",
        )
    texts = np.random.default_rng(seed).permutation(np.unique(given.texts.numpy()))
    apart = torch.isin(given.texts, torch.from_numpy(texts[: max(1, round(held_out * len(texts)))]))
    learned = given.labels[~apart]
    if not len(learned):
        raise OptionError(
            "all draft tokens are of texts that are set apart, and a judge has nothing to learn from",
            hint="Give more prompts.",
        )
    if len(set(learned.tolist())) < 2:
        raise OptionError(
            "all draft tokens with one of the labels are in the texts that are set apart, so a judge cannot learn it",
            hint="Give more prompts, or another seed.",
        )
    judge = train_judge(given.states[~apart], learned, threshold=threshold, rejection_weight=rejection_weight)
    labels = given.labels[apart].numpy()
    accepts = judge.probabilities(given.states[apart]) > threshold
    return judge, JudgeReport(
        len(labels), float(labels.mean()), int(accepts.sum()), int(labels[accepts].sum())
    )


def _other_tokens(
    weights: DraftWeights, model: HuggingFaceModel, features: Features, usable: set[int], progress: bool
) -> list[tuple[int, int, int]]:
    """Return the first guesses of drafts that are other tokens than the text's: text, position, token."""
    ends, found = set(model.vocabulary.eos_ids), []
    for each in guesses_in_texts(weights, model, features, progress=progress):
        if each.ahead or each.text not in usable or each.allowed is None:
            continue
        written = _tokens(features, each.text)
        best = each.logits.masked_fill(~each.allowed, -torch.inf).argmax(-1).tolist()
        allows = each.allowed.any(-1).tolist()
        for position, place, has_some in zip(each.positions.tolist(), best, allows, strict=True):
            token = int(weights.token_ids[place])
            if has_some and token != written[position] and token not in ends:
                found.append((each.text, position, token))
    return found


def _tokens(features: Features, text: int) -> list[int]:
    first = int(features.offsets[text])
    tokens: list[int] = features.tokens[first : first + features.length(text)].tolist()
    return tokens


def _matcher(model: HuggingFaceModel, features: Features, text: int, answer: list[int]) -> Matcher | None:
    """Return the matcher of a text's constraint after an answer; None if it refuses the answer."""
    matcher = Matcher(constraint_of(json.loads(str(features.constraints[text]))), model.vocabulary)
    return matcher if all(matcher.advance(token) for token in answer) else None


def _own_value(model: HuggingFaceModel, features: Features, text: int) -> str | None:
    """Return the value of a greedy answer with a constraint; None of others, and where the answer is not complete."""
    if not str(features.constraints[text]) or features.temperatures[text] > 0:
        return None
    answer = _tokens(features, text)[int(features.answers[text]) :]
    if answer and answer[-1] in model.vocabulary.eos_ids:
        answer.pop()
    return _value(_matcher(model, features, text, answer), features, text)


def _value(matcher: Matcher | None, features: Features, text: int) -> str | None:
    """Return the value of a text as a string: of JSON one spelling of it, else the text."""
    if matcher is None or not matcher.is_complete():
        return None
    written = matcher.text.decode("utf-8", "replace")
    if "schema" not in json.loads(str(features.constraints[text])):
        return written
    return json.dumps(json.loads(written), sort_keys=True)


def _values_after(
    model: HuggingFaceModel, features: Features, texts: list[int], rows: list[list[int]]
) -> list[str | None]:
    """Continue rows greedily; return their values, None where an answer does not end."""
    answers = [row[int(features.answers[text]) :] for text, row in zip(texts, rows, strict=True)]
    matchers = [_matcher(model, features, text, answer) for text, answer in zip(texts, answers, strict=True)]
    going = [index for index, matcher in enumerate(matchers) if matcher is not None and not matcher.must_stop]
    if going:
        longest = [2 * features.length(texts[index]) + 16 for index in going]
        generate_tokens(
            model,
            [rows[index] for index in going],
            [matchers[index] for index in going],
            [SamplingOptions(temperature=0.0, max_tokens=most, exact_weight=False) for most in longest],
        )
    return [_value(matcher, features, text) for matcher, text in zip(matchers, texts, strict=True)]


def _last_states(model: HuggingFaceModel, rows: list[list[int]]) -> torch.Tensor:
    """Return the state after the last token of each row that the output layer reads, ``[rows, hidden size]``."""
    whole, layer = model.model, model.layer_count
    ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
    for index, row in enumerate(rows):  # what follows a row changes nothing before it
        ids[index, : len(row)] = torch.tensor(row)
    with torch.inference_mode():
        output = whole(
            input_ids=ids.to(whole.device), use_cache=False, logits_to_keep=1, output_hidden_states=[layer]
        )
        last = torch.tensor([len(row) - 1 for row in rows])
        states: torch.Tensor = output.hidden_states[layer][torch.arange(len(rows)), last].float().cpu()
    return states.clone()
