"""One sequence while it is generated: its matcher, its tokens, its scores, its random stream.

Why: rows of a batch are independent of each other (each has its own constraint, options and seed), so all that
belongs to one is here, and the loop only feeds logits and carries tokens to the model.
A matcher may know only when a token is read that it is refused (see `structgen.monitors`); it is drawn again then, with
the same noise and without that token, so the outcome is that of a mask without it. Such a matcher may also judge the
finished text (``verify``), and a text with a fault goes back to it.
Invariants: the matcher has advanced by exactly `tokens` (and the end token, once finished); `pending` are the
tokens that the model session has not been given yet; `steps` has one score per token. The draw at a position
depends on the seed, the position and the law there, never on the batch or on which tokens were forced.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.captures import CapturedText
from structgen.errors import StructgenError
from structgen.protocols import TokenMatcher

from .distributions import StepLaw, allowed_ids
from .options import SamplingOptions
from .random_streams import GumbelNoise, uniform_stream
from .results import Finish
from .token_budget import Budget, check_room, room_after

__all__ = ["Row", "Unconstrained"]

Choice = Callable[[StepLaw, float], int | None]
"""From a law and a uniform number to a token; None: it is drawn as always."""

_CHUNK = 128
_NEAR = 64
_MAX_REJECTIONS = 64
_LOOKED_AT = 8
"""Refused tokens after which the matcher is asked which others it refuses by now."""


class Unconstrained(TokenMatcher):
    """Stands in for a matcher where every token is allowed."""

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


class Row:
    """See the module's text. `capacity` is the budget of text tokens, context length considered (`prepare`)."""

    def __init__(
        self,
        index: int,
        prompt: Sequence[int],
        matcher: TokenMatcher | None,
        options: SamplingOptions,
        vocabulary: Any,
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
        self.drafted_tokens = self.taken_tokens = 0
        self.retries = 0
        self.top_tokens = 0
        """How many of the most probable tokens are kept at each position (`top_logprobs`)."""
        self.steered = False
        self.error: StructgenError | None = None
        self.excess = 0
        """How many tokens the session must take back before `pending` is appended."""
        self.seed = seed
        self.draft_limit: int | None = None
        """The position beyond which nothing may be read ahead (see the session)."""
        self._is_free = matcher is None
        self._repairs = 0
        self._faulty: Any = None
        """The last text that was finished with a fault: tokens, scores, its end, and the faults."""
        self._matcher: TokenMatcher = Unconstrained() if matcher is None else matcher
        self._judge = self._matcher.judge
        self._vocabulary = vocabulary
        self._spells_specials: bool = self._matcher.spells_specials
        self._sets_temperature: bool = self._matcher.sets_temperature
        """Does the constraint say at which temperature some tokens are drawn?"""
        self._temperatures: dict[int, float] = {}
        """Of forced tokens, by position, where they are scored."""
        self._unproven_before = self._matcher.unproven
        self._eos = frozenset(vocabulary.eos_ids)
        self._steps: list[tuple[float, float] | None] = []
        self._end_step: tuple[float, float] | None = None
        self._tops: dict[int, list[tuple[int, float]]] = {}
        self._drawn: list[int] = []
        self._banned: dict[int, set[int]] = {}
        self._laws: dict[int, tuple[StepLaw, NDArray[Any]]] = {}
        """Of the positions that were drawn since the session was given tokens."""
        self._uniforms: NDArray[np.float64] = np.empty(0)
        self._stream: np.random.Generator | None = None
        self._noise = GumbelNoise(seed) if options.noise == "gumbel" else None
        self._resent = 0
        self._budget: Budget | None = None

    def leave(self) -> None:
        """Nobody wants the text any more: a matcher that is waited for in another thread is told, if it can be."""
        self._matcher.on_disconnect()

    def prepare(self, context_length: int | None) -> None:
        """What can fail before the model is called: a prompt that is too long, a budget that no text fits."""
        self.capacity, limit = room_after(len(self.prompt), context_length, self.capacity)
        check_room(self._matcher.least_tokens(self.capacity), self.capacity, limit)
        if self.options.close_within_budget:
            self._budget = Budget(self._matcher, self.capacity)

    def sent(self, count: int | None = None) -> None:
        """The session has been given what was pending, or the first `count` tokens of it."""
        count = len(self.pending) if count is None else count
        self.taken(count)
        self.excess = 0
        self._resent = max(0, self._resent - count)
        self._laws.clear()

    def taken(self, count: int) -> None:
        """So many of the pending tokens are what the session read ahead; they are pending no more."""
        del self.pending[:count]

    @property
    def draft_room(self) -> int:
        """How many tokens may be read ahead of the text so far."""
        room = self.capacity - len(self.tokens)
        if self.draft_limit is None:
            return room
        # subtle: with drafts forced text comes to the border in other passes than without, so they end well before.
        return min(room, self.draft_limit - _NEAR - len(self.prompt) - len(self.tokens))

    @property
    def matcher(self) -> Any:
        """The constraint at the end of the text so far."""
        return self._matcher

    # -- the state as seen from outside

    @property
    def data(self) -> bytes:
        """The bytes of the text so far."""
        if self._spells_specials:
            return bytes(self._vocabulary.spelled_bytes(self.tokens))
        return bytes(self._vocabulary.decode(self.tokens))

    @property
    def text(self) -> str:
        """The text so far, without a last character of which only some bytes are there."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(self.data, final=False)

    @property
    def logprob(self) -> float | None:
        """Sum of log p at temperature 1; None if a step was not scored."""
        steps = self._scored_steps()
        return None if steps is None else sum(step[0] for step in steps)

    @property
    def log_weight(self) -> float | None:
        """Sum of log Z; None if a step was not scored or its allowed mass is not known."""
        steps = self._scored_steps()
        if steps is None or self.retries or self.steered or self._judge is not None:
            return None  # what a matcher would refuse of the tokens that were not drawn is not known
        return sum(step[1] for step in steps)

    @property
    def token_logprobs(self) -> list[float | None]:
        """log p at temperature 1 of each token of the text; None where it was not scored."""
        return [None if step is None else step[0] for step in self._steps]

    @property
    def top_logprobs(self) -> list[list[tuple[int, float]]]:
        """For each token of the text the most probable ones in its place with their log p; empty if not scored."""
        return [self._tops.get(position, []) for position in range(len(self.tokens))]

    @property
    def captured(self) -> CapturedText | None:
        """The text so far, if rules of the constraint capture parts of it."""
        constraint = self._matcher.constraint
        if constraint is None or not constraint.holds_captures():
            return None
        return CapturedText(constraint, self._vocabulary, tuple(self.tokens), self._spells_specials)

    @property
    def monitor_report(self) -> Any:
        """What monitors did (`structgen.monitors.MonitorReport`); None if there are none."""
        return None if self._judge is None else self._judge.report

    @property
    def unproven(self) -> int:
        """Decisions of the constraint since the start of this row that lacked work budget."""
        return self._matcher.unproven - self._unproven_before

    def fail(self, error: StructgenError) -> None:
        """End this row, and no other, with an error."""
        self.error = error
        self.finish = "failed"

    # -- before the model is called

    def settle(self, *, can_score: bool) -> None:
        """Commit what needs no draw: forced tokens, a finish that is certain, a step back from a dead end.

        `can_score`: whether the session can tell the logits inside a run of several tokens.
        """
        while self.finish is None:
            if self.options.forced and (can_score or not self.options.exact_weight):
                self._commit_forced()
            matcher = self._matcher
            if matcher.must_stop and not (self.options.exact_weight and self._eos):
                self._end()
            elif len(self.tokens) >= self.capacity and not matcher.is_complete():
                if can_score and self.options.exact_weight and len(self.pending) > 1 + self._resent:
                    return  # forced tokens have to be scored before
                self._fall_short("length")
            elif matcher.allowed_count() > 0:
                return
            elif not self._step_back():
                self._fall_short("dead_end")

    def _commit_forced(self) -> None:
        if len(self.tokens) in self._banned:
            return  # the only choice here is one that was taken back
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
        """Score the forced token at `offset` in `pending`, if it is one, by the logits of its position."""
        position = len(self.tokens) - len(self.pending) + offset
        if not self._resent <= offset < len(self.pending) or self._steps[position] is not None:
            return
        if position and not self.options.exact_weight:
            return  # whether there are logits depends on drafts and on other rows, and what is told must not
        token = self.tokens[position]
        options = self._options_at(self._temperatures.get(position))
        law = StepLaw(logits, np.array([token], dtype=np.int64), options)
        self._keep_top(position, law)
        self._steps[position] = (law.logprob(token), law.log_z)

    def allowed(self) -> NDArray[np.int64] | None:
        """The ids that the mask and, at its very end, the budget allow; None for all."""
        if self._budget is not None and len(self.tokens) >= self.capacity:
            return np.array(sorted(self._eos), dtype=np.int64)
        if self._is_free:
            return None
        return allowed_ids(self._matcher.mask(), self._vocabulary.size)

    def draw(self, logits: NDArray[Any], ids: NDArray[np.int64] | None, choose: Choice | None = None) -> None:
        """Draw the next token; the row may finish by it. `choose` draws from the law in another way."""
        if len(self.tokens) >= self.capacity and not self._matcher.is_complete():
            self._fall_short("length")
            return
        options = self._options_at(self._matcher.temperature if self._sets_temperature else None)
        law = StepLaw(logits, ids, options)
        self._keep_top(len(self.tokens), law)
        self._laws[len(self.tokens)] = law, logits
        for token in self._banned.get(len(self.tokens), ()):
            law.exclude(token)
        if not law.is_empty:
            self._draw_from(law, choose)
        elif self._matcher.must_stop:
            # The text has ended, though the model gives the end no probability.
            self._end_step = (-np.inf, -np.inf)
            self._end()
        elif (
            ids is not None
            and len(ids) == 1
            and len(self.tokens) not in self._banned
            and self._matcher.advance(int(ids[0]))
        ):
            # The only choice is taken whatever its probability, just as a forced token is.
            self._drawn.append(len(self.tokens))
            self._commit(int(ids[0]), (-np.inf, -np.inf))
        elif not self._step_back():
            self._fall_short("dead_end")

    def _draw_from(self, law: StepLaw, choose: Choice | None = None) -> None:
        position = len(self.tokens)
        attempt = redrawn = 0
        if self._judge is not None and self.options.truncates:
            self._judge_kept(law)
            if law.is_empty:
                if not self._step_back():
                    self._fall_short("dead_end")
                return
        while True:
            # What is drawn again is drawn from what is left of the law, whatever was drafted.
            chosen = None
            if choose is not None and not attempt and not redrawn:
                chosen = choose(law, self._uniform(position, attempt))
            token = self._drawn_at(law, position, attempt, redrawn) if chosen is None else chosen
            score = (law.logprob(token), law.log_z)
            if token in self._eos:
                self._matcher.advance(token)
                self.end_token = token
                self._end_step = score
                self._end()
                return
            if position >= self.capacity:
                self._fall_short("length")  # the model would have gone on
                return
            if not self._matcher.advance(token):
                if self._judge is None:
                    raise StructgenError(f"the mask allows token {token}, but the matcher refuses it")
                law.exclude(token)
                redrawn += 1
                # With a token others like it may have been refused. A matcher that verifies tells them.
                if redrawn % _LOOKED_AT == 0:
                    for one in self._judge.refused:
                        law.exclude(one)
                if not law.is_empty:
                    continue
                if not self._step_back():
                    self._fall_short("dead_end")
                return
            if self._budget is None or self._budget.admits(token, self.capacity - position - 1):
                break
            self._matcher.rollback(1)
            law.exclude(token)
            self.steered = True
            attempt += 1
            if attempt > _MAX_REJECTIONS or law.is_empty:
                token = self._follow_witness()
                break
        self._drawn.append(position)
        self._commit(token, score)

    def _judge_kept(self, law: StepLaw) -> None:
        """Refuse beforehand what would be refused when it is read: what truncation leaves depends on what there is."""
        judged = set(self._eos)
        while not law.is_empty:
            refused = []
            for token in law.kept():
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
                law.exclude(token)

    def _drawn_at(self, law: StepLaw, position: int, attempt: int, redrawn: int = 0) -> int:
        if self._noise is None:
            return law.draw(self._uniform(position, attempt, redrawn))
        # subtle: the same noise after a refusal, so that it does not matter whether the mask knew of it before.
        branch = attempt + (self.retries << 10)
        return law.draw_noisy(partial(self._noise.best, position=position, branch=branch))

    def _follow_witness(self) -> int:
        """The way out when chance does not find one: the held witness's next token is always legal."""
        assert self._budget is not None
        token = self._budget.next_token
        if token is None:
            raise StructgenError("the held completion is empty, but the end of text was not allowed")
        self._matcher.advance(token)
        self._budget.admits(token, 0)
        return token

    # -- ends, dead and other

    def _end(self) -> None:
        """The text is complete; but one that is judged to have a fault goes back to it."""
        fault = None if self._judge is None else self._judge.first_fault()
        if self._judge is None or fault is None or not self._drawn:
            self.finish = "complete"
            return
        self._faulty = (
            self.tokens[:],
            self._steps[:],
            self._tops,
            self.end_token,
            self._end_step,
            self._judge.report.left,
        )
        if self._judge.is_finished:
            self._matcher.rollback(1)
        self.end_token = self._end_step = None
        self._repairs += 1
        self._judge.on_repair()
        # What comes of forced text can only be mended behind it.
        had = len(self.tokens)
        if not self._step_back(max(fault, self._drawn[0])):
            self._fall_short("dead_end")
        self._judge.report.rewritten += max(0, had - len(self.tokens))

    def _fall_short(self, finish: Finish) -> None:
        """There is no text, but for one that had a fault: that one is given, with the fault told."""
        self.finish = finish
        if self._judge is not None and self._faulty is not None:
            self.tokens, self._steps, self._tops, self.end_token, self._end_step, left = self._faulty
            self._judge.report.left, self._judge.report.unchecked = left, False
            self.pending = []
            self.excess = 0
            self.finish = "complete"

    def _step_back(self, to: int | None = None) -> bool:
        """Take back the last drawn token and all after it, ban it there, draw again if the law is at hand. With `to`:
        the last one drawn up to that position.

        Tokens that the session already holds are left to the loop: `excess` says how many it must take back. What it
        has read of a draft only is taken back by the loop in any case.
        """
        last = max(self._laws, default=-1)
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
            del self._steps[position:]
            self._tops = {at: top for at, top in self._tops.items() if at < position}
            self._temperatures = {at: one for at, one in self._temperatures.items() if at < position}
            self._banned = {at: tokens for at, tokens in self._banned.items() if at <= position}
            self._banned.setdefault(position, set()).add(token)
            if self._budget is not None:
                self._budget.restart(self.capacity - position)
            known = self._laws.get(position)
            self._laws = {at: one for at, one in self._laws.items() if at < position}
            if position >= held and known is not None:
                law, logits = known
                del self.pending[position - held :]
                if position < last:
                    # subtle: without a draft it would have been read again, and nothing but what is banned left out.
                    self.draw(logits, self.allowed())
                    return True
                law.exclude(token)
                if law.is_empty:
                    continue
                self._laws[position] = known
                self._draw_from(law)
            else:
                self._laws.clear()
                self.pending = [self.tokens[-1] if self.tokens else self.prompt[-1]]
                self.excess = held - position + 1
                self._resent = 1
            return True
        return False

    # -- parts

    def _options_at(self, temperature: float | None) -> SamplingOptions:
        """The options where a rule of the constraint sets this temperature."""
        return self.options if temperature is None else self.options.replace(temperature=temperature)

    def _commit(self, token: int, step: tuple[float, float] | None) -> None:
        self.tokens.append(token)
        self.pending.append(token)
        self._steps.append(step)

    def _keep_top(self, position: int, law: StepLaw) -> None:
        if self.top_tokens:
            self._tops[position] = law.most_probable(self.top_tokens, self._vocabulary.size)

    def _scored_steps(self) -> list[tuple[float, float]] | None:
        steps = list(self._steps)
        if self.finish == "complete" and self._eos:
            steps.append(self._end_step)
        scored = [step for step in steps if step is not None]
        return scored if len(scored) == len(steps) else None

    def noise_at(self, position: int) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
        """The Gumbel noise that token ids are drawn with at a position."""
        assert self._noise is not None
        return partial(self._noise, position=position, branch=self.retries << 10)

    def _uniform(self, position: int, attempt: int, redrawn: int = 0) -> float:
        """The uniform number of a position; draws that follow a rejected one have streams of their own."""
        if redrawn:
            return float(uniform_stream(self.seed, position, attempt, self.retries, redrawn).random())
        if attempt or self.retries:
            return float(uniform_stream(self.seed, position, attempt, self.retries).random())
        if self._stream is None:
            self._stream = uniform_stream(self.seed)
        while position >= len(self._uniforms):
            self._uniforms = np.concatenate((self._uniforms, self._stream.random(_CHUNK)))
        return float(self._uniforms[position])
