"""A matcher of a constraint with monitors: tokens in, masks out.

Why: samplers know one interface, a matcher; this one queries monitors while the text grows.
What: the constraint's own matcher, the languages that suggestions put in force (`Restriction`), and a scanner that
finds triggers, in the middle of tokens, too. A token that continues after a trigger is allowed by the mask and judged
when it is read ("check"), or not allowed at all ("cut").
Invariant: a token that ``advance`` refuses is in no later mask of the same text, so drawing again without it draws from
the distribution of what is allowed. Rolling back restores what was in force; forks share all answers.
Cost: away from triggers that of the constraint's own matcher, and microseconds for each byte that is read.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.constraints.expressions import RE
from structgen.errors import CombinationError
from structgen.matcher import Matcher, NativeText, accepted_by_steps
from structgen.protocols import JudgingMatcher
from structgen.vocabulary import Vocabulary

from .alike import refused_with
from .crossing import crossing_tokens
from .lexer import CLOSE
from .queries import Answer, MonitorReport
from .restrictions import RestrictionsInForce
from .scanning import Query, Scan

if TYPE_CHECKING:
    from structgen.captures import Capture
    from structgen.explanation import Explanation

    from .constraint import Monitored

__all__ = ["MonitoredMatcher"]


_MAX_REFUSED_SINGLY = 4
"""How many tokens are refused one by one after the same bytes, before all similar ones are."""
_MAX_SEARCH_STEPS = 64
"""The largest number of steps of the search for a completion."""
_MAX_OTHER_TOKENS = 2_000
"""The largest number of tokens to try where no completion of the core continues."""


class _Frame:
    """What is known after one token; forks share it, since it is a function of the text."""

    __slots__ = ("answers", "banned", "queries", "refusing", "rests", "scan", "states")

    def __init__(
        self, scan: Scan, states: tuple[Any, ...], queries: Sequence[Query] = (), rests: Sequence[bytes] = ()
    ) -> None:
        self.scan = scan
        self.states = states
        self.queries = tuple(queries)
        """The queries that triggers at exactly this position call for."""
        self.rests = rests or (b"",) * len(queries)
        """The text after each trigger, in a document that ends in the middle of a name."""
        self.answers: list[Answer] | None = None
        """The answers; None until the monitors are queried."""
        self.banned: set[int] = set()
        """Tokens that were refused here."""
        self.refusing: dict[bytes, int] = {}
        """Number of refused tokens by the bytes before the fault."""


# This class has more than 25 methods because it implements `JudgingMatcher`; a quarter of them only delegates.
class MonitoredMatcher(NativeText, JudgingMatcher):
    """The matcher of `structgen.monitored` and `structgen.code`; `structgen.matcher.open_matcher` makes it.

    Unlike `structgen.Matcher`, ``advance`` may refuse a token that the last mask allowed. Later masks exclude it.
    """

    __slots__ = (
        "_active",
        "_frames",
        "_inner",
        "_is_resolved",
        "_judges",
        "_native",
        "_not_queried",
        "_repairs",
        "_report",
        "_restrictions",
        "_search_failed",
        "monitored",
    )

    def __init__(self, constraint: Monitored, vocabulary: Vocabulary) -> None:
        self._inner = Matcher(constraint.constraint, vocabulary)
        """The matcher of the constraint without its monitors."""
        self._native = self._inner.native
        self.monitored = constraint
        self._judges = any(monitor.judges for monitor in constraint.monitors)
        self._report = MonitorReport(unchecked=self._judges)
        self._active = [constraint.mode == "always"]
        self._repairs = [0]
        self._restrictions = RestrictionsInForce(vocabulary, constraint.joined)
        scan, states, failures = constraint.beginning
        for cause in failures:
            self._report.failed(cause)
        queries = [query for query, _ in scan.awaited]
        rests = [constraint.document.before[query.offset :] for query in queries]
        self._frames = [_Frame(scan, states, queries, rests)]
        self._is_resolved = not queries
        """Whether the answers at the end of the text are in force."""
        self._search_failed = False  # the last search for a completion
        self._not_queried: set[int] = set()
        """The numbers of tokens after which triggers were passed without a query."""

    # -- what the constraint alone decides

    @property
    def constraint(self) -> Monitored:
        """The constraint with its monitors."""
        return self.monitored

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the tokens."""
        return self._inner.vocabulary

    @property
    def mask_is_native(self) -> bool:
        """Always False: answers of monitors restrict the core's mask."""
        return False

    @property
    def spells_specials(self) -> bool:
        """Whether the text of a result contains the names of special tokens, because the constraint reads them."""
        return self.monitored.spells_specials

    @property
    def sets_temperature(self) -> bool:
        """Whether a rule of the constraint's grammar sets a temperature."""
        return self._inner.sets_temperature

    @property
    def temperature(self) -> float | None:
        """The temperature that a rule of the grammar sets for the next token; None if no rule does."""
        return self._inner.temperature

    @property
    def judge(self) -> JudgingMatcher:
        """This matcher: monitors may refuse tokens that the mask allows."""
        return self

    @property
    def names_text_tokens(self) -> bool:
        """Whether the constraint names tokens of text, so that a text alone does not decide whether it is satisfied."""
        return self._inner.names_text_tokens

    def least_tokens(self, room: int) -> int | None:
        """Return the number of tokens of a short text of the constraint alone; None if it is not known."""
        return self._inner.least_tokens(room)

    # -- queries

    @property
    def is_waiting(self) -> bool:
        """Whether the mask waits for an answer."""
        if self._is_resolved:
            return False
        answers = self._frames[-1].answers
        return answers is not None and not all(answer.is_known for answer in answers)

    def _ask(self, query: Query, text: bytes, states: tuple[Any, ...], scan: Scan) -> Answer:
        monitored = self.monitored
        context = monitored.document.context(query, text, states[query.monitor], scan)
        return monitored.asker.ask(query.monitor, monitored.monitors[query.monitor], context, self._report)

    def _resolve(self) -> bool:
        """Put in force the answers at the end of the text; return False if nothing may follow there."""
        if self._is_resolved:
            return True
        frame = self._frames[-1]
        if self._active[0] and frame.answers is None:
            self._request(frame)
        length, is_alive = len(self._frames) - 1, True
        count = len(self._restrictions)
        try:
            for answer, rest in zip(frame.answers or (), frame.rests, strict=False):
                expression = answer.expression()
                # The document before the generated text is not judged.
                if expression is not None and not self._restrict(expression, rest, length) and not rest:
                    self._restrictions.forbid_all(length)
                    is_alive = False
        except BaseException:  # an invalid answer: the position stays unresolved at each attempt
            self._restrictions.keep_first(count)
            raise
        self._is_resolved = True
        if frame.answers is None:
            self._not_queried.add(length)
        else:
            self._not_queried.discard(length)
        return is_alive

    def _request(self, frame: _Frame) -> None:
        text = self._native.text
        frame.answers = [self._ask(query, text, frame.states, frame.scan) for query in frame.queries]

    # -- masks

    def mask(self) -> NDArray[np.int32]:
        """Return the tokens that may come next, int32 ``[vocabulary.words]``; wait for an answer that it depends on."""
        self._resolve()
        frame, words = self._frames[-1], self._inner.mask()
        live = self._restrictions.live()
        cut = self.monitored.crossing == "cut" and self._active[0] and not self.is_finished
        if not live and not frame.banned and not cut:
            return words
        words = words.copy()
        for restriction in live:
            words &= restriction.native.mask()
        if cut:
            words &= ~crossing_tokens(self.monitored.scanner, frame.scan, self.vocabulary)
        for token in frame.banned:
            words[token >> 5] &= ~np.int32(np.uint32(1 << (token & 31)).view(np.int32))
        words.setflags(write=False)
        return words

    def fill(self, out: NDArray[np.int32], row: int = 0) -> None:
        """Write the mask into row `row` of `out`, int32 ``[rows, words]``."""
        self._inner.fill(out, row)
        out[row, : self.vocabulary.words] = self.mask()

    def allowed_count(self) -> int:
        """Return how many tokens may come next; while an answer is awaited, how many without it."""
        if self.is_waiting or not (
            self._restrictions.live() or self._frames[-1].banned or not self._is_resolved
        ):
            return self._inner.allowed_count()
        return _count(self.mask())

    # -- reading

    def advance(self, token_id: int) -> bool:
        """Append a token; return False, and change nothing but later masks, if it is not allowed."""
        self._resolve()
        frame = self._frames[-1]
        if token_id in frame.banned or not self._inner.advance(token_id):
            return False
        length = len(self._frames)
        if not self._restrictions.advance(token_id, length):
            self._native.rollback(1)
            return False
        try:
            after = self._follow(frame, token_id, length)
        except BaseException:  # an invalid answer fails the text, which stays as it was
            self._undo_token(length)
            raise
        if after is None:
            self._undo_token(length)
            return self._refuse(frame, token_id)
        self._frames.append(after)
        self._is_resolved = not after.queries
        if after.queries and self._active[0]:
            try:
                self._request(after)
                is_dead = not self.is_waiting and not self._resolve()
            except BaseException:
                self.rollback(1)
                raise
            if is_dead:
                self.rollback(1)
                return self._refuse(frame, token_id)
        return True

    def _refuse(self, frame: _Frame, token: int) -> bool:
        frame.banned.add(token)
        self._report.refused += 1
        return False

    @property
    def report(self) -> MonitorReport:
        """What the monitors did so far."""
        return self._report

    @property
    def refused(self) -> Set[int]:
        """Tokens that were refused here, even if the mask allowed them."""
        return self._frames[-1].banned

    def _undo_token(self, length: int) -> None:
        """Remove the last token of a text of `length` tokens, which has no frame yet."""
        self._native.rollback(1)
        self._restrictions.rollback(length - 1)

    def _follow(self, frame: _Frame, token: int, length: int) -> _Frame | None:
        """Return the frame after a token that the constraint allows; None if a monitor refuses it."""
        scan, states = frame.scan, frame.states
        if token in self.vocabulary.eos_ids:
            return _Frame(scan, states)
        data = self.vocabulary.token_bytes(token) or b""
        text = self._native.text
        scanner, waiting = self.monitored.scanner, []
        for offset, byte in enumerate(data):
            before = scan
            scan, triggered, written = scanner.step(scan, byte)
            for name in written:
                states = self._committed(name.query, name.name, text, states, before)
            for query in triggered:
                rest = data[offset + 1 :]
                if not rest and query.place != CLOSE:
                    waiting.append(query)
                elif self._active[0]:
                    scan_at_trigger = before if query.place == CLOSE else scan
                    expression = self._ask(query, text, states, scan_at_trigger).expression()
                    if expression is not None and not self._restrict(expression, rest, length):
                        self._refuse_alike(frame, data[: offset + 1], expression)
                        return None
        return _Frame(scan, states, waiting)

    def _refuse_alike(self, frame: _Frame, head: bytes, expression: RE) -> None:
        """After several tokens with the same beginning were refused, refuse all others that would be."""
        frame.refusing[head] = frame.refusing.get(head, 0) + 1
        if frame.refusing[head] == _MAX_REFUSED_SINGLY:
            frame.banned |= refused_with(head, expression, self.vocabulary)

    def _restrict(self, expression: RE, rest: bytes, length: int) -> bool:
        """Put in force a language that begins before `rest`, the end of the text; return whether a text can follow."""
        return self._restrictions.add(expression, rest, self._native.text, length)

    def _committed(
        self, query: Query, name: bytes, text: bytes, states: tuple[Any, ...], scan: Scan
    ) -> tuple[Any, ...]:
        monitor = self.monitored.monitors[query.monitor]
        context = self.monitored.document.context(query, text, states[query.monitor], scan)
        try:
            after = monitor.committed(context, name.decode("utf-8", "replace"))
        except Exception as error:  # noqa: BLE001 — a monitor may raise anything
            self._report.failed(f"{type(error).__name__}: {error!s:.120}")
            return states
        return (*states[: query.monitor], after, *states[query.monitor + 1 :])

    def accepts(self, token_ids: Sequence[int]) -> int:
        """Return how many of these tokens can follow, in order, without advancing."""
        return accepted_by_steps(self, token_ids)

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens, and restore what was in force before them."""
        self._inner.rollback(n)
        if not n:
            return
        self._report.left, self._report.unchecked = (), self._judges
        del self._frames[len(self._frames) - n :]
        length = len(self._frames) - 1
        self._restrictions.rollback(length)
        # In fallback mode a trigger that was passed without a query is queried when the text returns to it.
        self._is_resolved = not self._frames[-1].queries or length not in self._not_queried
        self._not_queried = {number for number in self._not_queried if number <= length}

    def reset(self) -> None:
        """Return to the start of the text."""
        self.rollback(len(self._frames) - 1)

    def fork(self) -> MonitoredMatcher:
        """Return a matcher in the same state, which shares the answers, the report and the repairs."""
        other = object.__new__(MonitoredMatcher)
        other._inner = self._inner.fork()
        other._native = other._inner.native
        other.monitored, other._report, other._judges = self.monitored, self._report, self._judges
        other._active, other._repairs = self._active, self._repairs
        other._restrictions = self._restrictions.fork()
        other._frames = list(self._frames)
        other._is_resolved, other._not_queried = self._is_resolved, set(self._not_queried)
        other._search_failed = self._search_failed
        return other

    # -- forced text and completions

    def forced(self, most: int = 256) -> list[int]:
        """Return the run of tokens that are the only choice, up to the next answer that is awaited."""
        if self.is_waiting:
            return []
        self._resolve()
        if not self._restrictions.live() and not self._frames[-1].banned:
            tokens = self._native.forced(most)
            if not tokens:
                return []
        run: list[int] = []
        try:
            while len(run) < most:
                words = self.mask()
                if _count(words) != 1:
                    break
                token = int(np.unpackbits(words.view(np.uint8), bitorder="little").argmax())
                if not self.advance(token):
                    break
                run.append(token)
                if token in self.vocabulary.eos_ids or self.is_waiting:
                    break
        finally:
            if run:
                self.rollback(len(run))
        return run

    def forced_bytes(self, most: int = 4096) -> bytes:
        """Return the bytes that every continuation starts with; empty while an answer is awaited."""
        if self.is_waiting:
            return b""
        self._resolve()
        natives = [self._native, *(restriction.native for restriction in self._restrictions.live())]
        return max((native.forced_bytes(most) for native in natives), key=len)

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return tokens of a completion that monitors allow; None if the bounded search failed."""
        length = len(self._native.tokens)
        try:
            completion = self._find_completion(length, max_tokens)
            self._search_failed = completion is None
            return completion
        finally:
            self.rollback(len(self._native.tokens) - length)

    def _find_completion(self, length: int, most: int | None) -> list[int] | None:
        """Advance until the text is complete.

        The search follows short completions of what is in force; where a monitor refuses one, it takes another.
        """
        for _ in range(_MAX_SEARCH_STEPS):
            self._resolve()
            if self.is_complete():
                return self._native.tokens[length:]
            if most is not None and len(self._native.tokens) - length >= most:
                return None
            if not self._follow_native():
                return None
        return None

    def _follow_native(self) -> bool:
        """Read the next tokens of a short completion, at least one, up to the next trigger that constrains."""
        live = self._restrictions.live()
        for native in [*(restriction.native for restriction in live), self._native]:
            before = len(self._native.tokens)
            for token in native.witness_tokens() or ():
                if token in self.vocabulary.eos_ids or not self.advance(token):
                    break
                self._resolve()
                if len(self._restrictions.live()) != len(live) or self.is_complete():
                    break
            if len(self._native.tokens) > before:
                return True
        # Any other token will do; short ones first.
        others = np.flatnonzero(np.unpackbits(self.mask().view(np.uint8), bitorder="little"))[
            :_MAX_OTHER_TOKENS
        ]
        by_length = [
            (len(self.vocabulary.token_bytes(token) or b"?" * 99), token) for token in others.tolist()
        ]
        return any(
            self.advance(token) for _, token in sorted(by_length) if token not in self.vocabulary.eos_ids
        )

    @property
    def search_failure(self) -> str | None:
        """Why the last `witness` found no completion, as the end of a sentence; None if it found one."""
        if not self._search_failed:
            return None
        return (
            self._native.search_failure()
            or f"none was found in {_MAX_SEARCH_STEPS} attempts that all monitors agree with"
        )

    def witness_text(self, after: bytes = b"") -> bytes | None:
        """Return a short completion of the text so far, as bytes; None if none was found. `after` must be empty."""
        if after:
            raise CombinationError("a monitored constraint completes texts of tokens only")
        tokens = self.witness()
        return None if tokens is None else bytes(self.vocabulary.decode(tokens))

    def is_complete(self) -> bool:
        """Return whether the constraint and all suggestions in force let the text end here."""
        self._resolve()
        return self._inner.is_complete() and all(
            restriction.native.is_complete() for restriction in self._restrictions.live()
        )

    @property
    def must_stop(self) -> bool:
        """Whether the text is complete and nothing can follow; False while an answer is awaited."""
        if self.is_waiting:
            return False
        self._resolve()
        if not self.is_complete():
            return False
        return self.allowed_count() <= len(self.vocabulary.eos_ids)

    def captures(self) -> list[Capture]:
        """See `Matcher.captures`."""
        return self._inner.captures()

    def viable_bytes(self, text: str | bytes) -> int:
        """Raise, because monitors read tokens, not bytes."""
        raise CombinationError(
            "a monitored constraint reads tokens, not bytes",
            hint="Call this on the constraint without its monitors.",
        )

    def explain(self, text: str | bytes = b"") -> Explanation:
        """Raise, because answers of monitors are not explained."""
        raise CombinationError(
            "a monitored constraint cannot be explained", hint="Explain the constraint without its monitors."
        )

    # -- the finished text

    def is_right(self) -> bool:
        """Return whether no monitor finds a fault in the text if it ends here."""
        return not self.monitored.faults(self._native.text, self._report)

    def first_fault(self) -> int | None:
        """Return the number of the token in which the first fault to repair begins.

        Return None if the finished text has no fault, or no repair is left. In mode "fallback" monitors are queried
        from the first fault on.
        """
        monitored = self.monitored
        faults = monitored.faults(self._native.text, self._report)
        if not faults:
            self._report.left = ()
            return None
        self._report.left = tuple(fault.message for fault in faults)
        if self._repairs[0] >= monitored.repairs:
            return None
        text = self._native.text.decode("utf-8", "replace")
        placed = [fault.start for fault in faults if fault.start >= 0]
        last = len(self._native.tokens) - self.is_finished
        return self._token_at(len(text[: min(placed)].encode())) if placed else max(0, last - 1)

    def on_repair(self) -> None:
        """Called before the text is rolled back to the fault that `first_fault` returned."""
        self._repairs[0] += 1
        self._report.faults += 1
        self._active[0] = True

    def _token_at(self, offset: int) -> int:
        """Return the number of the token that holds a byte of the text."""
        before = len(self.monitored.document.before)
        for number, frame in enumerate(self._frames[1:]):
            if frame.scan.length - before > offset:
                return number
        return max(0, len(self._frames) - 2)


def _count(words: NDArray[np.int32]) -> int:
    return int(np.unpackbits(words.view(np.uint8)).sum(dtype=np.int64))
