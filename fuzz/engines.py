"""Requests as serving engines drive them, with random drafts; each answer is compared with a fresh reading.

    SequenceRequest   the operations themselves, in any order, with forks
    VllmRequest       draft, validate, one row for each position, accept some and a bonus token; reasoning before
    SglangRequest     trees of drafts, walked by accepting and rolling back; a jump over forced text; reasoning before

The drafts are those of EAGLE, MTP, n-grams and trees: mostly right tokens, wrong ones in between, ends of text inside,
tokens after the end, and padding.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from structgen.integrations.sglang.grammar import RequestGrammar as SglangGrammar
from structgen.integrations.vllm.grammar import RequestGrammar as VllmGrammar
from structgen.integrations.vllm.grammar import row_sequences
from structgen.integrations.vllm.metrics import MaskTimes
from structgen.serving.sequence import ConstrainedSequence, after_drafts, fill_rows

from .fresh import END_OF_REASONING, Case, Fresh
from .walking import Broken

__all__ = ["Request", "SequenceRequest", "SglangRequest", "VllmRequest"]

_MOST_DRAFTED = 6
_LONGEST = 48
"""The tokens of a text after which its request starts again: reading from the start takes that long."""


class Request:
    """One request; `step` does what an engine does in one step."""

    name = ""

    def __init__(self, case: Case, rng: random.Random) -> None:
        self.case = case
        self.rng = rng
        self.tokens: list[int] = []
        """The tokens of the constrained text."""
        self.steps = 0
        """Answers that were compared."""
        self.log: list[str] = []

    def step(self) -> None:
        """Do one step. Raises `Broken`."""
        raise NotImplementedError

    # -- comparisons

    def fresh(self, *more: int) -> Fresh:
        """Return a fresh reading of the text, followed by more tokens."""
        return Fresh(self.case, [*self.tokens, *more])

    def note(self, what: str) -> None:
        """Keep an operation for the report."""
        self.log.append(what)

    def check(self, invariant: str, found: Any, expected: Any) -> None:
        """Count an answer, and raise `Broken` if it is not the expected one."""
        self.steps += 1
        same = np.array_equal(found, expected) if isinstance(expected, np.ndarray) else found == expected
        if not same:
            shown = (
                "" if isinstance(expected, np.ndarray) else f"{found!r:.200} instead of {expected!r:.200}; "
            )
            raise Broken(
                f"{self.name}: {invariant}",
                f"{shown}{self.case}; text {self.tokens}; {'; '.join(self.log[-12:])}",
            )

    def check_row(self, sequence: ConstrainedSequence, expected: Fresh) -> None:
        """Compare the row of a sequence."""
        out = np.zeros((1, self.case.vocabulary.words), np.int32)
        sequence.fill(out, 0)
        self.check("a row is that of a fresh matcher", out[0], expected.row())

    # -- drafts

    def draft(self, most: int = _MOST_DRAFTED) -> list[int]:
        """Return draft tokens: mostly some that can follow, sometimes others."""
        rng, found = self.rng, list[int]()
        ahead = self.fresh()
        is_wrong = False
        for _ in range(rng.randint(0, most)):
            allowed = [] if is_wrong else ahead.allowed()
            if rng.random() < 0.12 or not allowed:
                token = rng.choice([rng.randrange(self.case.vocabulary.size), *self.case.ends])
            else:
                token = self.one_of(allowed)
            is_wrong = is_wrong or not ahead.reads(token)
            found.append(token)
        return found

    def one_of(self, allowed: Sequence[int]) -> int:
        """Return one of the tokens, the longer ones more often, an end of text less often."""
        some = [self.rng.choice(allowed) for _ in range(3)]
        return max(some, key=lambda token: len(self.case.vocabulary.token_bytes(token) or b""))


class SequenceRequest(Request):
    """Any operation at any time."""

    name = "sequence"

    def __init__(self, case: Case, rng: random.Random) -> None:
        super().__init__(case, rng)
        self.sequence = ConstrainedSequence(case.open(), case.stops)
        self._forks: list[tuple[ConstrainedSequence, list[int]]] = []

    def step(self) -> None:
        """Do one random operation."""
        if len(self.tokens) > _LONGEST:
            self._reset()
        match self.rng.randrange(10):
            case 0 | 1 | 2:
                for token in self.draft():
                    self._advance(token)
            case 3:
                drafts = self.draft()
                self.note(f"accepted {drafts}")
                self.check("validation", self.sequence.accepted(drafts), self.fresh().accepted(drafts))
            case 4 | 5:
                self._rollback(self.rng.randint(0, min(len(self.tokens), 9)))
            case 6:
                self._rows()
            case 7:
                self._fork()
            case 8 if self.rng.random() < 0.1:
                self._reset()
            case _:
                self.check_row(self.sequence, self.fresh())
        self.check("the end is known", self.sequence.is_ended, self.fresh().is_ended)

    def _advance(self, token: int) -> None:
        self.note(f"advance {token}")
        if self.sequence.failure is not None:  # no token can follow; the engine has ended the request
            self._rollback(min(1, len(self.tokens)))
            return
        read = self.fresh().reads(token)
        self.check("a token is accepted", self.sequence.advance(token), read)
        if read:
            self.tokens.append(token)

    def _rollback(self, count: int) -> None:
        self.note(f"rollback {count}")
        self.sequence.rollback(count)
        del self.tokens[len(self.tokens) - count :]
        self.check_row(self.sequence, self.fresh())

    def _rows(self) -> None:
        drafts = self.draft()
        self.note(f"rows of {drafts}")
        ahead = after_drafts(self.sequence, drafts)
        found: list[ConstrainedSequence | None] = [*ahead]
        found.insert(self.rng.randint(0, len(found)), None)
        out = np.zeros((len(found), self.case.vocabulary.words), np.int32)
        fill_rows(found, out, 2)
        count = 0
        for row, one in enumerate(found):
            if one is None:
                self.check("a row without a constraint allows everything", bool((out[row] == -1).all()), True)
                continue
            self.check(
                "a row of a batch is that of a fresh matcher", out[row], self.fresh(*drafts[:count]).row()
            )
            count += 1
        if self.sequence.failure is None:
            self.check("positions of drafts", len(ahead) - 1, self.fresh().accepted(drafts))

    def _fork(self) -> None:
        """Go on with a fork; a fork of earlier must still be where it was."""
        self._forks.append((self.sequence, list(self.tokens)))
        self.sequence = self.sequence.fork()
        if len(self._forks) > 3:
            earlier, tokens = self._forks.pop(self.rng.randrange(len(self._forks)))
            self.note(f"the fork after {tokens}")
            self.check_row(earlier, Fresh(self.case, tokens))
            if self.rng.random() < 0.5:
                self.sequence, self.tokens = earlier, tokens

    def _reset(self) -> None:
        self.note("reset")
        self.sequence.reset()
        self.tokens.clear()


class VllmRequest(Request):
    """A request of vLLM, with a reasoning parser for one end token."""

    name = "vLLM"

    def __init__(self, case: Case, rng: random.Random) -> None:
        super().__init__(case, rng)
        self.grammar = VllmGrammar(ConstrainedSequence(case.open(), case.stops), MaskTimes())
        self._end = case.vocabulary.specials[END_OF_REASONING]
        self._is_reasoning = rng.random() < 0.5

    def step(self) -> None:
        """Validate drafts, fill the rows, accept some of the drafts and a bonus token."""
        if len(self.tokens) > _LONGEST or self.fresh().is_ended or self.grammar.sequence.failure is not None:
            self._restart()
        drafts, start = self._drafts()
        self.note(f"drafts {drafts}, of which {start} are reasoning")
        valid = self.grammar.validate_tokens(drafts[start:])
        self.check("validation", len(valid), self.fresh().accepted(drafts[start:]))
        drafts = drafts[:start] + (valid if self.rng.random() < 0.9 else drafts[start:])
        drafts = drafts[: self.rng.randint(0, len(drafts))] if self.rng.random() < 0.2 else drafts
        start = min(start, len(drafts) + 1) if self._is_reasoning else 0
        if self._is_reasoning and self._end not in drafts:
            start = len(drafts) + 1
        rows = self._rows(drafts, start)
        self._accept(drafts, start, rows)

    def _restart(self) -> None:
        self.grammar.reset()
        self.tokens.clear()
        self._is_reasoning = self.rng.random() < 0.5

    def _drafts(self) -> tuple[list[int], int]:
        """Return drafts, and how many of them come before the constrained text."""
        if not self._is_reasoning:
            return self.draft(), 0
        size = self.case.vocabulary.size
        thoughts = [
            token
            for token in (self.rng.randrange(size) for _ in range(self.rng.randint(0, 3)))
            if token != self._end
        ]
        if self.rng.random() < 0.5:
            return thoughts, len(thoughts) + 1
        return [*thoughts, self._end, *self.draft(4)], len(thoughts) + 1

    def _expected(self, drafts: Sequence[int], start: int) -> list[Fresh | None]:
        """Return a fresh reading for each row; None for one that allows everything, or that nothing is drawn from."""
        found: list[Fresh | None] = [None] * min(start, len(drafts) + 1)
        for row in range(start, len(drafts) + 1):
            before = drafts[start:row]
            fits = self.fresh().accepted(before) == len(before)
            found.append(self.fresh(*before) if fits else None)
        return found

    def _rows(self, drafts: list[int], start: int) -> list[Fresh | None]:
        expected = self._expected(drafts, start)
        padded = drafts + [-1] * self.rng.randint(0, 2)
        words = self.case.vocabulary.words
        if self.rng.random() < 0.3:
            out = self._rows_one_by_one(drafts, start)
        else:
            sequences, sources = row_sequences(self.grammar.sequence, padded, start, start)
            out = np.zeros((len(sequences), words), np.int32)
            fill_rows(sequences, out, 1)
            out = out[sources]
            self.check("rows of a batch", len(out), len(padded) + 1)
        for row, fresh in enumerate(expected):
            if fresh is not None:
                self.check("the row of a draft position", out[row], fresh.row())
            elif row < start:
                self.check("rows of reasoning allow everything", bool((out[row] == -1).all()), True)
        return expected

    def _rows_one_by_one(self, drafts: list[int], start: int) -> Any:
        """Fill the rows as vLLM's own code does: advance by each draft token, and roll back."""
        masks = torch.zeros((len(drafts) + 1, self.case.vocabulary.words), dtype=torch.int32)
        advanced, is_refused = 0, False
        for row in range(len(drafts) + 1):
            if row < start or self.grammar.is_terminated():
                masks[row] = -1
            else:
                self.grammar.fill_bitmask(masks, row)
            if start <= row < len(drafts) and not is_refused:
                is_refused = self.grammar.is_terminated() or not self.grammar.accept_tokens("", [drafts[row]])
                advanced += not is_refused
        self.grammar.rollback(advanced)
        return masks.numpy()

    def _accept(self, drafts: list[int], start: int, rows: list[Fresh | None]) -> None:
        """The model accepts some of the drafts, and draws one more token from the row after them."""
        count = self.rng.randint(0, len(drafts))
        while count > start and rows[count] is None:
            count -= 1
        new = drafts[:count]
        fresh = rows[count]
        if fresh is None:  # still reasoning, or the row after it
            new = [*new, self.rng.choice([token for token in range(256) if token != self._end])]
        elif not fresh.is_ended:
            allowed = fresh.allowed()
            if not allowed:
                self._restart()
                return
            new = [*new, self.one_of(allowed)]
        text = new[start:]
        if self._is_reasoning and start > len(new):
            return
        self._is_reasoning = False
        self.note(f"accept {new}")
        self.check("generated tokens are accepted", self.grammar.accept_tokens("", text), True)
        self.tokens += text
        self.check("the end is known", self.grammar.is_terminated(), self.fresh().is_ended)


class SglangRequest(Request):
    """A request of SGLang, with a wrapper that keeps reasoning from the grammar."""

    name = "SGLang"

    def __init__(self, case: Case, rng: random.Random) -> None:
        super().__init__(case, rng)
        self.grammar = SglangGrammar(ConstrainedSequence(case.open(), case.stops))

    def step(self) -> None:
        """Walk a tree of drafts, then accept one path of it and one more token."""
        if len(self.tokens) > _LONGEST or self.fresh().is_ended or self.grammar.sequence.failure is not None:
            self.grammar.sequence.reset()
            self.tokens.clear()
        if self.rng.random() < 0.1:
            self._copy()
        if self.rng.random() < 0.1:
            self._jump()
            return
        self._walk([], depth=0)
        self.check(
            "walking a tree changes nothing",
            self.grammar.sequence.matcher.tokens,
            [t for t in self.tokens if t not in self.case.ends],
        )
        run = self.draft()
        self.note(f"accept {run}")
        for token in run:
            if (
                self.grammar.sequence.failure is not None
                or not self._accept(token)
                or self.grammar.is_terminated()
            ):
                break

    def _walk(self, path: list[int], depth: int) -> None:
        """Fill the row after the path, and walk those of its children that it allows."""
        fresh = self.fresh(*path)
        mask = torch.zeros((2, self.case.vocabulary.words), dtype=torch.int32)
        self.grammar.fill_vocab_mask(mask, 1)
        if self.grammar.sequence.failure is not None:
            self.check("a sequence fails where nothing can follow", fresh.allowed(), [])
            return
        row = mask[1].numpy()
        self.check("the row of a node", row, fresh.row())
        if depth == 4:
            return
        children = self.draft(1) + [
            self.one_of(fresh.allowed()) for _ in range(self.rng.randint(0, 2 if depth < 2 else 1))
        ]
        for child in dict.fromkeys(children):
            if not row[child >> 5] >> (child & 31) & 1:
                continue
            self.note(f"node {[*path, child]}")
            self.grammar.accept_token(child)
            ended = self.fresh(*path, child).is_ended
            self.check("the end is known", self.grammar.is_terminated(), ended)
            if not ended:
                self._walk([*path, child], depth + 1)
            self.grammar.rollback(1)

    def _accept(self, token: int) -> bool:
        read = self.fresh().reads(token)
        try:
            self.grammar.accept_token(token)
            accepted = True
        except ValueError:
            accepted = False
        self.check("a token is accepted", accepted, read)
        if read:
            self.tokens.append(token)
        return read

    def _copy(self) -> None:
        """Go on with a copy; the original goes elsewhere."""
        other = SglangGrammar(self.grammar.sequence.fork())
        allowed = self.fresh().allowed()
        if allowed:
            self.grammar.accept_token(self.rng.choice(allowed))
        self.grammar = other

    def _jump(self) -> None:
        """Jump over forced text, and replace the last tokens by other ones of the same text."""
        helper = self.grammar.try_jump_forward(None)
        if helper is None:
            return
        text, _ = self.grammar.jump_forward_str_state(helper)
        new = [*self.tokens, *self._spelled(text.encode())]
        self.note(f"jump {text!r} to {new}")
        if any(token in self.case.ends for token in new):
            return  # a stop token spells a part of it
        self.grammar.jump_and_retokenize(list(self.tokens), new, -1)
        self.tokens = new
        self.check_row(self.grammar.sequence, self.fresh())

    def _spelled(self, text: bytes) -> list[int]:
        """Return a token for each byte."""
        ids = {self.case.vocabulary.token_bytes(token): token for token in range(self.case.vocabulary.size)}
        return [ids[bytes([byte])] for byte in text]
