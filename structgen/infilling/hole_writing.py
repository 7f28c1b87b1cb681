"""Writing a template from the left, hole after hole, and leaving each.

Why: a model that writes from the left does not see where a hole has to end, and may go on for as long as it is let.
What: a hole is left where the model itself writes what follows it. If it has not after so many tokens, what it wrote is
cut where the model finds it likeliest that the template goes on; and if that can go on nowhere, the hole is completed
in a short way.
Invariant: what is written can be completed to a text of the template (and of the whole text's constraint).
Cost: one pass a token; where a hole is cut, some more, over what it holds and what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from structgen.constraints.base import Constraint
from structgen.constraints.base import Literal as Text
from structgen.errors import EmptyConstraint, Truncated
from structgen.generation import generate_steps
from structgen.generation.options import make_options
from structgen.matcher import Matcher, open_matcher
from structgen.protocols import TextMatcher
from structgen.results import Result
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

from .prefix_cache import OneRow
from .template import Template

__all__ = ["Leaving", "write"]

Leaving = Literal["model", "cut", "completed"]
_ASKED_ABOUT = 8
"""Tokens of what follows a hole by which its end is chosen."""
_LOOKED_INTO = 6
"""Places where more than the first of these is asked about."""
_FAR = -1e6
_AT_ONCE = 64
"""Places whose laws are held at once."""
_COMPLETED_FROM = (1, 2, 3, 5, 9, 17, 33, 1 << 30)
"""Places from which a hole is completed if it can be: tokens that are left out of what was written, and one more."""


def write(
    model: Any, asked: str, template: Template, room: int, seed: int | None, options: dict[str, Any]
) -> tuple[str, list[Leaving]]:
    """A text of the template, and how each group of holes was left. `room`: tokens of one."""
    text, ways = template.literals[0], []
    model = OneRow(model)
    for number, (place, end) in enumerate(template.groups):
        drawn = seed if not number else None if seed is None else (seed, number)
        hole = _Hole(model, asked, template, text, place, end)
        text, way = hole.written(room, {**options, "seed": drawn})
        ways.append(way)
        if hole.finished is not None and text == hole.finished:
            ways += ["model"] * (len(template.groups) - len(ways))
            break
    return text, ways


class _Hole:
    """Holes from `place` to before `end`, with nothing between them, behind a text that is fixed."""

    def __init__(self, model: Any, asked: str, template: Template, text: str, place: int, end: int) -> None:
        self._model, self._template = model, template
        self._place, self._end = place, end
        self.text = text
        self.finished: str | None = None
        """The whole text, where the model wrote all of it."""
        self._ids = model.encode(asked)
        self._literal = template.literals[end]
        self._is_last = end == len(template.names)
        self._constraint = template.constraint(text, place)
        self._refused: set[str] = set()

    def written(self, room: int, options: dict[str, Any]) -> tuple[str, Leaving]:
        """The text up to the hole's end and the literal behind it."""
        matcher = _opened(self._constraint, self._model.vocabulary)
        rest = "".join(self._template.literals[self._end :])
        # subtle: no token is shorter than a byte, so this is room enough whatever the hole's own is.
        most = len((self.text + rest).encode()) + room * (len(self._template.names) + 1) + 64
        chosen = make_options({**options, "max_tokens": most, "exact_weight": False})
        # Tokens up to the hole, and up to where what follows it may begin, with the text up to there.
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
            if self._begun(step.text) < len(step.text) - len(inside):
                within, inside = len(step.tokens), step.text
            if within - before >= room or step.generation is not None:
                return self._cut(list(step.tokens), before) or self._completed(step)
        raise AssertionError("a generation ends")

    def _begun(self, text: str) -> int:
        """The length of the longest end of the text that begins what follows the hole."""
        most = min(len(self._literal), len(text) - len(self.text))
        return next((length for length in range(most, 0, -1) if text.endswith(self._literal[:length])), 0)

    def _left(self, text: str) -> str | None:
        """The text up to the first place where what follows the hole is written."""
        if not self._literal:
            return None
        if self._is_last:
            at = len(text) - len(self._literal)
            found = (
                text.endswith(self._literal)
                and at >= len(self.text)
                and self._can_be(text[len(self.text) : at])
            )
            return text if found else None
        at = text.find(self._literal, len(self.text))
        while at >= 0:
            if text[:at] not in self._refused:
                if self._can_be(text[len(self.text) : at]):
                    return text[: at + len(self._literal)]
                self._refused.add(text[:at])
            at = text.find(self._literal, at + 1)
        return None

    def _can_be(self, inside: str) -> bool:
        """May the hole hold just this?"""
        if not self._template.fits(self._place, self._end, inside):
            return False
        text = self.text + inside + self._literal
        if self._is_last:
            return Matcher(self._constraint, self._model.vocabulary).explain(text).ok
        try:
            open_matcher(self._template.constraint(text, self._end), self._model.vocabulary)
        except EmptyConstraint:
            return False
        return True

    def _cut(self, tokens: Sequence[int], before: int) -> tuple[str, Leaving] | None:
        """Where the model finds it likeliest that the template goes on."""
        matcher = Matcher(self._constraint, self._model.vocabulary)
        places = []
        for count, text in self._prefixes(tokens, before):
            whole = (text + self._literal).encode()
            if matcher.viable_bytes(whole) == len(whole):
                places.append((count, text))
        scores = self._likelihoods(tokens, [count for count, _ in places])
        for at in sorted(range(len(places)), key=lambda at: -scores[at]):
            inside = places[at][1][len(self.text) :]
            if self._can_be(inside):
                return self.text + inside + self._literal, "cut"
        return None

    def _prefixes(self, tokens: Sequence[int], before: int) -> Iterator[tuple[int, str]]:
        """The text after so many tokens, from the hole's beginning on, where it ends with a whole character."""
        for count in range(before, len(tokens) + 1):
            try:
                text = self._model.vocabulary.decode(tokens[:count]).decode()
            except UnicodeDecodeError:
                continue
            if text.startswith(self.text):
                yield count, text

    def _likelihoods(self, tokens: Sequence[int], counts: Sequence[int]) -> list[float]:
        """Of what follows the hole, after so many tokens each: looked into where its first token is likely."""
        if not counts:
            return []
        vocabulary = self._model.vocabulary
        follow = vocabulary.encode(self._literal) or Matcher(Text(self._literal), vocabulary).witness() or []
        follow = follow[:_ASKED_ABOUT] or sorted(vocabulary.eos_ids)[:1]
        if (
            not follow
        ):  # nothing follows, and the model has no token for that: the last place is as good as any
            return [float(count) for count in counts]
        session = self._model.start([self._ids])
        first = min(counts)
        session.append([tokens[:first]])
        begun = []
        for start, end in pairwise([first, *range(first + _AT_ONCE, max(counts), _AT_ONCE), max(counts) + 1]):
            distributions = _laws(session, tokens[start : min(end, max(counts))])
            begun += [
                _log_p(distributions[count - start], follow[0]) for count in counts if start <= count < end
            ]
        likely = sorted(range(len(counts)), key=lambda at: -begun[at])[:_LOOKED_INTO]
        # The others are behind these, in their own order.
        found = [_FAR + score for score in begun]
        read = max(counts)
        for at in sorted(likely, key=lambda at: -counts[at]):
            session.rollback(0, read - counts[at])
            read = counts[at] + len(follow) - 1
            found[at] = sum(map(_log_p, _laws(session, follow[:-1]), follow))
        return found

    def _completed(self, step: Any) -> tuple[str, Leaving]:
        """Completed in a short way, from as far on as there is one."""
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
            f"no way was found to end the hole after {step.text[-60:]!r}",
            hint="Raise max_tokens, or give the hole a narrower constraint; or nothing fits there, which is not always "
            "known before.",
            text=step.text,
        )


class _Roomy(Matcher):
    """One that is given room enough, so that nobody has to search for a shortest text beforehand."""

    def least_tokens(self, room: int) -> int | None:
        """Not known."""
        return None


def _opened(constraint: Constraint, vocabulary: Vocabulary) -> TextMatcher:
    matcher = open_matcher(constraint, vocabulary)
    return _Roomy(constraint, vocabulary) if matcher.judge is None else matcher


def _laws(session: Any, tokens: Sequence[int]) -> list[Any]:
    """Logits of the next token and, behind each of these tokens, which the session reads."""
    distributions = [np.array(session.logits()[0])]
    if tokens and session.capabilities.scores_runs:
        return distributions + list(session.append_scored([tokens])[0])
    for token in tokens:
        session.append([[token]])
        distributions.append(np.array(session.logits()[0]))
    return distributions


def _log_p(logits: Any, token: int) -> float:
    logits = np.asarray(logits, dtype=np.float64)
    top = logits.max()
    return float(logits[token] - top - np.log(np.exp(logits - top).sum()))


def _failure(constraint: Any, generation: Any) -> Exception:
    error = Result(output_type(constraint), generation).error
    assert error is not None
    return error
