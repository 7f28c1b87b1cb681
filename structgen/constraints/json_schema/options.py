"""What may be chosen about the JSON text of a schema, beyond what the schema says.

Why: the specification speaks of values, generation of text; every choice that makes the text narrower than
RFC 8259 allows is one field here, with its default, and nowhere else.
Invariant: options are frozen and hashable; two constraints combine only if their options are equal.
"""

import functools
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from structgen.errors import OptionError, did_you_mean

from .whitespace import Whitespace, WhitespaceName

__all__ = ["JsonSchemaOptions", "make_options"]

Escapes = Literal["canonical", "all"]
Formats = Literal["assert", "dialect", "annotate"]
Integers = Literal["any", "digits"]


@dataclass(frozen=True)
class JsonSchemaOptions:
    """Options of `json_schema`; each default is the one that people expect from a model's answer."""

    whitespace: Whitespace | WhitespaceName = "flexible"
    """A `Whitespace` or the name of one. ``flexible``: compact, spaced or indented, the amount bounded.
    ``compact``: none. ``json.dumps``: one space after each comma and colon. ``indented``: one item a line,
    two spaces deeper for each open container."""

    ordered: bool = False
    """Object keys in the order in which ``properties`` declares them, then the others."""

    escapes: Escapes = "canonical"
    """``canonical``: a character is escaped only if it must be, in its short form. ``all``: any spelling
    that RFC 8259 allows."""

    formats: Formats = "assert"
    """``assert``: known formats constrain the text. ``annotate``: formats are ignored. ``dialect``: as the
    specification says, ignored unless the meta-schema in ``registry=`` has the format-assertion vocabulary."""

    integers: Integers = "any"
    """How a number that can only be whole is written, by ``type``, ``const``, ``enum`` or all of the branches that
    are left. ``any``: every spelling of it, ``7``, ``7.0`` and ``7e0``. ``digits``: digits alone."""

    closed: bool = False
    """Objects that declare ``properties`` and say nothing of other keys have no other keys. By the specification they
    may have any, which small models make use of until their budget is spent. See `closing`."""

    def lower(self) -> dict[str, object]:
        """The part that the native automaton reads."""
        return dict(self._lowered)

    @functools.cached_property
    def _lowered(self) -> dict[str, object]:
        return {
            "whitespace": Whitespace.of(self.whitespace).lower(),
            "ordered": self.ordered,
            "escapes": self.escapes,
            "integers": self.integers,
        }

    def __post_init__(self) -> None:
        object.__setattr__(self, "whitespace", Whitespace.of(self.whitespace))
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                listed = ", ".join(map(repr, choices))
                raise OptionError(f"JSON Schema option {name!r} is {value!r}; choose one of {listed}")


_CHOICES: dict[str, tuple[object, ...]] = {
    "ordered": (True, False),
    "closed": (True, False),
    "escapes": get_args(Escapes),
    "formats": get_args(Formats),
    "integers": get_args(Integers),
}
_ALIASES = {
    **dict.fromkeys(("strict", "strictmode", "additionalproperties", "noadditionalproperties"), "closed"),
    **dict.fromkeys(
        ("whitespacepattern", "whitespaceflexible", "anywhitespace", "indent", "separators"), "whitespace"
    ),
    **dict.fromkeys(("anyorder", "keyorder", "sortkeys"), "ordered"),
    "ensureascii": "escapes",
    "refs": "registry",
}
"""What other libraries call them."""
_NAMES = tuple(field.name for field in fields(JsonSchemaOptions))
_DEFAULT = JsonSchemaOptions()


def make_options(given: dict[str, Any]) -> JsonSchemaOptions:
    """Options from keyword arguments; an unknown name is an error that lists the known ones."""
    if not given:
        return _DEFAULT
    for name in given:
        if name not in _NAMES:
            raise OptionError(
                f"unknown JSON Schema option {name!r}; the options are {', '.join(_NAMES)} and registry",
                hint=did_you_mean(name, (*_NAMES, "registry"), _ALIASES),
            )
    try:
        return _made(**given)
    except TypeError:  # a value that cannot be hashed is invalid: the constructor reports it
        return JsonSchemaOptions(**given)


@functools.lru_cache(maxsize=64, typed=True)
def _made(**given: Any) -> JsonSchemaOptions:
    """The same options for all tools of a request."""
    return JsonSchemaOptions(**given)
