"""A language server for tests: it does what words in the document say, and misbehaves on demand.

Run as ``python fake_server.py '{"encoding": "utf-16", ...}'``. Positions and edits are done in the slowest obvious way,
so that it is the oracle for the client. Standard library only, and nothing of structgen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

OPTIONS: dict[str, Any] = json.loads(sys.argv[1]) if __name__ == "__main__" else {}
ENCODING: str = OPTIONS.get("encoding", "utf-32")
OUT = sys.stdout.buffer
documents: dict[str, tuple[int, str]] = {}
seen: list[str] = []
replies: dict[Any, Any] = {}
disturbed = 0


def units(text: str) -> int:
    if ENCODING == "utf-32":
        return len(text)
    return len(text.encode("utf-8")) if ENCODING == "utf-8" else len(text.encode("utf-16-le")) // 2


def lines(text: str) -> list[str]:
    """Return the lines with their ends, and always one more after the last end."""
    found = [""]
    index = 0
    while index < len(text):
        end = "\r\n" if text[index : index + 2] == "\r\n" else text[index]
        found[-1] += end
        index += len(end)
        if end in ("\r\n", "\r", "\n"):
            found.append("")
    return found


def offset(text: str, position: dict[str, int]) -> int:
    every = lines(text)
    line = every[position["line"]]
    column = 0
    while units(line[:column]) < position["character"]:
        column += 1
    assert units(line[:column]) == position["character"], "inside of a character"
    assert not line[:column].endswith(("\r", "\n")), "past the end of a line"
    return sum(map(len, every[: position["line"]])) + column


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    OUT.write(b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc\r\n\r\n" % len(body) + body)
    OUT.flush()


def raw(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def read() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline():
        if line == b"\r\n":
            message: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
            return message
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return None


def ask(method: str, parameters: Any) -> Any:
    """Send a request to the client, and serve its requests meanwhile."""
    number = f"ask-{len(replies)}"
    replies[number] = None
    send({"id": number, "method": method, "params": parameters})
    while replies[number] is None:
        message = read()
        if message is None:
            sys.exit(0)
        take(message)
    return replies[number]


def changed(uri: str, version: int, text: str) -> None:
    documents[uri] = (version, text)
    if OPTIONS.get("push") and "QUIET" not in text:
        diagnostics = [diagnostic(f"pushed {len(text)}")]
        parameters: dict[str, Any] = {"uri": uri, "diagnostics": diagnostics}
        if OPTIONS["push"] == "versions":
            send_old = {"uri": uri, "version": version - 1, "diagnostics": [diagnostic("old")]}
            send({"method": "textDocument/publishDiagnostics", "params": send_old})
            parameters["version"] = version
        send({"method": "textDocument/publishDiagnostics", "params": parameters})


def diagnostic(message: str) -> dict[str, Any]:
    place = {"line": 0, "character": 0}
    return {
        "range": {"start": place, "end": place},
        "message": message,
        "severity": 2,
        "code": 7,
        "tags": [1, 9],
    }


def apply(parameters: dict[str, Any]) -> None:
    uri, version = parameters["textDocument"]["uri"], parameters["textDocument"]["version"]
    old_version, text = documents[uri]
    assert version > old_version
    for change in parameters["contentChanges"]:
        if "range" in change:
            assert OPTIONS.get("sync", 2) == 2, "the client sent edits without permission"
            start, end = offset(text, change["range"]["start"]), offset(text, change["range"]["end"])
            text = text[:start] + change["text"] + text[end:]
        else:
            text = change["text"]
    changed(uri, version, text)


def misbehave(number: Any, text: str) -> bool:
    """Misbehave as the document says; return whether that completes the request."""
    global disturbed
    if "CRASH" in text:
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    if "HANG" in text:
        time.sleep(60)
    if "SILENT" in text:
        if "heard" in OPTIONS:
            Path(OPTIONS["heard"]).touch()
        return True
    if "GARBAGE" in text:
        raw(b"a line that a program printed\n\n")
        return True
    if "BODY" in text:
        raw(b"Content-Length: 5\r\n\r\n{nope")
        return True
    if "LIST" in text:
        raw(b"Content-Length: 2\r\n\r\n[]")
        return True
    if "HUGE" in text:
        raw(b"Content-Length: 99999999999\r\n\r\n")
        return True
    if "CUT" in text:
        raw(b"Content-Length: 100\r\n\r\n{")
        os._exit(0)
    if "ERROR" in text:
        send({"id": number, "error": {"code": -32603, "message": "it went wrong"}})
        return True
    if "DISTURBED" in text and disturbed < OPTIONS.get("disturbances", 2):
        disturbed += 1
        send({"id": number, "error": {"code": -32801, "message": "content modified"}})
        return True
    if "WRONG" in text:
        send({"id": 987654, "result": None})
        send({"id": "text", "result": None})
    return False


def result(method: str, parameters: dict[str, Any]) -> Any:
    version, text = documents[parameters["textDocument"]["uri"]]
    if "NUMBER" in text:
        return 42
    if "NAMELESS" in text:
        return {"items": [{"kind": 3}], "signatures": [{}]}
    if method == "textDocument/diagnostic":
        return {"kind": "full", "items": [diagnostic(text)]}
    place = offset(text, parameters["position"])
    if method == "textDocument/signatureHelp":
        state = {"text": text, "offset": place, "version": version, "seen": seen, "asked": asked(text)}
        return {"signatures": [{"label": json.dumps(state), "parameters": []}]}
    if "ITEMS" in OPTIONS:
        return OPTIONS["ITEMS"]
    names = [f"name_{letter}{number}" for letter in "ab" for number in range(3)]
    start = place
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    if "CAPPED" in text:
        every = [letter + str(number) for letter in "abcZ_é" for number in range(3)]
        found = [name for name in every if name.startswith(text[start:place])]
        return {"isIncomplete": True, "items": [{"label": name} for name in found[:4]]}
    return {"isIncomplete": True, "items": [{"label": name, "kind": 2} for name in names]}


def asked(text: str) -> Any:
    if "ASK" not in text:
        return None
    return [
        ask("workspace/configuration", {"items": [{"section": "fake.inner"}, {"section": "none"}, {}]}),
        ask("client/registerCapability", {"registrations": []}),
        ask("window/workDoneProgress/create", {"token": 1}),
        ask("workspace/workspaceFolders", None),
        ask("workspace/applyEdit", {}),
        ask("fake/unheardOf", {}),
    ]


def take(message: dict[str, Any]) -> None:
    method, number, parameters = message.get("method"), message.get("id"), message.get("params")
    if method is None:
        replies[number] = {key: message[key] for key in ("result", "error") if key in message}
        return
    seen.append(method)
    if method == "initialize":
        start()
        capabilities = {
            "positionEncoding": ENCODING,
            "textDocumentSync": {"openClose": True, "change": OPTIONS.get("sync", 2)},
            "completionProvider": {"triggerCharacters": ["."]},
            "signatureHelpProvider": {},
        }
        if not OPTIONS.get("push"):
            capabilities["diagnosticProvider"] = {"interFileDependencies": False}
        for name in OPTIONS.get("without", []):
            del capabilities[name]
        send({"id": number, "result": {"capabilities": capabilities}})
    elif method == "textDocument/didOpen":
        item = parameters["textDocument"]
        assert item["uri"] not in documents, "opened twice"
        changed(item["uri"], item["version"], item["text"])
    elif method == "textDocument/didChange":
        apply(parameters)
    elif method == "textDocument/didClose":
        del documents[parameters["textDocument"]["uri"]]
    elif method == "shutdown" and not OPTIONS.get("stubborn"):
        send({"id": number, "result": None})
    elif method == "exit" and not OPTIONS.get("stubborn"):
        sys.exit(0)
    elif number is not None and method.startswith("textDocument/"):
        if misbehave(number, documents[parameters["textDocument"]["uri"]][1]):
            return
        send({"id": number, "result": result(method, parameters)})


def start() -> None:
    """Misbehave at the start, as the options say."""
    if "log" in OPTIONS:
        with Path(OPTIONS["log"]).open("a") as log:
            log.write(f"{os.getpid()}\n")
    if "child" in OPTIONS:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(OPTIONS["child"]).write_text(str(child.pid))
    if OPTIONS.get("talk"):
        sys.stderr.write("blah\n" * 100_000)
        sys.stderr.flush()
    if "fails" in OPTIONS and len(Path(OPTIONS["log"]).read_text().split()) <= OPTIONS["fails"]:
        os._exit(1)
    if OPTIONS.get("mute"):
        time.sleep(60)


if __name__ == "__main__":
    try:
        while (received := read()) is not None:
            take(received)
    except BrokenPipeError:
        os._exit(0)
