"""An application called as a web server calls it, wherever it is mounted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

__all__ = ["call"]


def call(
    app: Any, path: str, *, root: str = "", method: str = "GET", key: str | None = None, body: bytes = b""
) -> tuple[int, Any]:
    """Status and content of the answer."""
    return asyncio.run(_called(app, path, root, method, key, body))


async def _called(
    app: Any, path: str, root: str, method: str, key: str | None, body: bytes
) -> tuple[int, Any]:
    headers = [(b"host", b"x")]
    if key is not None:
        headers.append((b"authorization", f"Bearer {key}".encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": root,
        "query_string": b"",
        "headers": headers,
        "client": ("1.2.3.4", 5),
        "server": ("x", 80),
        "state": {},
    }
    sent: list[dict[str, Any]] = []
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await asyncio.sleep(600)
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    data = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(data) if data.startswith(b"{") else data
