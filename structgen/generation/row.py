"""One sequence during generation: its matcher, its tokens, its scores, its random stream.

Why: rows of a batch are independent of each other (each has its own constraint, options and seed). So all state of a
row is here, and the loop only hands over logits and carries tokens to the model.
A matcher with monitors may refuse a token only when it is read (`JudgingMatcher`). The token is then excluded and drawn
again with the same noise, so the outcome is that of a mask without it. Such a matcher also judges the finished text,
and a text with a fault is rolled back to the fault and continued from there.
Invariants: the matcher has advanced by exactly `tokens` (and the end-of-sequence token, once finished). `pending` are
the tokens that the session has not read yet. `_steps` has one score per token. The draw at a position depends on the
seed, the position and the distribution there, never on the batch or on which tokens were forced.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.captures import CapturedText
from structgen.errors import StructgenError
from structgen.protocols import TokenMatcher

from .distributions import StepDistribution, allowed_ids
from .options import SamplingOptions
from .penalties import TokenPenalties
from .random_streams import RowRandom
from .results import Finish
from .row_scores import RowScores
from .token_budget import Budget, check_room, room_after

if TYPE_CHECKING:
    from structgen.vocabulary import Vocabulary

__all__ = ["Row", "Unconstrained"]

Choice = Callable[[StepDistribution, float], int | None]
"""From a distribution and a uniform number to a token; None leaves the draw to the plain sampler."""

_DRAFT_MARGIN = 64
"""The number of tokens before `draft_limit` at which drafts end."""
_MAX_REJECTIONS = 64
"""After this many refused draws at one position the text follows the witness of the constraint."""
_REFUSALS_PER_CHECK = 8
"""The number of refused tokens after which the matcher is queried for others that it refuses by now."""


class Unconstrained(TokenMatcher):
    """A matcher that allows every token."""

    must_stop = False

    def mask(self) -> NDArray[np.int32]:
        """Not called: `Row.allowed` returns None."""
        raise NotImplementedError

    def advance(self, token_id: int) -> bool:
        """Accept every token."""
        return True

    def forced(self) -> list[int]:
        """Return no tokens: there is always a choice."""
        return []

    def forced_bytes(self, most: int = 0) -> bytes:
        """Return no bytes: there is always a choice."""
        return b""

    def rollback(self, n: int) -> None:
        """Do nothing: there is no state."""

    def fork(self) -> Unconstrained:
        """Return this matcher: there is no state."""
        return self

    def is_complete(self) -> bool:
        """Return True: the text may end anywhere."""
        return True

    def allowed_count(self) -> int:
        """Return a number above zero."""
        return 1

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return the empty completion."""
        return []

    def least_tokens(self, room: int) -> int | None:
        """Return the length of the empty text."""
        return 0


# This class has more than 25 methods: drawing, forced tokens, budgets, dead ends and repairs change the same state.
class Row:
    """One sequence of a batch. `capacity` is the largest number of text tokens that fits the context (`prepare`)."""

    def __init__(
        self,
        index: int,
        prompt: Sequence[int],
        matcher: TokenMatcher | None,
        options: SamplingOptions,
        vocabulary: Vocabulary,
        seed: tuple[int, ...],
    ) -> None:
        self.index = index
        self.prompt = list(prompt)
        self.options = options
        self.capacity = options.max_tokens
        self.tokens: list[int] = []
        self.pending: list[int] = []
        self.finish: Finish | None = None
        self.end_token: int | None = None
        self.forced_tokens = 0
        self.cached_tokens = 0
        """Tokens of the prompt that were not read, because an earlier prompt began with them."""
        self.drafted_tokens = self.accepted_tokens = 0
        self.retries = 0
        self.is_lossy = False
        """Whether a lossy verifier took part in a draw."""
        self.scores = RowScores(vocabulary.size)
        self.steered = False
        self.error: StructgenError | None = None
        self.excess = 0
        """How many tokens the session must roll back before `pending` is appended."""
        self.seed = seed
        self.scope: Any = None
        """Whose row it is: only rows of one scope share drafts and the KV cache of prompts."""
        self.draft_limit: int | None = None
        """The position after which no draft token may be read (`SessionCapabilities.draft_limit`)."""
        self._is_free = matcher is None
        self._repairs = 0
        self._faulty: Any = None
        """The last text that ended with a fault: tokens, scores, its end, and the faults."""
        self._matcher: TokenMatcher = Unconstrained() if matcher is None else matcher
        self._judge = self._matcher.judge
        self._vocabulary = vocabulary
        self._spells_specials: bool = self._matcher.spells_specials
        self._sets_temperature: bool = self._matcher.sets_temperature
        """Whether the constraint sets the temperature of some tokens."""
        self._temperatures: dict[int, float] = {}
        """The temperatures of forced tokens that will be scored, by position."""
        self._unproven_before = self._matcher.unproven
        self._eos = frozenset(vocabulary.eos_ids)
        self._drawn: list[int] = []
        self._banned: dict[int, set[int]] = {}
        self._distributions: dict[int, tuple[StepDistribution, NDArray[Any]]] = {}
        """The distributions and logits of the positions drawn since the last forward pass."""
        self._random = RowRandom(seed)
        self._penalties = (
            TokenPenalties(options, self.prompt, vocabulary.size) if options.changes_logits else None
        )
        self._draws_noise = options.noise == "gumbel"
        self._resent = 0
        self._budget: Budget | None = None

    def disconnect(self) -> None:
        """Notify the matcher that no one needs the text any more. Any thread may call this."""
        self._matcher.on_disconnect()

    def prepare(self, context_length: int | None) -> None:
        """Check what can fail before the model is called: the length of the prompt, and a budget that no text fits."""
        self.capacity, limit = room_after(len(self.prompt), context_length, self.capacity)
        check_room(self._matcher.least_tokens(self.capacity), self.capacity, limit)
        if self.options.close_within_budget:
            self._budget = Budget(self._matcher, self.capacity)

    def mark_read(self, count: int | None = None) -> None:
        """Note that the session has read all pending tokens, or the first `count` of them."""
        count = len(self.pending) if count is None else count
        self.drop_pending(count)
        self.excess = 0
        self._resent = max(0, self._resent - count)
        self._distributions.clear()

    def drop_pending(self, count: int) -> None:
        """Remove the first pending tokens, which the session has read as draft tokens."""
        del self.pending[:count]

    @property
    def read_count(self) -> int:
        """The number of tokens of the row, prompt included, that the session has read and keeps."""
        return len(self.prompt) + len(self.tokens) - len(self.pending)

    @property
    def draft_room(self) -> int:
        """The number of draft tokens that may be read after the text so far."""
        room = self.capacity - len(self.tokens)
        if self.draft_limit is None:
            return room
        # subtle: drafts change in which pass forced text reaches the limit, so drafts end well before it.
        return min(room, self.draft_limit - _DRAFT_MARGIN - len(self.prompt) - len(self.tokens))

    @property
    def matcher(self) -> Any:
        """The matcher at the end of the text so far."""
        return self._matcher

    @property
    def is_constrained(self) -> bool:
        """Whether it was given a matcher."""
        return not self._is_free

    # -- the state as seen by callers

    @property
    def data(self) -> bytes:
        """The bytes of the text so far."""
        if self._spells_specials:
            return bytes(self._vocabulary.spelled_bytes(self.tokens))
        return bytes(self._vocabulary.decode(self.tokens))

    @property
    def text(self) -> str:
        """The text so far, without a last character that is not complete yet."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(self.data, final=False)

    @property
    def logprob(self) -> float | None:
        """The sum of log p at temperature 1; None if a step was not scored."""
        steps = self.scores.complete_steps(self._has_end)
        return None if steps is None else sum(step[0] for step in steps)

    @property
    def log_weight(self) -> float | None:
        """The sum of log Z; None if a step was not scored, its allowed probability is not known or it is lossy."""
        steps = self.scores.complete_steps(self._has_end)
        if steps is None or self.retries or self.steered or self._judge is not None or self.is_lossy:
            return None  # tokens that were not drawn may be refused, too, so Z is not known
        return sum(step[1] for step in steps)

    @property
    def _has_end(self) -> bool:
        return self.finish == "complete" and bool(self._eos)

    @property
    def captured(self) -> CapturedText | None:
        """The text so far, if rules of the constraint capture parts of it; otherwise None."""
        constraint = self._matcher.constraint
        if constraint is None or not constraint.holds_captures():
            return None
        return CapturedText(constraint, self._vocabulary, tuple(self.tokens), self._spells_specials)

    @property
    def monitor_report(self) -> Any:
        """What the monitors did (`structgen.monitors.MonitorReport`); None without monitors."""
        return None if self._judge is None else self._judge.report

    @property
    def unproven(self) -> int:
        """The number of states, since the start of this row, that count as live for lack of work budget."""
        return self._matcher.unproven - self._unproven_before

    def fail(self, error: StructgenError) -> None:
        """End this row, and no other, with an error."""
        self.error = error
        self.finish = "failed"

    def cut_off(self, length: int) -> None:
        """Remove all after the first `length` tokens: the caller has ended the text there, and drops the row."""
        del self.tokens[length:]
        self.scores.truncate(length)
        self.scores.end = self.end_token = self.finish = self.error = None

    # -- before the model is called

    def advance_without_draw(self, *, can_score: bool) -> None:
        """Commit what needs no draw: forced tokens, an end without alternative, a step back from a dead end.

        Args:
            can_score: Whether the session returns the logits inside a run of several tokens.
        """
        while self.finish is None:
            if self.options.forced and (can_score or not self.options.exact_weight):
                self._commit_forced()
            matcher = self._matcher
            if matcher.must_stop and not (self.options.exact_weight and self._eos):
                self._end()
            elif len(self.tokens) >= self.capacity and not matcher.is_complete():
                if can_score and self.options.exact_weight and len(self.pending) > 1 + self._resent:
                    return  # the forced tokens have to be scored first
                self._fall_short("length")
            elif matcher.allowed_count() > 0:
                return
            elif not self._step_back():
                self._fall_short("dead_end")

    def _commit_forced(self) -> None:
        if len(self.tokens) in self._banned:
            return  # the only choice here was rolled back from a dead end
        notes = self._sets_temperature and self.options.exact_weight
        for token in self._matcher.forced()[: self.capacity - len(self.tokens)]:
            if token in self._eos:
                return
            if notes and (temperature := self._matcher.temperature) is not None:
                self._temperatures[len(self.tokens)] = temperature
            if not self._matcher.advance(token):
                return
            if self._budget is not None and not self._budget.admits(
                token, self.capacity - len(self.tokens) - 1
            ):
                self._matcher.rollback(1)
                return
            self._commit(token, None)
            self.forced_tokens += 1

    # -- after the model was called

    def score_pending(self, offset: int, logits: NDArray[Any]) -> None:
        """Score the pending token at `offset`, if it is a forced one, by the logits of its position."""
        position = len(self.tokens) - len(self.pending) + offset
        if not self._resent <= offset < len(self.pending) or self.scores.steps[position] is not None:
            return
        if position and not self.options.exact_weight:
            return  # whether logits exist depends on drafts and on other rows, and the result must not
        token = self.tokens[position]
        options = self._options_at(self._temperatures.get(position))
        distribution = StepDistribution(
            self._adjusted(logits, position), np.array([token], dtype=np.int64), options
        )
        self.scores.keep_top(position, distribution)
        self.scores.steps[position] = (distribution.logprob(token), distribution.log_z)

    def allowed(self) -> NDArray[np.int64] | None:
        """Return the ids that the mask allows, increasing; None for all. At the budget's end, only end tokens."""
        if self._budget is not None and len(self.tokens) >= self.capacity:
            return np.array(sorted(self._eos), dtype=np.int64)
        if self._is_free:
            return None
        return allowed_ids(self._matcher.mask(), self._vocabulary.size)

    def draw(self, logits: NDArray[Any], ids: NDArray[np.int64] | None, choose: Choice | None = None) -> None:
        """Draw the next token, which may end the row. `choose` may replace the plain sampler's draw."""
        if len(self.tokens) >= self.capacity and not self._matcher.is_complete():
            self._fall_short("length")
            return
        options = self._options_at(self._matcher.temperature if self._sets_temperature else None)
        distribution = StepDistribution(self._adjusted(logits, len(self.tokens)), ids, options)
        self.scores.keep_top(len(self.tokens), distribution)
        self._distributions[len(self.tokens)] = distribution, logits
        for token in self._banned.get(len(self.tokens), ()):
            distribution.exclude(token)
        if not distribution.is_empty:
            self._draw_from(distribution, choose)
        elif self._matcher.must_stop:
            # The text has ended, although the model gives the end no probability.
            self.scores.end = (-np.inf, -np.inf)
            self._end()
        elif (
            ids is not None
            and len(ids) == 1
            and len(self.tokens) not in self._banned
            and self._matcher.advance(int(ids[0]))
        ):
            # The only choice is taken for any probability, as a forced token is.
            self._drawn.append(len(self.tokens))
            self._commit(int(ids[0]), (-np.inf, -np.inf))
        elif not self._step_back():
            self._fall_short("dead_end")

    def _draw_from(self, distribution: StepDistribution, choose: Choice | None = None) -> None:
        position = len(self.tokens)
        attempt = redrawn = 0
        if self._judge is not None and self.options.truncates:
            self._judge_kept(distribution)
            if distribution.is_empty:
                if not self._step_back():
                    self._fall_short("dead_end")
                return
        while True:
            # A repeated draw is from what remains of the distribution, and ignores drafts.
            chosen = None
            if choose is not None and not attempt and not redrawn:
                chosen = choose(distribution, self._random.uniform(position, attempt, self.retries))
            token = self._drawn_at(distribution, position, attempt, redrawn) if chosen is None else chosen
            score = (distribution.logprob(token), distribution.log_z)
            if token in self._eos:
                self._matcher.advance(token)
                self.end_token = token
                self.scores.end = score
                self._end()
                return
            if position >= self.capacity:
                self._fall_short("length")  # the model would have gone on
                return
            if not self._matcher.advance(token):
                if self._judge is None:
                    raise StructgenError(f"the mask allows token {token}, but the matcher refuses it")
                distribution.exclude(token)
                redrawn += 1
                # Others may have been refused with it: the judge lists them.
                if redrawn % _REFUSALS_PER_CHECK == 0:
                    for refused in self._judge.refused:
                        distribution.exclude(refused)
                if not distribution.is_empty:
                    continue
                if not self._step_back():
                    self._fall_short("dead_end")
                return
            if self._budget is None or self._budget.admits(token, self.capacity - position - 1):
                break
            self._matcher.rollback(1)
            distribution.exclude(token)
            self.steered = True
            attempt += 1
            if attempt > _MAX_REJECTIONS or distribution.is_empty:
                token = self._follow_witness()
                break
        self._drawn.append(position)
        self._commit(token, score)

    def _judge_kept(self, distribution: StepDistribution) -> None:
        """Exclude tokens that would be refused when they are read: truncation depends on which tokens there are."""
        judged = set(self._eos)
        while not distribution.is_empty:
            refused = []
            for token in distribution.kept():
                if token in judged:
                    continue
                judged.add(token)
                if self._matcher.advance(token):
                    self._matcher.rollback(1)
                else:
                    refused.append(token)
            if not refused:
                return
            for token in refused:
                distribution.exclude(token)

    def _drawn_at(self, distribution: StepDistribution, position: int, attempt: int, redrawn: int = 0) -> int:
        if not self._draws_noise:
            return distribution.draw(self._random.uniform(position, attempt, self.retries, redrawn))
        # subtle: the noise stays the same after a refusal, so it does not matter whether the mask excluded the token.
        noise = partial(self._random.noise.best, position=position, branch=attempt + (self.retries << 10))
        return distribution.draw_noisy(noise)

    def _follow_witness(self) -> int:
        """Take the next token of the held witness, which is always allowed, after too many rejected draws."""
        assert self._budget is not None
        token = self._budget.next_token
        if token is None:
            raise StructgenError(
                "the held completion is empty, but the mask does not allow the end of the text"
            )
        self._matcher.advance(token)
        self._budget.admits(token, 0)
        return token

    # -- ends

    def _end(self) -> None:
        """End the row with a complete text, or roll it back to a fault that its judge finds."""
        fault = None if self._judge is None else self._judge.first_fault()
        if self._judge is None or fault is None or not self._drawn:
            self.finish = "complete"
            return
        self._faulty = (
            self.tokens[:],
            self.scores.copy(),
            self.end_token,
            self._judge.report.left,
        )
        if self._judge.is_finished:
            self._matcher.rollback(1)
        self.end_token = self.scores.end = None
        self._repairs += 1
        self._judge.on_repair()
        # A fault in forced text can only be repaired after it, at the first drawn token.
        had = len(self.tokens)
        if not self._step_back(max(fault, self._drawn[0])):
            self._fall_short("dead_end")
        self._judge.report.rewritten += max(0, had - len(self.tokens))

    def _fall_short(self, finish: Finish) -> None:
        """End the row without a complete text; if there was one with a fault, restore that one instead."""
        self.finish = finish
        if self._judge is not None and self._faulty is not None:
            self.tokens, self.scores, self.end_token, left = self._faulty
            self._judge.report.left, self._judge.report.unchecked = left, False
            self.pending = []
            self.excess = 0
            self.finish = "complete"

    def _step_back(self, to: int | None = None) -> bool:
        """Roll back the last drawn token and all after it, ban it at its position, and draw again if possible.

        Tokens that the session has read remain for the loop to roll back: `excess` is their number. The loop rolls back
        draft tokens in any case.

        Args:
            to: Roll back to the last token drawn at or before this position.

        Returns:
            Whether there was such a token, within `max_backtracks`.
        """
        last = max(self._distributions, default=-1)
        while self._drawn and (to is not None or self.retries - self._repairs < self.options.max_backtracks):
            self.retries += 1
            position = self._drawn.pop()
            while to is not None and position > to:
                position = self._drawn.pop()
            to = None
            token = self.tokens[position]
            self._matcher.rollback(len(self.tokens) - position)
            held = len(self.tokens) - len(self.pending)
            del self.tokens[position:]
            self.scores.truncate(position)
            self._temperatures = {
                index: kept for index, kept in self._temperatures.items() if index < position
            }
            self._banned = {index: tokens for index, tokens in self._banned.items() if index <= position}
            self._banned.setdefault(position, set()).add(token)
            if self._budget is not None:
                self._budget.restart(self.capacity - position)
            known = self._distributions.get(position)
            self._distributions = {
                index: kept for index, kept in self._distributions.items() if index < position
            }
            if position >= held and known is not None:
                distribution, logits = known
                del self.pending[position - held :]
                if position < last:
                    # subtle: without a draft the position would be read again, and only banned tokens be excluded.
                    self.draw(logits, self.allowed())
                    return True
                distribution.exclude(token)
                if distribution.is_empty:
                    continue
                self.scores.keep_top(position, distribution)
                self._distributions[position] = known
                self._draw_from(distribution)
            else:
                self._distributions.clear()
                self.pending = [self.tokens[-1] if self.tokens else self.prompt[-1]]
                self.excess = held - position + 1
                self._resent = 1
            return True
        return False

    # -- helpers

    def noise_at(self, position: int) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
        """Return the Gumbel noise of a position as a function of token ids."""
        return partial(self._random.noise, position=position, branch=self.retries << 10)

    def _adjusted(self, logits: NDArray[Any], position: int) -> NDArray[Any]:
        """Return the logits of a position, with the penalties and the bias of the options."""
        if self._penalties is None:
            return logits
        return self._penalties.adjusted(logits, self.tokens[:position])

    def _options_at(self, temperature: float | None) -> SamplingOptions:
        """Return the options, with the temperature that a rule of the constraint sets."""
        return self.options if temperature is None else self.options.replace(temperature=temperature)

    def _commit(self, token: int, step: tuple[float, float] | None) -> None:
        self.tokens.append(token)
        self.pending.append(token)
        self.scores.steps.append(step)
