"""Handle requests: compile the constraint, encode the prompt, join the batch, and collect the texts.

A `CompletionRequest` has its constraint compiled (`CompiledConstraint` or `IsolatableConstraint`), becomes rows of the
batch (`SequenceRow`), and is followed by a `Ticket`.
Why: everything that may take long runs on other threads (the compiler's, one for prompts, the model's, one for
samplers), so the event loop only passes data on.
Invariants: a request that ends in any way, by an error or because its client has disconnected, releases all it holds.
At most `max_queue` requests are open.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from structgen import _core
from structgen.errors import DeadEnd, LimitExceeded, StructgenError
from structgen.generation.token_budget import room_after
from structgen.protocols import rendered_prompt, token_cache_bytes
from structgen.serving.isolating_compiler import IsolatingCompiler
from structgen.serving.probes import ProbeFuture

from .answers import Choice
from .client import Client
from .completion_request import CompletionRequest, Endpoint, read_request
from .errors import ApiError, bad_request, failed, of_error
from .fair_threads import FairThreads
from .fields import parse_body
from .metrics import Metrics
from .model_thread import ModelThread
from .prompt_threads import PromptThreads, least_tokens_of
from .reasoning import ChatTemplate
from .responses.response_request import read_response_request
from .row_opening import AnyConstraint, RowOpener
from .row_text import RowText
from .sampled_answers import draw_choices
from .settings import ServerSettings
from .ticket import Ticket

__all__ = ["RunningRequest", "Service"]

_BUDGET = re.compile(r"\bmax_tokens\b")


class RunningRequest:
    """A ticket, as the event loop sees it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.ticket: Ticket | None = None

    def on_change(self) -> None:
        """Called on the model's thread after the ticket has changed."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            return  # the loop has ended

    async def wait_for_change(self) -> None:
        """Wait until the ticket has changed since the last wait."""
        await self._event.wait()
        self._event.clear()


class Service:
    """One model with its thread and its compiler."""

    def __init__(self, model: Any, settings: ServerSettings) -> None:
        self.model, self.settings = model, settings
        self.compiler = IsolatingCompiler(
            model.vocabulary, settings.limits, settings.compilers, settings.queue_seconds
        )
        processes = self.compiler.matcher_processes
        self.rows = RowOpener(model, settings, processes)
        self.model_thread = ModelThread(model, settings, has_slow_work=lambda: bool(self.compiler.slow_work))
        self.metrics = Metrics(self.model_thread, self.compiler, lambda: len(self.rows.process_queue))
        self.is_draining = False
        self.open = 0
        """Requests that wait or are being answered."""
        self._prompts = PromptThreads(model)
        self._least_tokens = least_tokens_of(model)
        self._samplers = FairThreads(max(1, settings.samplers), "structgen-samplers")
        self._sampler_stops: set[_core.StopFlag] = set()
        """Each ends the calls of the core that a running sampler makes."""
        self._template = ChatTemplate(model, settings.tool_format)
        self._specials = {i: text.encode() for text, i in model.vocabulary.specials.items()}

    def start(self) -> None:
        """Start the model's thread."""
        self.model_thread.start()

    def close(self) -> None:
        """End all threads and processes."""
        self.is_draining = True
        for stop in tuple(self._sampler_stops):
            stop.set()
        self.model_thread.close()
        self.compiler.close()
        for threads in (self._prompts, self.rows, self._samplers):
            threads.close()

    @property
    def is_closed(self) -> bool:
        """Return whether the model's thread has stopped."""
        return not self.model_thread.is_alive

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Count a request as open. Raises `ApiError` if the server takes no more."""
        if self.is_draining:
            raise ApiError(503, "the server is shutting down and takes no more requests", code="draining")
        if self.open >= self.settings.max_queue:
            raise ApiError(
                429,
                f"{self.open} requests are open, and more are not taken; try again later",
                code="queue_full",
            )
        self.open += 1
        self.metrics.open.set(self.open)
        try:
            yield
        finally:
            self.open -= 1
            self.metrics.open.set(self.open)

    def read(self, body: bytes, endpoint: Endpoint) -> CompletionRequest:
        """Read a request's body. Raises `ApiError`."""
        given = parse_body(body)
        if endpoint == "response":
            return read_response_request(given, self.settings, self._template)
        return read_request(given, endpoint, self.settings, self._template)

    async def read_long(self, body: bytes, endpoint: Endpoint, client: Client) -> CompletionRequest:
        """Read a long body, on the threads that tokenize long prompts. Raises `ApiError`."""
        return await self._prompts.run(client.name, client.size, lambda model: self.read(body, endpoint))

    async def prepare(
        self, request: CompletionRequest, client: Client
    ) -> tuple[list[int], AnyConstraint | None]:
        """Return the prompt's tokens and the compiled constraint. Raises `ApiError`."""
        self._check_model(request)
        self._check_bias(request)
        kind = "none" if request.spec is None else request.spec.kind
        self.metrics.constraints.labels(kind).inc()
        encoding = self._prompts.run(client.name, client.size, lambda model: self._encode(request, model))
        wanted = request.compiler_spec()
        if request.spec is None or wanted is None:
            return await encoding, None
        future = self.compiler.submit(*wanted, client.name)
        compiling = self._compiled(future, client)
        try:
            # subtle: both are awaited, so that no error is lost.
            prompt, constraint = await asyncio.gather(encoding, compiling, return_exceptions=True)
        except asyncio.CancelledError:
            future.cancel()
            raise
        if isinstance(prompt, BaseException):
            raise prompt
        if isinstance(constraint, TimeoutError):
            raise self._not_compiled(request.spec.param)
        if isinstance(constraint, StructgenError):
            param = None if request.tools is None else request.tools.param_of(constraint)
            raise of_error(constraint, param or request.spec.param) from None
        if isinstance(constraint, BaseException):
            raise constraint
        if request.tools is not None:
            request.tools.forms = constraint.forms
        return prompt, constraint

    async def _compiled(self, future: ProbeFuture[AnyConstraint], client: Client) -> AnyConstraint:
        """Wait for a constraint. Raises `TimeoutError` if its compilation does not start in time."""
        compiling = asyncio.wrap_future(future)
        await asyncio.wait({compiling}, timeout=client.seconds_left(self.settings.queue_seconds))
        if not (compiling.done() or self.compiler.stop_waiting(future)):
            compiling.cancel()
            raise TimeoutError
        try:
            return await compiling  # it has time limits of its own
        finally:
            if future.started is not None:
                client.compile_seconds += time.monotonic() - future.started

    async def submit(
        self,
        request: CompletionRequest,
        prompt: list[int],
        constraint: AnyConstraint | None,
        client: Client,
    ) -> RunningRequest:
        """Let a request join the batch. Raises `ApiError`."""
        running = RunningRequest()
        try:
            rows = await self.rows.open(request, prompt, constraint, client)
        except StructgenError as error:
            raise self._refused(error, request) from None
        decode = self.model.vocabulary.decode if request.reader() is None else self._spelled
        texts = [RowText(decode, request.stops) for _ in rows]
        running.ticket = Ticket(rows, texts, running.on_change)
        try:
            self.model_thread.submit(running.ticket)
        except StructgenError as error:
            raise ApiError(503, str(error), code="draining") from None
        return running

    def finish(self, running: RunningRequest) -> None:
        """Release a request that has ended in any way, and count it in the metrics."""
        # The two refer to each other, and the ticket to its rows and matcher processes.
        ticket, running.ticket = running.ticket, None
        if ticket is None:
            return
        if not ticket.is_done:
            try:
                self.model_thread.cancel(ticket)
            except StructgenError:
                return
        metrics = self.metrics
        metrics.tokens.inc(ticket.tokens)
        metrics.prompt_tokens.inc(len(ticket.rows[0].prompt))
        if ticket.first_token is not None:
            metrics.first_token.observe(ticket.first_token)
        for gap in ticket.gaps:
            metrics.gap.observe(gap)
        if ticket.is_done:
            metrics.total.observe(time.perf_counter() - ticket.started)
            metrics.forced.inc(sum(row.forced_tokens for row in ticket.rows))

    async def sample(
        self,
        request: CompletionRequest,
        prompt: list[int],
        constraint: AnyConstraint | None,
        client: Client,
    ) -> tuple[list[Choice], int, dict[str, Any]]:
        """Answer a request with its sampler.

        Returns:
            The choices, their number of tokens, and what the sampler reports.

        Raises:
            ApiError: The sampler has failed, or the request cannot be sampled.
        """
        assert request.sampler is not None
        room, _ = room_after(len(prompt), self.model.context_length, request.options.max_tokens)
        token_bytes = token_cache_bytes(self.model)
        request.sampler.check_memory(len(prompt) + room, token_bytes, self.settings.sampler_bytes)
        stop = _core.StopFlag()

        def draw() -> tuple[list[Choice], int, dict[str, Any]]:
            with _core.CallLimits(cpu_seconds=self.settings.request_seconds, stop=stop):
                return draw_choices(
                    request,
                    prompt,
                    constraint,
                    self.model_thread,
                    self._spelled,
                    max_seconds=self.settings.request_seconds,
                    cancel=lambda: stop.is_set() or self.is_closed,
                )

        self._sampler_stops.add(stop)
        try:
            return await self._samplers.run(client.name, draw)
        except _core.Stopped:
            raise ApiError(503, "the server is shutting down", code="draining") from None
        except LimitExceeded as error:
            raise failed(error) from None
        except DeadEnd as error:
            raise ApiError(422, str(error), code="dead_end") from None
        except StructgenError as error:
            raise self._refused(error, request) from None
        finally:
            stop.set()
            self._sampler_stops.discard(stop)

    # -- on other threads

    def _encode(self, request: CompletionRequest, model: Any) -> list[int]:
        """Return the prompt's tokens. Raises `ApiError`.

        Args:
            request: The request.
            model: The model of this thread, which has a tokenizer of its own.
        """
        length = self.model.context_length
        param = request.prompt_param
        try:
            if isinstance(request.prompt, str):
                texts = [request.prompt]
            elif request.has_messages:
                texts = rendered_prompt(model, request.prompt, template=request.variables) or []
            else:
                texts = []
            least = sum(map(self._least_tokens, texts))
            if length is not None and least >= length:
                raise _too_long_prompt(param, f"at least {least}", length)
            if request.has_messages:
                variables = {"template": request.variables} if request.variables else {}
                tokens: list[int] = model.encode(request.prompt, **variables)
            elif isinstance(request.prompt, str):
                tokens = list(model.tokenizer.encode(request.prompt))
            else:
                tokens = list(request.prompt)
        except StructgenError as error:
            raise of_error(error, param, param) from None
        if not tokens:
            raise bad_request(param, "the prompt has no tokens")
        if max(tokens) >= self.model.vocabulary.size:
            raise bad_request(
                param, f"there is no token {max(tokens)}; the vocabulary has {self.model.vocabulary.size}"
            )
        if length is not None and len(tokens) >= length:
            raise _too_long_prompt(param, str(len(tokens)), length)
        return tokens

    # -- parts

    def _spelled(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of a text that spells special tokens by their names, as tool calls are read."""
        token_bytes, names = self.model.vocabulary.token_bytes, self._specials
        return b"".join([names[i] if i in names else token_bytes(i) or b"" for i in tokens])

    def _check_model(self, request: CompletionRequest) -> None:
        name = self.settings.model_name
        if request.model != name:
            raise ApiError(
                404, f"there is no model {request.model!r:.80}; this server has {name!r}", param="model",
                code="model_not_found",
            )  # fmt: skip

    def _check_bias(self, request: CompletionRequest) -> None:
        size = self.model.vocabulary.size
        if request.options.logit_bias and (greatest := max(request.options.logit_bias)) >= size:
            raise bad_request(
                "logit_bias", f"there is no token {greatest}; the vocabulary has {size} tokens, from 0"
            )

    def _not_compiled(self, param: str | None) -> ApiError:
        seconds = self.settings.queue_seconds
        return ApiError(
            503,
            f"the request's constraint waited {seconds:g} s to be compiled, since the machine is busy. "
            "Try again later.",
            param=param,
            code="busy",
        )

    def _refused(self, error: StructgenError, request: CompletionRequest) -> ApiError:
        refused = of_error(error, None if request.spec is None else request.spec.param, request.prompt_param)
        if request.endpoint == "response":  # whose field for the number of tokens has another name
            refused.message = _BUDGET.sub("max_output_tokens", refused.message)
        return refused


def _too_long_prompt(param: str, tokens: str, length: int) -> ApiError:
    return bad_request(
        param, f"the prompt has {tokens} tokens, the model's context {length}", "context_length_exceeded"
    )
