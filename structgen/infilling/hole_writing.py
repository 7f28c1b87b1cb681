"""Generating a template from left to right, hole after hole, and ending each hole.

Why: a model that generates from left to right does not see where a hole has to end, and may continue as long as it can.
What: a hole ends where the model itself writes what follows it. If it has not after `max_tokens` tokens, its text is
cut where what follows is most probable. If the template can continue at no such position, the hole gets a short
completion.
Invariant: the text so far can be completed to a text of the template (and of the constraint of the whole text).
Cost: one forward pass per token; for a cut, some more, over the hole and what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from structgen.constraints.base import Constraint
from structgen.constraints.base import Literal as Text
from structgen.errors import EmptyConstraint, Truncated
from structgen.generation import Generation, generate_steps
from structgen.generation.loop import Progress
from structgen.generation.options import make_options
from structgen.matcher import Matcher, open_matcher
from structgen.protocols import TextMatcher, capabilities_of
from structgen.results import Result
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

from .prefix_cache import PrefixCachedModel
from .template import Template

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Session

__all__ = ["HoleEnd", "write"]

HoleEnd = Literal["model", "cut", "completed"]
_READ_TOKENS = 8
"""The number of tokens of what follows a hole by which its end is selected."""
_READ_POSITIONS = 6
"""The number of positions at which more than the first of these tokens is read."""
_PARTIAL_PENALTY = -1e6
"""Added to the scores of positions of which only the first token was scored: they come after the others."""
_POSITIONS_PER_BATCH = 64
"""The number of positions whose logits are held at a time."""
_COMPLETED_FROM = (1, 2, 3, 5, 9, 17, 33, 1 << 30)
"""Where short completions are tried: after dropping this many last tokens, minus one."""


def write(
    model: LanguageModel,
    prompt: str,
    template: Template,
    room: int,
    seed: int | None,
    options: dict[str, Any],
) -> tuple[str, list[HoleEnd]]:
    """Return a text of the template, and how each group of holes ended; `room` is the token limit of one hole."""
    text, ends = template.literals[0], []
    cached: Any = PrefixCachedModel(model)
    for number, (index, end) in enumerate(template.groups):
        drawn = seed if not number else None if seed is None else (seed, number)
        hole = _Hole(cached, prompt, template, text, index, end)
        text, hole_end = hole.written(room, {**options, "seed": drawn})
        ends.append(hole_end)
        if hole.finished is not None and text == hole.finished:
            ends += ["model"] * (len(template.groups) - len(ends))
            break
    return text, ends


class _Hole:
    """The holes from `index` to before `end`, without text between them, after a fixed text."""

    def __init__(
        self, model: LanguageModel, prompt: str, template: Template, text: str, index: int, end: int
    ) -> None:
        self._model, self._template = model, template
        self._index, self._end = index, end
        self.text = text
        self.finished: str | None = None
        """The whole text, if the model wrote all of it."""
        self._ids = model.encode(prompt)
        self._literal = template.literals[end]
        self._is_last = end == len(template.names)
        self._constraint = template.constraint(text, index)
        self._refused: set[str] = set()

    def written(self, room: int, options: dict[str, Any]) -> tuple[str, HoleEnd]:
        """Return the text up to the end of the literal after the hole, and how the hole ended."""
        matcher = _opened(self._constraint, self._model.vocabulary)
        rest = "".join(self._template.literals[self._end :])
        # subtle: no token is shorter than a byte, so this limit never stops the generation before the hole's own one.
        most = len((self.text + rest).encode()) + room * (len(self._template.names) + 1) + 64
        chosen = make_options({**options, "max_tokens": most, "exact_weight": False})
        # The numbers of tokens before the hole and before a possible end of it, and the text up to the latter.
        before, within, inside = 0, 0, ""
        for step in generate_steps(self._model, [self._ids], [matcher], chosen):
            if step.generation is not None:
                if step.generation.finish == "complete":
                    self.finished = step.generation.text
                    return self.finished, "model"
                if step.generation.finish != "length":
                    raise _failure(self._constraint, step.generation)
            if len(step.text) <= len(self.text):
                before, inside = len(step.tokens), step.text
            elif (left := self._left(step.text)) is not None:
                return left, "model"
            if self._overlap_with_literal(step.text) < len(step.text) - len(inside):
                within, inside = len(step.tokens), step.text
            if within - before >= room or step.generation is not None:
                return self._cut(list(step.tokens), before) or self._completed(step)
        raise AssertionError("a generation always ends")

    def _overlap_with_literal(self, text: str) -> int:
        """Return the length of the longest end of the text that is a prefix of what follows the hole."""
        most = min(len(self._literal), len(text) - len(self.text))
        return next((length for length in range(most, 0, -1) if text.endswith(self._literal[:length])), 0)

    def _left(self, text: str) -> str | None:
        """Return the text up to the first position where what follows the hole is written."""
        if not self._literal:
            return None
        if self._is_last:
            offset = len(text) - len(self._literal)
            fits = (
                text.endswith(self._literal)
                and offset >= len(self.text)
                and self._can_be(text[len(self.text) : offset])
            )
            return text if fits else None
        offset = text.find(self._literal, len(self.text))
        while offset >= 0:
            if text[:offset] not in self._refused:
                if self._can_be(text[len(self.text) : offset]):
                    return text[: offset + len(self._literal)]
                self._refused.add(text[:offset])
            offset = text.find(self._literal, offset + 1)
        return None

    def _can_be(self, inside: str) -> bool:
        """Return whether the hole may hold exactly this text."""
        if not self._template.fits(self._index, self._end, inside):
            return False
        text = self.text + inside + self._literal
        if self._is_last:
            return Matcher(self._constraint, self._model.vocabulary).explain(text).ok
        try:
            open_matcher(self._template.constraint(text, self._end), self._model.vocabulary)
        except EmptyConstraint:
            return False
        return True

    def _cut(self, tokens: Sequence[int], before: int) -> tuple[str, HoleEnd] | None:
        """Return the text cut where what follows is most probable."""
        matcher = Matcher(self._constraint, self._model.vocabulary)
        endings = []
        for count, text in self._prefixes(tokens, before):
            whole = (text + self._literal).encode()
            if matcher.viable_bytes(whole) == len(whole):
                endings.append((count, text))
        scores = self._likelihoods(tokens, [count for count, _ in endings])
        for number in sorted(range(len(endings)), key=lambda number: -scores[number]):
            inside = endings[number][1][len(self.text) :]
            if self._can_be(inside):
                return self.text + inside + self._literal, "cut"
        return None

    def _prefixes(self, tokens: Sequence[int], before: int) -> Iterator[tuple[int, str]]:
        """Yield a number of tokens and the text of the hole after them, where it ends with a whole character."""
        for count in range(before, len(tokens) + 1):
            try:
                text = self._model.vocabulary.decode(tokens[:count]).decode()
            except UnicodeDecodeError:
                continue
            if text.startswith(self.text):
                yield count, text

    def _likelihoods(self, tokens: Sequence[int], counts: Sequence[int]) -> list[float]:
        """Return the log probability of what follows the hole after each number of tokens.

        Only where its first token is probable, the others are read.
        """
        if not counts:
            return []
        vocabulary = self._model.vocabulary
        follow = vocabulary.encode(self._literal) or Matcher(Text(self._literal), vocabulary).witness() or []
        follow = follow[:_READ_TOKENS] or sorted(vocabulary.eos_ids)[:1]
        if (
            not follow
        ):  # nothing follows, and the model has no token for that: the last position is as good as any
            return [float(count) for count in counts]
        session = self._model.start([self._ids])
        first = min(counts)
        session.append([tokens[:first]])
        started = []
        for start, end in pairwise(
            [first, *range(first + _POSITIONS_PER_BATCH, max(counts), _POSITIONS_PER_BATCH), max(counts) + 1]
        ):
            logits = _read_logits(session, tokens[start : min(end, max(counts))])
            started += [_log_p(logits[count - start], follow[0]) for count in counts if start <= count < end]
        likely = sorted(range(len(counts)), key=lambda number: -started[number])[:_READ_POSITIONS]
        # The others come after these, in their own order.
        likelihoods = [_PARTIAL_PENALTY + score for score in started]
        read = max(counts)
        for number in sorted(likely, key=lambda number: -counts[number]):
            session.rollback(0, read - counts[number])
            read = counts[number] + len(follow) - 1
            likelihoods[number] = sum(map(_log_p, _read_logits(session, follow[:-1]), follow))
        return likelihoods

    def _completed(self, step: Progress) -> tuple[str, HoleEnd]:
        """Return the longest prefix of the text that has a short completion, with that completion."""
        matcher = Matcher(self._constraint, self._model.vocabulary)
        prefixes = list(self._prefixes(step.tokens, 0))
        for back in sorted({min(back, len(prefixes)) for back in _COMPLETED_FROM}):
            text = prefixes[-back][1]
            rest = matcher.witness_text(text.encode())
            if rest is None:
                continue
            whole = text + rest.decode()
            if self._is_last:
                return whole, "completed"
            left = self._left(whole)
            if left is not None:
                return left, "completed"
        raise Truncated(
            f"no end of the hole was found after {step.text[-60:]!r}",
            hint="Raise max_tokens, or give the hole a narrower constraint. Perhaps nothing fits there, which is not "
            "always known before.",
            text=step.text,
        )


class _Roomy(Matcher):
    """A matcher whose room is known to suffice, so that no shortest text is searched for."""

    def least_tokens(self, room: int) -> int | None:
        """Return None: it is not searched for."""
        return None


def _opened(constraint: Constraint, vocabulary: Vocabulary) -> TextMatcher:
    matcher = open_matcher(constraint, vocabulary)
    return _Roomy(constraint, vocabulary) if matcher.judge is None else matcher


def _read_logits(session: Session, tokens: Sequence[int]) -> list[Any]:
    """Return the logits of the next token and after each of these tokens, which the session reads."""
    logits = [np.array(session.logits()[0])]
    if tokens and capabilities_of(session).scores_runs:
        return logits + list(session.append_scored([tokens])[0])
    for token in tokens:
        session.append([[token]])
        logits.append(np.array(session.logits()[0]))
    return logits


def _log_p(logits: object, token: int) -> float:
    logits = np.asarray(logits, dtype=np.float64)
    top = logits.max()
    return float(logits[token] - top - np.log(np.exp(logits - top).sum()))


def _failure(constraint: Constraint, generation: Generation) -> Exception:
    error = Result(output_type(constraint), generation).error
    assert error is not None
    return error
