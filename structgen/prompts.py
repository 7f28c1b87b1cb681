"""Prompt functions: a signature, a docstring and a return annotation make a typed call to a model.

What: the docstring is a Jinja2 template over the parameters, the return annotation the output type. The body
is never run. Templates are the programmer's text, arguments are data: arguments are not templates themselves,
and a name that no parameter has is an error when the function is decorated.
Invariant: a call, `.aio`, `.map`, `.stream` and `.run` draw the same for the same arguments, options and seed;
`.aio` runs the synchronous call in a thread and stops it between two tokens when it is cancelled.
Cost: the template is compiled once.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_type_hints

import jinja2
import jinja2.meta
import jinja2.nodes

from structgen import api
from structgen.errors import OptionError, PromptError, StructgenError
from structgen.progress import ProgressBar
from structgen.results import Result
from structgen.sampling import SamplingOptions
from structgen.sampling.options import OPTION_NAMES, RENAMED_OPTIONS, make_options
from structgen.streams import AsyncStream, ItemStream, Stream
from structgen.types import OutputType, output_type

if TYPE_CHECKING:
    from structgen.models.base import LanguageModel, Prompt

__all__ = ["PromptFunction", "prompt"]

R = TypeVar("R")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_INSTANCE = "_structgen_instance"
"""What templates of methods call `self`, which is a word of Jinja's own."""
_VALUE_ONLY: dict[str, Any] = {"exact_weight": False}
"""Where only the value comes back, no forward pass is spent on weights."""


def prompt(
    model: LanguageModel, *, system: str | None = None, describe: bool = False, **options: Any
) -> Callable[[Callable[..., R]], PromptFunction[R]]:
    """Make a typed call to `model` of the function below.

    `system`: a system message, a template over the same parameters. `describe`: tell the model the fields of
    the output type and their descriptions. The other options are those of `SamplingOptions`; a call may give
    others.
    """
    if inspect.isfunction(model):
        raise PromptError(
            "@prompt was given a function where the model belongs",
            hint="Write @prompt(model) above the function.",
        )
    api.check_model(model)
    make_options(options)  # a misspelt option is told here
    local_names = sys._getframe(1).f_locals

    def decorate(function: Callable[..., R]) -> PromptFunction[R]:
        return PromptFunction(function, model, options, system, describe, local_names)

    return decorate


class PromptFunction(Generic[R]):
    """Made by `prompt`. Call it with the function's own arguments, and sampling options by keyword."""

    def __init__(
        self,
        function: Callable[..., R],
        model: LanguageModel,
        options: dict[str, Any],
        system: str | None = None,
        describe: bool = False,
        local_names: dict[str, Any] | None = None,
    ) -> None:
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
            raise PromptError(
                f"{self._name} has no docstring", hint="The docstring is the prompt; write one."
            )
        parameters = frozenset(self._signature.parameters)
        self._template = _compile(documentation, parameters, f"the docstring of {self._name}")
        self._system = _compile(system, parameters, f"the system prompt of {self._name}") if system else None

    def __get__(self, instance: Any, owner: type | None = None) -> PromptFunction[R]:
        """As a method: the instance is the first argument, and the template may name it."""
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
        """The validated value."""
        return self._run(_VALUE_ONLY, None, args, kwargs).value

    def run(self, *args: Any, **kwargs: Any) -> Result[R]:
        """The `Result`, with text, exact weights and timing."""
        return self._run({}, None, args, kwargs)

    async def aio(self, *args: Any, **kwargs: Any) -> R:
        """The same as a call, without blocking the event loop; cancelling stops the generation."""
        stop = threading.Event()
        try:
            return (await asyncio.to_thread(self._run, _VALUE_ONLY, stop.is_set, args, kwargs)).value
        finally:
            stop.set()

    def stream(self, *args: Any, **kwargs: Any) -> Stream[Any]:
        """Partial values as they grow; the last one is whole and validated."""
        return self._stream(None, args, kwargs)

    def astream(self, *args: Any, **kwargs: Any) -> AsyncStream[Any]:
        """The same as `stream`, for ``async for``."""
        return AsyncStream(lambda cancel: self._stream(cancel, args, kwargs))

    def stream_items(self, *args: Any, **kwargs: Any) -> ItemStream[Any]:
        """The items of a function that returns a list, each validated as soon as it is finished."""
        return self._stream_items(None, args, kwargs)

    def astream_items(self, *args: Any, **kwargs: Any) -> AsyncStream[Any]:
        """The same as `stream_items`, for ``async for``."""
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
        """One value per item, in order, drawn in batches.

        An item is the argument of a function with one parameter; otherwise a tuple of arguments or a dict of
        them by name. With a seed, item i draws what a call with ``seed=(seed, i)`` draws, up to the rounding of
        the model's arithmetic, which may depend on the batch. With `return_errors` a failed item gives its error
        instead of raising it when its batch is done.
        """
        if batch_size < 1:
            raise OptionError(f"batch_size is {batch_size!r}; it must be 1 or more")
        base = self._options(_VALUE_ONLY, options)
        calls = [self._item_arguments(item) for item in items]
        values: list[Any] = []
        with ProgressBar(len(calls), self._name, progress) as bar:
            for start in range(0, len(calls), batch_size):
                batch = calls[start : start + batch_size]
                each = [_row_options(base, start + place) for place in range(len(batch))]
                for value, error in self._outcomes(batch, each):
                    if error is not None and not return_errors:
                        raise error
                    values.append(value if error is None else error)
                bar.advance(len(batch))
        return values

    def _outcomes(
        self, calls: list[Arguments], options: list[SamplingOptions]
    ) -> list[tuple[R | None, StructgenError | None]]:
        """The value or the error of each call of one batch; a prompt that fails does not keep the others."""
        outcomes: list[tuple[R | None, StructgenError | None]] = [(None, None)] * len(calls)
        encoded: dict[int, Any] = {}
        for place, (args, kwargs) in enumerate(calls):
            try:
                encoded[place] = api.encoded(self.model, self.render(*args, **kwargs))
            except StructgenError as error:
                outcomes[place] = None, error
        chosen = [options[place] for place in encoded]
        results = api.run_encoded(self.model, list(encoded.values()), self.output, chosen)
        for place, result in zip(encoded, results, strict=True):
            outcomes[place] = (result.value, None) if result.error is None else (None, result.error)
        return outcomes

    def render(self, *args: Any, **kwargs: Any) -> Prompt:
        """The prompt for these arguments: a text, or messages if there is a system prompt."""
        values = self._bind(args, kwargs)
        text: Prompt = _render(self._template, values, self._name)
        if self._system is not None:
            text = [
                {"role": "system", "content": _render(self._system, values, self._name)},
                {"role": "user", "content": text},
            ]
        return api.described(text, self.output) if self._describe else text

    def with_options(self, **options: Any) -> PromptFunction[R]:
        """The same function with other sampling options."""
        return self._with_given({**self._given, **options})

    def _with_given(self, options: dict[str, Any]) -> PromptFunction[R]:
        changed = object.__new__(type(self))
        changed.__dict__.update(self.__dict__, _given=options)
        make_options(changed._given)
        return changed

    # It never changes, so copies are the same object. Like a function it is pickled by its name: the process that reads
    # it imports the module, and with it the model; weights are never a part of a pickle.

    def __copy__(self) -> PromptFunction[R]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PromptFunction[R]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        module, name = self.__module__, self._name
        origin = _named(module, name)
        if origin is None or origin.__wrapped__ is not self.__wrapped__:  # type: ignore[attr-defined]
            raise PromptError(
                f"{self._name} cannot be pickled: another process does not find it as {name} in {module}",
                hint="Define it at the top level of a module, with its model, as functions have to be.",
            )
        options = None if self._given == origin._given else self._given
        return _restored, (module, name, options, self._receiver)

    def _options(self, defaults: dict[str, Any], options: dict[str, Any]) -> SamplingOptions:
        """The options of a call, over those of the decorator, over the defaults of this way to call."""
        return make_options({**defaults, **self._given, **options})

    def _run(
        self,
        defaults: dict[str, Any],
        cancel: api.Cancel | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Result[R]:
        kwargs, given = self._split(kwargs)
        options = self._options(defaults, given)
        (result,) = api.run_batch(
            self.model, [self.render(*args, **kwargs)], self.output, [options], cancel=cancel
        )
        return result

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
        """The function's own arguments and the sampling options; a parameter hides an option of its name."""
        known = {*OPTION_NAMES, *RENAMED_OPTIONS} - set(
            self._signature.parameters
        )  # a former name is refused below
        options = {k: v for k, v in kwargs.items() if k in known}
        return {k: v for k, v in kwargs.items() if k not in options}, options

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PromptError(
                f"{self._name}{self._signature}: {error}",
                hint=f"Besides its parameters it takes the sampling options {', '.join(OPTION_NAMES)}.",
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
        return f"<prompt function {self._name}{self._signature}>"


def _named(module: str, name: str) -> PromptFunction[Any] | None:
    """The prompt function of this name in a module that may have to be imported."""
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
    """The prompt function that was pickled."""
    found = _named(module, name)
    if found is None:
        raise PromptError(
            f"{module} has no prompt function {name}",
            hint="A prompt function is pickled by its name, so the module must be the same here.",
        )
    for instance in receiver.values():
        found = found.__get__(instance)
    return found if options is None else found._with_given(options)


def _return_annotation(function: Callable[..., Any], local_names: dict[str, Any]) -> Any:
    """The return annotation, names of the enclosing function included."""
    annotation = function.__annotations__.get("return")
    if annotation in (None, "None"):
        raise PromptError(
            f"{function.__qualname__} has no return annotation",
            hint="The return annotation is the output type; write `-> str` for free text.",
        )
    try:
        return get_type_hints(_OnlyReturn(function), localns=local_names, include_extras=True)["return"]
    except NameError as error:
        raise PromptError(
            f"the return annotation {annotation!r} of {function.__qualname__} cannot be read: {error}",
            hint="Define the type before the function.",
        ) from error


class _OnlyReturn:
    """What `get_type_hints` reads of a function, the return annotation alone: parameters may be anything."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__annotations__ = {"return": function.__annotations__["return"]}
        self.__globals__ = getattr(inspect.unwrap(function), "__globals__", {})


def _compile(source: str, names: frozenset[str], where: str) -> jinja2.Template:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    try:
        tree = environment.parse(source)
        for name in tree.find_all(jinja2.nodes.Name):
            if name.name == "self" and "self" in names:
                name.name = _INSTANCE
        unknown = jinja2.meta.find_undeclared_variables(tree) - names - {_INSTANCE}
        template = environment.from_string(tree)
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(f"{error.message}", where=f"{where}, line {error.lineno}") from error
    unknown -= environment.globals.keys()
    if unknown:
        raise PromptError(
            f"the template names {', '.join(sorted(unknown))}, which is no parameter",
            where=where,
            hint=f"The parameters are {', '.join(sorted(names)) or 'none'}.",
        )
    return template


def _render(template: jinja2.Template, values: dict[str, Any], name: str) -> str:
    try:
        return template.render({_INSTANCE if key == "self" else key: value for key, value in values.items()})
    except StructgenError:
        raise
    except Exception as error:
        # A template runs whatever its arguments' methods do, so anything may come out of it.
        raise PromptError(f"the prompt of {name} cannot be rendered: {error}") from error


def _row_options(base: SamplingOptions, row: int) -> SamplingOptions:
    if base.seed is None:
        return base
    seed = tuple(base.seed) if isinstance(base.seed, (tuple, list)) else (base.seed,)
    return base.replace(seed=(*seed, row))
