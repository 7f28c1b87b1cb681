"""What every constraint is: an immutable description of a set of texts that lowers itself to the core's IR.

Why: everything above (matchers, samplers, the typed API) handles any constraint through this one class; a new kind
of constraint is one subclass.

Invariant: a constraint never changes after it is made. Equal constraints have equal IR, so they share compiled
automata.

Cost: making one is linear in what the user wrote; nothing is compiled before a matcher needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from importlib import import_module
from inspect import isroutine
from typing import Any, NamedTuple, TypeAlias, get_origin

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
    "CaptureParser",
    "Constraint",
    "Literal",
    "Operand",
    "Operators",
    "RuleViolation",
    "Stop",
    "as_constraint",
    "constraint_of",
    "install_operators",
    "is_type",
    "join_instructions",
]

Operand = Any
"""Operands of combinators: a constraint, a string (exactly this text) or a type (the texts of its values)."""


CaptureParser: TypeAlias = Any
"""How texts are parsed for captures: None, or a `grammar.capture_grammar.CaptureGrammar` (of a layer above)."""


class Blame(NamedTuple):
    """Why a part of a constraint is empty, and what to do."""

    reason: str
    hint: str


class Stop(NamedTuple):
    """The position at which a text leaves a language."""

    text: bytes
    offset: int
    path: tuple[str | int, ...]
    """Steps into the JSON value."""
    near: list[str]
    """Pointers of the sub-schemas that apply there."""
    place: str = "value"
    """What the position is in: a kind of JSON ("value", "key", "array", ...), "text", or "end"."""
    may_begin: tuple[str, ...] = ()
    """For the text of a grammar: the terminals and rules that may start there."""
    is_part: bool = False
    """Whether the text is longer than the text of this constraint."""


class RuleViolation(NamedTuple):
    """A rule that a text breaks."""

    pointer: str
    keyword: str
    detail: str = ""
    path: tuple[str | int, ...] | None = None
    """The value that the rule is about, if it is known."""
    message: str = ""
    """A message about that value that replaces the usual one of the keyword."""
    subject: str = ""
    """The subject of the rule, if that is not a value."""


NO_SCHEMA = RuleViolation("", "JSON")
"""The result of `Constraint.find_broken_rules` if no rule is to blame, since no schema accepts the text."""


class Constraint(ABC):
    """A set of texts. ``a & b``: both; ``a | b``: either; ``a + b``: one after the other.

    In an operator, a plain string stands for exactly that text, and a type for the texts of its values.
    """

    __slots__ = ()

    def __init_subclass__(cls, **more: object) -> None:
        """Shorten the `repr` of every kind of constraint: a pattern or a list of texts may be of any length."""
        super().__init_subclass__(**more)
        whole = cls.__dict__.get("__repr__")
        if whole is not None:
            cls.__repr__ = wraps(whole)(lambda self: cut(whole(self)))  # type: ignore[method-assign]

    @abstractmethod
    def lower(self) -> IR:
        """Return the IR that the core compiles."""

    def regular(self) -> RE | None:
        """Return the language as one regular expression over the whole text; None if it is not regular."""
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
        """The texts that separate parts of the output, as in `structgen.reasoning`."""
        return ()

    def matcher_class(self) -> type[Any] | None:
        """Return the class of its matchers if an automaton is not enough; None for `structgen.Matcher`."""
        return None

    def as_condition(self) -> tuple[Constraint, Any] | None:
        """Return a constraint and a potential that together mean the same; None if no potential is needed."""
        return None

    def parsed(self, compose: Callable[[Constraint], CaptureParser]) -> CaptureParser:
        """Return how its texts are parsed for captures; None if there are no captures in it.

        Args:
            compose: Returns the same for a union or a sequence, which is parsed as one grammar.
        """
        return None

    def tree_size(self) -> int:
        """Return the number of its parts; a part that occurs several times counts each time."""
        return 1

    def describe(self) -> str:
        """Return a short phrase for messages."""
        return repr(self)

    def instructions(self) -> str:
        """Return sentences for a prompt that describe the constraint; may be empty."""
        return ""

    def written(self) -> list[tuple[str, str]]:
        """Return what notebooks show below the description: names and texts, as the user wrote them."""
        return []

    def _repr_html_(self) -> str:
        long = [(name, text) for name, text in self.written() if "\n" in text or len(text) > 60]
        short = [entry for entry in self.written() if entry not in long]
        parts = [f"{pairs([(name, '')]) if name else ''}{code(text)}" for name, text in long]
        return card(type(self).__name__.lstrip("_"), self.describe(), pairs(short) if short else "", *parts)

    def empty_hint(self) -> str:
        """Return the hint of the error that no text satisfies the constraint."""
        return "Look for parts that contradict each other, and for characters that the tokenizer lacks."

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return terminals and rules of a grammar as explanations name them."""
        return list(names)

    def blame(self, part: str, is_empty: Callable[[IR], bool]) -> Blame | None:
        """Return why a part is empty, if this kind of constraint can determine it.

        Args:
            part: The part that the core reports, for a schema its JSON pointer.
            is_empty: Returns whether it is proven that an IR has no text.
        """
        return None

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the rules without which a text could go on, if this kind of constraint can determine them.

        Args:
            stop: Where the text leaves the language.
            checks: Functions that return whether the text goes on under an IR, the strictest first.

        Returns:
            The broken rules. `NO_SCHEMA` alone means that no schema accepts the text.
        """
        return []

    def _broken_parts(
        self,
        stop: Stop,
        checks: list[Callable[[IR], bool]],
        parts: Iterable[tuple[Constraint, Callable[[IR], IR]]],
    ) -> list[RuleViolation]:
        """Return the same for a constraint made of others: `parts` has each with the IR of the whole around it."""
        fallback: list[RuleViolation] = []
        for part, whole in parts:
            checks_of_part: list[Callable[[IR], bool]] = [
                partial(_check_in_whole, check, whole) for check in checks
            ]
            rules = part.find_broken_rules(stop._replace(is_part=True), checks_of_part)
            if rules and rules != [NO_SCHEMA]:
                return rules
            fallback = rules or fallback
        return fallback

    def _and(self, other: Constraint) -> Constraint | None:
        """Return how this kind of constraint joins `other` under ``&``; None leaves it to the algebra."""
        return None

    def _or(self, other: Constraint) -> Constraint | None:
        """Return how this kind of constraint joins `other` under ``|``; None leaves it to the algebra."""
        return None

    def _within(self, expression: RE) -> Constraint | None:
        """Return the texts of this constraint that are also in a regular language; None if that is not supported.

        Raises:
            CombinationError: It is supported in general, but not for something in this constraint.
        """
        return None

    def __and__(self, other: object) -> Constraint:
        return _operators().intersection(self, as_constraint(other)) if _is_operand(other) else NotImplemented

    def __rand__(self, other: object) -> Constraint:
        return _operators().intersection(as_constraint(other), self) if _is_operand(other) else NotImplemented

    def __or__(self, other: object) -> Constraint:
        return _operators().union(self, as_constraint(other)) if _is_operand(other) else NotImplemented

    def __ror__(self, other: object) -> Constraint:
        return _operators().union(as_constraint(other), self) if _is_operand(other) else NotImplemented

    def __add__(self, other: object) -> Constraint:
        return _operators().sequence(self, as_constraint(other)) if _is_operand(other) else NotImplemented

    def __radd__(self, other: object) -> Constraint:
        return _operators().sequence(as_constraint(other), self) if _is_operand(other) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraint):
            return NotImplemented
        return self is other or self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())

    # A constraint never changes, so a copy is the same object. Pickling must not call `__setattr__`.

    def __copy__(self) -> Constraint:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Constraint:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        names = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return _unpickle, (type(self), {name: getattr(self, name) for name in names})

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
        """Return the text as a regular expression."""
        return ("regex", self.regular())

    def regular(self) -> RE:
        """Return the expression that matches exactly the text."""
        return literal(self.text)

    def describe(self) -> str:
        """Return the text in quotation marks, shortened to 40 characters."""
        return f"the text {self.text!r}" if len(self.text) <= 40 else f"the text {self.text[:37]!r}..."

    def __repr__(self) -> str:
        return f"Literal({self.text!r})"


def as_constraint(value: Operand) -> Constraint:
    """Return the constraint of an operand: a constraint, a string (exactly this text), or a type.

    Raises:
        TypeNotSupported: `value` is something else.
    """
    return Literal(value) if isinstance(value, str) else constraint_of(value)


def constraint_of(value: object) -> Constraint:
    """Return the constraint of what `structgen.generate` accepts as an output type; a string is not a type.

    Raises:
        TypeNotSupported: `value` is neither a constraint nor a type, or no constraint describes the type.
    """
    if isinstance(value, Constraint):
        return value
    if value is None:
        raise TypeNotSupported(
            "None is a value, not a type", hint='Omit the argument, or write "null" for that text.'
        )
    # Types need pydantic, which takes long to load and lies in a layer above; it is loaded with the first type.
    constraint: Constraint = import_module("structgen.types").constraint_for_type(value)
    return constraint


def join_instructions(parts: Iterable[Constraint]) -> str:
    """Return the instructions of several constraints, each once."""
    return "\n\n".join(dict.fromkeys(filter(None, (part.instructions() for part in parts))))


def _check_in_whole(check: Callable[[IR], bool], whole: Callable[[IR], IR], part: IR) -> bool:
    return check(whole(part))


def _unpickle(kind: type[Constraint], content: dict[str, Any]) -> Constraint:
    """Return the constraint that was pickled."""
    constraint = object.__new__(kind)
    for name, value in content.items():
        object.__setattr__(constraint, name, value)
    return constraint


def is_type(value: object) -> bool:
    """Return whether `value` looks like the type of a value, or like a function whose call is the value."""
    return (
        isinstance(value, type)
        or get_origin(value) is not None  # list[int], int | None, Literal["a"], Annotated[...]
        or hasattr(value, "__value__")  # a `type` alias
        or isroutine(value)
    )


def _is_operand(value: object) -> bool:
    """Return whether an operator accepts `value`. For others Python tries the other operand, then raises TypeError."""
    return isinstance(value, (Constraint, str)) or is_type(value)
