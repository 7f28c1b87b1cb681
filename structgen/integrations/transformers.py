"""A `LogitsProcessor` for ``model.generate``: greedy, sampling, beams, assisted decoding, prompt look-up.

Why: people who already run transformers need one object, not another generation loop.
How: a processor gets only the token ids so far. It is called once per draft position, also for drafts that are rejected
later, which it does not learn. Beams are copied and reordered between calls. So no call depends on the one before: each
row finds the known row with which it shares the longest prefix, forks its matcher, rolls back the difference and reads
the new tokens.
A processor does not know where a generation starts. Each ``generate`` calls it through a list of its own: a call
through a known list continues its generation. So does a call through another list (an assistant's), or by hand, if each
row is a prefix of a known row plus one token that the mask allowed. Any other call has a new prompt, even one that
begins with the earlier prompt, or is the earlier prompt with its answer. By hand, a draft that is not allowed looks
like a new prompt, so the previous generation is kept until that is decided.
Invariant: given the prompt, the scores depend on the token ids alone, never on the order of calls. They are a new
tensor.
Cost: a step reads one token; a rejected draft costs its own tokens; a cached mask is a look-up. The token ids after the
prompt are copied to the CPU once per call.
Source: the calling conventions of ``transformers.generation`` 5.x (``_assisted_decoding``,
``PromptLookupCandidateGenerator``, ``_beam_search``).
"""

from __future__ import annotations

import enum
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structgen.constraints.base import Constraint
from structgen.errors import OptionError, VocabularyError, VocabularyMismatch
from structgen.extras import needed
from structgen.matcher import Matcher, fill_masks, warn_of_temperatures
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

with needed("ConstraintProcessor", extra="transformers"):
    import torch
    from transformers import LogitsProcessor, LogitsProcessorList

__all__ = ["ConstraintProcessor"]

# Models pad their output layer to a round number of rows. More than this is not padding.
_MOST_PADDING = 8192


class _Step(enum.Enum):
    """How a call relates to the earlier calls of a generation."""

    SAME = "the next token of it, or an earlier place"
    DRAFT = "one token more that the mask did not allow: a draft, or a new prompt"
    OTHER = "a new prompt"


@dataclass
class _Row:
    """One row: its tokens after the prompt, and a matcher that has read all or the first of them.

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
        """Roll back to the common prefix with `tokens`, and read the rest of them."""
        if self.matcher is not None:
            shared = _common_prefix(self.tokens, tokens)
            if shared < self.read:
                self.matcher.rollback(self.read - shared)
                self.read = shared
            if self.read == shared:
                while self.read < len(tokens) and self.matcher.advance(tokens[self.read]):
                    self.read += 1
        self.tokens = tokens

    def admits(self, text: list[int]) -> bool:
        """Whether the last token of `text` is allowed after the others, with which this row begins."""
        before = len(text) - 1
        if self.matcher is None or self.read < before:
            return True  # unconstrained, or ended: padding follows
        matcher = self.matcher.fork()
        matcher.rollback(self.read - before)
        return matcher.is_finished or matcher.advance(text[-1])

    @property
    def can_continue(self) -> bool:
        """Whether the matcher has read the whole row, up to an end-of-text token."""
        return self.matcher is not None and self.read == len(self.tokens) and not self.matcher.is_finished


@dataclass
class _Generation:
    """One call of ``model.generate``: its prompt and its rows."""

    prompt: torch.Tensor
    rows: list[_Row]
    groups: list[list[int]]
    """Rows per prompt and constraint: the number of beams or samples."""
    is_certain: bool
    """Whether the prompt is certain: it was given, or the call that it comes from was not a draft."""
    callers: list[weakref.ref[Any]] = field(default_factory=list)
    """Weak references to the lists of processors that called: each ``generate`` creates one."""

    def note(self, caller: Any) -> None:
        """Add a list of processors that calls within this generation."""
        if caller is not None and not self.was_called_by(caller):
            self.callers = [reference for reference in self.callers if reference() is not None] + [
                weakref.ref(caller)
            ]

    def was_called_by(self, caller: Any) -> bool:
        return any(reference() is caller for reference in self.callers)

    def step_of(self, input_ids: torch.Tensor, caller: Any) -> _Step:
        """Return how a call relates to this generation; see the module's docstring."""
        width = self.prompt.shape[1]
        if input_ids.shape[0] != len(self.rows) or input_ids.shape[1] < width:
            return _Step.OTHER
        if not torch.equal(input_ids[:, :width], self.prompt):
            return _Step.OTHER
        texts = input_ids[:, width:].tolist()
        if not texts[0] or (caller is not None and self.was_called_by(caller)):
            return _Step.SAME
        if caller is not None and not self._may_be_assisted_by(texts):
            return _Step.OTHER
        sources: dict[int, _Row] = {}
        for group in self.groups:
            for row in group:
                source = self._known(texts[row][:-1], row, group)
                if source is None:
                    return _Step.OTHER
                sources[row] = source
        for group in self.groups:
            # Beams may be padded with different texts that are not allowed; the rows of a new prompt are equal.
            is_one_text = all(texts[row] == texts[group[0]] for row in group)
            if is_one_text and not any(sources[row].admits(texts[row]) for row in group):
                return _Step.DRAFT
        return _Step.SAME

    def _may_be_assisted_by(self, texts: list[list[int]]) -> bool:
        """Whether another list that calls may be that of an assistant, whose ``generate`` runs within this one.

        This one's list then still exists, there is one row, and drafts begin where nothing was scored before.
        """
        is_running = any(reference() is not None for reference in self.callers)
        return is_running and len(self.rows) == 1 and self._known(texts[0], 0, self.groups[0]) is None

    def _known(self, text: list[int], row: int, group: list[int]) -> _Row | None:
        """Return a row of the group that begins with `text`, preferably the row itself."""
        for number in (row, *group):
            if self.rows[number].tokens[: len(text)] == text:
                return self.rows[number]
        return None


class ConstraintProcessor(LogitsProcessor):  # type: ignore[misc]
    """A constraint for ``model.generate(..., logits_processor=[ConstraintProcessor(Person, tokenizer)])``.

    One processor serves one ``generate`` at a time, and any number one after another.

    Args:
        constraint: A constraint, anything that structgen accepts as an output type, or a list of these with one entry
            per prompt of the batch; None leaves that prompt unconstrained.
        vocabulary: A `Vocabulary`, a tokenizer, or a structgen model.
        prompt_length: Columns of ``input_ids`` that are the prompt, padding included. None takes the width of a
            generation's first call.
    """

    def __init__(self, constraint: Any, vocabulary: Any, *, prompt_length: int | None = None) -> None:
        self.vocabulary = _vocabulary(vocabulary)
        self._constraints = _constraints(constraint)
        self._given_length = prompt_length
        # Compiled here, so that an impossible constraint raises where it was written.
        self._start = [c if c is None else Matcher(c, self.vocabulary) for c in self._constraints]
        for matcher in self._start:
            if matcher is not None:
                warn_of_temperatures(matcher, "transformers")
        self.reset()

    def reset(self) -> None:
        """Forget the generation so far. Only a loop of your own needs it before each text, or `prompt_length`."""
        self._current: _Generation | None = None
        self._before: _Generation | None = None
        """The generation that continues if the current one turns out to be a draft."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores with minus infinity for every token that the constraint does not allow."""
        self._check_width(scores.shape[-1])
        # subtle: the start of a generation is not reported, but each generation has a list of processors of its own.
        caller = sys._getframe(1).f_locals.get("self")
        caller = caller if isinstance(caller, LogitsProcessorList) else None
        generation = self._generation_of(input_ids, caller)
        generation.note(caller)
        width = generation.prompt.shape[1]
        generation.rows = self._follow(generation, input_ids[:, width:].tolist())
        allowed = self._allowed(generation.rows, scores.shape[-1]).to(scores.device)
        return scores.masked_fill(~allowed, -float("inf"))

    # Which generation, which row.

    def _generation_of(self, input_ids: torch.Tensor, caller: Any) -> _Generation:
        """Return the generation that this call belongs to, which may start with it."""
        current, before = self._current, self._before
        if current is None:
            self._current = self._started(input_ids, is_certain=True)
            return self._current
        if self._given_length is not None:  # everything after the prompt is text
            if not self._has_prompt(current, input_ids):
                self._current = self._started(input_ids, is_certain=True)
            return self._current or current
        step = current.step_of(input_ids, caller)
        if step is _Step.SAME:
            return current
        if before is not None and before.step_of(input_ids, caller) is _Step.SAME:
            self._current, self._before = before, None
            return before
        if step is _Step.OTHER and before is not None and before.step_of(input_ids, caller) is _Step.DRAFT:
            step = _Step.DRAFT  # another draft, of the previous generation
        kept = current if current.is_certain else before
        self._before = kept if step is _Step.DRAFT else None
        self._current = self._started(input_ids, is_certain=step is _Step.OTHER)
        return self._current

    def _has_prompt(self, generation: _Generation, input_ids: torch.Tensor) -> bool:
        known = generation.prompt
        if input_ids.shape[0] != known.shape[0] or input_ids.shape[1] < known.shape[1]:
            return False
        return torch.equal(input_ids[:, : known.shape[1]], known)

    def _started(self, input_ids: torch.Tensor, *, is_certain: bool) -> _Generation:
        rows, width = input_ids.shape
        if rows % len(self._constraints):
            raise OptionError(
                f"{len(self._constraints)} constraints do not divide {rows} rows",
                hint="Pass one constraint for all prompts, or a list with one entry per prompt.",
            )
        if self._given_length is not None and self._given_length > width:
            raise OptionError(f"prompt_length is {self._given_length}, but input_ids has {width} columns")
        prompt = input_ids[:, : self._given_length].clone()
        groups: dict[tuple[int, ...], list[int]] = {}
        for row, tokens in enumerate(prompt.tolist()):
            groups.setdefault((row * len(self._start) // rows, *tokens), []).append(row)
        fresh = [self._fresh(row, rows) for row in range(rows)]
        return _Generation(prompt, fresh, list(groups.values()), is_certain)

    def _fresh(self, row: int, rows: int) -> _Row:
        matcher = self._start[row * len(self._start) // rows]
        return _Row(None if matcher is None else matcher.fork())

    def _follow(self, generation: _Generation, texts: list[list[int]]) -> list[_Row]:
        """Return the rows of these texts, each made from the known row with the longest common prefix."""
        known = generation.rows
        group_of = {row: group for group in generation.groups for row in group}
        sources = [_nearest(known, row, text, group_of[row]) for row, text in enumerate(texts)]
        # subtle: a row is changed in place only if no other row needs its state; all forks come before that.
        claims = [sources.count(source) for source in sources]
        rows = [
            known[source] if claims[row] == 1 else known[source].fork() for row, source in enumerate(sources)
        ]
        for row, text in zip(rows, texts, strict=True):
            row.move_to(text)
        return rows

    # Masks.

    def _allowed(self, rows: list[_Row], width: int) -> torch.Tensor:
        """Return a boolean row per sequence: true where the token may come next."""
        size = self.vocabulary.size
        masks = np.zeros((len(rows), self.vocabulary.words), dtype=np.int32)
        running = [(i, row.matcher) for i, row in enumerate(rows) if row.matcher and row.can_continue]
        if running:
            filled = np.zeros((len(running), self.vocabulary.words), dtype=np.int32)
            fill_masks([matcher for _, matcher in running], filled)
            masks[[i for i, _ in running]] = filled
        bits = np.unpackbits(masks.view(np.uint8), axis=1, count=size, bitorder="little")
        allowed = torch.zeros(len(rows), width, dtype=torch.bool)
        allowed[:, : min(size, width)] = torch.from_numpy(bits[:, :width]).bool()
        for i, row in enumerate(rows):
            if row.matcher is None:
                allowed[i] = True
            elif not row.can_continue:
                # The text has ended, or a draft or another processor violated the constraint: it can only
                # end. (Left without any token, softmax would give NaN.)
                allowed[i, list(self.vocabulary.eos_ids)] = True
        return allowed

    def _check_width(self, width: int) -> None:
        size = self.vocabulary.size
        scored = f"the model scores {width:,} tokens, the vocabulary has {size:,}"
        if width < size and not self._fits(width):
            raise VocabularyMismatch(
                f"{scored}: the model cannot produce all of the tokenizer's tokens",
                hint="Create the ConstraintProcessor with the tokenizer that belongs to this model.",
            )
        if width > size + _MOST_PADDING:
            raise VocabularyMismatch(
                f"{scored}, and more than {_MOST_PADDING:,} unused scores are not assumed to be padding",
                hint="If the model pads its scores so far, pass the width: ConstraintProcessor(constraint, "
                f"structgen.Vocabulary.from_tokenizer(tokenizer, size={width})). Otherwise check that the "
                "tokenizer and the model belong together.",
            )

    def _fits(self, width: int) -> bool:
        """Return whether the ids from `width` on are unused, so that a model may leave them out."""
        beyond = range(width, self.vocabulary.size)
        ends_within = all(token < width for token in self.vocabulary.eos_ids)
        return ends_within and not any(self.vocabulary.token_bytes(token) for token in beyond)


def _nearest(rows: list[_Row], row: int, text: list[int], group: list[int]) -> int:
    """Return the index of the row with the longest common prefix with `text`, preferably the own row."""
    own = rows[row].tokens
    if text[: len(own)] == own:
        return row
    return max(group, key=lambda other: (_common_prefix(rows[other].tokens, text), other == row))


def _common_prefix(first: list[int], second: list[int]) -> int:
    shorter = min(len(first), len(second))
    if first[:shorter] == second[:shorter]:
        return shorter
    return next(i for i in range(shorter) if first[i] != second[i])


def _constraints(given: Any) -> list[Constraint | None]:
    several = isinstance(given, Sequence) and not isinstance(given, str)
    listed = list(given) if several else [given]
    if not listed:
        raise OptionError("the list of constraints is empty", hint="Pass one constraint per prompt.")
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
