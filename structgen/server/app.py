"""The application: routes of OpenAI's API, keys, limits, streams, errors.

Invariant: the event loop does nothing that takes long. A request is released however its connection ends. All errors
have the form of OpenAI's API.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar

from structgen.extras import needed

from .answers import Answer, choice_of, failure, usage_of
from .client import Client
from .completion_request import CompletionRequest, Endpoint
from .errors import ApiError, ShuttingDown, bad_request
from .paths import ENDPOINTS, OPEN_PATHS, path_in_app
from .prompt_threads import SHORT
from .request_ids import REQUEST_ID_HEADER, RequestIds, report_failure, request_id
from .responses.response_object import ResponseObject, ResponseStream
from .service import RunningRequest, Service
from .streaming import chunks_of

with needed("the server", extra="server"):
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse, Response, StreamingResponse
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import ClientDisconnect

__all__ = ["make_app"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
_BODY_SECONDS = 60.0
"""Time for the body of a request to arrive."""
_TAKE_SECONDS = 10.0
"""Time for a client to read the rest of a stream after the deadline."""
_GONE = 499  # the status that web servers log when a client has disconnected


class _ClientGone(Exception):
    """The client has disconnected."""


def make_app(service: Service, *, owns: bool = True) -> FastAPI:
    """Return the application of a service.

    Args:
        service: The service.
        owns: Whether the application starts and closes the service.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if owns:
            service.start()
        yield
        if owns:
            await asyncio.to_thread(service.close)

    app = FastAPI(title="structgen", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    _add_endpoints(app, service)
    _add_status_pages(app, service)
    _add_error_handlers(app)
    app.add_middleware(_Gate, service=service)
    if origins := service.settings.cors_origins:
        # Outside the gate: preflight requests of browsers carry no key, and browsers must see refusals, too.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After", REQUEST_ID_HEADER],
        )
    app.add_middleware(RequestIds)  # the last one is the outermost
    return app


def _add_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        return await _answer(service, request, "chat")

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await _answer(service, request, "completion")

    @app.post("/v1/responses")
    async def responses(request: Request) -> Response:
        return await _answer(service, request, "response")

    @app.api_route("/v1/responses/{rest:path}", methods=["GET", "POST", "DELETE"])
    async def stored_responses(rest: str) -> Response:
        path = f"/v1/responses/{rest}"
        raise ApiError(
            404, f"there is no {path!r:.100}: nothing is stored. Send POST /v1/responses", code="not_found"
        )

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [_model(service)]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        if name != service.settings.model_name:
            raise ApiError(404, f"there is no model {name!r:.80}", param="model", code="model_not_found")
        return JSONResponse(_model(service))


def _add_status_pages(app: FastAPI, service: Service) -> None:
    @app.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> Response:
        status = "ok"
        if service.is_closed:
            status = "the model's thread has ended"
        elif service.is_draining:
            status = "draining"
        elif (seconds := service.model_thread.stalled_seconds) is not None:
            status = f"no step of the model was finished for {seconds:.0f} s"
        if status == "ok":
            return JSONResponse({"status": status, "open": service.open, **service.metrics.state()})
        report_failure(503, f"/health: {status}")
        return JSONResponse({"status": status, "open": service.open, "request_id": request_id()}, 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        error.report()
        return JSONResponse(error.body, error.status, error.headers)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}"
        if error.status_code == 404:
            message += f". The paths of this server are {', '.join(ENDPOINTS)}."
        elif allowed := (error.headers or {}).get("Allow"):
            message += f". Send {allowed}."
        shown = ApiError(error.status_code, message)
        shown.report()
        return JSONResponse(shown.body, shown.status, error.headers)


class _Gate:
    """Middleware that checks keys, counts requests, and answers unexpected errors."""

    def __init__(self, app: Any, service: Service) -> None:
        self._app, self._service = app, service
        self._keys = [_digest(key.strip().encode()) for key in service.settings.api_keys]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = path_in_app(scope)
        status = 0

        async def counted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if path not in OPEN_PATHS and not self._may_enter(scope):
                error = ApiError(
                    401, "this server needs an API key: Authorization: Bearer KEY", code="invalid_api_key"
                )
                await JSONResponse(error.body, 401, error.headers)(scope, receive, counted)
            else:
                await self._app(scope, receive, counted)
        except Exception:
            logger.exception("request %s: status 500 internal_error: an unexpected exception", request_id())
            if status:
                raise
            await JSONResponse(_internal_error().body, 500)(scope, receive, counted)
        finally:
            status = status or _GONE
            self._service.metrics.requests.labels(path if path in ENDPOINTS else "other", str(status)).inc()
            logger.info("request %s: %s %.200r: status %d", request_id(), scope["method"], path, status)

    def _may_enter(self, scope: Any) -> bool:
        if not self._keys:
            return True
        key = _key_in(scope)
        digest = _digest(b"" if key is None else key)
        # subtle: every key is compared, so that the time reveals nothing.
        found = [hmac.compare_digest(digest, known) for known in self._keys]
        return key is not None and any(found)


def _key_in(scope: Any) -> bytes | None:
    """Return the API key that a request sends, if any."""
    given: bytes = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    kind, _, key = given.partition(b" ")
    return key.strip() if kind.lower() == b"bearer" else None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _model(service: Service) -> dict[str, Any]:
    return {
        "id": service.settings.model_name,
        "object": "model",
        "created": 0,
        "owned_by": "structgen",
        "max_model_len": service.model.context_length,
    }


# -- one request


async def _answer(service: Service, request: Request, endpoint: Endpoint) -> Response:
    try:
        body = await _body(request, service.settings.max_body)
    except ClientDisconnect:  # in the middle of its request
        return Response(status_code=_GONE)
    client = Client(_client_of(request), len(body))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(service.admitted())
        deadline = asyncio.get_running_loop().time() + service.settings.request_seconds
        try:
            completion = (
                service.read(body, endpoint)
                if len(body) <= SHORT
                else await _unless_gone(request, service.read_long(body, endpoint, client), deadline)
            )
            if completion.stream:
                running = await _unless_gone(request, _start(service, completion, client), deadline)
                stack.callback(service.finish, running)
                return _Stream(_events(service, completion, running, deadline), stack.pop_all(), deadline)
            answer = await _unless_gone(request, _whole(service, completion, client), deadline)
        except _ClientGone:
            return Response(status_code=_GONE)
        except (ShuttingDown, RuntimeError) as error:
            # The service has closed the thread that the request would have used next.
            if isinstance(error, RuntimeError) and not service.is_closed:
                raise
            raise ApiError(503, "the server is shutting down", code="draining") from None
        return JSONResponse(answer)


async def _start(service: Service, completion: CompletionRequest, client: Client) -> RunningRequest:
    prompt, constraint = await service.prepare(completion, client)
    return await service.submit(completion, prompt, constraint, client)


async def _whole(service: Service, completion: CompletionRequest, client: Client) -> dict[str, Any]:
    answer = ResponseObject(completion) if completion.endpoint == "response" else Answer(completion)
    if completion.sampler is not None:
        prompt, constraint = await service.prepare(completion, client)
        choices, drawn, details = await service.sample(completion, prompt, constraint, client)
        service.metrics.tokens.inc(drawn)
        return answer.whole(choices, usage_of(len(prompt), drawn), details)
    running = await _start(service, completion, client)
    try:
        ticket = running.ticket
        assert ticket is not None
        while not ticket.is_done:
            await running.wait_for_change()
        for sequence in ticket.sequences:
            if (error := failure(sequence)) is not None:
                raise error
        vocabulary = service.model.vocabulary
        choices = [choice_of(completion, sequence, vocabulary) for sequence in ticket.sequences]
        return answer.whole(choices, usage_of(len(ticket.rows[0].prompt), ticket.tokens))
    finally:
        service.finish(running)


async def _events(
    service: Service, completion: CompletionRequest, running: RunningRequest, deadline: float
) -> AsyncIterator[bytes]:
    """Yield server-sent events. An error in the middle is the last event."""
    vocabulary = service.model.vocabulary
    response = ResponseStream(completion, vocabulary) if completion.endpoint == "response" else None
    try:
        if response is not None:
            async for part in response.events(running, deadline):
                yield _event(part)
            return
        async for part in chunks_of(completion, running, vocabulary, deadline):
            yield _event(part)
        yield b"data: [DONE]\n\n"
    except TimeoutError:
        error = _too_long(service)
        error.report()
        yield _event(_failed(error, response))
    except ApiError as error:
        error.report()
        yield _event(_failed(error, response))
    except Exception:
        logger.exception(
            "request %s: status 500 internal_error: an unexpected exception in a stream", request_id()
        )
        yield _event(_failed(_internal_error(), response))


def _failed(error: ApiError, response: ResponseStream | None) -> dict[str, Any]:
    """Return the last part of a stream that has failed."""
    return error.body if response is None else response.failed(error)


def _event(part: dict[str, Any]) -> bytes:
    name = (
        f"event: {part['type']}\n".encode() if "type" in part else b""
    )  # only events of responses have names
    return name + b"data: " + json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class _Stream(StreamingResponse):
    """A stream that closes `stack` at its end, however it ends.

    That includes a stream of which nothing was read, and a client that reads nothing until after the deadline.
    """

    def __init__(self, events: AsyncIterator[bytes], stack: AsyncExitStack, deadline: float) -> None:
        super().__init__(
            events,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._stack, self._deadline = stack, deadline

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            async with asyncio.timeout_at(self._deadline + _TAKE_SECONDS):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            logger.info("request %s: the client did not read its stream in time", request_id())
        finally:
            await self._stack.aclose()


# -- parts


def _client_of(request: Request) -> str:
    """Return who sent a request, for fair turns: its key, or its address."""
    key = _key_in(request.scope) if request.app.state.service.settings.api_keys else None
    if key is not None:  # however its header is written
        return _digest(key).hex()
    return request.client.host if request.client else ""


async def _body(request: Request, most: int) -> bytes:
    too_large = ApiError(413, f"the body has more than {most:,} bytes", code="body_too_large")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > most:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, "the body did not arrive in time") from None
    if not size:
        raise bad_request(None, "the body is empty; it must be a JSON object")
    return b"".join(parts)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T], deadline: float) -> T:
    """Return the result of `work`, unless the client disconnects or the deadline passes first."""
    service: Service = request.app.state.service
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_until_gone(request.receive))
    try:
        left = deadline - asyncio.get_running_loop().time()
        await asyncio.wait({task, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():  # together with the thread that it waited for, when the server ends
            raise ApiError(503, "the server is shutting down", code="draining")
        if task.done():
            return task.result()
        raise _ClientGone if gone.done() else _too_long(service)
    finally:
        for waiting in (task, gone):
            if not waiting.done():
                waiting.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await waiting


async def _until_gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _internal_error() -> ApiError:
    return ApiError(500, "an internal error; the server's log says more", code="internal_error")


def _too_long(service: Service) -> ApiError:
    seconds = service.settings.request_seconds
    return ApiError(504, f"the answer was not complete within {seconds:g} seconds", code="timeout")
