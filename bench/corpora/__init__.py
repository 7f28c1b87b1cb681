"""Public files of many languages from packages, and the verdict of each language's own tool on a text.

The ready grammars are measured with files that were not written for them. This module fetches public packages with the
ordinary clients (`pip`, `npm`, `apt-get`), unpacks them once into a cache folder and walks over their contents. Each
other module of this package is a `Corpus`: one language.

Invariant: modules pin the packages, walks are in sorted order and choices are seeded, so two runs see the same files.
The library does not import this package, and the repository does not contain the fetched files. Cost: the network once
for each package; afterwards a look at the disk.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

__all__ = [
    "Corpus",
    "cache_folder",
    "corpora",
    "debian",
    "npm",
    "npm_tree",
    "pypi",
    "pypi_tree",
    "sample",
    "texts",
    "tool",
]


class Corpus(Protocol):
    """The protocol of the modules in this folder."""

    NAME: str
    """The name of the grammar for `sg.grammar`."""

    def files(self, limit: int | None = None) -> Iterator[tuple[str, str]]:
        """Names and texts that the language's own tool accepts; `limit` of them, drawn from all."""

    def is_valid(self, text: str) -> bool:
        """The verdict of the language's own tool, on syntax only."""


def corpora() -> dict[str, Corpus]:
    """The modules of this folder by `NAME`."""
    modules: dict[str, Corpus] = {}
    for info in pkgutil.iter_modules(__path__):
        module = cast(Corpus, importlib.import_module(f"{__name__}.{info.name}"))
        modules[module.NAME] = module
    return modules


def cache_folder() -> Path:
    """Return the folder of the unpacked packages: under ``XDG_CACHE_HOME``, or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "structgen" / "corpora"


def pypi(requirement: str, *, source: bool = False) -> Path:
    """The folder of an unpacked package: ``"pandas==2.2.3"``, its wheel, or with `source` its sdist."""
    how = ["--no-binary", ":all:"] if source else ["--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *how, requirement]
    return _unpacked("sdist" if source else "wheel", requirement, command)


def npm(package: str) -> Path:
    """The folder of an unpacked npm package: ``"graphql@16.9.0"``."""
    return _unpacked("npm", package, ["npm", "pack", "--silent", package])


def npm_tree(*packages: str) -> Path:
    """The folder in which npm packages are installed with what they depend on; their install scripts do not run."""
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--legacy-peer-deps"]
    return _once(
        "npm-tree", " ".join(packages), lambda folder: _run(["npm", "install", *options, *packages], folder)
    )


def pypi_tree(*requirements: str) -> Path:
    """The folder in which PyPI packages are installed with what they depend on, apart from this environment."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--target",
        ".",
        *requirements,
    ]
    return _once("wheel-tree", " ".join(requirements), lambda folder: _run(command, folder))


def debian(package: str) -> Path:
    """The folder of an unpacked Debian package; apt's lists must be there (``apt-get update``)."""
    return _unpacked(
        "debian", package, ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package]
    )


def tool(requirement: str, module: str) -> ModuleType:
    """A language's own tool: `module` as it is installed here, or from `requirement`, put into the cache folder."""
    try:
        return importlib.import_module(module)
    except ImportError:
        pass

    def install(folder: Path) -> None:
        _run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), requirement], folder
        )

    folder = str(_once("tool", requirement, install))
    if folder not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()
    return importlib.import_module(module)


def texts(
    folders: Iterable[Path], *endings: str, most: int = 64 * 1024, encoding: str = "utf-8"
) -> Iterator[tuple[str, str]]:
    """Files with one of these endings below the folders, in order, each text once.

    Left out are those that are not text in this encoding and those of more than `most` bytes.
    """
    seen: set[bytes] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if not path.name.endswith(endings) or path.is_symlink() or not path.is_file():
                continue
            if path.stat().st_size > most:
                continue
            data = path.read_bytes()
            if data in seen:
                continue
            seen.add(data)
            try:
                yield f"{folder.name}/{path.relative_to(folder)}", data.decode(encoding)
            except UnicodeDecodeError:
                continue


def sample(items: Iterable[tuple[str, str]], limit: int | None, seed: int = 0) -> list[tuple[str, str]]:
    """All items, or `limit` of them drawn with `seed`, in their order."""
    listed: Sequence[tuple[str, str]] = list(items)
    if limit is None or limit >= len(listed):
        return list(listed)
    return [listed[i] for i in sorted(random.Random(seed).sample(range(len(listed)), limit))]


def _once(kind: str, name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of this kind and name, filled where it is not there yet; it appears whole or not at all."""
    stem = re.sub(r"[^\w.=@+-]", "_", name)
    if len(stem) > 200:  # a file system's names are shorter than 256 bytes
        stem = stem[:100] + "-" + hashlib.sha256(name.encode()).hexdigest()[:16]
    folder = cache_folder() / kind / stem
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            filled = Path(temporary) / "filled"
            filled.mkdir()
            fill(filled)
            if not folder.exists():  # another process may have been faster
                filled.rename(folder)
    return folder


def _unpacked(kind: str, name: str, command: list[str]) -> Path:
    def fill(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            _run(command, Path(temporary))
            (archive,) = Path(temporary).iterdir()
            _unpack(archive, folder)

    return _once(kind, name, fill)


def _unpack(archive: Path, folder: Path) -> None:
    """Wheels and zips, tars of any compression, Debian packages."""
    if archive.suffix == ".deb":
        _run(["dpkg-deb", "--extract", str(archive), str(folder)], folder)
    elif archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(folder)
    else:
        with tarfile.open(archive) as tarred:
            tarred.extractall(folder, filter="data")


def _run(command: list[str], folder: Path) -> None:
    """A command in a folder; where it fails its own words are shown."""
    if shutil.which(command[0]) is None:
        raise RuntimeError(f"{command[0]} is not installed; it fetches files of this corpus")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
