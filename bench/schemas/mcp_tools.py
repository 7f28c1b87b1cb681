"""Tools of MCP servers from npm and PyPI: each tool's input schema, and all tools of a server in one `anyOf`.

A server is started from its package, without network where `unshare` can make an empty network namespace, and is sent
``initialize`` and ``tools/list`` over its standard input and output (Model Context Protocol, 2025-06-18, sections
"Lifecycle" and "Tools"). A server that does not start so is left out, and its name goes to standard error.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from bench.corpora import npm_tree, pypi_tree
from bench.schemas import Source

__all__ = ["NAME", "all_tools", "listed_tools", "sources"]

NAME = "mcp_tools"


class _Server(NamedTuple):
    package: str
    """Pinned: ``name@version`` of npm, or ``name==version`` of PyPI."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})
    """Keys that the server wants to see before it says what it can do; none is real."""


_KEY = "0123456789abcdef0123456789abcdef"
_SERVERS = (
    _Server("@modelcontextprotocol/server-everything@2026.8.31"),
    _Server("@modelcontextprotocol/server-filesystem@2026.8.31", (".",)),
    _Server("@modelcontextprotocol/server-memory@2026.8.31"),
    _Server("@modelcontextprotocol/server-sequential-thinking@2026.8.31"),
    _Server("@modelcontextprotocol/server-github@2025.4.8", (), {"GITHUB_PERSONAL_ACCESS_TOKEN": _KEY}),
    _Server("@modelcontextprotocol/server-gitlab@2025.4.25", (), {"GITLAB_PERSONAL_ACCESS_TOKEN": _KEY}),
    _Server("@modelcontextprotocol/server-google-maps@0.6.2", (), {"GOOGLE_MAPS_API_KEY": _KEY}),
    _Server(
        "@modelcontextprotocol/server-slack@2025.4.25",
        (),
        {"SLACK_BOT_TOKEN": "xoxb-0", "SLACK_TEAM_ID": "T0"},
    ),
    _Server("@modelcontextprotocol/server-puppeteer@2025.5.12"),
    _Server("@modelcontextprotocol/server-postgres@0.6.2", ("postgresql://localhost/none",)),
    _Server("@modelcontextprotocol/server-brave-search@0.6.2", (), {"BRAVE_API_KEY": _KEY}),
    _Server("@antv/mcp-server-chart@0.9.10"),
    _Server("@brave/brave-search-mcp-server@2.1.4", (), {"BRAVE_API_KEY": _KEY}),
    _Server("@circleci/mcp-server-circleci@0.20.0", (), {"CIRCLECI_TOKEN": _KEY}),
    _Server(
        "@elastic/mcp-server-elasticsearch@0.3.1", (), {"ES_URL": "http://localhost:1", "ES_API_KEY": _KEY}
    ),
    _Server("@hubspot/mcp-server@0.4.0", (), {"PRIVATE_APP_ACCESS_TOKEN": _KEY}),
    _Server(
        "@line/line-bot-mcp-server@0.5.0", (), {"CHANNEL_ACCESS_TOKEN": _KEY, "DESTINATION_USER_ID": "U0"}
    ),
    _Server("@mapbox/mcp-devkit-server@0.8.2", (), {"MAPBOX_ACCESS_TOKEN": "pk.eyJ1IjoibiJ9.a"}),
    _Server("@notionhq/notion-mcp-server@2.5.2", (), {"NOTION_TOKEN": _KEY}),
    _Server("@playwright/mcp@0.0.83"),
    _Server("@sentry/mcp-server@0.39.0", (f"--access-token={_KEY}",)),
    _Server("chrome-devtools-mcp@1.11.0"),
    _Server("exa-mcp-server@3.4.1", (), {"EXA_API_KEY": _KEY}),
    _Server("firecrawl-mcp@3.26.0", (), {"FIRECRAWL_API_KEY": _KEY}),
    _Server("mcp-server-kubernetes@4.1.7"),
    _Server("mongodb-mcp-server@3.0.4"),
    _Server("tavily-mcp@0.2.22", (), {"TAVILY_API_KEY": _KEY}),
    _Server("mcp-server-fetch==2026.10.24"),
    _Server("mcp-server-git==2026.10.19"),
    _Server("mcp-server-motherduck==1.1.0", ("--read-write",)),
    _Server("mcp-server-time==2026.10.19"),
)
_SECONDS = 40.0


def sources() -> Iterator[Source]:
    for server in _SERVERS:
        try:
            tools = _tools(server)
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            print(f"{NAME}: {server.package} is left out: {reason[:160]}", file=sys.stderr)
            continue
        for tool in tools:
            if tool["inputSchema"].get("properties"):
                yield Source(f"{server.package}/{tool['name']}", tool["inputSchema"])
        if len(tools) > 1:
            yield Source(f"{server.package}/all {len(tools)} tools", all_tools(tools))


def all_tools(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a call of any of these tools, as ``{"name": ..., "arguments": ...}``.

    Args:
        tools: Each with a ``name`` and an ``inputSchema``. Local references in a schema lead to its new place.
    """
    definitions, calls = {}, []
    for tool in tools:
        schema = {key: value for key, value in tool["inputSchema"].items() if key not in ("$schema", "$id")}
        if '"$ref"' in json.dumps(schema):
            definitions[tool["name"]] = _moved(schema, f"#/$defs/{tool['name']}")
            schema = {"$ref": f"#/$defs/{tool['name']}"}
        properties = {"name": {"const": tool["name"]}, "arguments": schema}
        calls.append(
            {
                "type": "object",
                "properties": properties,
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls, **({"$defs": definitions} if definitions else {})}


def _moved(schema: Any, pointer: str) -> Any:
    if isinstance(schema, list):
        return [_moved(item, pointer) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: pointer + value[1:]
        if key == "$ref" and isinstance(value, str) and value[:1] == "#"
        else _moved(value, pointer)
        for key, value in schema.items()
    }


def _tools(server: _Server) -> list[dict[str, Any]]:
    """Return the tools that a server lists."""
    command, environment = _command(server)
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0:
        command = ["unshare", "-n", *command]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        process = subprocess.Popen(
            [*command, *server.arguments],
            cwd=folder,
            env={**kept, "HOME": folder, "TMPDIR": folder, **environment, **server.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            return listed_tools(process)
        except RuntimeError:
            errors.seek(0)
            raise RuntimeError(errors.read().decode(errors="replace") or "no answer") from None
        finally:
            process.kill()
            process.communicate()


def _command(server: _Server) -> tuple[list[str], dict[str, str]]:
    if "==" in server.package:
        name = server.package.partition("==")[0].replace("-", "_")
        source = pypi_tree(server.package) / name
        run = f"import runpy, {name} as m; runpy.run_module('{name}', run_name='__main__', alter_sys=True)"
        if not (source / "__main__.py").exists():
            run = f"import {name} as m; m.main()"
        return [sys.executable, "-P", "-c", run], {"PYTHONPATH": str(source.parent)}
    folder = npm_tree(server.package) / "node_modules" / server.package.rpartition("@")[0]
    programs = json.loads((folder / "package.json").read_text(encoding="utf-8"))["bin"]
    program = programs if isinstance(programs, str) else next(iter(programs.values()))
    return ["node", str(folder / program)], {}


def listed_tools(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Return the tools that a server lists over its standard output; `RuntimeError` where it ends or says nothing."""
    end = time.monotonic() + _SECONDS
    client = {"name": "bench", "version": "1"}
    first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    _call(process, "initialize", first, end)
    _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = _call(process, "tools/list", cursor, end)
        tools += page["tools"]
        if not page.get("nextCursor"):
            return tools
        cursor = {"cursor": page["nextCursor"]}


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise RuntimeError from None


def _call(process: subprocess.Popen[bytes], method: str, parameters: dict[str, Any], end: float) -> Any:
    """Send a request and wait for its result; other messages are skipped."""
    assert process.stdout is not None
    _send(process, {"jsonrpc": "2.0", "id": method, "method": method, "params": parameters})
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < end:
            if not selector.select(0.5):
                continue
            read = os.read(process.stdout.fileno(), 1 << 16)
            if not read:
                raise RuntimeError
            *lines, buffer = (buffer + read).split(b"\n")
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict) and message.get("id") == method and "result" in message:
                    return message["result"]
    raise RuntimeError
