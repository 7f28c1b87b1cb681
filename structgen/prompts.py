"""Prompt functions: a signature, a docstring and a return annotation define a typed call to a model.

What: the docstring is a Jinja2 template over the parameters, and the return annotation is the output type. The body
never runs. Templates are the programmer's text; arguments are data, not templates. An unknown name in a template is an
error when the function is decorated.
Invariant: a call, `.aio`, `.map`, `.stream` and `.run` give the same result for the same arguments, options and seed.
`.aio` runs the synchronous call in a thread, and stops it between two tokens when it is cancelled.
Cost: the template is compiled once.
"""

from __future__ import annotations

import asyncio
import dis
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_type_hints

from structgen import api
from structgen.brief import cut
from structgen.errors import OptionError, PromptError, StructgenError, a_kind, did_you_mean, with_kind
from structgen.generation import SamplingOptions
from structgen.generation.options import ALIASES, OPTION_NAMES, RENAMED_OPTIONS, make_options
from structgen.progress import ProgressBar
from structgen.results import Result
from structgen.streams import AsyncStream, ItemStream, Stream
from structgen.templates import PromptWarning, compile_template, render_template, warn_of_unused
from structgen.types import OutputType, output_type
from structgen.types.names import enclosing_names, hint_for, undefined_names

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt

__all__ = ["PromptFunction", "PromptWarning", "prompt"]

R = TypeVar("R")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_CALL_OPTIONS = (*OPTION_NAMES, "n")
_VALUE_ONLY: dict[str, Any] = {"exact_weight": False}
"""Options of calls that return only the value: no forward pass is spent on weights."""


def prompt(
    model: LanguageModel, *, system: str | None = None, describe: bool | None = None, **options: Any
) -> Callable[[Callable[..., R]], PromptFunction[R]]:
    """Turn the decorated function into a typed call to a model.

    Args:
        model: A model of `load`, `wrap` or `connect`.
        system: A system message, a template over the same parameters.
        describe: Write the fields of the output type and their descriptions before the prompt; None decides as
            `structgen.generate` does.
        **options: Fields of `SamplingOptions`, and `n`; a call may override them.

    Raises:
        PromptError: The function, its template or its return annotation is invalid.
    """
    if inspect.isfunction(model):
        raise PromptError(
            "@prompt got a function instead of a model",
            hint="Write @prompt(model) above the function.",
        )
    api.check_model(model)
    api.check_describe(describe)
    if system is not None and not isinstance(system, str):
        raise OptionError(f"system is {with_kind(system)}; it must be a text, which is a template")
    _check_options(options)  # raises for a misspelt option
    local_names = sys._getframe(1).f_locals

    def decorate(function: Callable[..., R]) -> PromptFunction[R]:
        return PromptFunction(function, model, options, system, describe, local_names)

    return decorate


class PromptFunction(Generic[R]):
    """A typed call; `prompt` returns it. Call it with the function's arguments, and sampling options by keyword."""

    def __init__(
        self,
        function: Callable[..., R],
        model: LanguageModel,
        options: dict[str, Any],
        system: str | None = None,
        describe: bool | None = None,
        local_names: dict[str, Any] | None = None,
    ) -> None:
        _check_function(function)
        functools.update_wrapper(self, function)
        self.model = model
        self._given = options
        self._describe = describe
        self._name = function.__qualname__
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise PromptError(
                f"{self._name} is an async function, but its body is never run",
                hint=f"Define it with `def`, and write `await {function.__name__}.aio(...)`.",
            )
        self._signature = inspect.signature(function)
        self._receiver: dict[str, Any] = {}
        self.output: OutputType = output_type(_return_annotation(function, local_names or {}))
        documentation = inspect.getdoc(function)
        if not documentation:
            raise _no_docstring(function)
        parameters = frozenset(self._signature.parameters)
        docstring, used = compile_template(documentation, parameters, f"the docstring of {self._name}")
        self._template = docstring
        self._system = None
        if system:
            self._system, also = compile_template(system, parameters, f"the system prompt of {self._name}")
            used |= also
        warn_of_unused(self._name, self._signature, used, f"{documentation}\n{system or ''}")

    def __get__(self, instance: Any, owner: type | None = None) -> PromptFunction[R]:
        """Bind a method: the instance is the first argument, and the template may use it."""
        if instance is None:
            return self
        first, *others = self._signature.parameters.values()
        bound = object.__new__(type(self))
        bound.__dict__.update(
            self.__dict__,
            _receiver={first.name: instance},
            _signature=self._signature.replace(parameters=others),
        )
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Return the validated value; with ``n=``, a list of n values."""
        return cast(R, _values(self._run(_VALUE_ONLY, None, args, kwargs)))

    def run(self, *args: Any, **kwargs: Any) -> Result[R]:
        """Return the `Result`, with text, exact weights and timing; with ``n=``, a list of n results."""
        return cast("Result[R]", self._run({}, None, args, kwargs))

    async def aio(self, *args: Any, **kwargs: Any) -> R:
        """Return the value without blocking the event loop. Cancelling stops the generation."""
        stop = threading.Event()
        try:
            return cast(
                R, _values(await asyncio.to_thread(self._run, _VALUE_ONLY, stop.is_set, args, kwargs))
            )
        finally:
            stop.set()

    def stream(self, *args: Any, **kwargs: Any) -> Stream[Any]:
        """Yield partial values while they grow; the last one is complete and validated."""
        return self._stream(None, args, kwargs)

    def astream(self, *args: Any, **kwargs: Any) -> AsyncStream[Any]:
        """Yield partial values like `stream`, for ``async for``."""
        return AsyncStream(lambda cancel: self._stream(cancel, args, kwargs))

    def stream_items(self, *args: Any, **kwargs: Any) -> ItemStream[Any]:
        """Yield the items of a function that returns a list, each validated as soon as it is complete."""
        return self._stream_items(None, args, kwargs)

    def astream_items(self, *args: Any, **kwargs: Any) -> AsyncStream[Any]:
        """Yield items like `stream_items`, for ``async for``."""
        return AsyncStream(lambda cancel: self._stream_items(cancel, args, kwargs))

    def map(
        self,
        items: Iterable[Any],
        *,
        progress: bool = False,
        batch_size: int = 8,
        return_errors: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Return one value per item, in order, generated in batches.

        With a seed, item i equals a call with ``seed=(seed, i)``, up to rounding in the model, which may depend on the
        batch.

        Args:
            items: Each is the argument of a function with one parameter; otherwise a tuple of arguments, or a dict of
                them by name.
            progress: Show a bar.
            batch_size: Items per batch.
            return_errors: Return the error of an item that fails instead of its value, and continue.
            **options: Fields of `SamplingOptions`.

        Raises:
            StructgenError: The error of the first item that failed, when its batch is done. `item` is its number, from
                0; `results` are the values and errors of all items up to the end of that batch.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise OptionError(f"batch_size is {batch_size!r:.40}; it must be a whole number of 1 or more")
        if options.pop("n", None) is not None:
            raise OptionError(
                "map returns one value per item, so it does not accept n",
                hint="Repeat an item to get several values.",
            )
        base = self._options(_VALUE_ONLY, options)
        calls = [self._item_arguments(item) for item in _listed(items, self._name)]
        values: list[Any] = []
        with ProgressBar(len(calls), self._name, progress) as bar:
            for start in range(0, len(calls), batch_size):
                batch = calls[start : start + batch_size]
                each = [api.row_options(base, start + index) for index in range(len(batch))]
                outcomes = self._outcomes(batch, each)
                values += [value if error is None else error for value, error in outcomes]
                for index, (_, error) in enumerate(outcomes, start):
                    if error is not None and not return_errors:
                        raise api.with_item(error, index, len(calls), values)
                bar.advance(len(batch))
        return values

    def _outcomes(
        self, calls: list[Arguments], options: list[SamplingOptions]
    ) -> list[tuple[R | None, StructgenError | None]]:
        """Return the value or the error of each call of one batch. A prompt that fails does not stop the others."""
        outcomes: list[tuple[R | None, StructgenError | None]] = [(None, None)] * len(calls)
        encoded: dict[int, Any] = {}
        for index, (args, kwargs) in enumerate(calls):
            try:
                encoded[index] = api.encoded(self.model, self.render(*args, **kwargs))
            except StructgenError as error:
                outcomes[index] = None, error
        chosen = [options[index] for index in encoded]
        results = api.run_encoded(self.model, list(encoded.values()), self.output, chosen)
        for index, result in zip(encoded, results, strict=True):
            outcomes[index] = (result.value, None) if result.error is None else (None, result.error)
        return outcomes

    def render(self, *args: Any, **kwargs: Any) -> Prompt:
        """Return the prompt for these arguments: a text, or messages if there is a system prompt."""
        values = self._bind(args, kwargs)
        text: Prompt = render_template(self._template, values, self._name)
        if self._system is not None:
            text = [
                {"role": "system", "content": render_template(self._system, values, self._name)},
                {"role": "user", "content": text},
            ]
        return api.with_description(self.model, text, self.output, self._describe)

    def with_options(self, **options: Any) -> PromptFunction[R]:
        """Return the same function with other sampling options."""
        return self._with_given({**self._given, **options})

    def _with_given(self, options: dict[str, Any]) -> PromptFunction[R]:
        changed = object.__new__(type(self))
        changed.__dict__.update(self.__dict__, _given=options)
        _check_options(changed._given)
        return changed

    # It is immutable, so a copy is the same object. Like a function, it is pickled by its name: the process that reads
    # it imports the module, and with it the model. A pickle never contains weights.

    def __copy__(self) -> PromptFunction[R]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PromptFunction[R]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        module, name = self.__module__, self._name
        origin = _named(module, name)
        if origin is None or origin.__wrapped__ is not self.__wrapped__:  # type: ignore[attr-defined]
            raise PromptError(
                f"{self._name} cannot be pickled: another process would not find it as {name} in {module}",
                hint="Define it at the top level of a module, with its model, like a function.",
            )
        options = None if self._given == origin._given else self._given
        return _restored, (module, name, options, self._receiver)

    def _options(self, defaults: dict[str, Any], options: dict[str, Any]) -> SamplingOptions:
        """Merge options: those of the call, of the decorator, and the defaults of this method, in this order."""
        return make_options(_without_n({**defaults, **self._given, **options}))

    def _run(
        self,
        defaults: dict[str, Any],
        cancel: api.Cancel | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Result[R] | list[Result[R]]:
        kwargs, given = self._split(kwargs)
        n = given.pop("n", self._given.get("n"))
        each = api.several(self._options(defaults, given), n)
        prompts = [self.render(*args, **kwargs)] * len(each)
        results = api.run_batch(self.model, prompts, self.output, each, cancel=cancel)
        return results[0] if n is None else results

    def _stream(
        self, cancel: api.Cancel | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Stream[Any]:
        kwargs, given = self._split(kwargs)
        options = {**self._given, **given}
        return api.stream(self.model, self.render(*args, **kwargs), self.output, cancel=cancel, **options)

    def _stream_items(
        self, cancel: api.Cancel | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ItemStream[Any]:
        kwargs, given = self._split(kwargs)
        options = {**self._given, **given}
        return api.stream_items(
            self.model, self.render(*args, **kwargs), self.output, cancel=cancel, **options
        )

    def _split(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split arguments into those of the function and sampling options. A parameter hides an option of its name."""
        known = {*_CALL_OPTIONS, *RENAMED_OPTIONS} - set(self._signature.parameters)
        options = {k: v for k, v in kwargs.items() if k in known}  # a former name is refused below
        return {k: v for k, v in kwargs.items() if k not in options}, options

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            strange = [name for name in kwargs if name not in self._signature.parameters]
            near = (
                did_you_mean(strange[0], (*self._signature.parameters, *_CALL_OPTIONS), ALIASES)
                if strange
                else None
            )
            listed = (
                f"In addition to its parameters it takes the sampling options {', '.join(_CALL_OPTIONS)}."
            )
            raise PromptError(
                f"{self._name}{self._signature}: {error}", hint=f"{near} {listed}" if near else listed
            ) from None
        bound.apply_defaults()
        return {**self._receiver, **bound.arguments}

    def _item_arguments(self, item: Any) -> Arguments:
        if len(self._signature.parameters) == 1:
            return (item,), {}
        if isinstance(item, dict):
            return (), item
        return (tuple(item) if isinstance(item, (tuple, list)) else (item,)), {}

    def __repr__(self) -> str:
        return cut(f"<prompt function {self._name}{self._signature}>")


def _values(results: Result[Any] | list[Result[Any]]) -> Any:
    return api.values_of(results) if isinstance(results, list) else results.value


def _check_options(options: dict[str, Any]) -> None:
    make_options(_without_n(options), ("system", "describe", "n"))
    if "n" in options:
        api.several(SamplingOptions(), options["n"])


def _without_n(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "n"}


def _listed(items: Iterable[Any], name: str) -> list[Any]:
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise OptionError(
            f"{name}.map got {a_kind(items)}, not a list of items",
            hint=f"Write {name}.map([item, ...]).",
        )
    return list(items)


def _named(module: str, name: str) -> PromptFunction[Any] | None:
    """Return the prompt function of this name, importing its module if necessary."""
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, PromptFunction) else None


def _restored(
    module: str, name: str, options: dict[str, Any] | None, receiver: dict[str, Any]
) -> PromptFunction[Any]:
    """Return the prompt function that was pickled."""
    found = _named(module, name)
    if found is None:
        raise PromptError(
            f"{module} has no prompt function {name}",
            hint="A prompt function is pickled by its name, so this process needs the same module.",
        )
    for instance in receiver.values():
        found = found.__get__(instance)
    return found if options is None else found._with_given(options)


def _check_function(function: Any) -> None:
    """Raise `PromptError` for anything but a function: its docstring or parameters would be those of something else."""
    if isinstance(function, (classmethod, staticmethod)):
        kind = type(function).__name__
        raise PromptError(
            f"@prompt(model) got a {kind}", hint=f"Write @{kind} above @prompt(model), not below it."
        )
    if not inspect.isroutine(inspect.unwrap(function)):
        raise PromptError(
            f"@prompt(model) got {with_kind(function)}, not a function",
            hint="Write @prompt(model) above a function with a docstring and a return annotation.",
        )


def _return_annotation(function: Callable[..., Any], local_names: dict[str, Any]) -> Any:
    """Return the evaluated return annotation. It may use names of the enclosing function."""
    annotation = function.__annotations__.get("return")
    if annotation in (None, "None"):
        raise PromptError(
            f"{function.__qualname__} has no return annotation",
            hint="The return annotation is the output type; write `-> str` for free text.",
        )
    local_names = {**enclosing_names(function), **local_names}
    try:
        return get_type_hints(_OnlyReturn(function), localns=local_names, include_extras=True)["return"]
    except NameError as error:
        missing = undefined_names(annotation, {**getattr(function, "__globals__", {}), **local_names})
        name = missing[0] if missing else str(error.name)
        raise PromptError(
            f"the return annotation {annotation!r} of {function.__qualname__} names {name}, which is not defined",
            hint=hint_for(name, function.__module__, function.__qualname__),
        ) from error
    except (SyntaxError, TypeError, AttributeError) as error:
        raise PromptError(
            f"the return annotation {annotation!r:.80} of {function.__qualname__} cannot be read: {error}",
            hint="Write a type, such as `-> Person` or `-> list[str]`.",
        ) from error


class _OnlyReturn:
    """Stands in for a function in `get_type_hints`, with the return annotation only: parameters may be anything."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__annotations__ = {"return": function.__annotations__["return"]}
        self.__globals__ = getattr(inspect.unwrap(function), "__globals__", {})


def _no_docstring(function: Callable[..., Any]) -> PromptError:
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = function.__qualname__
    if code is not None and any(
        instruction.opname in _FORMATTING for instruction in dis.get_instructions(code)
    ):
        return PromptError(
            f"the text of {name} is an f-string, which Python does not keep as a docstring",
            hint="Write a plain string, and {{ name }} for the value of a parameter: "
            '"""Summarise: {{ text }}""".',
        )
    return PromptError(f"{name} has no docstring", hint="The docstring is the prompt; write one.")


_FORMATTING = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING")
"""Bytecode instructions of f-strings. No other code of a prompt function would run."""
