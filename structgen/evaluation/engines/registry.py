"""Engines by name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from structgen.errors import OptionError
from structgen.vocabulary import Vocabulary

from .base import BenchmarkEngine, Engine
from .llguidance import LLGuidance
from .lm_format_enforcer import LMFormatEnforcer
from .outlines_core import OutlinesCore
from .own import Structgen, Unconstrained
from .xgrammar import XGrammar

__all__ = [
    "BENCHMARK_ENGINES",
    "ENDPOINT",
    "ENGINES",
    "Known",
    "check_engine",
    "engine_version",
    "is_endpoint",
    "open_engine",
]

ENDPOINT = "openai:"
"""The prefix of an engine that a server runs."""


class Known(NamedTuple):
    """An engine that can be opened."""

    module: str
    """What is imported."""
    package: str
    """What is installed, as the package index names it."""
    make: Callable[[Vocabulary], Engine]


ENGINES: dict[str, Known] = {
    "structgen": Known("structgen", "structgen-lm", Structgen),
    "llguidance": Known("llguidance", "llguidance", LLGuidance),
    "xgrammar": Known("xgrammar", "xgrammar", XGrammar),
    "outlines-core": Known("outlines_core", "outlines-core", OutlinesCore),
    "lm-format-enforcer": Known("lmformatenforcer", "lm-format-enforcer", LMFormatEnforcer),
    "unconstrained": Known("structgen", "structgen-lm", Unconstrained),
}

BENCHMARK_ENGINES: dict[str, Callable[[Any], BenchmarkEngine]] = {
    "structgen": Structgen.from_tokenizer,
    "llguidance": LLGuidance.from_tokenizer,
    "xgrammar": XGrammar.from_tokenizer,
}
"""Makers of the engines that benchmarks compare, each from a Hugging Face tokenizer as its users convert one."""


def is_endpoint(name: str) -> bool:
    """Return a server, not a library."""
    return name.startswith(ENDPOINT)


def check_engine(name: str) -> None:
    """Raise `OptionError` with the known engines, or with what to install; import only a user's own engine."""
    if is_endpoint(name):
        url = name[len(ENDPOINT) :]
        if not url.startswith(("http://", "https://")):
            raise OptionError(
                f"the engine {name!r} has no address",
                hint=f"Write {ENDPOINT}http://HOST/v1, or {ENDPOINT}http://HOST/v1#MODEL.",
            )
        _installed(name, "openai", "openai")
    elif name in ENGINES:
        _installed(name, ENGINES[name].module, ENGINES[name].package)
    elif ":" in name:
        _own(name)
    else:
        raise OptionError(
            f"there is no engine {name!r}",
            hint=f"Choose one of {', '.join(ENGINES)}, {ENDPOINT}URL, MODULE:CLASS.",
        )


def _own(name: str) -> Callable[[Vocabulary], Engine]:
    """Return the user's class."""
    module, _, attribute = name.partition(":")
    try:
        make_engine: Callable[[Vocabulary], Engine] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(
            f"the engine {name!r} cannot be imported: {error}",
            hint="MODULE:CLASS is found as python -m finds it.",
        ) from None
    return make_engine


def _installed(name: str, module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise OptionError(f"engine {name!r} is not installed", hint=f"Install it with: pip install {package}")


def open_engine(name: str, vocabulary: Vocabulary) -> Engine:
    """Return the engine of a name, for this vocabulary."""
    check_engine(name)
    if name not in ENGINES:
        return _own(name)(vocabulary)
    module, package, make = ENGINES[name]
    try:
        importlib.import_module(module)
    except ImportError as error:  # it is there, but broken
        raise OptionError(
            f"engine {name!r} cannot be imported: {error}", hint=f"Install it again: pip install {package}"
        ) from None
    return make(vocabulary)


def engine_version(name: str) -> str:
    """Return the version that is installed; of a server that of its client, as nothing else is known."""
    if name in ("structgen", "unconstrained"):
        from structgen import __version__

        return __version__
    if not is_endpoint(name) and name not in ENGINES:
        return str(getattr(_own(name), "version", "unknown"))
    try:
        return version("openai" if is_endpoint(name) else ENGINES[name].package)
    except PackageNotFoundError:
        return "not installed"
