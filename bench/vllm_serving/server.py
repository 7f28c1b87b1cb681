"""A vLLM server in its own process with the embedded model and the plugin, for the duration of a block."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Served", "serve"]

_START_SECONDS = 600


@dataclass(frozen=True)
class Served:
    """A server that answers."""

    url: str
    root: str
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def serve(
    *,
    speculation: int = 0,
    grammar_drafts: int = 0,
    backend: str = "structgen",
    sequences: int = 64,
    more: Sequence[str] = (),
) -> Iterator[Served]:
    """Starts it with this interpreter, waits until it answers, and ends it with all its processes."""
    from structgen.integrations.vllm.drafting import PROPOSER
    from structgen.models.embedded import embedded_directory

    port = _free_port()
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(embedded_directory())),
        *("--served-model-name", "smollm2", "--port", str(port), "--host", "127.0.0.1"),
        *("--structured-outputs-config.backend", backend, "--max-model-len", "2048", "--dtype", "float32"),
        *("--max-num-seqs", str(sequences), "--enforce-eager", "--no-enable-log-requests"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        *more,
    ]
    if speculation:
        method = f'{{"method": "ngram", "num_speculative_tokens": {speculation}, "prompt_lookup_max": 4}}'
        command += ["--speculative-config", method]
    if grammar_drafts:
        config = {"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": grammar_drafts}
        command += ["--speculative-config", json.dumps(config)]
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "2"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    log = Path(tempfile.mkstemp(prefix="vllm-serving-", suffix=".log")[1])
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    root = f"http://127.0.0.1:{port}"
    try:
        _wait(root, process, log)
        yield Served(f"{root}/v1", root, process, log)
    finally:
        _end(process)


def _wait(root: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(_START_SECONDS):
        if process.poll() is not None:
            raise RuntimeError(
                f"vLLM ended with {process.returncode}:\n" + log.read_text(errors="replace")[-4000:]
            )
        try:
            with urllib.request.urlopen(f"{root}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise RuntimeError(f"vLLM does not answer; its log is {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
