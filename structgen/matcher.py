"""`Matcher`: one constraint on one sequence; tokens in, masks out.

Why: everything that generates text (samplers, beams, drafts, serving plugins) needs the same operations of a
constraint: the mask of the next token, advance, roll back, fork, and whether the text is complete.
What: a `Matcher` is a stack of automaton states, one per token. A rollback pops states, and a fork shares them.
Invariant: ``mask()`` allows a token iff ``advance`` accepts it; a refused token changes nothing; end-of-sequence tokens
are allowed iff the text is complete.
Cost: a warm mask is a look-up; a fork shares the stack and the memory of its states, and its cost hardly depends on
the length of the text.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial

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
    "NativeText",
    "accepted_by_steps",
    "compile_constraint",
    "fill_masks",
    "open_matcher",
    "warn_of_temperatures",
]

_PROGRAMS_PER_VOCABULARY = 64
_MASK_BYTES_PER_VOCABULARY = 12 << 20
"""The memory of masks of all programs of a vocabulary above which the least recently used programs are evicted."""
_PROGRAM_BYTES_PER_VOCABULARY = 256 << 20
"""The same limit for states and searches of the programs, except the newest one: a search can take hundreds of MB."""
_MEMORY_CHECK_INTERVAL = 8
"""The memory of all programs is computed for every eighth new program, because it takes as long as a small schema."""
_MEMORY_CHECK_BYTES = 8 << 20
"""It is also computed if the memory of the vocabulary's space has changed by this many bytes since the last time."""
_EVICTED_AT_ONCE = 4
"""The number of programs that are removed from the cache together."""
_MAX_LISTED = 8
"""The largest number of characters that an error lists."""


class _Programs(dict[Constraint, _core.Program]):
    """The programs of a vocabulary, the last used one last.

    Threads share it without a lock: each change is one atomic step, and so is each copy. It is not an `OrderedDict`,
    whose iteration hashes all constraints.
    """

    made = 0
    """The number of insertions; parallel threads may make it too small."""
    space_memory = 0
    """The memory of the vocabulary's space, in bytes, when the programs' memory was last computed."""

    def evict(self) -> None:
        """Evict the least recently used programs until the others hold at most `_PROGRAM_BYTES_PER_VOCABULARY`."""
        held = sum(program.memory for program in list(self.values()))
        for oldest in list(self) if held > _PROGRAM_BYTES_PER_VOCABULARY else ():
            evicted = self.pop(oldest, None)
            held -= evicted.memory if evicted is not None else 0
            if held <= _PROGRAM_BYTES_PER_VOCABULARY:
                break


_programs: weakref.WeakKeyDictionary[Vocabulary, _Programs] = weakref.WeakKeyDictionary()


def compile_constraint(constraint: object, vocabulary: Vocabulary) -> _core.Program:
    """Return the automaton of a constraint or a type over `vocabulary`, from a bounded cache.

    Raises:
        UnsatisfiableSchema: No value satisfies a JSON Schema.
        EmptyConstraint: No text satisfies the constraint.
        LimitExceeded: A limit of the core was met.
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
    if (
        known.made % _MEMORY_CHECK_INTERVAL == 0
        or abs(vocabulary.engine.memory - known.space_memory) > _MEMORY_CHECK_BYTES
    ):
        known.evict()
        known.space_memory = vocabulary.engine.memory
    known[constraint] = program
    # A program in use keeps its masks anyway, so only a few are evicted at a time.
    for oldest in list(known)[:_EVICTED_AT_ONCE]:
        if len(known) > _PROGRAMS_PER_VOCABULARY or (
            len(known) > 1 and vocabulary.engine.mask_memory > _MASK_BYTES_PER_VOCABULARY
        ):
            known.pop(oldest, None)
    return program


def _unspelled(
    constraint: Constraint, vocabulary: Vocabulary, parts: Sequence[str]
) -> EmptyConstraint | UnsatisfiableSchema | None:
    """Return the error that names the characters no token spells; None if the vocabulary is not the cause."""
    if vocabulary.spells_all_bytes:
        return None
    complete = Vocabulary.of_bytes(vocabulary.specials)
    try:
        program = complete.engine.compile(constraint.lower())
        tokens = None if program.empty_parts() is not None else _core.Matcher(program).witness_tokens()
    except (_core.LimitError, VocabularyMismatch):  # the latter if it names tokens of this vocabulary
        return None
    if tokens is None:
        return None
    text = complete.decode(tokens).decode("utf-8", "replace")
    missing = set(vocabulary.native.missing_bytes())
    unspelled = [character for character in dict.fromkeys(text) if missing.intersection(character.encode())]
    if unspelled:
        named = ", ".join(map(repr, unspelled[:_MAX_LISTED]))
        why = f"no token spells {named}{', ...' if len(unspelled) > _MAX_LISTED else ''}"
    else:
        why = "its tokens cannot be combined into one"
    message = (
        f"no text that the vocabulary can spell satisfies {constraint.describe()}: {why}, as in {text!r:.80}"
    )
    hint = "Use a tokenizer whose tokens spell these characters, or a constraint without them."
    if parts:
        return UnsatisfiableSchema(message, pointer=parts[0] or "#", hint=hint)
    return EmptyConstraint(message, hint=hint)


_limited = translate_limits()


class NativeText:
    """What a matcher has read, according to its matcher of the core."""

    __slots__ = ()

    _native: _core.Matcher

    @property
    def native(self) -> _core.Matcher:
        """The core's matcher, for integrations that fill masks themselves."""
        return self._native

    @property
    def tokens(self) -> list[int]:
        """The tokens so far."""
        return self._native.tokens

    @property
    def text(self) -> bytes:
        """The bytes of the text so far."""
        return self._native.text

    @property
    def is_finished(self) -> bool:
        """Whether an end-of-sequence token was read."""
        return self._native.is_finished


# This class has more than 25 methods because it implements `TextMatcher`, and adds what grammars and tools need.
class Matcher(NativeText):
    """The state of a constraint after the tokens of one sequence.

    Masks are int32 words, least significant bit first; a set bit means that the token is allowed. That is the layout of
    serving engines. Only one thread at a time may use a matcher; a second one gets `ConcurrentUse`. Different matchers
    may be used in parallel, also forks of one matcher.
    """

    __slots__ = ("_native", "_program", "constraint", "vocabulary")

    def __new__(cls, constraint: object, vocabulary: Vocabulary) -> Matcher:
        """Make a matcher of the class that the constraint names, if it needs more than an automaton."""
        named = constraint_of(constraint).matcher_class() if cls is Matcher else None
        return object.__new__(cls if named is None or not issubclass(named, Matcher) else named)

    def __init__(self, constraint: object, vocabulary: Vocabulary) -> None:
        """Open a constraint, or that of a type, at the start of a text.

        Args:
            constraint: The constraint or the type.
            vocabulary: The vocabulary of the tokens.

        Raises:
            TypeNotSupported: `constraint` is neither a constraint nor a type.
            EmptyConstraint: The vocabulary can spell no text that satisfies it.
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
        """Return a matcher of a constraint that is already compiled over this vocabulary."""
        made = object.__new__(cls)
        made.constraint = constraint
        made.vocabulary = vocabulary
        made._program = program
        made._native = _core.Matcher(program)
        return made

    @property
    def spells_specials(self) -> bool:
        """Whether the text of a result contains the names of special tokens, because the constraint reads them."""
        return self.constraint.spells_specials

    @property
    def is_waiting(self) -> bool:
        """Always False: the mask depends on nothing but the text."""
        return False

    @property
    def draft_key(self) -> Constraint:
        """The constraint: texts of equal constraints may share drafts."""
        return self.constraint

    @property
    def can_draft(self) -> bool:
        """Always True: steps and roll-backs are cheap."""
        return True

    @property
    def judge(self) -> JudgingMatcher | None:
        """None: no monitor refuses a token that the mask allows."""
        return None

    @property
    def mask_is_native(self) -> bool:
        """Whether the core's matcher computes the whole mask, so that `fill_masks` need not call `fill`."""
        return True

    def mask(self) -> NDArray[np.int32]:
        """Return the tokens that may come next, int32 ``[vocabulary.words]``; read-only and shared."""
        try:
            return self._native.mask()
        except _core.LimitError as error:
            raise limit_exceeded(error) from None

    @_limited
    def fill(self, out: NDArray[np.int32], row: int = 0) -> None:
        """Write the mask into row `row` of `out`, int32 ``[rows, words]``."""
        _check_bitmask(out, self.vocabulary.words)
        self._native.fill(out, row)

    @_limited
    def lexemes(self) -> list[list[int]]:
        """Return the terminals of a grammar that the text consists of, by number, for each parser position.

        A parser position assumes that the last lexeme has ended. Usually there is one. There are no
        positions inside a lexeme that cannot end there, and for constraints that are not grammars.
        """
        return self._native.lexemes()

    @_limited
    def beginning(self, index: int, terminal: int) -> NDArray[np.int32]:
        """Return the tokens that start a lexeme of `terminal` at a position of `lexemes`, int32 ``[words]``."""
        return self._native.beginning(index, terminal)

    @_limited
    def allowed_count(self) -> int:
        """Return the number of tokens that may come next."""
        return self._native.allowed_count()

    def advance(self, token_id: int) -> bool:
        """Append a token; return False, and change nothing, if it is not allowed. EOS finishes the sequence."""
        try:
            return self._native.advance(token_id)
        except _core.LimitError as error:
            raise limit_exceeded(error) from None
        except TypeError:
            raise OptionError(
                f"{token_id!r:.40} is not a token",
                hint="Tokens are whole numbers from 0 on: tokenizer.encode(text).",
            ) from None

    @_limited
    def accepts(self, token_ids: Sequence[int]) -> int:
        """Return how many of these tokens can follow, in order, without advancing."""
        return self._native.accepts(token_ids)

    @_limited
    def forced(self, most: int = 256) -> list[int]:
        """Return the run of tokens that are the only choice, at most `most` of them."""
        return self._native.forced(most)

    @_limited
    def forced_bytes(self, most: int = 4096) -> bytes:
        """Return the bytes that every continuation starts with; empty if a token may come that is not read as text."""
        return self._native.forced_bytes(most)

    @_limited
    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return the fewest tokens of a short completion of the text so far, special tokens included.

        Args:
            max_tokens: The largest number of tokens.

        Returns:
            None if no such completion was found. A live state has a completion, but the search for it is bounded:
            `search_failure` names the bound that ended it.
        """
        tokens = self._native.witness_tokens()
        if tokens is None or (max_tokens is not None and len(tokens) > max_tokens):
            return None
        return tokens

    @_limited
    def witness_text(self, after: bytes = b"") -> bytes | None:
        """Return a short completion of the text so far followed by `after`, as bytes.

        Returns:
            None if none was found (see `search_failure`), or if it contains tokens that are not read as text, such as
            special tokens; `witness` returns these.
        """
        return self._native.witness(after)

    @property
    def search_failure(self) -> str | None:
        """Why the last `witness` or `witness_text` found no completion, as the end of a sentence; None if it found one.

        A completion longer than `max_tokens` counts as found. If `unproven` is not zero, there may be no completion.
        """
        return self._native.search_failure()

    @_limited
    def least_tokens(self, room: int) -> int | None:
        """Return the number of tokens of a short text of the constraint; None if it is not known.

        It is that of a text of at most `room` tokens if one is found, and otherwise of the shortest text found. It is
        computed once for each compiled constraint. It is not known for patterns with too many states.
        """
        return self._native.least_tokens(room)

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens."""
        if not 0 <= n <= len(self._native.tokens):
            raise ValueError(f"cannot roll back {n} tokens: {len(self._native.tokens)} were read")
        self._native.rollback(n)

    def fork(self) -> Matcher:
        """Return an independent matcher in the same state."""
        other = object.__new__(type(self))
        other.constraint = self.constraint
        other.vocabulary = self.vocabulary
        other._program = self._program
        other._native = self._native.fork()
        return other

    # A shallow copy would share its state with the original, and the core's state cannot be pickled.

    def __copy__(self) -> Matcher:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, object]) -> Matcher:
        return self.fork()

    def __reduce__(self) -> tuple[object, ...]:
        raise OptionError(
            "a matcher cannot be pickled",
            hint="Send its constraint, its vocabulary and its tokens, and make it again from them.",
        )

    def reset(self) -> None:
        """Return to the start of the text."""
        self._native.reset()

    def on_disconnect(self) -> None:
        """Called when no one needs the text any more; nothing waits here."""

    @_limited
    def is_complete(self) -> bool:
        """Return whether the text may end here."""
        return self._native.is_complete()

    @property
    @_limited
    def must_stop(self) -> bool:
        """Whether the text is complete and nothing can follow."""
        return self._native.must_stop

    @property
    def names_text_tokens(self) -> bool:
        """Whether the constraint names tokens of text, so that a text alone does not decide whether it is satisfied."""
        return self._program.names_text_tokens

    @property
    def unproven(self) -> int:
        """The number of states of this constraint that count as live because their liveness search met its limit."""
        return self._program.unproven

    @_limited
    def viable_bytes(self, text: str | bytes) -> int:
        """Return how many leading bytes of `text` can follow, as text, without tokens that the constraint names."""
        return self._native.viable_bytes(_bytes(text))

    @property
    def sets_temperature(self) -> bool:
        """Whether a rule of the grammar sets a temperature."""
        return self._native.sets_temperature

    @property
    @_limited
    def temperature(self) -> float | None:
        """The temperature that a rule of the grammar sets for the next token; None if no rule does.

        Of nested rules the innermost one with a temperature counts. If the text has several parses, the highest
        temperature counts.
        """
        return self._native.temperature

    @_limited
    def captures(self) -> list[Capture]:
        """Return the parts of the text so far that rules capture, ordered by their starts.

        The text is parsed again for this; see `structgen.captures.captures_of`.

        Raises:
            LimitExceeded: The text can be parsed in too many ways.
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
        """Explain where and why the text so far followed by `text` leaves the language, and what could stand there."""
        whole = self.text + _bytes(text)
        account = self._native.describe(_bytes(text))
        questions: list[Callable[[IR], bool]] = [
            partial(self._goes_on, *question) for question in texts_to_test(account, whole)
        ]
        if questions and not account["tokens_before"]:  # another constraint would have to read these tokens
            stop = stop_of(account, whole)
            broken = self.constraint.find_broken_rules(stop, questions)
            # If no rule is found, the core's own explanation is used.
            account["rules"] = [*broken, *account["rules"]] if broken in ([], [NO_SCHEMA]) else broken
        for names in ("terminals", "within"):
            if names in account:
                account[names] = self.constraint.shown(account[names])
        return explain_account(account, whole)

    def _goes_on(self, text: bytes, is_whole: bool, ir: IR) -> bool:
        """Return whether this text can stand (or, if `is_whole`, end) under another constraint."""
        try:
            other = _core.Matcher(self.vocabulary.engine.compile(ir))
            return other.next_bytes(text)[1] if is_whole else other.viable_bytes(text) == len(text)
        except _core.LimitError:
            return False


def warn_of_temperatures(matcher: TextMatcher, engine: str) -> None:
    """Warn that the temperatures of a grammar's rules are not applied where `engine` samples the tokens."""
    if matcher.sets_temperature:
        warnings.warn(
            f"{engine} samples at one temperature: the temperatures of the grammar's rules are not applied",
            TemperatureNotApplied,
            stacklevel=3,
        )


def open_matcher(constraint: object, vocabulary: Vocabulary) -> TextMatcher:
    """Return the matcher of a constraint or a type at the start of a text.

    A constraint that needs more than an automaton has a matcher of its own class (`Constraint.matcher_class`).
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

    Args:
        matchers: One for each row.
        out: The masks, int32 ``[rows, words]``, contiguous and writeable.
        threads: The number of threads. Matchers over one vocabulary take turns, so only those of several vocabularies
            gain from more than one.

    Raises:
        LimitExceeded: A limit was met for some row, which stays empty; raised when all other rows are filled.
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
    """Encode as UTF-8; half a surrogate pair becomes bytes that no text contains, so that it is found to be wrong."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise OptionError(
            f"a text is a str or bytes, not {with_kind(text)}",
            hint="Write a value as JSON first, with json.dumps.",
        )
    return bytes(text)


def accepted_by_steps(matcher: TextMatcher, token_ids: Sequence[int]) -> int:
    """Return how many of the tokens `matcher` accepts in order, by advancing and rolling back."""
    count = 0
    for token in token_ids:
        if not matcher.advance(token):
            break
        count += 1
    matcher.rollback(count)
    return count
