"""``structgen serve``: the OpenAI-compatible server of one model."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from structgen.errors import OptionError
from structgen.extras import require

from .inputs import InputError, check_drafter, load_model, naming_options
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.server.settings import ServerSettings

__all__ = ["add_command"]

_Result = TypeVar("_Result")

_DESCRIPTION = """\
Serve a model with OpenAI's interface: /v1/chat/completions, /v1/completions, /v1/responses, /v1/models.
/health and /metrics show its state.

Requests with different constraints share one batch. docs/server.md says what requests may contain. The first SIGTERM or
SIGINT (Ctrl-C) lets running requests end, a second one ends the server at once.

exit status: 0 a signal stopped it; 2 it cannot start"""

_KEY_VARIABLE = "STRUCTGEN_API_KEY"
_EMBEDDED = "SmolLM2-135M-Instruct"

# Fields of `ServerSettings`: flag, type, help.
_LIMITS = (
    ("max_rows", int, "texts drawn at a time, in one batch"),
    ("max_queue", int, "requests open at a time; more get the status 429"),
    ("max_tokens", int, "the most tokens of an answer"),
    ("default_tokens", int, "tokens of an answer where a request does not say how many"),
    ("max_choices", int, "the most answers of one request (n)"),
    ("max_body", int, "bytes of a request"),
    ("max_connections", int, "connections that are open at a time"),
    ("max_client_connections", int, "connections of one address; raise it if a proxy forwards requests"),
    ("header_seconds", float, "how long the header of a request may take to come"),
    ("unread_seconds", float, "a client that reads nothing of its answer for so long is cut off"),
    ("max_particles", int, "the most particles or parallel draws of a sampler"),
    ("request_seconds", float, "after so long a request gets the status 504"),
    (
        "queue_seconds",
        float,
        "how long a request may wait for a process for its constraint; then it gets the status 503",
    ),
    ("drain_seconds", float, "how long running requests may take once the server is to stop"),
    ("prompt_tokens", int, "tokens of new prompts read between two passes for those who run"),
    ("prefix_bytes", int, "memory for the KV caches of earlier prompts; 0: every prompt is read whole"),
    ("compilers", int, "processes that compile new constraints"),
    ("samplers", int, "requests with a sampler that run at a time; 0: none are taken"),
    ("sampler_bytes", int, "memory of the model's cache that one of them may take"),
    ("stall_seconds", float, "/health fails where no step is finished for so long"),
)
_SPEC_LIMITS = (
    ("compile_seconds", float, "the most CPU time to compile one constraint"),
    ("cache_entries", int, "compiled constraints that are kept"),
    ("max_matcher_processes", int, "processes for constraints that take long, one for each in use"),
    ("matcher_bytes", int, "memory of each of them"),
    ("step_seconds", float, "the most CPU time of one of them for a token"),
)


def add_command(commands: Commands) -> None:
    """Add ``serve`` to the commands."""
    parser = commands.add_parser(
        "serve",
        help="an OpenAI-compatible server",
        usage="structgen serve [options]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.fill_later(lambda: _add_arguments(parser))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    from structgen.constraints.json_schema.whitespace import WhitespaceName
    from structgen.server.settings import ServerSettings
    from structgen.serving.limits import RequestLimits

    parser.add_argument("--model", metavar="NAME", help="a path or name; the embedded model by default")
    parser.add_argument("--name", metavar="NAME", help="what clients call it; by default the end of its path")
    parser.add_argument("--host", default="127.0.0.1", help="address (default 127.0.0.1: this machine alone)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="port (default 8000; 0: any)")
    parser.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help=f"a key that opens /v1; repeatable; also from {_KEY_VARIABLE}, where others do not see it",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of the model")
    parser.add_argument(
        "--tool-format",
        metavar="NAME|FILE.json",
        help="how the model writes tool calls: a name, or a file that describes the format (default auto: by the "
        "name or the chat template of the model, else hermes)",
    )
    parser.add_argument(
        "--whitespace",
        choices=get_args(WhitespaceName),
        default="json.dumps",
        help="the form of JSON in answers (default json.dumps: one form, so that much of it need not be drawn)",
    )
    parser.add_argument(
        "--reasoning",
        choices=("auto", "off"),
        default="auto",
        help="auto: the reasoning of a model that has some comes as reasoning_content; off: as a part of the answer",
    )
    parser.add_argument(
        "--open-objects",
        action="store_true",
        help="objects of a response_format may have undeclared keys, as the specification says; by default those that "
        "declare keys and do not mention others are closed",
    )
    parser.add_argument(
        "--close-within-budget",
        action="store_true",
        help="answers with a constraint are complete within their tokens, unless a request says otherwise; by default "
        "they may be cut off (finish_reason: length)",
    )
    parser.add_argument(
        "--no-speculation",
        action="store_true",
        help="read no draft tokens; by default they are read where that makes answers faster",
    )
    parser.add_argument(
        "--drafter",
        metavar="FILE",
        help="a learned drafter, which makes the same answers faster: structgen draft, or a folder of Medusa or EAGLE",
    )
    parser.add_argument(
        "--any-base",
        action="store_true",
        help="use that folder although it names another model than this one",
    )
    parser.add_argument(
        "--learn", action="store_true", help="let the drafter learn from the answers of all users, in memory"
    )
    parser.add_argument(
        "--cors-origins",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="origins of web pages that may call the server from a browser, with commas or repeated; *: all",
    )
    parser.add_argument(
        "--log-level", choices=("warning", "info", "debug"), default="warning", help="info: every request"
    )
    group = parser.add_argument_group("limits")
    kinds: tuple[Any, ...] = (RequestLimits, ServerSettings)
    defaults: dict[str, Any] = {
        field.name: field.default for kind in kinds for field in dataclasses.fields(kind)
    }
    for name, kind, help_text in (*_LIMITS, *_SPEC_LIMITS):
        default = f" (default {_number(defaults[name])})"
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, type=kind, metavar="N" if kind is int else "X", help=help_text + default)


def _number(value: float) -> str:
    """Return a default as a person reads it; bytes in powers of two."""
    if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"{value}: {value >> 20} MiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def run(arguments: argparse.Namespace) -> int:
    """Load, bind, serve."""
    require("the server", "server", "fastapi", "uvicorn", "h11", "prometheus_client")
    with naming_options({name: "--" + name.replace("_", "-") for name, *_ in (*_LIMITS, *_SPEC_LIMITS)}):
        settings = _settings(arguments)
    _leave_missing_directory()
    if arguments.drafter is not None:
        _on_a_thread(lambda: check_drafter(arguments.drafter, in_batches=True, any_base=arguments.any_base))
    with _bound(arguments.host, arguments.port) as door:
        return _serve(arguments, settings, door)


def _serve(arguments: argparse.Namespace, settings: ServerSettings, door: socket.socket) -> int:
    """Load the model and answer until a signal comes."""
    from structgen.server.service import Service
    from structgen.server.uvicorn_server import serve

    started = time.perf_counter()
    _say(f"loading {arguments.model or 'the embedded model'} ...")
    if arguments.threads is not None:
        _set_threads(arguments.threads)
    model = _on_a_thread(lambda: load_model(arguments.model))
    service = Service(model, settings)
    host, port = door.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
    seconds = time.perf_counter() - started

    def say(text: str) -> None:
        if text != "ready":
            _say(text)
            return
        keys = (
            "with an API key"
            if settings.api_keys
            else "without a key: anyone who reaches the port may use it"
        )
        _say(
            f"{settings.model_name} is served at {url} ({keys}), after {seconds:.1f} s\n"
            f"  batch of {settings.max_rows}, {settings.max_queue} requests at most, "
            f"answers of {settings.max_tokens} tokens at most; Ctrl-C ends it\n"
            f"  try: curl {url}/chat/completions -H 'Content-Type: application/json'"
            + (' -H "Authorization: Bearer $KEY"' if settings.api_keys else "")
            + f""" -d '{{"model": "{settings.model_name}", "messages": [{{"role": "user", "content": "A colour?"}}], """
            '"structured_outputs": {"choice": ["red", "green", "blue"]}}\''
        )

    return serve(service, [door], say=say, log_level=arguments.log_level)


def _settings(arguments: argparse.Namespace) -> ServerSettings:
    from structgen.server.settings import ServerSettings
    from structgen.serving.limits import RequestLimits

    def given(names: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
        return {name: value for name, *_ in names if (value := getattr(arguments, name)) is not None}

    keys = list(arguments.api_key)
    if (from_environment := os.environ.get(_KEY_VARIABLE)) is not None:
        given_keys = [key for key in from_environment.split(",") if key.strip()]
        if not given_keys:
            # Why: a deployment whose secret is missing sets an empty variable, and would start an open server.
            raise OptionError(f"{_KEY_VARIABLE} has no key in it", hint="Unset it to serve without a key.")
        keys += given_keys
    named = Path(arguments.model).name if arguments.model else _EMBEDDED
    chosen = given(_LIMITS)
    if "default_tokens" not in chosen and "max_tokens" in chosen:
        chosen["default_tokens"] = min(ServerSettings.default_tokens, chosen["max_tokens"])
    origins = [origin.strip() for given in arguments.cors_origins for origin in given.split(",")]
    chosen["cors_origins"] = tuple(origin.rstrip("/") for origin in origins if origin)
    if arguments.learn and arguments.drafter is None:
        raise InputError("--learn needs a drafter that learns", hint="Add --drafter FILE.")
    if arguments.any_base and arguments.drafter is None:
        raise InputError("--any-base has no effect without a drafter", hint="Add --drafter FOLDER.")
    if arguments.drafter is not None and arguments.no_speculation:
        raise InputError("--drafter and --no-speculation cannot be given together")
    chosen |= {
        "reasoning": arguments.reasoning,
        "closed_objects": not arguments.open_objects,
        "close_within_budget": arguments.close_within_budget,
        "speculate": not arguments.no_speculation,
        "drafter": arguments.drafter,
        "drafter_any_base": arguments.any_base,
        "drafter_learns": arguments.learn,
    }
    if arguments.tool_format is not None:
        chosen["tool_format"] = _tool_format(arguments.tool_format)
    return ServerSettings(
        model_name=arguments.name or named,
        api_keys=tuple(key.strip() for key in keys),
        limits=RequestLimits(whitespace=arguments.whitespace, **given(_SPEC_LIMITS)),
        **chosen,
    )


def _tool_format(given: str) -> str:
    """Return the name of a tool format; one that a JSON file describes is registered. Raises `OptionError`."""
    if not given.endswith(".json"):
        return given
    from structgen.tools import ToolFormat, register_format

    try:
        data = json.loads(Path(given).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"--tool-format {given}: {error}", hint="It is a name or a JSON file.") from None
    if not isinstance(data, dict):
        raise OptionError(f"--tool-format {given} is no JSON object")
    return register_format(ToolFormat.from_data(data)).name


def _bound(host: str, port: int) -> socket.socket:
    """Return the socket, before the model is loaded: a port in use is reported at once."""
    from structgen.server.launch import listening_socket

    try:
        return listening_socket(host, port)
    except OptionError as error:
        raise InputError(error.message, hint="Give another --host or --port; --port 0 takes any.") from None


def _on_a_thread(work: Callable[[], _Result]) -> _Result:
    """Return what `work` returns on a thread that ends: all that computes with torch before the server does.

    Why: OpenMP keeps worker threads for every thread that has computed with it. If there are more of them than
    processors, they all sleep while they wait, instead of spinning. A forward pass on the server's thread would then
    take a third longer, and more where other processes compete for the processors.
    """
    future: Future[_Result] = Future()

    def run_work() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 — the future hands any error to the main thread
            future.set_exception(error)

    # A daemon: Ctrl-C does not wait for it.
    thread = threading.Thread(target=run_work, name="structgen-loading", daemon=True)
    thread.start()
    try:
        return future.result()
    finally:
        if future.done():
            thread.join()


def _leave_missing_directory() -> None:
    """Change to the root directory if the working directory was deleted: libraries that compute load files from it."""
    try:
        os.getcwd()
    except OSError:
        os.chdir(os.sep)


def _set_threads(count: int) -> None:
    import torch

    if count < 1:
        raise InputError(f"--threads is {count}; it is 1 or more")
    torch.set_num_threads(count)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # a closed standard error is no reason to stop
        print(f"structgen: {text}", file=sys.stderr, flush=True)
