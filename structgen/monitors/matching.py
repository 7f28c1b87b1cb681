"""A constraint and monitors being matched: tokens in, masks out.

Why: samplers know one thing, a matcher; this one asks the world while the text grows.
What: the constraint's own matcher, the languages that suggestions put in force (`Restriction`), and a scanner that
finds the places to ask at, in the middle of tokens, too. A token that goes on behind such a place is allowed by the
mask and judged when it is read ("check"), or not allowed at all ("cut").
Invariant: a token that ``advance`` refuses is in no later mask of the same text, so to draw again without it is to draw
from the law of what is allowed; rolling back brings back what was in force; forks share what was found out.
Cost: away from triggers that of the constraint's own matcher, and microseconds for each byte that is read.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen import _core
from structgen.constraints.expressions import RE, TEXT
from structgen.errors import CombinationError
from structgen.matcher import Matcher, accepted_by_steps
from structgen.protocols import JudgingMatcher
from structgen.vocabulary import Vocabulary

from .alike import refused_with
from .asking import Answer, MonitorReport
from .crossing import crossing_tokens
from .lexer import CLOSE
from .restrictions import Restriction, joint_matcher, restriction
from .scanning import Asking, Scan

if TYPE_CHECKING:
    from structgen.captures import Capture
    from structgen.explanation import Explanation

    from .constraint import Monitored

__all__ = ["MonitoredMatcher"]


_ALIKE = 4
"""Tokens that are refused one by one, behind the same bytes."""
_JOINED = 4_096
"""Bytes of a text up to which what is in force is looked at together with the constraint."""


_SEARCHED, _OTHERS = 64, 2_000
"""Steps of the search for a completion, and tokens that are tried where no native completion goes on."""


class _Frame:
    """What is known behind one token; shared by forks, as it is a function of the text."""

    __slots__ = ("answers", "asking", "banned", "refusing", "rests", "scan", "states")

    def __init__(
        self, scan: Scan, states: tuple[Any, ...], asking: Sequence[Asking] = (), rests: Sequence[bytes] = ()
    ) -> None:
        self.scan = scan
        self.states = states
        self.asking = tuple(asking)
        """Places that begin right here."""
        self.rests = rests or (b"",) * len(asking)
        """What was written behind each of them; of a document that ends in the middle of a name."""
        self.answers: list[Answer] | None = None
        """Of them, once they were asked."""
        self.banned: set[int] = set()
        """Tokens that were read from here and refused."""
        self.refusing: dict[bytes, int] = {}
        """How many were refused for what follows these bytes of them."""


class MonitoredMatcher(JudgingMatcher):
    """The matcher of `structgen.monitored` and `structgen.code`; `structgen.matcher.open_matcher` makes it.

    Unlike `structgen.Matcher`, ``advance`` may refuse a token that the last mask allowed. Later masks exclude it.
    """

    __slots__ = (
        "_active",
        "_frames",
        "_inner",
        "_judges",
        "_native",
        "_passed",
        "_repairs",
        "_report",
        "_restrictions",
        "_search_failed",
        "_settled",
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
        self._restrictions: list[Restriction] = []
        scan, states, failures = constraint.beginning
        for cause in failures:
            self._report.failed(cause)
        asking = [one for one, _ in scan.awaited]
        rests = [constraint.document.before[one.offset :] for one in asking]
        self._frames = [_Frame(scan, states, asking, rests)]
        self._settled = not asking
        self._search_failed = False  # the last search for a completion
        self._passed: set[int] = set()
        """Tokens behind which places were passed unasked."""

    # -- what the constraint alone decides

    @property
    def constraint(self) -> Monitored:
        """The constraint with its monitors."""
        return self.monitored

    @property
    def vocabulary(self) -> Vocabulary:
        return self._inner.vocabulary

    @property
    def native(self) -> _core.Matcher:
        return self._native

    @property
    def mask_is_native(self) -> bool:
        return False

    @property
    def spells_specials(self) -> bool:
        return self.monitored.spells_specials

    @property
    def sets_temperature(self) -> bool:
        return self._inner.sets_temperature

    @property
    def temperature(self) -> float | None:
        return self._inner.temperature

    @property
    def judge(self) -> JudgingMatcher:
        return self

    @property
    def tokens(self) -> list[int]:
        return self._native.tokens

    @property
    def text(self) -> bytes:
        return self._native.text

    @property
    def is_finished(self) -> bool:
        return self._native.is_finished

    @property
    def names_text_tokens(self) -> bool:
        return self._inner.names_text_tokens

    def least_tokens(self, room: int) -> int | None:
        return self._inner.least_tokens(room)

    # -- asking

    @property
    def is_waiting(self) -> bool:
        """Is the mask not known yet, for an answer that has not come?"""
        if self._settled:
            return False
        answers = self._frames[-1].answers
        return answers is not None and not all(answer.is_known for answer in answers)

    def _ask(self, asking: Asking, text: bytes, states: tuple[Any, ...], scan: Scan) -> Answer:
        monitored = self.monitored
        context = monitored.document.context(asking, text, states[asking.monitor], scan)
        return monitored.asker.ask(asking.monitor, monitored.monitors[asking.monitor], context, self._report)

    def _settle(self) -> bool:
        """Put in force what was asked for at the end of the text; False where nothing may come there."""
        if self._settled:
            return True
        frame = self._frames[-1]
        if self._active[0] and frame.answers is None:
            self._request(frame)
        length, is_alive = len(self._frames) - 1, True
        known = list(self._restrictions)
        try:
            for answer, rest in zip(frame.answers or (), frame.rests, strict=False):
                expression = answer.expression()
                # What the document begins with is not to be judged.
                if expression is not None and not self._restrict(expression, rest, length) and not rest:
                    self._restrictions.append(_nothing(self.vocabulary, length))
                    is_alive = False
        except BaseException:  # an answer that is none: the place is not settled, however often one looks
            self._restrictions = known
            raise
        self._settled = True
        if frame.answers is None:
            self._passed.add(length)
        else:
            self._passed.discard(length)
        return is_alive

    def _request(self, frame: _Frame) -> None:
        text = self._native.text
        frame.answers = [self._ask(one, text, frame.states, frame.scan) for one in frame.asking]

    def _live(self) -> list[Restriction]:
        return [one for one in self._restrictions if one.end is None]

    # -- masks

    def mask(self) -> NDArray[np.int32]:
        self._settle()
        frame, words = self._frames[-1], self._inner.mask()
        live = self._live()
        cut = self.monitored.crossing == "cut" and self._active[0] and not self.is_finished
        if not live and not frame.banned and not cut:
            return words
        words = words.copy()
        for one in live:
            words &= one.native.mask()
        if cut:
            words &= ~crossing_tokens(self.monitored.scanner, frame.scan, self.vocabulary)
        for token in frame.banned:
            words[token >> 5] &= ~np.int32(np.uint32(1 << (token & 31)).view(np.int32))
        words.setflags(write=False)
        return words

    def fill(self, out: NDArray[np.int32], row: int = 0) -> None:
        self._inner.fill(out, row)
        out[row, : self.vocabulary.words] = self.mask()

    def allowed_count(self) -> int:
        """Return how many tokens may come next; while an answer is awaited, how many if it leaves the text free."""
        if self.is_waiting or not (self._live() or self._frames[-1].banned or not self._settled):
            return self._inner.allowed_count()
        return _count(self.mask())

    # -- reading

    def advance(self, token_id: int) -> bool:
        self._settle()
        frame = self._frames[-1]
        if token_id in frame.banned or not self._inner.advance(token_id):
            return False
        length = len(self._frames)
        read: list[Restriction] = []
        for one in self._live():
            if not one.advance(token_id, length):
                self._undo(read, length - 1)
                return False
            read.append(one)
        try:
            after = self._follow(frame, token_id, length)
        except BaseException:  # a monitor that says nonsense fails the text, which stays as it was
            self._undo(read, length - 1)
            raise
        if after is None:
            self._undo(read, length - 1)
            return self._refuse(frame, token_id)
        self._frames.append(after)
        self._settled = not after.asking
        if after.asking and self._active[0]:
            try:
                self._request(after)
                is_dead = not self.is_waiting and not self._settle()
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
        """Tokens that were refused here, whatever the mask said."""
        return self._frames[-1].banned

    def _undo(self, read: list[Restriction], length: int) -> None:
        self._native.rollback(1)
        for one in read:
            one.rollback(length)
        self._restrictions = [one for one in self._restrictions if one.start <= length]

    def _follow(self, frame: _Frame, token: int, length: int) -> _Frame | None:
        """Return the frame behind a token that the constraint allows; None where a monitor refuses it."""
        scan, states = frame.scan, frame.states
        if token in self.vocabulary.eos_ids:
            return _Frame(scan, states)
        data = self.vocabulary.token_bytes(token) or b""
        text = self._native.text
        scanner, waiting = self.monitored.scanner, []
        for place, byte in enumerate(data):
            before = scan
            scan, asked, written = scanner.step(scan, byte)
            for one in written:
                states = self._committed(one.asking, one.name, text, states, before)
            for asking in asked:
                rest = data[place + 1 :]
                if not rest and asking.place != CLOSE:
                    waiting.append(asking)
                elif self._active[0]:
                    at = before if asking.place == CLOSE else scan
                    expression = self._ask(asking, text, states, at).expression()
                    if expression is not None and not self._restrict(expression, rest, length):
                        self._refuse_alike(frame, data[: place + 1], expression)
                        return None
        return _Frame(scan, states, waiting)

    def _refuse_alike(self, frame: _Frame, head: bytes, expression: RE) -> None:
        """Where several tokens were refused for what follows the same beginning, refuse all that would be."""
        frame.refusing[head] = frame.refusing.get(head, 0) + 1
        if frame.refusing[head] == _ALIKE:
            frame.banned |= refused_with(head, expression, self.vocabulary)

    def _restrict(self, expression: RE, rest: bytes, length: int) -> bool:
        """Put in force what begins before `rest`, the end of the text; False where nothing goes on so."""
        begun = restriction(expression, rest, length, self.vocabulary)
        if begun is None:
            return False
        text = self._native.text
        offset = len(text) - len(rest)
        if begun.end is None and offset >= 0 and len(text) <= _JOINED:
            begun.part = offset, expression
            parts = [one.part for one in (*self._live(), begun) if one.part is not None]
            base = self.monitored.joined
            # Each alone may go on where all together cannot: such a dead end is known at once.
            if base is not None or len(parts) > 1:
                joint = joint_matcher(TEXT if base is None else base, parts, text, self.vocabulary)
                if joint is None:
                    return False
                begun.join(joint)
        self._restrictions.append(begun)
        return True

    def _committed(
        self, asking: Asking, name: bytes, text: bytes, states: tuple[Any, ...], scan: Scan
    ) -> tuple[Any, ...]:
        monitor = self.monitored.monitors[asking.monitor]
        context = self.monitored.document.context(asking, text, states[asking.monitor], scan)
        try:
            after = monitor.committed(context, name.decode("utf-8", "replace"))
        except Exception as error:
            self._report.failed(f"{type(error).__name__}: {error!s:.120}")
            return states
        return (*states[: asking.monitor], after, *states[asking.monitor + 1 :])

    def accepts(self, token_ids: Sequence[int]) -> int:
        return accepted_by_steps(self, token_ids)

    def rollback(self, n: int) -> None:
        self._inner.rollback(n)
        if not n:
            return
        self._report.left, self._report.unchecked = (), self._judges
        del self._frames[len(self._frames) - n :]
        length = len(self._frames) - 1
        self._restrictions = [one for one in self._restrictions if one.start <= length]
        for one in self._restrictions:
            one.rollback(length)
        # In fallback mode a place that was passed unasked is asked when the text comes back to it.
        self._settled = not self._frames[-1].asking or length not in self._passed
        self._passed = {place for place in self._passed if place <= length}

    def reset(self) -> None:
        self.rollback(len(self._frames) - 1)

    def fork(self) -> MonitoredMatcher:
        other = object.__new__(MonitoredMatcher)
        other._inner = self._inner.fork()
        other._native = other._inner.native
        other.monitored, other._report, other._judges = self.monitored, self._report, self._judges
        other._active, other._repairs = self._active, self._repairs
        other._restrictions = [one.fork() for one in self._restrictions]
        other._frames = list(self._frames)
        other._settled, other._passed = self._settled, set(self._passed)
        other._search_failed = self._search_failed
        return other

    # -- what follows for certain

    def forced(self, most: int = 256) -> list[int]:
        if self.is_waiting:
            return []
        self._settle()
        if not self._live() and not self._frames[-1].banned:
            tokens = self._native.forced(most)
            if not tokens:
                return []
        found: list[int] = []
        try:
            while len(found) < most:
                words = self.mask()
                if _count(words) != 1:
                    break
                token = int(np.unpackbits(words.view(np.uint8), bitorder="little").argmax())
                if not self.advance(token):
                    break
                found.append(token)
                if token in self.vocabulary.eos_ids or self.is_waiting:
                    break
        finally:
            if found:
                self.rollback(len(found))
        return found

    def forced_bytes(self, most: int = 4096) -> bytes:
        if self.is_waiting:
            return b""
        self._settle()
        natives = [self._native, *(one.native for one in self._live())]
        return max((native.forced_bytes(most) for native in natives), key=len)

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Tokens of a completion that monitors agree with; None where the search, which is bounded, found none."""
        length = len(self._native.tokens)
        try:
            found = self._completed(length, max_tokens)
            self._search_failed = found is None
            return found
        finally:
            self.rollback(len(self._native.tokens) - length)

    def _completed(self, length: int, most: int | None) -> list[int] | None:
        """Read on until the text is complete: along short completions of what is in force, and where a monitor objects
        along another."""
        for _ in range(_SEARCHED):
            self._settle()
            if self.is_complete():
                return self._native.tokens[length:]
            if most is not None and len(self._native.tokens) - length >= most:
                return None
            if not self._follow_native():
                return None
        return None

    def _follow_native(self) -> bool:
        """Read the next tokens of some short completion, one at least, up to where something comes into force."""
        live = self._live()
        for native in [*(one.native for one in live), self._native]:
            before = len(self._native.tokens)
            for token in native.witness_tokens() or ():
                if token in self.vocabulary.eos_ids or not self.advance(token):
                    break
                self._settle()
                if len(self._live()) != len(live) or self.is_complete():
                    break
            if len(self._native.tokens) > before:
                return True
        # Any other token will do, a short one rather.
        others = np.flatnonzero(np.unpackbits(self.mask().view(np.uint8), bitorder="little"))[:_OTHERS]
        texts = [(len(self.vocabulary.token_bytes(int(one)) or b"?" * 99), int(one)) for one in others]
        return any(self.advance(one) for _, one in sorted(texts) if one not in self.vocabulary.eos_ids)

    @property
    def search_failure(self) -> str | None:
        if not self._search_failed:
            return None
        return (
            self._native.search_failure()
            or f"none was found in {_SEARCHED} attempts that all monitors agree with"
        )

    def witness_text(self, after: bytes = b"") -> bytes | None:
        if after:
            raise CombinationError("a monitored constraint completes texts of tokens only")
        tokens = self.witness()
        return None if tokens is None else bytes(self.vocabulary.decode(tokens))

    def is_complete(self) -> bool:
        self._settle()
        return self._inner.is_complete() and all(one.native.is_complete() for one in self._live())

    @property
    def must_stop(self) -> bool:
        if self.is_waiting:
            return False
        self._settle()
        if not self.is_complete():
            return False
        return self.allowed_count() <= len(self.vocabulary.eos_ids)

    def captures(self) -> list[Capture]:
        """See `Matcher.captures`."""
        return self._inner.captures()

    def viable_bytes(self, text: str | bytes) -> int:
        raise CombinationError(
            "a monitored constraint reads tokens, not bytes", hint="Ask the constraint without its monitors."
        )

    def explain(self, text: str | bytes = b"") -> Explanation:
        raise CombinationError(
            "a monitored constraint cannot be explained", hint="Explain the constraint without its monitors."
        )

    # -- the finished text

    def is_right(self) -> bool:
        """Does no monitor find a fault in the text, if it ends here?"""
        return not self.monitored.faults(self._native.text, self._report)

    def first_fault(self) -> int | None:
        """Return where the finished text has a fault that is to be written anew: the number of the token it begins in.

        None where it has none, or as many were repaired as may be; in mode "fallback" monitors are asked from the first
        fault on.
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
        """Return the token that holds a byte of the text."""
        before = len(self.monitored.document.before)
        for number, frame in enumerate(self._frames[1:]):
            if frame.scan.length - before > offset:
                return number
        return max(0, len(self._frames) - 2)


def _count(words: NDArray[np.int32]) -> int:
    return int(np.unpackbits(words.view(np.uint8)).sum(dtype=np.int64))


def _nothing(vocabulary: Vocabulary, start: int) -> Restriction:
    """Return what allows no token: a suggestion that no token can spell."""
    native = _core.Matcher(vocabulary.engine.compile(("regex", ("empty",))))
    return Restriction(native, start)
