"""Start the server from Python: `serve` until a signal arrives, `serving` while a block runs.

Why: a notebook, a test, or a program that has its model in memory needs the server without a second process.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from structgen.errors import ModelError, OptionError, a_kind, did_you_mean
from structgen.extras import needed, require
from structgen.protocols import is_language_model

from .settings import SETTING_NAMES, ServerSettings

__all__ = ["listening_socket", "serve", "serving"]

_POLL_SECONDS = 0.01


def serve(
    model: Any, *, host: str = "127.0.0.1", port: int = 8000, log_level: str = "warning", **settings: Any
) -> int:
    """Serve a model with OpenAI's interface until SIGTERM or Ctrl-C. Call it in the main thread.

    Args:
        model: What `structgen.load` or `structgen.wrap` returned.
        host: The address to listen on; the default accepts connections from this machine only.
        port: The port; 0 takes a free one.
        log_level: "warning", "info" (every request) or "debug".
        **settings: Fields of `ServerSettings`, such as ``model_name``, ``api_keys`` and ``max_rows``.

    Returns:
        The exit status, 0.

    Raises:
        OptionError: A setting is wrong, the model is not a local language model, or the port is in use.
        ModelError: The processes that compile constraints do not start.
    """
    service, door = _prepared(model, host, port, settings)
    from .uvicorn_server import serve as serve_sockets

    with door:
        return serve_sockets(service, [door], log_level=log_level)


@contextlib.contextmanager
def serving(model: Any, *, host: str = "127.0.0.1", port: int = 0, **settings: Any) -> Iterator[str]:
    """Serve a model in threads of this process while the block runs, in a notebook or a test.

    Args:
        model: What `structgen.load` or `structgen.wrap` returned.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        **settings: Fields of `ServerSettings`.

    Yields:
        The address for clients, such as ``http://127.0.0.1:43210/v1``.

    Raises:
        OptionError: A setting is wrong, the model is not a local language model, or the port is in use.
        ModelError: The server does not start.
    """
    service, door = _prepared(model, host, port, settings)
    import uvicorn

    from .uvicorn_server import config_of, wait_until_ready

    with door:
        wait_until_ready(service)
        server = uvicorn.Server(config_of(service))
        thread = threading.Thread(target=server.run, args=([door],), name="structgen-server", daemon=True)
        thread.start()
        try:
            while not server.started:
                if not thread.is_alive():
                    raise ModelError("the server ended while it started", hint="Its log says why.")
                time.sleep(_POLL_SECONDS)
            bound, number = door.getsockname()[:2]
            yield f"http://{f'[{bound}]' if ':' in bound else bound}:{number}/v1"
        finally:
            service.is_draining = True
            server.should_exit = True
            thread.join()


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address. Raises `OptionError` if it cannot be bound."""
    door: socket.socket | None = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        door = socket.socket(family, socket.SOCK_STREAM)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
    except (OSError, OverflowError, UnicodeError, TypeError) as error:
        if door is not None:
            door.close()
        raise OptionError(
            f"cannot listen on {host}:{port}: {error}",
            hint="Choose another host or port; port 0 takes a free one.",
        ) from None
    door.set_inheritable(False)
    return door


def _prepared(model: Any, host: str, port: int, settings: dict[str, Any]) -> tuple[Any, socket.socket]:
    """Return the service and its socket. Checks all arguments before processes start."""
    require("the server", "server", "fastapi", "uvicorn", "h11", "prometheus_client")
    if not is_language_model(model):
        raise OptionError(
            f"the first argument is {a_kind(model)}, not a model",
            hint="Make one with structgen.load() or structgen.wrap(model, tokenizer).",
        )
    for name in settings:
        if name not in SETTING_NAMES:
            raise OptionError(
                f"the server has no setting {name!r:.60}",
                hint=did_you_mean(name, SETTING_NAMES) or f"Its settings are {', '.join(SETTING_NAMES)}.",
            )
    chosen = ServerSettings(**settings)
    with needed("the server", extra="server"):
        from .service import Service
    door = listening_socket(host, port)
    try:
        return Service(model, chosen), door
    except BaseException:
        door.close()
        raise
