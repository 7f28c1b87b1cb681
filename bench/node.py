"""A JavaScript program that answers requests, one line of JSON each.

The parsers of some languages (`solc`, `typescript`) run under Node. To start Node for each of thousands of texts would
take minutes; a request to a running process takes milliseconds.

Invariant: one reply for each request, in order. The process ends with its owner. Cost: one process, from the first
request on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Any

__all__ = ["NodeProgram"]

_LOOP = """
const answer = (() => { %s })();
require('readline').createInterface({input: process.stdin}).on('line', line => {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + '\\n');
});
"""


class NodeProgram:
    """Runs `body`, the body of a JavaScript function without arguments that returns the function that answers."""

    def __init__(self, body: str) -> None:
        self._body = body
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: Any) -> Any:
        """Send a request and return the reply; both are JSON values."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self._process = None
            _end(process)
            raise RuntimeError("the Node program ended without an answer; its output is above")
        return json.loads(answer)

    def _start(self) -> subprocess.Popen[str]:
        node = shutil.which("node")
        if node is None:
            raise RuntimeError("node is not installed; this language's own tool runs under it")
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "program.cjs"
            script.write_text(_LOOP % self._body, encoding="utf-8")
            self._process = subprocess.Popen(
                [node, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            weakref.finalize(self, _end, self._process)
            self.ask("ready?")  # the script is read before its folder goes
        return self._process


def _end(process: subprocess.Popen[str]) -> None:
    """Close the standard input of the process, which ends it."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()
