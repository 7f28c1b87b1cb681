"""Engines that do what an engine must not, by the title of a schema; otherwise as structgen."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from structgen.evaluation.engines import Session
from structgen.evaluation.engines.own import Structgen


class BadEngine(Structgen):
    """An engine that fails as the title of a schema says, such as ``{"title": "crash"}``."""

    version = "1"

    def compile(self, schema: str) -> Any:
        title = json.loads(schema).get("title")
        if title == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif title == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif title == "abort":
            print("memory allocation of 7 bytes failed", file=sys.stderr, flush=True)
            os.abort()
        elif title == "spin":
            while True:
                pass
        elif title == "sleep":
            time.sleep(600)
        elif title == "memory":
            kept = []
            while True:
                kept.append(bytearray(b"x" * (8 << 20)))
        elif title == "slow":
            time.sleep(0.3)
        elif title == "print":
            print('{"record": {}}', flush=True)
        elif title == "panic":
            raise BaseException("a panic")
        elif title == "wrong":
            return None
        return super().compile(schema)

    def start(self, program: Any) -> Session:
        if program is None:
            raise KeyError("lost")
        return super().start(program)
