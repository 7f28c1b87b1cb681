"""The tool loop: generate a turn, read its calls, run them, show the model their results, until it answers.

What: each round is one generation under the constraint of a turn. Arguments are validated against the tool before it
runs. After `max_rounds` rounds with calls, a last round without calls must answer, so the loop ends. `run_tools` and
`run_tools_async` share `_rounds`, a generator that yields the next step and receives its result.
Invariant: each call that runs has arguments that its tool accepts. An error of a function is shown to the model as the
result of the call, and recorded. With an order, each round starts in the state after the earlier calls, and knows how
many calls later rounds can make. So the conversation never ends against the order, nor reaches a state where it would
have to. The same seed gives the same conversation if the functions are deterministic.
Cost: one generation per round, with a prefill of the whole conversation.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen import api
from structgen.argument_names import checks_names
from structgen.constraints.base import Operand
from structgen.errors import OptionError, OutputInvalid, PromptError, StructgenError
from structgen.generation.options import make_options
from structgen.models.messages import plain_messages, prompt_of
from structgen.results import Result
from structgen.types import OutputType, output_type

from .call_runner import CallResult, CallRunner, Execute, OnError
from .conversation import Conversation, Round
from .definitions import Tool, ToolCall, read_tools
from .formats import ToolFormat, tool_format
from .order import Order, OrderFormulas, formulas_of, order_of
from .prompting import instructions
from .turn import ReasoningChoice, ToolTurn, most_calls, tools

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt

__all__ = ["run_tools", "run_tools_async"]

_Rounds = Generator[Any, Any, Conversation]
"""Yields a `_Turn` and is sent its `Result`, or `_Calls` and is sent a list of `CallResult`."""


@dataclass(frozen=True)
class _Turn:
    """A turn to generate."""

    messages: list[dict[str, Any]]
    constraint: ToolTurn
    options: dict[str, Any]


@dataclass(frozen=True)
class _Calls:
    """The calls of a turn to run."""

    calls: Sequence[ToolCall]
    concurrent: bool
    """Whether async ones may overlap."""


@checks_names
def run_tools(
    model: LanguageModel,
    prompt: Prompt,
    definitions: Sequence[Any],
    *,
    format: str | ToolFormat = "hermes",
    tool_choice: str = "auto",
    parallel: bool | None = None,
    max_calls: int | None = None,
    reasoning: ReasoningChoice = False,
    max_reasoning: int | None = None,
    max_reasoning_tokens: int | None = None,
    answer: Operand | None = None,
    max_text: int | None = None,
    order: OrderFormulas | None = None,
    earlier: Sequence[str | ToolCall] = (),
    max_rounds: int = 4,
    describe: bool = True,
    execute: Execute | None = None,
    timeout: float | None = None,
    on_error: OnError = "report",
    **options: Any,
) -> Conversation:
    """Let the model call tools until it answers.

    The options before `max_rounds` are those of `structgen.tools`. `tool_choice` applies to the first round; later
    rounds are "auto", and the one after `max_rounds` is "none". `order` applies to the calls of all rounds, after those
    in `earlier`, which are calls of the prompt. The model can answer only when the order holds. If `max_rounds` rounds
    are too few for it, that is an error before anything is generated. A call counts even if its function raises.

    Async tools run in an event loop of their own, in a thread. Those of one turn run concurrently, while other tools
    run one after another; with `order` all calls run one after another.

    Args:
        model: A local model, or that of a server.
        prompt: A text or messages.
        definitions: Python functions, which may be async, or tool definitions of OpenAI's API.
        answer: The type or constraint of the final answer; `Conversation.value` is then the validated value.
        max_rounds: The most rounds with calls.
        describe: Show the model the tools, and their order, in the system message.
        execute: Called with each `ToolCall` of a tool that is a definition without a function; may be async.
        timeout: The most seconds of one call; a late one is reported to the model. An async tool is cancelled; any
            other runs in a thread of its own, which continues. None: no limit, and tools run in the caller's thread.
        on_error: "report" shows the model a tool's error and continues; "raise" raises it.
        **options: Fields of `SamplingOptions`.

    Returns:
        The conversation with its rounds, the results of all calls and the answer.

    Raises:
        OptionError: An option is invalid, or a tool has no function and there is no `execute`.
        UnsatisfiableFormula: No calls satisfy the order within `max_rounds`.
        Truncated, DeadEnd: A turn was not completed, as in `structgen.generate`. The `partial` of the error is
            the conversation up to that turn, with the results of the calls that were made.
    """
    rounds, runner, so_far = _opened(model, prompt, definitions, locals())
    try:
        step = next(rounds)
        while True:
            if isinstance(step, _Calls):
                found: Any = runner.run(step.calls, concurrent=step.concurrent)
            else:
                found = _generated(model, step, None)
            step = rounds.send(found)
    except StopIteration as ended:
        conversation: Conversation = ended.value
        return conversation
    except StructgenError as error:
        error.partial = so_far
        raise
    finally:
        runner.close()


async def run_tools_async(
    model: LanguageModel,
    prompt: Prompt,
    definitions: Sequence[Any],
    *,
    format: str | ToolFormat = "hermes",
    tool_choice: str = "auto",
    parallel: bool | None = None,
    max_calls: int | None = None,
    reasoning: ReasoningChoice = False,
    max_reasoning: int | None = None,
    max_reasoning_tokens: int | None = None,
    answer: Operand | None = None,
    max_text: int | None = None,
    order: OrderFormulas | None = None,
    earlier: Sequence[str | ToolCall] = (),
    max_rounds: int = 4,
    describe: bool = True,
    execute: Execute | None = None,
    timeout: float | None = None,
    on_error: OnError = "report",
    **options: Any,
) -> Conversation:
    """Let the model call tools like `run_tools`, without blocking the event loop.

    Turns are generated in a thread. Async tools are awaited in the caller's event loop, all others run in threads.
    Cancelling stops the generation between two tokens, and cancels an async tool; a tool in a thread continues.
    """
    rounds, runner, so_far = _opened(model, prompt, definitions, locals())
    stop = threading.Event()
    try:
        step = next(rounds)
        while True:
            if isinstance(step, _Calls):
                found: Any = await runner.run_async(step.calls, concurrent=step.concurrent)
            else:
                found = await asyncio.to_thread(_generated, model, step, stop.is_set)
            step = rounds.send(found)
    except StopIteration as ended:
        conversation: Conversation = ended.value
        return conversation
    except StructgenError as error:
        error.partial = so_far
        raise
    finally:
        stop.set()


def _opened(
    model: LanguageModel, prompt: Prompt, definitions: Sequence[Any], given: Mapping[str, Any]
) -> tuple[_Rounds, CallRunner, Conversation]:
    """Check all arguments, and return the rounds, the runner of their calls, and the new conversation.

    `given` are the caller's arguments.
    """
    max_rounds, timeout, on_error, execute = (
        given[name] for name in ("max_rounds", "timeout", "on_error", "execute")
    )
    if not isinstance(max_rounds, int) or isinstance(max_rounds, bool) or max_rounds < 0:
        raise OptionError(f"max_rounds is {max_rounds!r:.60}; it must be a whole number of 0 or more")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
    ):
        raise OptionError(f"timeout is {timeout!r:.60}; it must be a number of seconds above 0, or None")
    if timeout is not None and timeout > threading.TIMEOUT_MAX:
        timeout = None
    if not isinstance(given["describe"], bool):
        raise OptionError(f"describe is {given['describe']!r:.60}; it must be True or False")
    if on_error not in ("report", "raise"):
        raise OptionError(f"on_error is {on_error!r:.60}; it must be 'report' or 'raise'")
    if execute is not None and not callable(execute):
        raise OptionError(f"execute is {execute!r:.60}; it must be a function of a ToolCall")
    api.check_model(model)
    chosen, offered = tool_format(given["format"]), read_tools(definitions)
    _check_can_run(offered, execute)
    options = {"exact_weight": False, **given["options"]}
    make_options(options, given)
    formulas = [] if given["order"] is None else formulas_of(given["order"])
    answer = given["answer"]
    kind = None if answer is None or isinstance(answer, str) else output_type(answer)
    last = _about_the_answer(answer, kind)
    about = instructions(offered, chosen, formulas, **last) if given["describe"] else ""
    conversation = Conversation(
        _messages(prompt, about, None if api.is_remote_model(model) else chosen), output=kind
    )
    of_turn = {name: given[name] for name in _OF_TURN}
    rounds = _rounds(model, conversation, chosen, offered, max_rounds, of_turn, options)
    return rounds, CallRunner(offered, execute, timeout, on_error), conversation


def _about_the_answer(answer: Any, kind: OutputType | None) -> dict[str, str | None]:
    """Return the option of `instructions` about the answer: free text, the fields of its type, or nothing."""
    if answer is None:
        return {}
    if kind is None or not kind.is_json or not kind.description:
        return {"answer": None}
    return {"answer": f"When you know enough, answer without a call.\n{kind.description}"}


_OF_TURN = (
    "tool_choice",
    "parallel",
    "max_calls",
    "reasoning",
    "max_reasoning",
    "max_reasoning_tokens",
    "answer",
    "max_text",
    "order",
    "earlier",
)


def _rounds(
    model: LanguageModel,
    conversation: Conversation,
    chosen: ToolFormat,
    offered: Sequence[Tool],
    max_rounds: int,
    of_turn: Mapping[str, Any],
    options: dict[str, Any],
) -> _Rounds:
    order, called, choice = of_turn["order"], of_turn["earlier"], of_turn["tool_choice"]
    most = most_calls(chosen, of_turn["parallel"], of_turn["max_calls"], "auto")
    for number in range(max_rounds + 1):
        max_later = None if order is None else _later(max_rounds - number - 1, most)
        changed = {
            "tool_choice": choice if number < max_rounds else "none",
            "earlier": called,
            "max_later": max_later,
        }
        turn = tools(offered, format=chosen, **{**of_turn, **changed})
        seed = options.get("seed")
        seeded = options if seed is None else {**options, "seed": _seed(seed, number)}
        result: Result[str] = yield _Turn(list(conversation.messages), turn, seeded)
        if result.error is not None:
            raise result.error
        text = result.text if api.is_remote_model(model) else model.vocabulary.spelled(result.tokens)
        read = turn.read(text)
        if order is not None and read.calls:
            called = [*called, *read.calls]
            _check_order(order_of(order, offered, called, max_later), text)
        results: list[CallResult] = []
        if read.calls:
            results = yield _Calls(read.calls, concurrent=order is None)
        conversation.rounds.append(Round(read, tuple(results), result))
        conversation.messages.append({"role": "assistant", "content": text})
        conversation.messages += [_shown(chosen, result) for result in results]
        if not results:
            break
        choice = "auto"
    return conversation


def _generated(model: LanguageModel, turn: _Turn, cancel: api.Cancel | None) -> Result[str]:
    found: Result[str] = api.run(model, turn.messages, turn.constraint, cancel=cancel, **turn.options)
    return found


def _later(rounds: int, most: int | None) -> int | None:
    """Return how many calls so many rounds can make, with `most` in each; None is any number."""
    return 0 if rounds <= 0 else None if most is None else rounds * most


def _check_order(reached: Order | None, text: str) -> None:
    """Raise `OutputInvalid` if calls violate the order: an `answer` can read as calls in formats without markers."""
    assert reached is not None
    if reached.is_broken or not reached.may_end(reached.here):
        raise OutputInvalid(
            f"the answer reads as a call that violates the order {reached.shown()}",
            text=text,
            hint="Use a format whose calls have markers, or an `answer` that cannot be a call.",
        )


def _shown(format: ToolFormat, result: CallResult) -> dict[str, Any]:
    content = format.result.replace("$name", result.call.name).replace("$result", result.content)
    return {"role": format.result_role, "name": result.call.name, "content": content}


def _messages(prompt: Prompt, about: str, notation: ToolFormat | None) -> list[dict[str, Any]]:
    """Return the prompt as messages, with the description of the tools in the system message.

    Earlier calls are written in `notation`, like the calls to come; for a server it is None.
    """
    prompt = prompt_of(prompt)
    if isinstance(prompt, str):
        messages = [{"role": "user", "content": prompt}]
    else:
        given = prompt if isinstance(prompt, Sequence) and not isinstance(prompt, bytes) else [prompt]
        messages = [dict(message) for message in given if isinstance(message, Mapping)]
        if not messages or len(messages) < len(given) or isinstance(prompt, Mapping):
            raise PromptError(
                f"a prompt must be a text or a list of messages, not {prompt!r:.60}",
                hint='Messages look like {"role": "user", "content": "..."}.',
            )
    if notation is not None:
        messages = plain_messages(messages, notation)
    first = messages[0]
    if about and first.get("role") in ("system", "developer"):
        (plain,) = plain_messages([first])
        if about not in plain["content"]:  # a continued conversation has it already
            said = f"{plain['content']}\n\n{about}" if plain["content"] else about
            messages[0] = {**first, "content": said}
    elif about:
        messages.insert(0, {"role": "system", "content": about})
    return messages


def _check_can_run(offered: Sequence[Tool], execute: Execute | None) -> None:
    for tool in offered:
        if tool.function is None and execute is None:
            raise OptionError(
                f"the tool {tool.name} has no function to run",
                hint="Pass Python functions, or execute=, which is called with each ToolCall.",
            )


def _seed(seed: Any, number: int) -> tuple[int, ...]:
    parts = tuple(seed) if isinstance(seed, (tuple, list)) else (seed,)
    return (*parts, number)
