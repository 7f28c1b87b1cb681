"""`classify`: the probability of each label after a prompt, instead of one drawn label.

What: a label's likelihood is the model's probability that its text comes after the prompt: the product of the
probabilities of its tokens. Labels share prefixes, and each distinct prefix is read once.
Tokenizations: a text has many of them. "canonical" uses the tokenizer's own, which holds nearly all of a trained
model's probability; "all" sums over every tokenization, as `structgen.sample` does.
If one label is a prefix of another ("no", "none"), the end of the text counts as well: otherwise the shorter label
could never lose.
Invariant: probabilities sum to 1, and are a function of prompt and labels alone (up to the rounding of the model).
Cost: one forward pass over the prompt, and usually one over all prefixes (`structgen.inference.path_scores`); labels of
one token need no second pass.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_origin, overload

from structgen.api import check_model, described
from structgen.argument_names import checks_names
from structgen.constraints.base import Literal as LiteralText
from structgen.constraints.choice import choice
from structgen.errors import DeadEnd, LimitExceeded, OptionError, a_kind, with_kind
from structgen.inference.path_scores import all_paths, likelihoods, log_sum
from structgen.inference.prefixes import Prefix
from structgen.matcher import Matcher
from structgen.notebook import bar, card, plain, table
from structgen.types import OutputType, output_type
from structgen.types.labels import labels_of

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt
    from structgen.vocabulary import Vocabulary

__all__ = ["Classification", "classify"]

T = TypeVar("T")
Tokenizations = Literal["canonical", "all"]
_MOST_TOKENS = 512
"""The largest number of tokens of a label."""
_FORM = (
    'Give a list of texts, a dict from texts to descriptions, or a type: an Enum, Literal["a", "b"] or bool.'
)


@dataclass(frozen=True)
class Classification(Generic[T]):
    """The labels of one prompt with their probabilities. Labels of types are values: members of an enum, True, None."""

    likelihoods: Mapping[T, float]
    """For each label log P(text of the label | prompt), in nats, not normalised; the most probable label first."""
    tokens: Mapping[T, Sequence[int]] = field(repr=False)
    """The canonical tokens of each label."""

    @property
    def label(self) -> T:
        """The most probable label; of equally probable ones, the first in the given order."""
        return next(iter(self.likelihoods))

    @property
    def log_probabilities(self) -> dict[T, float]:
        """The logarithms of `probabilities`, in nats."""
        total = log_sum(self.likelihoods.values())
        return {label: likelihood - total for label, likelihood in self.likelihoods.items()}

    @property
    def probabilities(self) -> dict[T, float]:
        """The probability of each label, given that the text is one of them; they sum to 1. The largest comes first."""
        unnormalised = {
            label: math.exp(log_probability) for label, log_probability in self.log_probabilities.items()
        }
        total = math.fsum(unnormalised.values())
        return {label: probability / total for label, probability in unnormalised.items()}

    @property
    def mass(self) -> float:
        """The probability that the model writes one of the labels without a constraint.

        If it is small, improve the prompt.
        """
        return math.exp(log_sum(self.likelihoods.values()))

    @property
    def entropy(self) -> float:
        """The entropy of `probabilities`, in nats: 0 for a certain label, log(number of labels) for equal ones."""
        return math.fsum(
            -probability * math.log(probability)
            for probability in self.probabilities.values()
            if probability > 0
        )

    def _repr_html_(self, rows: int = 20) -> str:
        shares = list(self.probabilities.items())
        cells = [
            (bar(share), f"{share:.2%}", f"{self.likelihoods[label]:.2f}", plain(_shown(label), 300))
            for label, share in shares[:rows]
        ]
        if left := shares[rows:]:
            share = math.fsum(rest for _, rest in left)
            cells.append((bar(share), f"{share:.2%}", "", f"<i>{len(left):,} more labels</i>"))
        about = f"{_shown(self.label)}; entropy {self.entropy:.2f} nats, all labels together {self.mass:.2%}"
        return card("Classification", about, table(("", "share", "log p", "label"), cells))

    def __repr__(self) -> str:
        shares = list(self.probabilities.items())
        listed = ", ".join(f"{_shown(label)} {share:.1%}" for label, share in shares[:6])
        more = f", {len(shares) - 6} more" if len(shares) > 6 else ""
        return f"<Classification {listed}{more}>"


@overload
def classify(
    model: LanguageModel,
    prompt: str,
    labels: object,
    *,
    tokenizations: Tokenizations = ...,
    end: bool | None = ...,
    describe: bool | None = ...,
) -> Classification[Any]: ...
@overload
def classify(
    model: LanguageModel,
    prompt: object,
    labels: object,
    *,
    tokenizations: Tokenizations = ...,
    end: bool | None = ...,
    describe: bool | None = ...,
) -> Any: ...
@checks_names
def classify(
    model: LanguageModel,
    prompt: Any,
    labels: Any,
    *,
    tokenizations: Tokenizations = "canonical",
    end: bool | None = None,
    describe: bool | None = None,
) -> Any:
    """Return the probability of each label after a prompt.

        sg.classify(model, "A wonderful film. Sentiment?", ["positive", "negative"]).probabilities

    Args:
        model: A model with logits; not one on a server.
        prompt: A text, or the messages of a conversation. A list of several prompts returns a list of results.
        labels: Texts, a dict from texts to descriptions, or a type of finitely many values: an enum, ``Literal``,
            ``bool``, a union of them.
        tokenizations: "canonical" reads each label in the tokenizer's own tokens. "all" sums the probabilities of all
            tokenizations, to a relative error below 1e-5, in more forward passes.
        end: Whether the end of the text after a label counts. None: only if some label is a prefix of another.
        describe: Add the labels, and their descriptions, to the prompt. None: if there are descriptions.

    Returns:
        A `Classification`; for a list of prompts a list of them.

    Raises:
        OptionError: The labels or an option are unusable, or the model is on a server.
        LimitExceeded: The prompt is too long, a label has more than 512 tokens, or "all" has more than 4,096
            prefixes to read.
        DeadEnd: The model gives none of the labels a probability above 0.
    """
    check_model(model, "classify()")
    if tokenizations not in ("canonical", "all"):
        raise OptionError(f"tokenizations is {tokenizations!r:.40}; it must be 'canonical' or 'all'")
    for name, value in (("end", end), ("describe", describe)):
        if value is not None and not isinstance(value, bool):
            raise OptionError(f"{name} is {value!r:.40}; it must be True, False or None")
    texts, descriptions = _read_labels(labels)
    ends = _is_ambiguous(list(texts)) if end is None else end
    if ends and not model.vocabulary.eos_ids:
        raise OptionError(
            "the vocabulary has no end-of-sequence token, so the end of a label has no probability",
            hint="Set one, or write end=False.",
        )
    canonical = {text: _canonical(text, model.vocabulary) for text in texts}
    paths = {text: [tokens] for text, tokens in canonical.items()}
    if tokenizations == "all":
        paths = all_paths(list(texts), model.vocabulary)
    kind = (
        _described_as(texts, descriptions) if (bool(descriptions) if describe is None else describe) else None
    )
    tokens = {texts[text]: canonical[text] for text in texts}

    def classified(conversation: Prompt) -> Classification[Any]:
        ids = model.encode(conversation if kind is None else described(conversation, kind))
        by_text = likelihoods(model, ids, canonical, paths, model.vocabulary.eos_ids if ends else ())
        ranked = sorted(texts, key=lambda text: -by_text[text])
        if by_text[ranked[0]] == -math.inf:
            raise DeadEnd(
                "the model gives none of the labels any probability",
                hint="Check what it writes: structgen.generate(model, prompt).",
                text="",
            )
        return Classification({texts[text]: by_text[text] for text in ranked}, tokens)

    if _is_several(prompt):
        return [classified(conversation) for conversation in prompt]
    return classified(prompt)


def _is_several(prompt: object) -> bool:
    """Return whether it is a list of prompts; a list of mappings is one conversation."""
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str)
        and not any(isinstance(item, Mapping) for item in prompt)
    )


def _read_labels(labels: object) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the value of each label's text, in order, and the descriptions of texts."""
    descriptions: dict[str, str] = {}
    if isinstance(labels, Mapping):
        descriptions = {text: about for text, about in labels.items() if about is not None}
        for text, about in descriptions.items():
            if not isinstance(about, str):
                raise OptionError(f"the description of {text!r:.40} is {with_kind(about)}", hint=_FORM)
    given: list[Any] | None = None
    if isinstance(labels, Sequence | Mapping) and not isinstance(labels, str | bytes):
        given = list(labels)
        for text in given:
            if not isinstance(text, str):
                raise OptionError(f"a label is {with_kind(text)}; it must be a text", hint=_FORM)
            if given.count(text) > 1:
                raise OptionError(f"the label {text!r:.40} occurs twice")
            if not text:
                raise OptionError("a label is the empty text", hint="Give it a name, such as 'none'.")
        if not given:
            raise OptionError("there are no labels", hint=_FORM)
        return {text: text for text in given}, descriptions
    try:
        values = None if labels is None or isinstance(labels, str | bytes) else labels_of(labels)
    except TypeError:
        values = None
    is_type = isinstance(labels, type) or get_origin(labels) is not None  # some types are iterable
    if (
        values is None
        and isinstance(labels, Iterable)
        and not isinstance(labels, str | bytes)
        and not is_type
    ):
        raise OptionError(
            f"labels is {a_kind(labels)}, not a list",
            hint=f"Write {'sorted' if isinstance(labels, Set) else 'list'}(...) around it.",
        )
    if values is None:
        raise OptionError(f"labels is {with_kind(labels)}, which has no finite list of texts", hint=_FORM)
    return values, {}


def _is_ambiguous(texts: list[str]) -> bool:
    ordered = sorted(texts)
    return any(after.startswith(before) for before, after in pairwise(ordered))


def _described_as(texts: Mapping[str, Any], descriptions: Mapping[str, str]) -> OutputType:
    listed = "\n".join(
        f"- {text}: {descriptions[text]}" if text in descriptions else f"- {text}" for text in texts
    )
    plain_type = output_type(choice(texts))
    return OutputType(
        plain_type.name,
        plain_type.constraint,
        plain_type.validate,
        plain_type.growing,
        description=f"Answer with one of these and nothing else:\n{listed}",
    )


def _canonical(text: str, vocabulary: Vocabulary) -> Prefix:
    """Return the tokenizer's tokens of the text; without a tokenizer, few tokens that spell it."""
    tokens = vocabulary.encode(text)
    if tokens is None:
        tokens = Matcher(LiteralText(text), vocabulary).witness() or []
        tokens = [token for token in tokens if token not in vocabulary.eos_ids]
    if len(tokens) > _MOST_TOKENS:
        raise LimitExceeded(
            f"the label {text!r:.40} takes {len(tokens)} tokens, more than {_MOST_TOKENS}",
            limit="label_tokens",
            hint="Use short labels, and put long texts into the prompt.",
        )
    return tuple(tokens)


def _shown(label: object) -> str:
    if isinstance(label, enum.Enum):
        return f"{type(label).__name__}.{label.name}"
    return label if isinstance(label, str) else repr(label)
