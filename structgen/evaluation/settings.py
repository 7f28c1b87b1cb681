"""The options of a run, and what ``run.json`` records of them.

Invariant: two runs with equal options pose the same questions in the same words; what may differ between a run and its
resumption (processes at a time) is not among them. Mistakes are `OptionError`, by the name of the option.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from structgen import __version__
from structgen.errors import OptionError

from .engines import ENGINES, check_engine, engine_version, is_endpoint

__all__ = ["BYTES", "Counted", "RunOptions", "described", "options_of", "versions"]

BYTES = "bytes"
"""Instead of a model: each byte is a token. For coverage only."""
_TOLD_VERSIONS = ("jsonschema-rs", "numpy", "torch", "transformers")


@dataclass(frozen=True)
class RunOptions:
    """See ``structgen eval run --help``; lists are tuples."""

    engines: tuple[str, ...] = ("structgen",)
    datasets: tuple[str, ...] = ("bundled",)
    parts: tuple[str, ...] = ()
    sample: int | None = None
    """Schemas of each data set; None: all."""
    seed: int = 0
    model: str | None = None
    """A name or path, `BYTES`, or None: the embedded one."""
    coverage: bool = True
    generate: int = 0
    """Schemas of each data set that texts are written on."""
    tasks: tuple[str, ...] = ()
    task_items: int | None = None
    """The first so many of each task; None: all."""
    max_tokens: int = 256
    temperature: float = 0.0
    seconds: float = 60.0
    """Of one schema: the processor's for coverage, the engine's of one text."""
    memory: int = 2048
    """MiB that one schema may take beyond what its process has."""
    api_key_env: str | None = None

    def __post_init__(self) -> None:
        for name in ("engines", "datasets", "parts", "tasks"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        for name in self.engines:
            check_engine(name)
        if not self.engines:
            raise OptionError("no engine is given", hint=f"Choose some of {', '.join(ENGINES)}, openai:URL.")
        for name, least in (
            ("sample", 1),
            ("seed", 0),
            ("generate", 0),
            ("task_items", 1),
            ("max_tokens", 1),
            ("memory", 64),
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise OptionError(f"{name} is {value!r:.40}; it is a whole number from {least} on")
        if not 0 < self.seconds < float("inf"):
            raise OptionError(f"seconds is {self.seconds!r}; it is a number above 0")
        if not 0 <= self.temperature < float("inf"):
            raise OptionError(f"temperature is {self.temperature!r}; it is a number from 0 on")
        if not (self.asks_schemas or self.tasks):
            raise OptionError("there is nothing to measure: no coverage, no texts, no tasks")
        if self.asks_schemas and not self.datasets:
            raise OptionError("no data set is given")
        if self.model == BYTES and self.writes_locally:
            raise OptionError(
                "texts need a model, and the model is 'bytes'", hint="Leave out --generate and --tasks."
            )

    @property
    def asks_schemas(self) -> bool:
        """Whether the data sets are read at all."""
        return self.coverage or self.generate > 0

    @property
    def writes_locally(self) -> bool:
        """Whether a model is loaded here."""
        return bool(self.generate or self.tasks) and not all(map(is_endpoint, self.engines))

    def to_json(self) -> dict[str, Any]:
        """Return the options for ``run.json``."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> RunOptions:
        """Return the options of ``run.json``."""
        names = {field.name for field in fields(cls)}
        if set(kept) != names:
            raise OptionError(f"the run's options differ from this version's in {sorted(set(kept) ^ names)}")
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()
        }
        return cls(**given)


@dataclass(frozen=True)
class Counted:
    """A data set as this run uses it."""

    name: str
    spec: str
    parts: dict[str, int] = field(default_factory=dict)
    """How many schemas of each."""
    digest: str = ""
    """SHA-256 of names, schemas and instances in their order."""

    @property
    def schemas(self) -> int:
        """In all."""
        return sum(self.parts.values())


_JUDGE = "jsonschema-rs"


def described(options: RunOptions, datasets: Sequence[Counted], workers: int, threads: int) -> dict[str, Any]:
    """Return what `Run.settings` documents."""
    return {
        "format": 1,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "options": options.to_json(),
        "engines": {name: engine_version(name) for name in options.engines},
        "model": (options.model or "embedded") if options.writes_locally or options.model else None,
        "datasets": [
            {
                "name": dataset.name,
                "spec": dataset.spec,
                "parts": dataset.parts,
                "schemas": dataset.schemas,
                "digest": dataset.digest,
            }
            for dataset in datasets
        ],
        "seed": options.seed,
        "generate": options.generate,
        "tasks": list(options.tasks),
        "max_tokens": options.max_tokens,
        "workers": workers,
        "threads": threads,
        "limits": {"seconds": options.seconds, "memory_mb": options.memory},
        "versions": versions(),
        "machine": {
            "cpus": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        },
    }


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that figures depend on."""
    versions = {"structgen": __version__}
    for name in _TOLD_VERSIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def options_of(settings: Mapping[str, Any]) -> RunOptions:
    """Return the options that a run was started with; raise `OptionError` if this installation would differ."""
    kept = settings.get("options")
    if not isinstance(kept, Mapping):
        raise OptionError("the run does not record its options, so it cannot be resumed")
    options = RunOptions.from_json(kept)
    judge = {_JUDGE: settings.get("versions", {}).get(_JUDGE)}
    for name, then in {**settings.get("engines", {}), **judge}.items():
        if (now := versions().get(name) if name == _JUDGE else engine_version(name)) != then:
            raise OptionError(
                f"the run was started with {name} {then}, and {now} is installed",
                hint="Install that version again, or start a new run.",
            )
    return options
