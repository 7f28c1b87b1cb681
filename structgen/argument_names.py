"""Misspelt arguments of public functions: an `OptionError` with "did you mean", not Python's `TypeError`.

Why: `generate` and `sample` take options by name and check them themselves. Functions with fixed parameters should say
the same of a misspelt name.
Invariant: calls that Python binds are unchanged, and so are signatures, names and documentation. A `TypeError` from
inside of the function is passed on.
Cost: one more Python call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from structgen.errors import OptionError, did_you_mean

__all__ = ["checks_names", "checks_names_of_init"]

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])

_ALIASES = {
    **dict.fromkeys(("torchdtype", "precision", "datatype"), "dtype"),
    **dict.fromkeys(("devicemap", "gpu"), "device"),
    **dict.fromkeys(("numthreads", "nthreads", "cputhreads"), "threads"),
    **dict.fromkeys(("baseurl", "endpoint", "host"), "url"),
    **dict.fromkeys(("timeout", "maxtime", "timelimit"), "seconds"),
    **dict.fromkeys(("maxretries", "retries"), "attempts"),
    **dict.fromkeys(("modelname", "modelid"), "model"),
    **dict.fromkeys(("classes", "choices", "categories", "options"), "labels"),
    **dict.fromkeys(("maxlength", "maxlen", "maxcharacters"), "max_chars"),
    **dict.fromkeys(("budget", "budgettokens", "thinkingbudget", "maxthinkingtokens"), "max_tokens"),
    **dict.fromkeys(("systemprompt", "systemmessage"), "system"),
    **dict.fromkeys(("root", "startrule"), "start"),
    **dict.fromkeys(("sep", "delimiter"), "separator"),
}
"""What other libraries call these arguments; see `did_you_mean`."""


def checks_names(function: F, renamed: Mapping[str, str] | None = None) -> F:
    """Raise `OptionError` with a suggestion when a call uses an argument name that `function` lacks.

    Args:
        function: The function.
        renamed: Former names of arguments, each with the hint of its error.
    """

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # it comes from inside of the function
                raise
            refused = _refused(function, args, kwargs, renamed or {})
            if refused is None:
                raise
            raise refused from None

    return call  # type: ignore[return-value]


def checks_names_of_init(cls: C, renamed: Mapping[str, str] | None = None) -> C:
    """Do as `checks_names` for the arguments that make an instance of the class."""
    cls.__init__ = checks_names(cls.__init__, renamed)
    return cls


def _refused(
    function: Callable[..., Any],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    renamed: Mapping[str, str],
) -> OptionError | None:
    """Return the error for arguments that the function does not have; None if something else is wrong."""
    parameters = list(inspect.signature(function).parameters.values())
    name = function.__qualname__
    if name.endswith(".__init__"):  # of the class itself, or of one that inherits it
        name = type(args[0]).__name__
    count = len(args)
    if "." in function.__qualname__.rpartition("<locals>.")[2]:  # the first one is `self` or the class
        parameters, count = parameters[1:], count - 1
    by_name = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    listed = f"It takes {', '.join(by_name)}." if by_name else "It takes no arguments by name."
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [] if takes_any else [given for given in kwargs if given not in by_name]
    if unknown and unknown[0] in renamed:
        return OptionError(f"{name}() has no argument {unknown[0]!r}", hint=renamed[unknown[0]])
    if unknown:
        aliases = {theirs: ours for theirs, ours in _ALIASES.items() if ours in by_name}
        near = did_you_mean(unknown[0], by_name, aliases)
        return OptionError(
            f"{name}() has no argument {unknown[0]!r:.60}", hint=f"{near} {listed}" if near else listed
        )
    positional = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    keyword_only = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if count > len(positional):
        takes = f"{len(positional)} argument{'s' * (len(positional) != 1)} without a name"
        return OptionError(
            f"{name}() takes {takes}, but was given {count}",
            hint=f"Write the others by name: {', '.join(f'{each}=' for each in keyword_only)}."
            if keyword_only
            else listed,
        )
    return None
