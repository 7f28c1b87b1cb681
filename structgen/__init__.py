"""structgen: typed, structured output from language models.

    import structgen as sg

    model = sg.load()

    @sg.prompt(model)
    def extract(text: str) -> Person:
        \"\"\"Extract the person from: {{ text }}\"\"\"

    extract("Ann is 31.")

The names here are those of everyday use. Sub-packages hold the rest, and are imported with their first use too:

    sg.inference   samplers, posteriors, beams, potentials      sg.models     chat models, logits processors
    sg.types       output types, bound calls        sg.remote     models of other servers
    sg.ltl         temporal logic, actions and plans            sg.prompts    prompt functions
    sg.monitors    type checkers, databases, own monitors       sg.captures   parts of a text that a grammar names
    sg.diffusion   texts with holes                             sg.errors     the tree of exceptions

Importing structgen loads neither torch nor pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import captures as captures
    from . import classification as classification
    from . import diffusion as diffusion
    from . import errors as errors
    from . import generation as generation
    from . import inference as inference
    from . import ltl as ltl
    from . import models as models
    from . import monitors as monitors
    from . import prompts as prompts
    from . import remote as remote
    from . import speculative as speculative
    from . import types as types
    from .api import generate, run, stream, stream_items
    from .classification import classify
    from .constraints.base import Constraint
    from .constraints.choice import choice
    from .constraints.composition import (
        ReasoningOptions,
        dispatch,
        forbid,
        optional,
        reasoning,
        repeat,
        special,
        text,
        token,
        tokens,
    )
    from .constraints.grammar.builders import ebnf, gbnf, lark
    from .constraints.json_schema import Whitespace, check, json_schema
    from .constraints.plans import plan
    from .constraints.regex import regex
    from .constraints.substring import substring
    from .constraints.token_limits import limit_tokens
    from .core_calls import StopFlag, call_limits
    from .errors import StructgenError
    from .generation import SamplingOptions
    from .inference import sample
    from .infilling import infill
    from .matcher import Matcher
    from .models import load, wrap
    from .monitors import code, monitored
    from .prompts import prompt
    from .remote import connect
    from .results import Result
    from .shelf import grammar, grammars
    from .speculative import Speculation
    from .tools import run_tools, tools
    from .types import Thinking
    from .vocabulary import Vocabulary

__version__ = "0.1.0"

_HOMES = {
    "Constraint": "constraints.base",
    "Matcher": "matcher",
    "ReasoningOptions": "constraints.composition",
    "Result": "results",
    "SamplingOptions": "generation",
    "Speculation": "speculative",
    "StopFlag": "core_calls",
    "StructgenError": "errors",
    "Thinking": "types",
    "Vocabulary": "vocabulary",
    "Whitespace": "constraints.json_schema",
    "call_limits": "core_calls",
    "check": "constraints.json_schema",
    "choice": "constraints.choice",
    "classify": "classification",
    "code": "monitors",
    "connect": "remote",
    "dispatch": "constraints.composition",
    "ebnf": "constraints.grammar.builders",
    "forbid": "constraints.composition",
    "gbnf": "constraints.grammar.builders",
    "generate": "api",
    "grammar": "shelf",
    "grammars": "shelf",
    "infill": "infilling",
    "json_schema": "constraints.json_schema",
    "lark": "constraints.grammar.builders",
    "limit_tokens": "constraints.token_limits",
    "load": "models",
    "monitored": "monitors",
    "optional": "constraints.composition",
    "plan": "constraints.plans",
    "prompt": "prompts",
    "reasoning": "constraints.composition",
    "regex": "constraints.regex",
    "repeat": "constraints.composition",
    "run": "api",
    "run_tools": "tools",
    "sample": "inference",
    "special": "constraints.composition",
    "stream": "api",
    "stream_items": "api",
    "substring": "constraints.substring",
    "text": "constraints.composition",
    "token": "constraints.composition",
    "tokens": "constraints.composition",
    "tools": "tools",
    "wrap": "models",
}
"""Where each name is defined, below `structgen`."""
_PACKAGES = (
    "captures",
    "classification",
    "diffusion",
    "errors",
    "generation",
    "inference",
    "ltl",
    "models",
    "monitors",
    "prompts",
    "remote",
    "speculative",
    "types",
)
"""Sub-packages and modules that attributes lead to."""

__all__ = [
    "Constraint",
    "Matcher",
    "ReasoningOptions",
    "Result",
    "SamplingOptions",
    "Speculation",
    "StopFlag",
    "StructgenError",
    "Thinking",
    "Vocabulary",
    "Whitespace",
    "__version__",
    "call_limits",
    "check",
    "choice",
    "classify",
    "code",
    "connect",
    "dispatch",
    "ebnf",
    "forbid",
    "gbnf",
    "generate",
    "grammar",
    "grammars",
    "infill",
    "json_schema",
    "lark",
    "limit_tokens",
    "load",
    "monitored",
    "optional",
    "plan",
    "prompt",
    "reasoning",
    "regex",
    "repeat",
    "run",
    "run_tools",
    "sample",
    "special",
    "stream",
    "stream_items",
    "substring",
    "text",
    "token",
    "tokens",
    "tools",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"structgen.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(
            f"module 'structgen' has no attribute {name!r}; less common names are in sub-packages such as "
            "structgen.inference and structgen.errors"
        )
    module = import_module(f"structgen.{home}")
    value = module if name == home else getattr(module, name)  # a package named so can be called
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, *_PACKAGES})
