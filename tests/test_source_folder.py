"""structgen in its source folder, where the sources have no native core: what is installed works, the rest says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import structgen
from structgen._core.missing import core_missing
from structgen.errors import CoreMissing

SOURCES = Path(structgen.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a source folder without a build."""
    made = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.cpp", "*.h", "*.gguf")
    shutil.copytree(SOURCES, made / "structgen", ignore=ignored)
    (made / "CMakeLists.txt").write_text("")
    return made


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder, with this structgen installed."""
    paths = os.pathsep.join(os.path.abspath(path) for path in (SOURCES.parent, *sys.path))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


PROCESSES = """
import pickle

import structgen as sg
from structgen.evaluation.contained import Contained
from structgen.evaluation.worker import Role
from structgen.serving.isolating_compiler import IsolatingCompiler

with IsolatingCompiler(sg.Vocabulary.of_bytes(), workers=1) as compiler:
    compiler.wait_until_ready()
    print("worker", compiler.compile("regex", "ab").least_tokens)
    process = compiler.matcher_processes.start(pickle.dumps(sg.regex("ab")), lambda: True)
    print("matcher process", process.new_matcher() is not None)
    process.kill()
role = Role("structgen", False, "bytes", 0, 10, 1.0, 60.0, 4096, 1, None)
with Contained(role) as contained:
    contained.start()
    print("evaluation", contained.starts)
"""


def test_processes_start_in_the_source_folder(folder: Path) -> None:
    done = run(folder, "-P", "-c", PROCESSES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["worker 2", "matcher process True", "evaluation 1"]


@pytest.mark.parametrize("arguments", [["doctor"], ["check", "{}"], ["--help"]])
def test_the_command_says_where_it_is(folder: Path, arguments: list[str]) -> None:
    done = run(
        folder, "-S", "-m", "structgen", *arguments
    )  # -S: hooks of an editable install would come first
    assert done.returncode == 2 and not done.stdout
    assert "you are in the source folder" in done.stderr and "pip install ." in done.stderr
    assert "Traceback" not in done.stderr


def test_the_import_says_where_it_is(folder: Path) -> None:
    done = run(folder, "-S", "-c", "import structgen as sg; sg.regex('a')")
    assert "CoreMissing: you are in the source folder" in done.stderr
    assert "_native" not in done.stderr.splitlines()[-2]


def test_other_reasons_why_there_is_no_core(tmp_path: Path) -> None:
    core = tmp_path / "structgen" / "_core"
    core.mkdir(parents=True)
    missing = ModuleNotFoundError("No module named 'structgen._core._native'", name="structgen._core._native")
    assert "has no native core" in str(core_missing(missing, core))
    (core / "_native.cpython-39-x86_64-linux-gnu.so").write_text("")
    assert "another Python" in str(core_missing(missing, core))
    error = core_missing(ImportError("libfoo.so.1: cannot open shared object file"), core)
    assert "libfoo.so.1" in str(error) and isinstance(error, CoreMissing) and isinstance(error, ImportError)
