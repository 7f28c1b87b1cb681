"""`classify`: the probability of each label after a prompt, instead of one label that is drawn.

What: a label's likelihood is the model's probability that its text comes after the prompt: the product of the
probabilities of its tokens. Labels share what they begin with, so each distinct beginning is read once.
Which tokens: a text has many tokenizations. "canonical" takes the one that the tokenizer gives, which holds nearly all
of a trained model's probability; "all" adds up every tokenization, as `structgen.sample` does.
Where one label is the beginning of another ("no", "none"), the end of the text counts as well: otherwise the shorter
label could never lose.
Invariant: probabilities sum to 1, and are a function of prompt and labels alone (up to the rounding of the model).
Cost: one pass over the prompt, and one for each `_ROWS` distinct beginnings of several tokens; no label is generated.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from structgen.api import check_model, described
from structgen.brief import short_repr
from structgen.constraints.base import Literal as LiteralText
from structgen.constraints.choice import choice
from structgen.errors import DeadEnd, LimitExceeded, OptionError, with_kind
from structgen.matcher import Matcher
from structgen.notebook import bar, card, plain, table
from structgen.sampling.prefixes import Prefix, PrefixReader
from structgen.types import OutputType, output_type
from structgen.types.labels import labels_of

if TYPE_CHECKING:
    from structgen.models.base import LanguageModel, Prompt
    from structgen.vocabulary import Vocabulary

__all__ = ["Classification", "classify"]

T = TypeVar("T")
Tokenizations = Literal["canonical", "all"]
_ROWS = 16
"""Beginnings of labels that are read in one forward pass."""
_MOST_BEGINNINGS = 4_096
"""Of all tokenizations of all labels."""
_LOG_NEGLIGIBLE = math.log(1e-9)
"""Beginnings less probable than this share of the label's canonical tokens are left out of "all": a relative error of
less than 1e-5."""
_FORM = (
    'Give a list of texts, a dict from texts to descriptions, or a type: an Enum, Literal["a", "b"] or bool.'
)


@short_repr
@dataclass(frozen=True)
class Classification(Generic[T]):
    """The labels of one prompt with their probabilities. Labels of types are values: members of an enum, True, None."""

    likelihoods: Mapping[T, float]
    """For each label log P(text of the label | prompt), in nats; not normalised. The most probable label first."""
    tokens: Mapping[T, Sequence[int]] = field(repr=False)
    """The canonical tokens of each label."""

    @property
    def label(self) -> T:
        """The most probable label; of equally probable ones the one that was given first."""
        return next(iter(self.likelihoods))

    @property
    def log_probabilities(self) -> dict[T, float]:
        """The logarithms of `probabilities`, in nats."""
        total = _log_sum(self.likelihoods.values())
        return {label: one - total for label, one in self.likelihoods.items()}

    @property
    def probabilities(self) -> dict[T, float]:
        """The probability of each label, given that the text is one of them; they sum to 1. The largest comes first."""
        found = {label: math.exp(one) for label, one in self.log_probabilities.items()}
        total = math.fsum(found.values())
        return {label: one / total for label, one in found.items()}

    @property
    def mass(self) -> float:
        """The probability that the model writes one of the labels without a constraint; if it is small, look at the
        prompt."""
        return math.exp(_log_sum(self.likelihoods.values()))

    @property
    def entropy(self) -> float:
        """The entropy of `probabilities`, in nats: 0 for certainty, log(number of labels) for none at all."""
        return math.fsum(-one * math.log(one) for one in self.probabilities.values() if one > 0)

    def _repr_html_(self, rows: int = 20) -> str:
        shares = list(self.probabilities.items())
        cells = [
            (bar(share), f"{share:.2%}", f"{self.likelihoods[label]:.2f}", plain(_shown(label), 300))
            for label, share in shares[:rows]
        ]
        if left := shares[rows:]:
            share = math.fsum(one for _, one in left)
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
    labels: Any,
    *,
    tokenizations: Tokenizations = ...,
    end: bool | None = ...,
    describe: bool | None = ...,
) -> Classification[Any]: ...
@overload
def classify(
    model: LanguageModel,
    prompt: Any,
    labels: Any,
    *,
    tokenizations: Tokenizations = ...,
    end: bool | None = ...,
    describe: bool | None = ...,
) -> Any: ...
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
        model: A model whose logits are here; not one behind a server.
        prompt: A text, or the messages of a conversation. A list of several prompts gives a list of results.
        labels: Texts, a dict from texts to descriptions, or a type of finitely many values: an enum, ``Literal``,
            ``bool``, a union of them.
        tokenizations: "canonical" reads each label in the tokens that the tokenizer gives. "all" adds up the
            probabilities of all tokenizations, to a relative error below 1e-5; that takes more forward passes.
        end: Whether the end of the text after a label counts. None: only if some label is the beginning of another.
        describe: Add the labels, and their descriptions, to the prompt. None: if there are descriptions.

    Returns:
        A `Classification`; for a list of prompts a list of them.

    Raises:
        OptionError: The labels or an option are unusable, or the model is behind a server.
        LimitExceeded: The prompt is too long, or "all" has more than 4,096 beginnings to read.
        DeadEnd: The model gives none of the labels a probability above 0.
    """
    check_model(model, "classify()")
    if tokenizations not in ("canonical", "all"):
        raise OptionError(f"tokenizations is {tokenizations!r:.40}; it is 'canonical' or 'all'")
    for name, value in (("end", end), ("describe", describe)):
        if value is not None and not isinstance(value, bool):
            raise OptionError(f"{name} is {value!r:.40}; it is True, False or None")
    texts, descriptions = _read_labels(labels)
    ends = _is_ambiguous(list(texts)) if end is None else end
    if ends and not model.vocabulary.eos_ids:
        raise OptionError(
            "the vocabulary has no end-of-text token, so the end of a label has no probability",
            hint="Give it one, or write end=False.",
        )
    canonical = {text: _canonical(text, model.vocabulary) for text in texts}
    paths = {text: [tokens] for text, tokens in canonical.items()}
    if tokenizations == "all":
        paths = _all_paths(list(texts), model.vocabulary)
    kind = (
        _described_as(texts, descriptions) if (bool(descriptions) if describe is None else describe) else None
    )
    tokens = {texts[text]: canonical[text] for text in texts}

    def classified(one: Prompt) -> Classification[Any]:
        ids = model.encode(one if kind is None else described(one, kind))
        found = _likelihoods(model, ids, canonical, paths, model.vocabulary.eos_ids if ends else ())
        ranked = sorted(texts, key=lambda text: -found[text])
        if found[ranked[0]] == -math.inf:
            raise DeadEnd(
                "the model gives none of the labels any probability",
                hint="Look at what it writes: structgen.generate(model, prompt).",
                text="",
            )
        return Classification({texts[text]: found[text] for text in ranked}, tokens)

    if _is_several(prompt):
        return [classified(one) for one in prompt]
    return classified(prompt)


def _is_several(prompt: Any) -> bool:
    """Whether it is a list of prompts; a list of mappings is one conversation."""
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, str)
        and not any(isinstance(one, Mapping) for one in prompt)
    )


def _read_labels(labels: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The value of each label's text, in order, and descriptions of texts."""
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
                raise OptionError(
                    f"the label {text!r:.40} is {with_kind(text)}; a label is a text", hint=_FORM
                )
            if given.count(text) > 1:
                raise OptionError(f"the label {text!r:.40} is there twice")
            if not text:
                raise OptionError("a label is the empty text", hint="Give it a name, such as 'none'.")
        if not given:
            raise OptionError("there are no labels", hint=_FORM)
        return {text: text for text in given}, descriptions
    try:
        values = None if labels is None or isinstance(labels, str | bytes) else labels_of(labels)
    except TypeError:
        values = None
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
    """The tokens that the tokenizer gives for the text; without a tokenizer few tokens that spell it."""
    tokens = vocabulary.encode(text)
    if tokens is None:
        tokens = Matcher(LiteralText(text), vocabulary).witness() or []
        tokens = [token for token in tokens if token not in vocabulary.eos_ids]
    return tuple(tokens)


def _all_paths(texts: list[str], vocabulary: Vocabulary) -> dict[str, list[Prefix]]:
    """All tokenizations of each text."""
    whole = [text.encode() for text in texts]
    pieces = {one[i:j] for one in whole for i in range(len(one)) for j in range(i + 1, len(one) + 1)}
    spelling: dict[bytes, list[int]] = {}
    for token in range(vocabulary.size):
        data = vocabulary.token_bytes(token)
        if data in pieces and token not in vocabulary.eos_ids:
            spelling.setdefault(data, []).append(token)
    room = _MOST_BEGINNINGS
    found: dict[str, list[Prefix]] = {}
    for text, data in zip(texts, whole, strict=True):
        found[text] = list(_paths_of(data, spelling, room))
        room -= sum(map(len, found[text]))
    return found


def _paths_of(data: bytes, spelling: Mapping[bytes, list[int]], room: int) -> Iterator[Prefix]:
    reaches = [False] * len(data) + [True]  # from which places tokens lead to the end
    for place in range(len(data) - 1, -1, -1):
        reaches[place] = any(
            data[place:end] in spelling and reaches[end] for end in range(place + 1, len(data) + 1)
        )
    growing: list[tuple[int, Prefix]] = [(0, ())]
    while growing:
        place, path = growing.pop()
        if place == len(data):
            yield path
            continue
        for end in range(place + 1, len(data) + 1):
            for token in spelling.get(data[place:end], ()) if reaches[end] else ():
                room -= 1
                if room < 0:
                    raise LimitExceeded(
                        f"the labels have more than {_MOST_BEGINNINGS:,} beginnings in all tokenizations",
                        limit="label_tokenizations",
                        hint="Use shorter labels, or tokenizations='canonical'.",
                    )
                growing.append((end, (*path, token)))


class _Scorer:
    """Log probabilities of paths of tokens after one prompt."""

    def __init__(
        self, model: LanguageModel, prompt: Sequence[int], wanted: Mapping[Prefix, set[int]]
    ) -> None:
        """`wanted`: after each beginning the tokens whose probabilities may be needed."""
        self._wanted = wanted
        self._reader = PrefixReader(model, prompt, lanes=max(1, min(_ROWS, len(wanted) - 1)))
        self._known: dict[Prefix, dict[int, float]] = {}

    def read(self, beginnings: Iterable[Prefix]) -> None:
        """Read the distributions after these, as far as they are not known, in as few passes as there are lanes for."""
        new = sorted({one for one in beginnings if one not in self._known})
        if () in new:
            new.remove(())
            self._read([()])  # the pass over the prompt alone tells it
        for start in range(0, len(new), _ROWS):
            self._read(new[start : start + _ROWS])

    def _read(self, part: list[Prefix]) -> None:
        for lane, law in self._reader.read(dict(enumerate(part))).items():
            self._known[part[lane]] = {token: float(law.log_p[token]) for token in self._wanted[part[lane]]}

    def log_p(self, path: Prefix, ends: Sequence[int] = ()) -> float:
        """log P(path), with one of the ends after it if there are any; -inf if a beginning was not read."""
        total = 0.0
        for place, token in enumerate(path):
            after = self._known.get(path[:place])
            total += -math.inf if after is None else after[token]
        if ends:
            after = self._known.get(path)
            total += -math.inf if after is None else _log_sum(after[token] for token in ends)
        return total


def _likelihoods(
    model: LanguageModel,
    prompt: Sequence[int],
    canonical: Mapping[str, Prefix],
    paths: Mapping[str, Sequence[Prefix]],
    ends: Sequence[int],
) -> dict[str, float]:
    """log P of each label after the prompt, summed over its paths, the canonical one among them."""
    wanted: dict[Prefix, set[int]] = {}
    for path in (path for several in paths.values() for path in several):
        for place, token in enumerate(path):
            wanted.setdefault(path[:place], set()).add(token)
        if ends:
            wanted.setdefault(path, set()).update(ends)
    scorer = _Scorer(model, prompt, wanted)
    scorer.read(one for path in canonical.values() for one in _beginnings(path, ends))
    floors = {text: scorer.log_p(path, ends) + _LOG_NEGLIGIBLE for text, path in canonical.items()}
    for length in range(max(len(path) for several in paths.values() for path in several) + 1):
        # What a beginning holds is at most its own probability, so that most others need not be read.
        scorer.read(
            path[:length]
            for text, several in paths.items()
            for path in several
            if (length < len(path) or (ends and length == len(path)))
            and scorer.log_p(path[:length]) >= floors[text]
        )
    return {text: _log_sum(scorer.log_p(path, ends) for path in several) for text, several in paths.items()}


def _beginnings(path: Prefix, ends: Sequence[int]) -> list[Prefix]:
    return [path[:place] for place in range(len(path) + bool(ends))]


def _log_sum(logs: Any) -> float:
    listed = list(logs)
    peak = max(listed, default=-math.inf)
    return peak if peak == -math.inf else peak + math.log(math.fsum(math.exp(one - peak) for one in listed))


def _shown(label: Any) -> str:
    if isinstance(label, enum.Enum):
        return f"{type(label).__name__}.{label.name}"
    return label if isinstance(label, str) else repr(label)
