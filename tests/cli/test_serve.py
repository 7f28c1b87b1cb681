"""`structgen serve` from any directory, and where its processes cannot start: as programs of their own."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.embedded import require_embedded_package
from tests.faults import IS_SANDBOX_KNOWN, break_import
from tests.unhurried import HANG_SECONDS

require_embedded_package()

ROOT = Path(__file__).parents[2]
BODY = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "A colour?"}],
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "colour", "schema": {"enum": ["red", "blue"]}},
    },
}
SERVE = ("-m", "structgen", "serve", "--port", "0", "--name", "tiny", "--compilers", "1")


def environment(*folders: Path) -> dict[str, str]:
    """The environment of the tests, with folders that come first in the path."""
    # Only absolute paths: a path of "" would be that of the directory in which the server starts.
    paths = [*map(str, folders), *(path for path in sys.path if os.path.isabs(path))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def serving(folder: Path, *command: str, **options: Any) -> Iterator[tuple[str, list[str]]]:
    """Start a server in a folder; yield its address and what it says. It must end with status 0."""
    options.setdefault("env", environment())
    command = command or SERVE
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        said: list[str] = []
        found = threading.Event()

        def read() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line)
                if "is served at" in line:
                    found.set()
            found.set()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            assert found.wait(HANG_SECONDS)
            address = re.search(r"served at (http://\S+)/v1", "".join(said))
            assert address is not None, "".join(said)
            yield address[1], said
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG_SECONDS) == 0, "".join(said)
        finally:
            process.kill()
            reader.join(HANG_SECONDS)


def answer(url: str) -> Any:
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(BODY).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=HANG_SECONDS) as response:
        return json.loads(json.loads(response.read())["choices"][0]["message"]["content"])


def with_modules_of_standard_names(folder: Path) -> Path:
    for name in ("json", "logging", "socket", "struct", "lark", "numpy"):
        (folder / f"{name}.py").write_text("raise SystemExit('this module has a standard name')")
    (folder / "structgen").mkdir()
    (folder / "structgen" / "notes.txt").write_text("data")
    return folder


def unreadable(folder: Path) -> Path:
    folder.chmod(0o311)
    return folder


def root(folder: Path) -> Path:
    return Path(os.sep)


def obey_permissions() -> None:
    """Let a superuser's process obey the permissions of files after the next `exec`."""
    library = ctypes.CDLL(None)
    for capability in (1, 2):
        library.prctl(24, capability, 0, 0, 0)


@pytest.mark.parametrize("make", [with_modules_of_standard_names, unreadable, root])
def test_it_serves_from_any_directory(make: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = make(tmp_path)
    options = {"preexec_fn": obey_permissions} if make is unreadable and sys.platform == "linux" else {}
    with serving(folder, **options) as (url, said):
        assert answer(url) in ("red", "blue")
    assert "Traceback" not in "".join(said)


@pytest.mark.skipif(sys.platform != "linux", reason="a working directory cannot be deleted elsewhere")
def test_it_serves_from_a_directory_that_was_deleted(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = (
        "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    with serving(gone, "-c", program, *SERVE) as (url, said):
        assert not gone.exists()
        assert answer(url) in ("red", "blue")
    assert "Traceback" not in "".join(said)


@pytest.mark.skipif(not IS_SANDBOX_KNOWN, reason="the sandbox is that of Linux")
def test_where_a_sandbox_forbids_processes_it_says_so(tmp_path: Path) -> None:
    program = (
        "import sys; from tests.faults import forbid_processes; forbid_processes(); "
        "from structgen.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", "--port", "0"],
        cwd=tmp_path,
        env=environment(ROOT),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 2, done.stderr
    assert "the server cannot start" in done.stderr and "as sandboxes do" in done.stderr
    assert "is served at" not in done.stderr and "Traceback" not in done.stderr


def test_where_a_module_of_its_processes_is_missing_it_says_so(tmp_path: Path) -> None:
    break_import(tmp_path, "raise ImportError('libfoo.so.1: cannot open shared object file')", "probe_worker")
    done = subprocess.run(
        [sys.executable, *SERVE],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 2, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "the server cannot start" in line)
    assert line.endswith("it ended with status 1: ImportError: libfoo.so.1: cannot open shared object file")


def test_where_only_matcher_processes_are_missing_it_warns_and_serves(tmp_path: Path) -> None:
    break_import(tmp_path, "raise ImportError('libfoo.so.1 is missing')", "matcher_worker")
    with serving(tmp_path.parent, env=environment(tmp_path)) as (url, said):
        assert answer(url) in ("red", "blue")
        assert any("WARNING" in line and "libfoo.so.1 is missing" in line for line in said)
