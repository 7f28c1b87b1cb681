"""No process, zombie or grandchild survives, however a server ends."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from structgen.monitors.language_server import LanguageServer, background

from .conftest import FAKE, Fake, eventually, is_alive

PLACE = Path("file.txt")
ROOT = Path(__file__).resolve().parents[3]


def processes(folder: Path) -> list[int]:
    return [int(pid) for name in ("log", "child") for pid in (folder / name).read_text().split()]


@pytest.mark.parametrize("options", [{}, {"stubborn": True}, {"mute": True}])
def test_close_ends_the_server_and_its_children(fake: Fake, tmp_path: Path, options: dict[str, bool]) -> None:
    server = fake(log=str(tmp_path / "log"), child=str(tmp_path / "child"), **options)
    if not options.get("mute"):
        assert server.completions(PLACE, "x.", 2).result() is not None
    child = tmp_path / "child"
    assert eventually(lambda: child.exists() and child.read_text() != "")
    pids = processes(tmp_path)
    assert len(pids) == 2 and all(map(is_alive, pids))
    server.close()
    server.close()
    assert eventually(lambda: not any(map(is_alive, pids)))
    assert server.completions(PLACE, "x.", 2).result() is None
    assert server.health.failed == 1


def test_open_queries_give_no_result_at_the_end(fake: Fake) -> None:
    server = fake()
    assert server.completions(PLACE, "x.", 2).result() is not None
    futures = [server.completions(PLACE, "SILENT x.", 9) for _ in range(3)]
    server.close()
    assert [future.result() for future in futures] == [None, None, None]


def test_a_crash_leaves_no_children(fake: Fake, tmp_path: Path) -> None:
    server = fake({"restarts": 0}, log=str(tmp_path / "log"), child=str(tmp_path / "child"))
    assert server.completions(PLACE, "CRASH x.", 8).result() is None
    assert eventually(lambda: not any(map(is_alive, processes(tmp_path))))


def test_the_last_reference_ends_the_server(tmp_path: Path) -> None:
    options = f'{{"log": "{tmp_path / "log"}"}}'
    server = LanguageServer("fake", [sys.executable, "-S", str(FAKE), options], tmp_path, "other")
    assert server.completions(PLACE, "x.", 2).result(30) is not None
    (pid,) = map(int, (tmp_path / "log").read_text().split())
    assert is_alive(pid)
    del server

    def is_gone() -> bool:
        gc.collect()
        return not is_alive(pid)

    assert eventually(is_gone)


def test_nothing_is_kept_of_closed_servers(fake: Fake) -> None:
    server = fake()
    before = len(background._state.closers)
    server.close()
    assert len(background._state.closers) == before - 1


PROGRAM = """
import sys
from pathlib import Path
from structgen.monitors.language_server import LanguageServer
server = LanguageServer("fake", [sys.executable, "-S", sys.argv[1], sys.argv[2]], ".", "other")
assert server.completions(Path("a"), "x.", 2).result(30) is not None
server.signatures(Path("a"), "SILENT ", 0)
{end}
"""


@pytest.mark.parametrize(
    "end", ["", "raise SystemExit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_the_end_of_the_interpreter_is_the_end_of_the_server(tmp_path: Path, end: str) -> None:
    options = f'{{"log": "{tmp_path / "log"}", "stubborn": true}}'
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", PROGRAM.format(end=end), str(FAKE), options],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "Error" not in done.stderr and "Exception" not in done.stderr and "Warning" not in done.stderr
    assert done.returncode in (0, -9)
    (pid,) = map(int, (tmp_path / "log").read_text().split())
    assert eventually(lambda: not is_alive(pid))
