"""From a request that was read to its texts: compile, encode, wait for a place, follow.

Why: all that may take long happens in threads of its own (the compiler's, one for prompts, the engine's, one for
samplers), so the event loop only passes things on.
Invariants: a request that ends in any way, by an error or because its client has gone too, leaves nothing behind. At
most `max_queue` requests are open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from structgen import _core
from structgen.errors import DeadEnd, LimitExceeded, StructgenError
from structgen.generation.options import row_seed
from structgen.generation.row import Row
from structgen.generation.token_budget import room_after
from structgen.inference.sampling import sample
from structgen.serving.compiler import Compiled
from structgen.serving.isolating_compiler import LanedCompiler, LanedSpec
from structgen.serving.matcher_process import LaneMatcher
from structgen.serving.migrating_matcher import MovingMatcher
from structgen.vocabulary import Vocabulary

from .answers import Choice, whole_turn
from .completion_request import Asked, Endpoint, read_request
from .errors import ApiError, bad_request, failed, of_error
from .fields import parse_body
from .metrics import Metrics
from .model_thread import Engine, Ticket
from .prompt_threads import PromptThreads, least_tokens_of
from .reasoning import ChatTemplate
from .row_text import RowText
from .settings import ServerSettings
from .shared_model import SharedModel

__all__ = ["Running", "Sender", "Service"]

T = TypeVar("T")
Spec = Compiled | LanedSpec
_MOST_SHOWN = 10


@dataclass(frozen=True)
class Sender:
    """Of a request: whose turn it takes, and its size in bytes."""

    client: str
    size: int


class Running:
    """A ticket, and the event loop's view of it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.ticket: Ticket | None = None

    def tell(self) -> None:
        """From the engine's thread: something has changed."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            return  # the loop has ended, and nobody listens

    async def change(self) -> None:
        """Wait for it."""
        await self._event.wait()
        self._event.clear()


class _Opening:
    """The matchers of a request that has not joined the batch."""

    def __init__(self) -> None:
        self._matchers: list[MovingMatcher | LaneMatcher] = []
        self.is_wanted = True

    def hold(self, matcher: MovingMatcher | LaneMatcher) -> MovingMatcher | LaneMatcher:
        """From the thread that opens it."""
        self._matchers.append(matcher)
        if not self.is_wanted:
            matcher.on_disconnect()
        return matcher

    def leave(self) -> None:
        """From the event loop: nobody waits for them any more."""
        self.is_wanted = False
        for matcher in tuple(self._matchers):
            matcher.on_disconnect()


class Service:
    """One model with its engine and its compiler."""

    def __init__(self, model: Any, settings: ServerSettings) -> None:
        self.model, self.settings = model, settings
        self.compiler = LanedCompiler(model.vocabulary, settings.limits, settings.compilers)
        self.engine = Engine(model, settings, is_in_the_way=lambda: bool(self.compiler.slow_work))
        self.metrics = Metrics(self.engine, self.compiler)
        self.is_draining = False
        self.open = 0
        self._next = 0
        self._prompts = PromptThreads(model)
        self._least_tokens = least_tokens_of(model)
        self._opening = ThreadPoolExecutor(2, "structgen-opening")
        self._opening_lanes = ThreadPoolExecutor(settings.limits.max_lanes, "structgen-opening-lanes")
        self._samplers = ThreadPoolExecutor(max(1, settings.samplers), "structgen-samplers")
        self._drawing: set[_core.StopFlag] = set()
        """Ends the calls of the core that samplers make."""
        self._template = ChatTemplate(model)
        self._specials = {i: text.encode() for text, i in model.vocabulary.specials.items()}

    def start(self) -> None:
        self.engine.start()

    def close(self) -> None:
        """End all threads and processes."""
        self.is_draining = True
        for stop in tuple(self._drawing):
            stop.set()
        self.engine.close()
        self.compiler.close()
        self._prompts.close()
        for threads in (self._opening, self._opening_lanes, self._samplers):
            threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """A place for one request; raises where there is none."""
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

    def read(self, body: bytes, endpoint: Endpoint) -> Asked:
        """The request that a body is. Raises `ApiError`."""
        return read_request(parse_body(body), endpoint, self.settings, self._template)

    async def read_long(self, body: bytes, endpoint: Endpoint, sender: Sender) -> Asked:
        """The same, where long prompts are tokenized, since it takes long, too."""
        return await self._prompts.run(sender.client, sender.size, lambda model: self.read(body, endpoint))

    async def prepare(self, asked: Asked, sender: Sender) -> tuple[list[int], Spec | None]:
        """The prompt's tokens and the compiled constraint. Raises `ApiError`."""
        self._check_model(asked)
        kind = "none" if asked.spec is None else asked.spec.kind
        self.metrics.constraints.labels(kind).inc()
        encoding = self._prompts.run(sender.client, sender.size, lambda model: self._encode(asked, model))
        wanted = asked.compiled()
        if asked.spec is None or wanted is None:
            return await encoding, None
        future = self.compiler.submit(*wanted)
        compiling = asyncio.wrap_future(future)
        try:
            # subtle: both are waited for, so that no error goes unheard.
            prompt, compiled = await asyncio.gather(encoding, compiling, return_exceptions=True)
        except asyncio.CancelledError:
            future.cancel()
            raise
        if isinstance(prompt, BaseException):
            raise prompt
        if isinstance(compiled, StructgenError):
            raise of_error(compiled, asked.spec.param) from None
        if isinstance(compiled, BaseException):
            raise compiled
        if asked.tools is not None:
            asked.tools.forms = compiled.forms
        return prompt, compiled

    async def submit(self, asked: Asked, prompt: list[int], compiled: Spec | None) -> Running:
        """Let the request join the batch."""
        running = Running()
        self._next += 1
        number = self._next
        opening = _Opening()
        try:
            rows = await self._in_thread(
                self._opening_lanes if self._waits_for_lane(asked, prompt, compiled) else self._opening,
                lambda: self._rows(asked, prompt, compiled, number << 8, opening),
            )
        except asyncio.CancelledError:
            opening.leave()
            raise
        except StructgenError as error:
            raise self._refused(error, asked) from None
        spell = self.model.vocabulary.decode if asked.reader() is None else self._spelled
        texts = [RowText(spell, asked.stops) for _ in rows]
        running.ticket = Ticket(rows, texts, running.tell)
        try:
            self.engine.submit(running.ticket)
        except StructgenError as error:
            raise ApiError(503, str(error), code="draining") from None
        return running

    def leave(self, running: Running) -> None:
        """The request has ended, one way or another."""
        # They hold one another, and the ticket its rows and lanes.
        ticket, running.ticket = running.ticket, None
        if ticket is None:
            return
        if not ticket.is_done:
            try:
                self.engine.cancel(ticket)
            except StructgenError:
                return
        metrics = self.metrics
        metrics.tokens.inc(sum(ticket.drawn))
        metrics.prompt_tokens.inc(len(ticket.rows[0].prompt))
        if ticket.first_token is not None:
            metrics.first_token.observe(ticket.first_token)
        for gap in ticket.gaps:
            metrics.gap.observe(gap)
        if ticket.is_done:
            metrics.total.observe(time.perf_counter() - ticket.started)
            metrics.forced.inc(sum(row.forced_tokens for row in ticket.rows))

    async def sample(
        self, asked: Asked, prompt: list[int], compiled: Spec | None
    ) -> tuple[list[Choice], int, dict[str, Any]]:
        """The answers of a sampler, the tokens that they have, and what it says of them."""
        assert asked.sampler is not None
        room, _ = room_after(len(prompt), self.model.context_length, asked.options.max_tokens)
        token_bytes = self.model.cache_bytes_per_token
        asked.sampler.check_memory(len(prompt) + room, token_bytes, self.settings.sampler_bytes)
        stop = _core.StopFlag()

        def draw() -> tuple[list[Choice], int, dict[str, Any]]:
            with _core.CallLimits(cpu_seconds=self.settings.request_seconds, stop=stop):
                return self._draw(asked, prompt, compiled, lambda: stop.is_set() or self.is_closed)

        self._drawing.add(stop)
        try:
            return await self._in_thread(self._samplers, draw)
        except _core.Stopped:
            raise ApiError(503, "the server is shutting down", code="draining") from None
        except LimitExceeded as error:
            raise failed(error) from None
        except DeadEnd as error:
            raise ApiError(422, str(error), code="dead_end") from None
        except StructgenError as error:
            raise self._refused(error, asked) from None
        finally:
            stop.set()
            self._drawing.discard(stop)

    @property
    def is_closed(self) -> bool:
        return not self.engine.is_alive

    # -- in threads

    async def _in_thread(self, threads: ThreadPoolExecutor, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, function)

    def _encode(self, asked: Asked, model: Any) -> list[int]:
        """The prompt's tokens, with the model of the thread."""
        length = self.model.context_length
        param = "messages" if asked.endpoint == "chat" else "prompt"
        try:
            if isinstance(asked.prompt, str):
                texts = [asked.prompt]
            elif asked.endpoint == "chat":
                texts = model.render_prompt(asked.prompt, template=asked.variables) or []
            else:
                texts = []
            least = sum(map(self._least_tokens, texts))
            if length is not None and least >= length:
                raise _too_long_prompt(param, f"at least {least}", length)
            if asked.endpoint == "chat":
                variables = {"template": asked.variables} if asked.variables else {}
                found: list[int] = model.encode(asked.prompt, **variables)
            elif isinstance(asked.prompt, str):
                found = list(model.tokenizer.encode(asked.prompt))
            else:
                found = list(asked.prompt)
        except StructgenError as error:
            raise of_error(error, param, param) from None
        if not found:
            raise bad_request(param, "the prompt has no tokens")
        if max(found) >= self.model.vocabulary.size:
            raise bad_request(param, f"the token {max(found)} is none of {self.model.vocabulary.size}")
        if length is not None and len(found) >= length:
            raise _too_long_prompt(param, str(len(found)), length)
        return found

    def _waits_for_lane(self, asked: Asked, prompt: list[int], compiled: Spec | None) -> bool:
        if not isinstance(compiled, LanedSpec):
            return False
        room, _ = room_after(len(prompt), self.model.context_length, asked.options.max_tokens)
        return compiled.needs_lane(room, closes=asked.options.close_within_budget)

    def _rows(
        self, asked: Asked, prompt: list[int], compiled: Spec | None, index: int, opening: _Opening
    ) -> list[Row]:
        vocabulary = self.model.vocabulary
        rows = []
        seed = row_seed(asked.options.seed, 0)
        for place in range(asked.n):
            matcher: Any = None
            if isinstance(compiled, LanedSpec):
                matcher = opening.hold(compiled.open(lambda: opening.is_wanted))
            elif compiled is not None:
                matcher = compiled.open()
            own = row_seed(seed, place)
            row = Row(index + place, prompt, matcher, asked.options, vocabulary, own)
            row.top_tokens = asked.top_logprobs
            row.prepare(self.model.context_length)
            rows.append(row)
        return rows

    def _draw(
        self, asked: Asked, prompt: list[int], compiled: Spec | None, cancel: Callable[[], bool]
    ) -> tuple[list[Choice], int, dict[str, Any]]:
        assert asked.sampler is not None
        if isinstance(compiled, LanedSpec):
            compiled = compiled.apart()
            if compiled is None:
                raise LimitExceeded(
                    "the constraint takes too long for a sampler", limit="sampler", hint="Send a smaller one."
                )
        vocabulary: Vocabulary = self.model.vocabulary if compiled is None else compiled.vocabulary
        shared: Any = SharedModel(self.model, vocabulary, self.engine.call, self.engine.prompt_part, prompt)
        options = asked.options
        if options.truncates:
            raise bad_request("top_p", "top_k, top_p and min_p cannot be combined with structgen.sampler")
        if not options.effective_temperature:
            raise bad_request("temperature", "a sampler needs a temperature above 0")
        limits = {"max_seconds": self.settings.request_seconds, **asked.sampler.limits}
        posterior = sample(
            shared,
            "",
            str if compiled is None else compiled.constraint,
            n=asked.n,
            sampler=asked.sampler.sampler,
            temperature=options.effective_temperature,
            max_tokens=options.max_tokens,
            seed=options.seed,
            cancel=cancel,
            speculate=False,
            **limits,
        )
        weights = posterior.weights
        if len(posterior.draws) == asked.n and np.ptp(posterior.log_weights) < 1e-9:
            places: Sequence[int] = range(asked.n)
        else:
            random = np.random.default_rng(options.seed)
            places = [int(one) for one in random.choice(len(weights), size=asked.n, p=weights)]
        choices, tokens = [], 0
        for place in places:
            draw = posterior.draws[place]
            tokens += len(draw.tokens)
            spelled = self._spelled(draw.tokens).decode("utf-8", "replace")
            reader = asked.reader()
            text, calls, thought = posterior.texts[place], [], None
            if reader is not None:
                turn = whole_turn(reader, spelled, is_cut_off=compiled is None)
                text, calls, thought = turn.text, turn.calls, turn.reasoning
            details = {"weight": float(weights[place]), "logprob": _finite(draw.log_prob)}
            choices.append(Choice(text, "tool_calls" if calls else "stop", calls, thought, details=details))
        account = posterior.account
        told = {
            "sampler": asked.sampler.name,
            "draws": len(posterior.draws),
            "effective": float(posterior.ess),
            "log_z": _finite(posterior.log_z),
            "model_calls": account.calls,
            "stopped": account.stopped,
            "texts": [
                {"text": one.text, "weight": one.weight, "draws": one.draws}
                for one in posterior.merged[:_MOST_SHOWN]
            ],
        }
        return choices, tokens, told

    # -- parts

    def _spelled(self, tokens: Sequence[int]) -> bytes:
        """The bytes of a text in which special tokens stand by their names, as tool calls are read."""
        token_bytes, names = self.model.vocabulary.token_bytes, self._specials
        return b"".join([names[i] if i in names else token_bytes(i) or b"" for i in tokens])

    def _check_model(self, asked: Asked) -> None:
        name = self.settings.model_name
        if asked.model != name:
            raise ApiError(
                404, f"there is no model {asked.model!r:.80}; this server has {name!r}", param="model",
                code="model_not_found",
            )  # fmt: skip

    def _refused(self, error: StructgenError, asked: Asked) -> ApiError:
        prompt = "messages" if asked.endpoint == "chat" else "prompt"
        return of_error(error, None if asked.spec is None else asked.spec.param, prompt)


def _too_long_prompt(param: str, tokens: str, length: int) -> ApiError:
    return bad_request(
        param, f"the prompt has {tokens} tokens, the model's context {length}", "context_length_exceeded"
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
