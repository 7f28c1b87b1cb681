"""The projects of the monitors' benchmark: published packages at fixed versions, laid out for language servers.

A server knows a receiver's type only from real code with its dependencies. So each of six Python packages is installed
with its dependencies. The five TypeScript packages are some that publish their sources; these are copied to a folder
with a configuration and their imports. No code of a package is executed, not even install scripts.

Invariant: a folder that is marked as installed holds the versions that are named here; their dependencies have the
newest compatible versions. Cost: about 150 MB, and less than a minute, once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PROJECTS", "Project", "cache_folder", "install", "typescript_server"]

_MARK = ".installed"
_TYPESCRIPT_SERVER = "@typescript/native-preview@7.0.0-dev.20260707.2"
_SUFFIXES = {"python": ".py", "typescript": ".ts"}
_PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--target", ".")
_OF_STARLETTE = ("itsdangerous", "python-multipart", "opentelemetry-api")
_SKIPPED = {"tests", "test", "__tests__", "testing", "locales", "_vendor", "node_modules"}


@dataclass(frozen=True)
class Project:
    """One package.

    package  as its registry knows it, with its version
    sources  the folder of its code within the project
    needs    other packages that its sources import
    """

    name: str
    language: str
    package: str
    sources: str
    needs: tuple[str, ...] = ()

    def folder(self, cache: Path) -> Path:
        """Return the folder where the package is installed."""
        return cache / self.language / self.name

    def files(self, cache: Path) -> list[Path]:
        """Return the files of its own code, sorted, without tests and translations."""
        suffix = _SUFFIXES[self.language]
        paths = (self.folder(cache) / self.sources).rglob(f"*{suffix}")
        return sorted(
            path
            for path in paths
            if not path.name.endswith(".d.ts") and _SKIPPED.isdisjoint(path.relative_to(cache).parts)
        )


PROJECTS: dict[str, Project] = {
    project.name: project
    for project in (
        Project("click", "python", "click==8.5.1", "click"),
        Project(
            "httpx", "python", "httpx==0.28.1", "httpx", ("h2", "trio", "brotli", "zstandard", "socksio")
        ),
        Project("rich", "python", "rich==15.0.0", "rich"),
        Project("starlette", "python", "starlette==1.10.0", "starlette", _OF_STARLETTE),
        Project("pydantic", "python", "pydantic==2.14.3", "pydantic"),
        Project("werkzeug", "python", "werkzeug==3.1.9", "werkzeug"),
        Project("rxjs", "typescript", "rxjs@7.8.2", "src"),
        Project("zod", "typescript", "zod@4.6.7", "src/v4"),
        Project("mobx", "typescript", "mobx@7.1.3", "src"),
        Project("query-core", "typescript", "@tanstack/query-core@5.108.0", "src"),
        Project(
            "redux-toolkit", "typescript", "@reduxjs/toolkit@2.14.0", "src", ("@types/react", "react-redux")
        ),
    )
}


def cache_folder() -> Path:
    """Return the default folder of the projects."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "structgen" / "bench-monitors"


def install(projects: Sequence[Project], cache: Path) -> None:
    """Install the projects and the server for TypeScript, unless they are there."""
    for project in projects:
        folder = project.folder(cache)
        content = " ".join((project.package, *project.needs))
        mark = folder / _MARK
        if mark.exists() and mark.read_text() == content:
            continue
        print(f"installing {project.package}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if project.language == "python":
            _run([*_PIP, project.package, *project.needs], folder)
        else:
            _typescript(project, folder)
        mark.write_text(content)
    if (
        any(project.language == "typescript" for project in projects)
        and not (cache / "node_modules").exists()
    ):
        (cache / "package.json").write_text('{"private": true}')
        _npm([_TYPESCRIPT_SERVER], cache)


def typescript_server(cache: Path) -> list[str]:
    """Return the command of the server for TypeScript that `install` puts next to the projects."""
    return [str(cache / "node_modules" / ".bin" / "tsgo"), "--lsp", "--stdio"]


def _typescript(project: Project, folder: Path) -> None:
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    _npm([project.package, "@types/node@22", *project.needs], folder)
    name = project.package.rpartition("@")[0]
    shutil.copytree(folder / "node_modules" / name / "src", folder / "src")
    options = {
        "target": "es2022",
        "lib": ["esnext", "dom", "dom.iterable"],
        "module": "esnext",
        "moduleResolution": "bundler",
        "jsx": "react-jsx",
        "types": ["node"],
        "strict": True,
        "allowImportingTsExtensions": True,
        "skipLibCheck": True,
        "noEmit": True,
    }
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["src"]}))


def _npm(packages: Sequence[str], folder: Path) -> None:
    _run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *packages], folder)


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
