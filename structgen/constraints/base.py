"""What every constraint is: an immutable description of a set of texts that lowers itself to the core's IR.

Why: everything above (matchers, samplers, the typed API) handles any constraint through this one class; a new
kind of constraint is one subclass.
Invariant: a constraint never changes after it is made; equal constraints have equal IR, so they share
compiled automata.
Cost: making one is linear in what the user wrote; nothing is compiled before a matcher needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from importlib import import_module
from inspect import isroutine
from typing import Any, NamedTuple, get_origin

from structgen.brief import cut
from structgen.errors import TypeNotSupported
from structgen.ir.plan import IR
from structgen.notebook import card, code, pairs

from .counting import counts_tokens
from .expressions import RE, literal

__all__ = [
    "IR",
    "NO_SCHEMA",
    "Blame",
    "Broken",
    "Constraint",
    "Literal",
    "Operand",
    "Operators",
    "Stop",
    "as_constraint",
    "constraint_of",
    "install_operators",
    "is_type",
    "together",
]

Operand = Any
"""What combinators take: a constraint, a string (exactly this text) or a type (the texts of its values)."""


class Blame(NamedTuple):
    """Why nothing satisfies a part of a constraint, and what to do."""

    reason: str
    hint: str


class Stop(NamedTuple):
    """Where a text leaves a language."""

    text: bytes
    offset: int
    path: tuple[str | int, ...]
    """Steps into the value, for JSON."""
    near: list[str]
    """Pointers of the sub-schemas that apply there."""
    place: str = "value"
    """What holds the place: a kind of JSON ("value", "key", "array", ...), "text", or "end"."""
    may_begin: tuple[str, ...] = ()
    """In the text of a grammar: what may begin there."""
    is_part: bool = False
    """Is the text more than the constraint that is asked?"""


class Broken(NamedTuple):
    """A rule that a text breaks."""

    pointer: str
    keyword: str
    detail: str = ""
    path: tuple[str | int, ...] | None = None
    """The value that the rule is about, if that is known."""
    message: str = ""
    """What is said of that value, where it is not what is always said of the keyword."""
    subject: str = ""
    """What the rule is about, where it is no value."""


NO_SCHEMA = Broken("", "JSON")
"""What `Constraint.broken` answers where no rule is to blame, since no schema would take the text."""


class Constraint(ABC):
    """A set of texts. ``a & b``: both; ``a | b``: either; ``a + b``: one after the other.

    A plain string stands for exactly that text on either side of an operator, a type for the texts of its values.
    """

    __slots__ = ()

    def __init_subclass__(cls, **more: Any) -> None:
        """Cut the `repr` of every kind of constraint: a pattern or a list of texts may be of any length."""
        super().__init_subclass__(**more)
        whole = cls.__dict__.get("__repr__")
        if whole is not None:
            cls.__repr__ = wraps(whole)(lambda self: cut(whole(self)))  # type: ignore[method-assign]

    @abstractmethod
    def lower(self) -> IR:
        """The IR that the native engine compiles."""

    def regular(self) -> RE | None:
        """The same language as one regular expression over the whole text; None if it is not regular."""
        return None

    def counts_tokens(self) -> bool:
        """Return whether a part of it has a limit of tokens (`structgen.limit_tokens`)."""
        return counts_tokens(self.lower())

    def holds_captures(self) -> bool:
        """Return whether rules in it capture parts of its texts."""
        return False

    @property
    def spells_specials(self) -> bool:
        """Whether the text of a result contains the names of special tokens, because the constraint reads them."""
        return False

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts that separate parts of the output, as in `structgen.reasoning`; empty if there are none."""
        return ()

    def matcher_class(self) -> type[Any] | None:
        """Return the class of its matchers if an automaton is not enough; None for `structgen.Matcher`."""
        return None

    def as_condition(self) -> tuple[Constraint, Any] | None:
        """Return a constraint and a potential that together mean the same; None if no potential is needed."""
        return None

    def parsed(self, compose: Callable[[Constraint], Any]) -> Any:
        """Return how its texts are parsed for captures (a `grammar.capture_grammar.CaptureGrammar`), or None.

        Args:
            compose: Makes the same of a union or a sequence, which is parsed as one grammar.
        """
        return None

    def tree_size(self) -> int:
        """Number of parts that it is made of, where a part that stands in several places counts in each."""
        return 1

    def describe(self) -> str:
        """A short phrase for messages."""
        return repr(self)

    def instructions(self) -> str:
        """Return sentences for a prompt that say what satisfies the constraint; empty where there is nothing to add."""
        return ""

    def written(self) -> list[tuple[str, str]]:
        """What notebooks show of it beside the description: names and texts, as the user wrote them."""
        return []

    def _repr_html_(self) -> str:
        long = [(name, text) for name, text in self.written() if "\n" in text or len(text) > 60]
        short = [one for one in self.written() if one not in long]
        parts = [f"{pairs([(name, '')]) if name else ''}{code(text)}" for name, text in long]
        return card(type(self).__name__.lstrip("_"), self.describe(), pairs(short) if short else "", *parts)

    def empty_hint(self) -> str:
        """What to do where no text satisfies it."""
        return "Check for parts that contradict each other, and for characters that the tokenizer lacks."

    def shown(self, names: Sequence[str]) -> list[str]:
        """Terminals and rules of a grammar as explanations name them."""
        return list(names)

    def blame(self, part: str, is_empty: Callable[[IR], bool]) -> Blame | None:
        """Why the empty part at this place is empty, if this kind of constraint can tell."""
        return None

    def broken(self, stop: Stop, questions: list[Callable[[IR], bool]]) -> list[Broken]:
        """The rules without which a text could go on, if this kind of constraint can tell.

        A question says whether the text goes on under an IR; the first is the strictest. `NO_SCHEMA` alone says
        that no schema would take the text."""
        return []

    def _broken_parts(
        self,
        stop: Stop,
        questions: list[Callable[[IR], bool]],
        parts: Iterable[tuple[Constraint, Callable[[IR], IR]]],
    ) -> list[Broken]:
        """The same of constraints that this one is made of: each with the IR of the whole for one in its place."""
        answer: list[Broken] = []
        for part, whole in parts:
            asked: list[Callable[[IR], bool]] = [partial(_asked, question, whole) for question in questions]
            found = part.broken(stop._replace(is_part=True), asked)
            if found and found != [NO_SCHEMA]:
                return found
            answer = found or answer
        return answer

    def _and(self, other: Constraint) -> Constraint | None:
        """How this kind of constraint joins `other` under ``&``; None leaves it to the algebra."""
        return None

    def _or(self, other: Constraint) -> Constraint | None:
        """How this kind of constraint joins `other` under ``|``; None leaves it to the algebra."""
        return None

    def _within(self, expression: RE) -> Constraint | None:
        """The texts of this constraint that are in a regular language, too; None where that is not supported.

        Raises `CombinationError` where it could be, but for something in this constraint."""
        return None

    def __and__(self, other: Any) -> Constraint:
        return _operators().intersection(self, as_constraint(other)) if _is_operand(other) else NotImplemented

    def __rand__(self, other: Any) -> Constraint:
        return _operators().intersection(as_constraint(other), self) if _is_operand(other) else NotImplemented

    def __or__(self, other: Any) -> Constraint:
        return _operators().union(self, as_constraint(other)) if _is_operand(other) else NotImplemented

    def __ror__(self, other: Any) -> Constraint:
        return _operators().union(as_constraint(other), self) if _is_operand(other) else NotImplemented

    def __add__(self, other: Any) -> Constraint:
        return _operators().sequence(self, as_constraint(other)) if _is_operand(other) else NotImplemented

    def __radd__(self, other: Any) -> Constraint:
        return _operators().sequence(as_constraint(other), self) if _is_operand(other) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraint):
            return NotImplemented
        return self is other or self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())

    # It never changes, so a copy is the same object; pickling may not go through `__setattr__`.

    def __copy__(self) -> Constraint:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Constraint:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        names = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return _rebuilt, (type(self), {name: getattr(self, name) for name in names})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a constraint never changes; {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a constraint never changes; {name!r} cannot be deleted")


class Operators(NamedTuple):
    """The functions of two constraints that the operators `&`, `|` and `+` call."""

    intersection: Callable[[Constraint, Constraint], Constraint]
    union: Callable[[Constraint, Constraint], Constraint]
    sequence: Callable[[Constraint, Constraint], Constraint]


_installed: list[Operators] = []


def install_operators(operators: Operators) -> None:
    """Set what `&`, `|` and `+` do.

    An operator returns a constraint, so its module (`algebra`) imports this one, and installs its functions here when
    `structgen.constraints` is imported.
    """
    _installed[:] = [operators]


def _operators() -> Operators:
    return _installed[0]


class Literal(Constraint):
    """Exactly one text."""

    __slots__ = ("text",)

    text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)

    def lower(self) -> IR:
        return ("regex", self.regular())

    def regular(self) -> RE:
        return literal(self.text)

    def describe(self) -> str:
        return f"the text {self.text!r}" if len(self.text) <= 40 else f"the text {self.text[:37]!r}..."

    def __repr__(self) -> str:
        return f"Literal({self.text!r})"


def as_constraint(value: Operand) -> Constraint:
    """Return the constraint of an operand: a constraint, a string (exactly this text), or a type.

    Raises:
        TypeNotSupported: `value` is none of these.
    """
    return Literal(value) if isinstance(value, str) else constraint_of(value)


def constraint_of(value: Any) -> Constraint:
    """Return the constraint of whatever `structgen.generate` takes as the type of its value; a string is no type.

    Raises:
        TypeNotSupported: `value` is neither a constraint nor a type, or no constraint describes the type.
    """
    if isinstance(value, Constraint):
        return value
    if value is None:
        raise TypeNotSupported(
            "None is a value, not a type", hint='Leave the argument out, or write "null" for that text.'
        )
    # Types are read with pydantic, in a layer above this one, which is loaded when the first type is met.
    found: Constraint = import_module("structgen.types").constraint_for_type(value)
    return found


def together(parts: Iterable[Constraint]) -> str:
    """Return the instructions of several constraints, each once."""
    return "\n\n".join(dict.fromkeys(filter(None, (one.instructions() for one in parts))))


def _asked(question: Callable[[IR], bool], whole: Callable[[IR], IR], part: IR) -> bool:
    return question(whole(part))


def _rebuilt(kind: type[Constraint], content: dict[str, Any]) -> Constraint:
    """The constraint that was pickled."""
    constraint = object.__new__(kind)
    for name, value in content.items():
        object.__setattr__(constraint, name, value)
    return constraint


def is_type(value: Any) -> bool:
    """Return whether `value` looks like the type of a value, or like a function whose call is the value."""
    return (
        isinstance(value, type)
        or get_origin(value) is not None  # list[int], int | None, Literal["a"], Annotated[...]
        or hasattr(value, "__value__")  # a `type` alias
        or isroutine(value)
    )


def _is_operand(value: Any) -> bool:
    """Return whether an operator takes `value`. Python offers the operator to all others, then raises TypeError."""
    return isinstance(value, (Constraint, str)) or is_type(value)
