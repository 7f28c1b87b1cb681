"""A function as an output type: the model writes the arguments, and the caller gets a call that is ready to run.

Invariant: nothing is called before the caller runs it; arguments are validated against the annotations.

What: the text is a JSON object, one key per parameter (``*args`` is an array, ``**kwargs`` an object).
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from structgen.brief import brief, cut
from structgen.errors import OutputInvalid, TypeNotSupported

from .names import enclosing_names, hint_for

__all__ = [
    "BoundCall",
    "arguments_model",
    "arguments_of",
    "bind",
    "documentation_of",
    "hints_of",
    "is_function",
    "name_of",
]


@dataclass(frozen=True)
class BoundCall:
    """A function and its validated arguments. Calling it calls the function."""

    function: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    """Values by parameter name; parameters that the model left to their defaults are absent."""

    def __call__(self) -> Any:
        """Call the function with its arguments and return its result."""
        bound = inspect.BoundArguments(inspect.signature(self.function), OrderedDict(self.arguments))
        bound.apply_defaults()
        return self.function(*bound.args, **bound.kwargs)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={brief(value)}" for name, value in self.arguments.items())
        return cut(f"<call {name_of(self.function)}({inside})>")


def is_function(annotation: object) -> bool:
    """Return whether an output "type" is a function, not a class."""
    return inspect.isroutine(annotation) or isinstance(annotation, functools.partial)


def arguments_model(function: Callable[..., Any]) -> type[BaseModel]:
    """Return a model with one field per parameter, in their order."""
    fields: dict[str, Any] = {}
    hints, parameters = hints_of(function), _parameters(function)
    for index, (name, parameter) in enumerate(parameters.items()):
        kind = hints[name]
        field: tuple[Any, Any]
        if parameter.kind is parameter.VAR_POSITIONAL:
            field = (list[kind], Field(default_factory=list))  # type: ignore[valid-type]
        elif parameter.kind is parameter.VAR_KEYWORD:
            field = (dict[str, kind], Field(default_factory=dict))  # type: ignore[valid-type]
        else:
            field = (kind, ... if parameter.default is parameter.empty else parameter.default)
        # A parameter may have a name that a model's field cannot have (a leading underscore, `copy`).
        fields[f"parameter_{index}"] = field
    names = list(parameters)
    config = ConfigDict(
        extra="forbid",
        title=name_of(function),
        alias_generator=lambda field_name: names[int(field_name.removeprefix("parameter_"))],
    )
    return create_model(name_of(function), __config__=config, __doc__=documentation_of(function), **fields)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotation of each parameter that is not bound; Any if it has none."""
    plain = _unwrapped(function)
    try:
        try:
            hints = get_type_hints(plain, include_extras=True)
        except NameError:  # annotations may be texts with local names of the enclosing functions
            hints = get_type_hints(plain, localns=enclosing_names(plain), include_extras=True)
        return {name: hints.get(name, Any) for name in _parameters(function)}
    except NameError as error:
        name, scope = str(error.name), getattr(plain, "__qualname__", "")
        raise TypeNotSupported(
            f"an annotation of {name_of(function)} uses {name}, which is not defined",
            hint=hint_for(name, getattr(plain, "__module__", None), scope),
        ) from error
    except (TypeError, ValueError, AttributeError, SyntaxError) as error:
        raise TypeNotSupported(
            f"the parameters of {name_of(function)} cannot be determined: {error}",
            hint="Pass a Python function whose annotations are defined in its module.",
        ) from error


def arguments_of(validated: object) -> Any:
    """Return the arguments in an arguments model, by parameter; return anything else as it is."""
    if not isinstance(validated, BaseModel):
        return validated
    return {
        field.alias: getattr(validated, name)
        for name, field in type(validated).model_fields.items()
        if name in validated.model_fields_set
    }


def bind(function: Callable[..., Any], validated: BaseModel) -> BoundCall:
    """Return the call that a validated arguments model stands for."""
    given = arguments_of(validated)
    _check_not_set(function, _parameters(function), given)
    return BoundCall(function, given)


def documentation_of(function: Callable[..., Any]) -> str | None:
    """Return the docstring of the function; for a `functools.partial` that of the wrapped function."""
    return inspect.getdoc(_unwrapped(function))


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that are not bound: those that a `functools.partial` has set are not for the model."""
    parameters = inspect.signature(function).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in _set_keywords(function)}


def _set_keywords(function: Callable[..., Any]) -> Mapping[str, Any]:
    return function.keywords if isinstance(function, functools.partial) else {}


def _check_not_set(
    function: Callable[..., Any], names: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Refuse keywords among the open ones (``**kwargs``) that are set already."""
    for name, parameter in names.items():
        taken = (
            set(given.get(name, ())) & _set_keywords(function).keys()
            if parameter.kind is parameter.VAR_KEYWORD
            else ()
        )
        if taken:
            raise OutputInvalid(
                f"{name_of(function)} does not take {', '.join(sorted(taken))}, which is set already", text=""
            )


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    unwrapped: Callable[..., Any] = inspect.unwrap(function)
    return unwrapped


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of the function; for a `functools.partial` that of the wrapped function."""
    return str(getattr(_unwrapped(function), "__name__", "function"))
