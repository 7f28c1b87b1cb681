"""Python: the standard library and large packages; judged by `ast.parse`.

The judge is Python 3.12, or a later one in a mode that reads 3.12: this Python, or another installed one. Without such
a Python, this one judges and refuses what 3.12 added: type parameters, and the same quotes again within f-strings.
"""

from __future__ import annotations

import atexit
import functools
import json
import random
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from bench.corpora import pypi, texts

NAME = "python"

_PACKAGES = ("sympy==1.13.3", "Django==5.1.4", "hypothesis==6.122.3", "rich==13.9.4", "networkx==3.4.2")
_MOST = 128 * 1024

_JUDGE = """
import ast, json, sys, warnings
warnings.simplefilter("ignore")
version = min(sys.version_info[:2], (3, 12))
for line in sys.stdin:
    try:
        ast.parse(json.loads(line), feature_version=version)
        print("True", flush=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        print("False", flush=True)
"""


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield files of the standard library and of the packages."""
    yield from drawn([standard_library(), *map(pypi, _PACKAGES)], limit)


def drawn(folders: Iterable[Path], limit: int | None, most: int = _MOST) -> Iterator[tuple[str, str]]:
    """Files below the folders, of at most so many bytes, that are Python: some of tests are not."""
    files = [file for file in texts(folders, ".py", most=most) if "/site-packages/" not in file[0]]
    random.Random(0).shuffle(files)  # drawn before they are judged
    yield from islice(((name, text) for name, text in files if is_valid(text)), limit)


def standard_library() -> Path:
    """That of this Python."""
    return Path(sysconfig.get_path("stdlib"))


def is_valid(text: str) -> bool:
    """The verdict of Python's own parser."""
    judge = _judge()
    assert judge.stdin is not None and judge.stdout is not None
    judge.stdin.write(json.dumps(text) + "\n")
    judge.stdin.flush()
    return judge.stdout.readline().strip() == "True"


@functools.cache
def _judge() -> subprocess.Popen[str]:
    command = [_python(), "-c", _JUDGE]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


def reads_3_12() -> bool:
    """Return whether the judge is Python 3.12 or later."""
    return _runs(_python())


def _python() -> str:
    """Return the path of a Python 3.12 or later, or None."""
    if sys.version_info >= (3, 12):
        return sys.executable
    beside = Path(sys.base_prefix).parent  # where pyenv and uv keep them
    interpreters = [*map(shutil.which, ("python3.12", "python3.13"))]
    interpreters += sorted(map(str, beside.glob("*3.1[23].*/bin/python3")))
    for name in interpreters:
        if name and _runs(name):
            return name
    return sys.executable


def _runs(python: str) -> bool:
    check = "import sys; sys.exit(sys.version_info < (3, 12))"
    return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0
