"""A `LogitsProcessor` for ``model.generate``: greedy, sampling, beams, assisted decoding, prompt look-up.

Why: people who already run transformers need one object, not another generation loop.
How: a processor is told only the token ids so far. It is called for drafts that are thrown away later, once
per draft position, without a word about it; beams are copied and reordered between calls. So nothing is
assumed about the call before: each row looks for the known row with which it shares the longest prefix, takes
over a fork of its matcher, rolls back what differs and reads what is new.
Invariant: the scores depend on the token ids alone, never on the order of calls. They are a new tensor.
Cost: a step forward reads one token; a draft that is thrown away costs its own tokens; a mask that was met
before is a look-up. The token ids after the prompt travel to the CPU once per call.
Source: the calling conventions of ``transformers.generation`` 5.x (``_assisted_decoding``,
``PromptLookupCandidateGenerator``, ``_beam_search``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structgen.constraints.base import Constraint
from structgen.errors import OptionError, VocabularyError, VocabularyMismatch
from structgen.extras import needed
from structgen.matcher import Matcher, fill_masks
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

with needed("ConstraintProcessor", extra="transformers"):
    import torch
    from transformers import LogitsProcessor

__all__ = ["ConstraintProcessor"]

# Models pad their output layer to a round number of rows. More than this is not padding.
_MOST_PADDING = 8192


@dataclass
class _Row:
    """What is known of one row: its tokens after the prompt, of which the matcher has read a beginning.

    `matcher` is None for a row without a constraint.
    """

    matcher: Matcher | None
    tokens: list[int] = field(default_factory=list)
    read: int = 0
    """How many of `tokens` the matcher has read. Fewer than all: the next one is not allowed there."""

    def fork(self) -> _Row:
        matcher = None if self.matcher is None else self.matcher.fork()
        return _Row(matcher, list(self.tokens), self.read)

    def move_to(self, tokens: list[int]) -> None:
        """Roll back what differs from `tokens` and read the rest of them."""
        if self.matcher is not None:
            shared = _common_prefix(self.tokens, tokens)
            if shared < self.read:
                self.matcher.rollback(self.read - shared)
                self.read = shared
            if self.read == shared:
                while self.read < len(tokens) and self.matcher.advance(tokens[self.read]):
                    self.read += 1
        self.tokens = tokens

    @property
    def can_continue(self) -> bool:
        """Whether the matcher stands at the end of the row, before an end-of-text token."""
        return self.matcher is not None and self.read == len(self.tokens) and not self.matcher.is_finished


class ConstraintProcessor(LogitsProcessor):  # type: ignore[misc]
    """Give ``model.generate(..., logits_processor=[ConstraintProcessor(Person, tokenizer)])`` a constraint.

    `constraint`: a constraint, anything that structgen takes as an output type, or a list of these with one
    entry per prompt of the batch (None: that prompt is free). `vocabulary`: a `Vocabulary`, a tokenizer, or a
    structgen model. `prompt_length`: how many columns of ``input_ids`` are prompt, padding included; without
    it the first call of a generation tells.

    One processor serves one ``generate`` at a time, and any number one after another.
    """

    def __init__(self, constraint: Any, vocabulary: Any, *, prompt_length: int | None = None) -> None:
        self.vocabulary = _vocabulary(vocabulary)
        self._constraints = _constraints(constraint)
        self._given_length = prompt_length
        # Compiled here, so that an impossible constraint shows where it was written.
        self._start = [c if c is None else Matcher(c, self.vocabulary) for c in self._constraints]
        self.reset()

    def reset(self) -> None:
        """Forget the generation so far. Only needed to continue a finished text as a new prompt."""
        self._rows: list[_Row] = []
        self._prompt: torch.Tensor | None = None
        self._longest = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """`scores` with minus infinity for every token that the constraint does not allow."""
        self._check_width(scores.shape[-1])
        if self._is_new_generation(input_ids):
            self._begin(input_ids)
        length = self._prompt_length
        self._longest = max(self._longest, input_ids.shape[1])
        self._rows = self._follow(input_ids[:, length:].tolist())
        allowed = self._allowed(scores.shape[-1]).to(scores.device)
        return scores.masked_fill(~allowed, -float("inf"))

    # Which generation, which row.

    @property
    def _prompt_length(self) -> int:
        if self._given_length is not None:
            return self._given_length
        assert self._prompt is not None
        return self._prompt.shape[1]

    def _is_new_generation(self, input_ids: torch.Tensor) -> bool:
        """Within one generation the prompt stays and the text grows by one position beyond its longest."""
        known = self._prompt
        if known is None or input_ids.shape[0] != known.shape[0] or input_ids.shape[1] < known.shape[1]:
            return True
        if input_ids.shape[1] > self._longest + 1:
            return True
        return not torch.equal(input_ids[:, : known.shape[1]], known)

    def _begin(self, input_ids: torch.Tensor) -> None:
        rows, width = input_ids.shape
        if rows % len(self._constraints):
            raise OptionError(
                f"{len(self._constraints)} constraints cannot be shared out to {rows} rows",
                hint="Give one constraint for all prompts, or a list with one entry per prompt.",
            )
        if self._given_length is not None and self._given_length > width:
            raise OptionError(f"prompt_length is {self._given_length}, but input_ids has {width} columns")
        self._prompt = input_ids[:, : self._given_length].clone()
        self._longest = width
        self._rows = [self._fresh(row, rows) for row in range(rows)]

    def _fresh(self, row: int, rows: int) -> _Row:
        matcher = self._start[row * len(self._start) // rows]
        return _Row(None if matcher is None else matcher.fork())

    def _follow(self, texts: list[list[int]]) -> list[_Row]:
        """The rows of these texts, each made from the known row of its prompt that is nearest to it."""
        per_prompt = len(texts) // len(self._constraints)
        sources = [self._source(row, text, per_prompt) for row, text in enumerate(texts)]
        # subtle: a row moves in place only if nobody else needs where it stood; every fork comes before that.
        claims = [sources.count(source) for source in sources]
        rows = [
            self._rows[source] if claims[row] == 1 else self._rows[source].fork()
            for row, source in enumerate(sources)
        ]
        for row, text in zip(rows, texts, strict=True):
            row.move_to(text)
        return rows

    def _source(self, row: int, text: list[int], per_prompt: int) -> int:
        own = self._rows[row].tokens
        if text[: len(own)] == own:
            return row
        first = row // per_prompt * per_prompt
        return max(
            range(first, first + per_prompt),
            key=lambda other: (_common_prefix(self._rows[other].tokens, text), other == row),
        )

    # Masks.

    def _allowed(self, width: int) -> torch.Tensor:
        """Boolean, one row per sequence; true where the token may come next."""
        size = self.vocabulary.size
        masks = np.zeros((len(self._rows), self.vocabulary.words), dtype=np.int32)
        running = [(i, row.matcher) for i, row in enumerate(self._rows) if row.matcher and row.can_continue]
        if running:
            filled = np.zeros((len(running), self.vocabulary.words), dtype=np.int32)
            fill_masks([matcher for _, matcher in running], filled)
            masks[[i for i, _ in running]] = filled
        bits = np.unpackbits(masks.view(np.uint8), axis=1, count=size, bitorder="little")
        allowed = torch.zeros(len(self._rows), width, dtype=torch.bool)
        allowed[:, : min(size, width)] = torch.from_numpy(bits[:, :width]).bool()
        for i, row in enumerate(self._rows):
            if row.matcher is None:
                allowed[i] = True
            elif not row.can_continue:
                # The text has ended, or a draft or another processor took it out of the language: it can only
                # end. (Left without any token, softmax would give NaN.)
                allowed[i, list(self.vocabulary.eos_ids)] = True
        return allowed

    def _check_width(self, width: int) -> None:
        size = self.vocabulary.size
        if width < size and not self._fits(width):
            what = "the model cannot produce all of the tokenizer's tokens"
        elif width > size + _MOST_PADDING:
            what = "that is more than padding explains"
        else:
            return
        raise VocabularyMismatch(
            f"the model scores {width:,} tokens, the vocabulary has {size:,}: {what}",
            hint="Make the ConstraintProcessor with the tokenizer that belongs to this model.",
        )

    def _fits(self, width: int) -> bool:
        """Whether the ids from `width` on are unused, so that a model may leave them out."""
        beyond = range(width, self.vocabulary.size)
        ends_within = all(token < width for token in self.vocabulary.eos_ids)
        return ends_within and not any(self.vocabulary.token_bytes(token) for token in beyond)


def _common_prefix(first: list[int], second: list[int]) -> int:
    shorter = min(len(first), len(second))
    if first[:shorter] == second[:shorter]:
        return shorter
    return next(i for i in range(shorter) if first[i] != second[i])


def _constraints(given: Any) -> list[Constraint | None]:
    several = isinstance(given, Sequence) and not isinstance(given, str)
    listed = list(given) if several else [given]
    if not listed:
        raise OptionError("the list of constraints is empty", hint="Give one constraint per prompt.")
    return [None if each is None else output_type(each).constraint for each in listed]


def _vocabulary(given: Any) -> Vocabulary:
    if isinstance(given, Vocabulary):
        return given
    held = getattr(given, "vocabulary", None)
    if isinstance(held, Vocabulary):
        return held
    if isinstance(given, str):
        raise VocabularyError(
            f"{given!r} is a name, not a tokenizer",
            hint="Pass AutoTokenizer.from_pretrained(...), or a Vocabulary.",
        )
    return Vocabulary.from_tokenizer(given)
