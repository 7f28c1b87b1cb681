"""structgen: typed, structured output from language models.

    import structgen as sg

    model = sg.load()

    @sg.prompt(model)
    def extract(text: str) -> Person:
        \"\"\"Extract the person from: {{ text }}\"\"\"

    extract("Ann is 31.")

Names are imported when they are first used: importing structgen loads neither torch nor pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import diffusion, ltl, monitors
    from .api import generate, run, stream, stream_items
    from .captures import Capture, captures_of
    from .classification import Classification, classify
    from .constraints.base import Constraint
    from .constraints.choice import choice
    from .constraints.composition import (
        ReasoningOptions,
        dispatch,
        forbid,
        ltl_over,
        optional,
        reasoning,
        repeat,
        special,
        text,
        token,
        tokens,
    )
    from .constraints.grammar.constraint import ebnf, gbnf, lark
    from .constraints.json_schema import Whitespace, check, json_schema
    from .constraints.plans import Action, PlanFormat, World, plan
    from .constraints.regex import regex
    from .constraints.substring import substring
    from .constraints.token_limits import limit_tokens
    from .core_calls import StopFlag, call_limits
    from .errors import DeadEnd, GenerationError, OutputInvalid, StructgenError, Truncated, TypeNotSupported
    from .generation import SamplingOptions, potential
    from .inference import AWRS, MH, SMC, AdaptiveRejection, ASAp, Exact, LocalMasking, Rejection
    from .inference.known_distributions import KnownDistributions
    from .inference.most_probable import beam
    from .inference.posterior import Posterior
    from .inference.sampling import sample, sample_async
    from .infilling import infill
    from .matcher import Matcher
    from .models import RPG, load, with_processors, wrap
    from .monitors import code, monitored
    from .prompts import PromptFunction, prompt
    from .remote import RemoteModel, connect
    from .results import Result
    from .shelf import grammar, grammars
    from .speculative import Speculation
    from .templates import PromptWarning
    from .tools import run_tools, run_tools_async, tools
    from .types import BoundCall, Thinking, constraint_for_type
    from .vocabulary import Vocabulary

__version__ = "0.1.0"

_HOMES = {
    "ASAp": "inference",
    "AWRS": "inference",
    "Action": "constraints.plans",
    "AdaptiveRejection": "inference",
    "BoundCall": "types",
    "Capture": "captures",
    "Classification": "classification",
    "Constraint": "constraints.base",
    "DeadEnd": "errors",
    "Exact": "inference",
    "GenerationError": "errors",
    "KnownDistributions": "inference",
    "LocalMasking": "inference",
    "MH": "inference",
    "Matcher": "matcher",
    "OutputInvalid": "errors",
    "PlanFormat": "constraints.plans",
    "Posterior": "inference",
    "PromptFunction": "prompts",
    "PromptWarning": "templates",
    "RPG": "models",
    "Rejection": "inference",
    "RemoteModel": "remote",
    "ReasoningOptions": "constraints.composition",
    "Result": "results",
    "SMC": "inference",
    "SamplingOptions": "generation",
    "Speculation": "speculative",
    "StopFlag": "core_calls",
    "StructgenError": "errors",
    "Thinking": "types",
    "Truncated": "errors",
    "TypeNotSupported": "errors",
    "Vocabulary": "vocabulary",
    "Whitespace": "constraints.json_schema",
    "World": "constraints.plans",
    "beam": "inference",
    "check": "constraints.json_schema",
    "call_limits": "core_calls",
    "captures_of": "captures",
    "choice": "constraints.choice",
    "classify": "classification",
    "code": "monitors",
    "connect": "remote",
    "constraint_for_type": "types",
    "diffusion": "diffusion",
    "dispatch": "constraints.composition",
    "ebnf": "constraints.grammar.constraint",
    "forbid": "constraints.composition",
    "gbnf": "constraints.grammar.constraint",
    "generate": "api",
    "grammar": "shelf",
    "grammars": "shelf",
    "infill": "infilling",
    "json_schema": "constraints.json_schema",
    "lark": "constraints.grammar.constraint",
    "limit_tokens": "constraints.token_limits",
    "load": "models",
    "ltl": "ltl",
    "ltl_over": "constraints.composition",
    "monitored": "monitors",
    "monitors": "monitors",
    "optional": "constraints.composition",
    "plan": "constraints.plans",
    "potential": "generation",
    "prompt": "prompts",
    "reasoning": "constraints.composition",
    "regex": "constraints.regex",
    "repeat": "constraints.composition",
    "run": "api",
    "run_tools": "tools",
    "run_tools_async": "tools",
    "sample": "inference",
    "sample_async": "inference",
    "special": "constraints.composition",
    "stream": "api",
    "stream_items": "api",
    "substring": "constraints.substring",
    "text": "constraints.composition",
    "token": "constraints.composition",
    "tokens": "constraints.composition",
    "tools": "tools",
    "with_processors": "models",
    "wrap": "models",
}

__all__ = [
    "AWRS",
    "MH",
    "RPG",
    "SMC",
    "ASAp",
    "Action",
    "AdaptiveRejection",
    "BoundCall",
    "Capture",
    "Classification",
    "Constraint",
    "DeadEnd",
    "Exact",
    "GenerationError",
    "KnownDistributions",
    "LocalMasking",
    "Matcher",
    "OutputInvalid",
    "PlanFormat",
    "Posterior",
    "PromptFunction",
    "PromptWarning",
    "ReasoningOptions",
    "Rejection",
    "RemoteModel",
    "Result",
    "SamplingOptions",
    "Speculation",
    "StopFlag",
    "StructgenError",
    "Thinking",
    "Truncated",
    "TypeNotSupported",
    "Vocabulary",
    "Whitespace",
    "World",
    "__version__",
    "beam",
    "call_limits",
    "captures_of",
    "check",
    "choice",
    "classify",
    "code",
    "connect",
    "constraint_for_type",
    "diffusion",
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
    "ltl",
    "ltl_over",
    "monitored",
    "monitors",
    "optional",
    "plan",
    "potential",
    "prompt",
    "reasoning",
    "regex",
    "repeat",
    "run",
    "run_tools",
    "run_tools_async",
    "sample",
    "sample_async",
    "special",
    "stream",
    "stream_items",
    "substring",
    "text",
    "token",
    "tokens",
    "tools",
    "with_processors",
    "wrap",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'structgen' has no attribute {name!r}")
    module = import_module(f"structgen.{home}")
    value = module if name == home else getattr(module, name)  # a package named so can be called
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
