"""Options for the JSON text of a schema, beyond what the schema says.

Why: the specification is about values, generation is about text. Each choice that makes the text narrower than RFC
8259 allows is one field here, with its default, and nowhere else.

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
    """Options of `json_schema`; the defaults suit the answer of a model."""

    whitespace: Whitespace | WhitespaceName = "flexible"
    """White space between tokens: a `Whitespace` or the name of one.

    ``flexible``: compact, spaced or indented, with bounds. ``compact``: none. ``json.dumps``: one space after each
    comma and colon. ``indented``: one item a line, two spaces deeper for each open container.
    """

    ordered: bool = False
    """Whether object keys come in the order in which ``properties`` declares them, then the others."""

    escapes: Escapes = "canonical"
    """Escapes in strings. ``canonical``: a character is escaped only if JSON requires it, in its short form. ``all``:
    any spelling that RFC 8259 allows.
    """

    formats: Formats = "assert"
    """Meaning of ``format``. ``assert``: known formats constrain the text. ``annotate``: formats are ignored.
    ``dialect``: as the specification says, ignored unless the meta-schema in ``registry=`` has the format-assertion
    vocabulary.
    """

    integers: Integers = "any"
    """Spelling of a number that must be whole by ``type``, ``const``, ``enum`` or all remaining branches. ``any``:
    every spelling, such as ``7``, ``7.0`` and ``7e0``. ``digits``: digits only.
    """

    closed: bool = False
    """Whether objects that declare ``properties`` and do not mention other keys have no other keys.

    The specification allows any other keys, and small models write them until their token budget is spent. See
    `closing`.
    """

    def lower(self) -> dict[str, object]:
        """Return the options that the core reads."""
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
_NAMES_IN_OTHER_LIBRARIES = {
    **dict.fromkeys(("strict", "strictmode", "additionalproperties", "noadditionalproperties"), "closed"),
    **dict.fromkeys(
        ("whitespacepattern", "whitespaceflexible", "anywhitespace", "indent", "separators"), "whitespace"
    ),
    **dict.fromkeys(("anyorder", "keyorder", "sortkeys"), "ordered"),
    "ensureascii": "escapes",
    "refs": "registry",
}
"""Names of these options in other libraries."""
_NAMES = tuple(field.name for field in fields(JsonSchemaOptions))
_DEFAULT = JsonSchemaOptions()


def make_options(given: dict[str, Any]) -> JsonSchemaOptions:
    """Return the options of these keyword arguments.

    Raises:
        OptionError: A name is unknown (the message lists the known ones), or a value is invalid.
    """
    if not given:
        return _DEFAULT
    for name in given:
        if name not in _NAMES:
            raise OptionError(
                f"unknown JSON Schema option {name!r}; the options are {', '.join(_NAMES)} and registry",
                hint=did_you_mean(name, (*_NAMES, "registry"), _NAMES_IN_OTHER_LIBRARIES),
            )
    try:
        return _cached_options(**given)
    except TypeError:  # an unhashable value is invalid, which the constructor reports
        return JsonSchemaOptions(**given)


@functools.lru_cache(maxsize=64, typed=True)
def _cached_options(**given: Any) -> JsonSchemaOptions:  # noqa: ANN401 — checked by the constructor
    """Return options from a cache: all tools of a request have the same."""
    return JsonSchemaOptions(**given)
