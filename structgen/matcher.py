"""Tokens in, masks out: one constraint on one sequence.

Why: everything that draws text (samplers, beams, drafts, serving plugins) needs the same five things of a
constraint: which tokens may come next, move on, move back, branch, and is the text complete.
What: `Matcher` is a stack of automaton states, one a token; rolling back pops, a fork shares the states.
Invariant: ``mask()`` allows a token iff ``advance`` takes it; a refused token changes nothing; EOS ids are
allowed iff the text is complete.
Cost: a mask that was met before is a look-up; a fork is a copy of the stack's handles.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen import _core
from structgen.brief import cut
from structgen.constraints.base import IR, NO_SCHEMA, Constraint, constraint_of
from structgen.constraints.failures import empty_constraint, limit_exceeded, translate_limits
from structgen.errors import (
    EmptyConstraint,
    OptionError,
    TemperatureNotApplied,
    UnsatisfiableSchema,
    VocabularyMismatch,
    a_kind,
    with_kind,
)
from structgen.protocols import JudgingMatcher, TextMatcher
from structgen.vocabulary import Vocabulary

from .captures import Capture, captures_of
from .explanation import Explanation, explain_account, stop_of, texts_to_test

__all__ = [
    "Matcher",
    "accepted_by_steps",
    "compile_constraint",
    "fill_masks",
    "open_matcher",
    "warn_of_temperatures",
]

_PROGRAMS_PER_VOCABULARY = 64
_MASK_BYTES_PER_VOCABULARY = 12 << 20
"""Memory of masks, of all programs on a vocabulary, past which the programs used longest ago are let go."""
_PROGRAM_BYTES_PER_VOCABULARY = 256 << 20
"""The same for what the programs have made, the newest apart: a search can leave hundreds of megabytes behind."""
_LOOK_EVERY = 8
"""The memory of the programs is added up for each eighth new one, as it takes as long as a small schema,"""
_LOOK_AFTER = 8 << 20
"""and where the memory of the vocabulary's space has changed by so many bytes since the last time."""
_LET_GO_AT_ONCE = 4
_NAMED = 8
"""Characters that an error lists."""


class _Programs(dict[Constraint, _core.Program]):
    """The programs of a vocabulary; the one used last comes last.

    Threads share it without a lock: each change is one step, as each copy is. Not an `OrderedDict`, which hashes all
    constraints to go through the programs.
    """

    made = 0
    """How many were put in. Threads may count at once, so it can be less."""
    space_memory = 0
    """What the vocabulary's space held when the programs' memory was last added up, in bytes."""

    def evict(self) -> None:
        """Remove the programs used longest ago, until the others hold `_PROGRAM_BYTES_PER_VOCABULARY` at most."""
        held = sum(one.memory for one in list(self.values()))
        for oldest in list(self) if held > _PROGRAM_BYTES_PER_VOCABULARY else ():
            gone = self.pop(oldest, None)
            held -= gone.memory if gone is not None else 0
            if held <= _PROGRAM_BYTES_PER_VOCABULARY:
                break


_programs: weakref.WeakKeyDictionary[Vocabulary, _Programs] = weakref.WeakKeyDictionary()


def compile_constraint(constraint: Any, vocabulary: Vocabulary) -> _core.Program:
    """The automaton of a constraint or a type over `vocabulary`, from a bounded cache (least recently used goes first).

    Raises `UnsatisfiableSchema` or `EmptyConstraint` where no text can satisfy it, `LimitExceeded` where a
    limit of the core is met.
    """
    constraint = constraint_of(constraint)
    known = _programs.setdefault(vocabulary, _Programs())
    program = known.get(constraint)
    if program is not None:
        known[constraint] = known.pop(constraint, program)
        return program
    try:
        program = vocabulary.engine.compile(constraint.lower())
        parts = program.empty_parts()
    except _core.LimitError as error:
        raise limit_exceeded(error, constraint.describe()) from None
    if parts is not None:
        raise _unspelled(constraint, vocabulary, parts) or empty_constraint(
            constraint, parts, lambda ir: vocabulary.engine.compile(ir).empty_parts() is not None
        )
    known.made += 1
    if known.made % _LOOK_EVERY == 0 or abs(vocabulary.engine.memory - known.space_memory) > _LOOK_AFTER:
        known.evict()
        known.space_memory = vocabulary.engine.memory
    known[constraint] = program
    # A program in use keeps its masks anyway, so a few at a time are let go.
    for oldest in list(known)[:_LET_GO_AT_ONCE]:
        if len(known) > _PROGRAMS_PER_VOCABULARY or (
            len(known) > 1 and vocabulary.engine.mask_memory > _MASK_BYTES_PER_VOCABULARY
        ):
            known.pop(oldest, None)
    return program


def _unspelled(
    constraint: Constraint, vocabulary: Vocabulary, parts: Sequence[str]
) -> EmptyConstraint | UnsatisfiableSchema | None:
    """The error where only the vocabulary is to blame: it names the characters that no token spells."""
    if vocabulary.spells_all_bytes:
        return None
    complete = Vocabulary.of_bytes(vocabulary.specials)
    try:
        program = complete.engine.compile(constraint.lower())
        tokens = None if program.empty_parts() is not None else _core.Matcher(program).witness_tokens()
    except (_core.LimitError, VocabularyMismatch):  # the latter where it names tokens of this vocabulary
        return None
    if tokens is None:
        return None
    text = complete.decode(tokens).decode("utf-8", "replace")
    missing = set(vocabulary.native.missing_bytes())
    unspelled = [character for character in dict.fromkeys(text) if missing.intersection(character.encode())]
    if unspelled:
        named = ", ".join(map(repr, unspelled[:_NAMED]))
        why = f"no token spells {named}{', ...' if len(unspelled) > _NAMED else ''}"
    else:
        why = "its tokens cannot be put together to one"
    message = (
        f"no text that the vocabulary can spell satisfies {constraint.describe()}: {why}, as in {text!r:.80}"
    )
    hint = "Use a tokenizer whose tokens spell these characters, or a constraint that does without them."
    if parts:
        return UnsatisfiableSchema(message, pointer=parts[0] or "#", hint=hint)
    return EmptyConstraint(message, hint=hint)


_limited = translate_limits()


class Matcher:
    """A constraint being matched.

    `mask` and `fill` give int32 words, least significant bit first, a set bit means allowed: the layout that
    serving engines expect. One thread at a time may use a matcher: a second one gets `ConcurrentUse`. Different
    matchers may be used at once, forks of one matcher among them.
    """

    __slots__ = ("_native", "_program", "constraint", "vocabulary")

    def __new__(cls, constraint: Any, vocabulary: Vocabulary) -> Matcher:
        # A constraint may be more than an automaton; then it names the subclass that matches it.
        named = constraint_of(constraint).matcher_class() if cls is Matcher else None
        return object.__new__(cls if named is None or not issubclass(named, Matcher) else named)

    def __init__(self, constraint: Any, vocabulary: Vocabulary) -> None:
        """Open the constraint, or that of a type, at the beginning of a text.

        Raises:
            TypeNotSupported: `constraint` is neither a constraint nor a type.
            EmptyConstraint: no text satisfies it that the vocabulary can spell.
        """
        _check_vocabulary(vocabulary)
        self.constraint = constraint_of(constraint)
        self.vocabulary = vocabulary
        self._program = compile_constraint(self.constraint, vocabulary)
        self._native = _core.Matcher(self._program)

    def __repr__(self) -> str:
        return cut(
            f"<Matcher of {cut(repr(self.constraint), 150)}{', finished' if self.is_finished else ''}>"
        )

    @classmethod
    def of_program(cls, constraint: Constraint, vocabulary: Vocabulary, program: _core.Program) -> Matcher:
        """A matcher of a constraint that is compiled already, over this vocabulary."""
        made = object.__new__(cls)
        made.constraint = constraint
        made.vocabulary = vocabulary
        made._program = program
        made._native = _core.Matcher(program)
        return made

    @property
    def spells_specials(self) -> bool:
        """Whether the text of a result names its special tokens, because the constraint reads them there."""
        return self.constraint.spells_specials

    @property
    def is_waiting(self) -> bool:
        """Always False: the mask depends on nothing but the text."""
        return False

    @property
    def judge(self) -> JudgingMatcher | None:
        """None: no monitor refuses a token that the mask allows."""
        return None

    @property
    def native(self) -> _core.Matcher:
        """The core's matcher, for integrations that fill masks themselves."""
        return self._native

    @property
    def mask_is_native(self) -> bool:
        """Whether the core's matcher computes the whole mask, so that `fill_masks` need not call `fill`."""
        return True

    def mask(self) -> NDArray[np.int32]:
        """The tokens that may come next, shape ``[vocabulary.words]``; read-only and shared."""
        try:
            return self._native.mask()
        except _core.LimitError as error:
            raise limit_exceeded(error) from None

    @_limited
    def fill(self, out: NDArray[np.int32], row: int = 0) -> None:
        """Write the mask into row `row` of `out`, shape ``[rows, words]``."""
        _check_bitmask(out, self.vocabulary.words)
        self._native.fill(out, row)

    @_limited
    def lexemes(self) -> list[list[int]]:
        """The terminals that a grammar's text is made of, by number, for each place that it may stand at.

        A place is where the parser stands if nothing more is read into the last lexeme; mostly there is one, and none
        in the middle of a lexeme that cannot end there. Of constraints that are no grammar there are none.
        """
        return self._native.lexemes()

    @_limited
    def beginning(self, place: int, terminal: int) -> NDArray[np.int32]:
        """The tokens that begin a lexeme of `terminal` at a place of `lexemes`, shape ``[vocabulary.words]``."""
        return self._native.beginning(place, terminal)

    @_limited
    def allowed_count(self) -> int:
        """How many tokens may come next."""
        return self._native.allowed_count()

    def advance(self, token_id: int) -> bool:
        """Read a token; False, and nothing changed, where it is not allowed. EOS finishes the sequence."""
        try:
            return self._native.advance(token_id)
        except _core.LimitError as error:
            raise limit_exceeded(error) from None
        except TypeError:
            raise OptionError(
                f"{token_id!r:.40} is no token",
                hint="Tokens are whole numbers from 0 on: tokenizer.encode(text).",
            ) from None

    @_limited
    def accepts(self, token_ids: Sequence[int]) -> int:
        """How many of these tokens can follow, in order. Does not advance."""
        return self._native.accepts(token_ids)

    @_limited
    def forced(self, most: int = 256) -> list[int]:
        """The tokens that are the only choice, in order, until there is one."""
        return self._native.forced(most)

    @_limited
    def forced_bytes(self, most: int = 4096) -> bytes:
        """The bytes that every continuation begins with; none where a token may come that is read whole."""
        return self._native.forced_bytes(most)

    @_limited
    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return the fewest tokens of a short completion of the text so far, special tokens included.

        Return None if no completion of at most `max_tokens` tokens is found. A live state has a completion, but the
        search for it has bounds: `search_failure` says which one ended it.
        """
        tokens = self._native.witness_tokens()
        if tokens is None or (max_tokens is not None and len(tokens) > max_tokens):
            return None
        return tokens

    @_limited
    def witness_text(self, after: bytes = b"") -> bytes | None:
        """A short completion of the text so far followed by `after`, as bytes.

        None if none is found, or if the one that is found has tokens that are read whole, as special tokens are:
        `witness` has it.
        `search_failure` says why.
        """
        return self._native.witness(after)

    @property
    def search_failure(self) -> str | None:
        """Why the last `witness` or `witness_text` found no completion, as the end of a sentence; None if it found one.

        A completion that is longer than `max_tokens` was found. Where `unproven` is not zero the state may have none.
        """
        return self._native.search_failure()

    @_limited
    def least_tokens(self, room: int) -> int | None:
        """How many tokens a text of the constraint takes, from its beginning; None if that was not found out.

        Of one that fits `room` tokens if one is found, otherwise of the shortest that was found. Found out once
        for each compiled constraint. Of a pattern whose states are too many for the limits it is not.
        """
        return self._native.least_tokens(room)

    def rollback(self, n: int) -> None:
        """Undo the last `n` tokens."""
        if not 0 <= n <= len(self._native.tokens):
            raise ValueError(f"cannot roll back {n} tokens: {len(self._native.tokens)} were read")
        self._native.rollback(n)

    def fork(self) -> Matcher:
        """An independent matcher in the same state."""
        other = object.__new__(type(self))
        other.constraint = self.constraint
        other.vocabulary = self.vocabulary
        other._program = self._program
        other._native = self._native.fork()
        return other

    # A shallow copy would move with the original, and the core's state cannot be written down.

    def __copy__(self) -> Matcher:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, object]) -> Matcher:
        return self.fork()

    def __reduce__(self) -> tuple[object, ...]:
        raise OptionError(
            "a matcher cannot be pickled",
            hint="Send its constraint, its vocabulary and the tokens it has read, and make it again from them.",
        )

    def reset(self) -> None:
        """Back to the beginning."""
        self._native.reset()

    def on_disconnect(self) -> None:
        """Called when no one needs the text any more; nothing waits here."""

    @_limited
    def is_complete(self) -> bool:
        """May the text end here?"""
        return self._native.is_complete()

    @property
    def is_finished(self) -> bool:
        """Has an EOS token been read?"""
        return self._native.is_finished

    @property
    @_limited
    def must_stop(self) -> bool:
        """The text is complete and nothing can follow."""
        return self._native.must_stop

    @property
    def tokens(self) -> list[int]:
        """The tokens read so far."""
        return self._native.tokens

    @property
    def text(self) -> bytes:
        """The bytes read so far."""
        return self._native.text

    @property
    def names_text_tokens(self) -> bool:
        """Whether some tokens of text are read whole: then a text alone does not say if it satisfies the constraint."""
        return self._program.names_text_tokens

    @property
    def unproven(self) -> int:
        """How many decisions of this constraint so far were taken as alive for lack of work budget."""
        return self._program.unproven

    @_limited
    def viable_bytes(self, text: str | bytes) -> int:
        """How many leading bytes of `text` can follow, as text: no token that is read whole is looked for in it."""
        return self._native.viable_bytes(_bytes(text))

    @property
    def sets_temperature(self) -> bool:
        """Does a rule of the grammar set a temperature for its text?"""
        return self._native.sets_temperature

    @property
    @_limited
    def temperature(self) -> float | None:
        """The temperature that a rule of the grammar sets for the next token; None if none does.

        Of the rules around what is being read, the innermost one that has a temperature counts. Where the text can be
        read in several ways, the highest one does.
        """
        return self._native.temperature

    @_limited
    def captures(self) -> list[Capture]:
        """Return the parts of the text so far that rules capture, in the order in which they begin.

        They are found when this is called, by reading the text once more; see `structgen.captures_of`.

        Raises:
            LimitExceeded: the text can be parsed in too many ways.
        """
        tokens = self._native.tokens
        if self._native.is_finished:
            tokens = tokens[:-1]
        text = self._native.text
        before = text[: len(text) - len(self.vocabulary.decode(tokens))]
        return captures_of(
            self.constraint, self.vocabulary, tokens, before=before, spells_specials=self.spells_specials
        )

    @_limited
    def explain(self, text: str | bytes = b"") -> Explanation:
        """Where and why the text so far followed by `text` leaves the language, and what could stand there."""
        whole = self.text + _bytes(text)
        account = self._native.describe(_bytes(text))
        questions: list[Callable[[IR], bool]] = [
            partial(self._goes_on, *question) for question in texts_to_test(account, whole)
        ]
        if questions and not account["tokens_before"]:  # another constraint would have to read these tokens
            stop = stop_of(account, whole)
            found = self.constraint.broken(stop, questions)
            # Where no rule is found, the core's own account of the place stands.
            account["rules"] = [*found, *account["rules"]] if found in ([], [NO_SCHEMA]) else found
        for names in ("terminals", "within"):
            if names in account:
                account[names] = self.constraint.shown(account[names])
        return explain_account(account, whole)

    def _goes_on(self, text: bytes, is_whole: bool, ir: IR) -> bool:
        """Can this text stand (or, `is_whole`, end) under another constraint?"""
        try:
            other = _core.Matcher(self.vocabulary.engine.compile(ir))
            return other.next_bytes(text)[1] if is_whole else other.viable_bytes(text) == len(text)
        except _core.LimitError:
            return False


def warn_of_temperatures(matcher: TextMatcher, engine: str) -> None:
    """Warn that the temperatures of a grammar's rules are not applied where `engine` samples the tokens."""
    if matcher.sets_temperature:
        warnings.warn(
            f"{engine} samples at one temperature: those that the rules of the grammar set are not applied",
            TemperatureNotApplied,
            stacklevel=3,
        )


def open_matcher(constraint: Any, vocabulary: Vocabulary) -> TextMatcher:
    """The matcher of a constraint or a type at its beginning.

    Some kinds of constraints are more than an automaton and make their own (see `structgen.monitors`).
    """
    kind = constraint_of(constraint).matcher_class() or Matcher
    matcher: TextMatcher = kind(constraint, vocabulary)
    return matcher


def _check_bitmask(out: NDArray[np.int32], words: int) -> None:
    # subtle: any other array would be copied on its way into the core, and the copy filled.
    array = np.asarray(out)  # a tensor shares its memory
    if array.dtype != np.int32 or not array.flags.c_contiguous or not array.flags.writeable:
        raise OptionError(
            f"a bitmask is int32, contiguous and writeable; this one has strides {array.strides} of "
            f"{array.dtype}" + ("" if array.flags.writeable else " and is read-only"),
            hint=f"Allocate numpy.zeros((rows, {words}), dtype=numpy.int32).",
        )
    if out.ndim != 2 or out.shape[1] < words:
        raise VocabularyMismatch(
            f"a bitmask of shape {out.shape} cannot hold masks of {words} words",
            hint=f"Allocate int32 of shape [rows, {words}] for this vocabulary.",
        )


def fill_masks(matchers: Iterable[TextMatcher], out: NDArray[np.int32], threads: int = 1) -> None:
    """Fill row i of `out` (int32 ``[rows, words]``) with the mask of matcher i, without the GIL.

    `threads` is how many may work at once: matchers over one vocabulary take turns, so only those of several
    vocabularies gain from more than one. A matcher that fails (a limit was met) leaves its own row empty; the
    first failure is raised when all other rows are filled.
    """
    listed = list(matchers)
    _check_bitmask(out, max((matcher.vocabulary.words for matcher in listed), default=0))
    try:
        _core.fill_masks([matcher.native for matcher in listed], out, threads)
    except _core.LimitError as error:
        raise limit_exceeded(error) from None
    for row, matcher in enumerate(listed):
        if not matcher.mask_is_native:
            matcher.fill(out, row)


def _check_vocabulary(vocabulary: object) -> None:
    if not isinstance(vocabulary, Vocabulary):
        raise OptionError(
            f"a matcher needs a vocabulary, not {a_kind(vocabulary)}",
            hint="Use model.vocabulary, or Vocabulary.from_tokenizer(tokenizer).",
        )


def _bytes(text: str | bytes) -> bytes:
    """UTF-8; half a character becomes bytes that no text has, so that it is found to be at fault."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise OptionError(
            f"a text is a str or bytes, not {with_kind(text)}",
            hint="Write a value as JSON first, with json.dumps.",
        )
    return bytes(text)


def accepted_by_steps(matcher: TextMatcher, token_ids: Sequence[int]) -> int:
    """Return how many of the tokens `matcher` takes in order, by taking them and going back."""
    count = 0
    for token in token_ids:
        if not matcher.advance(token):
            break
        count += 1
    matcher.rollback(count)
    return count
