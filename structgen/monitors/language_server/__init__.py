"""Static analysis of unfinished programs: what may follow, from a language server or a library.

    with analyser("python", project=".") as ty: ...

Why: monitors ask while a program is being written; the answers must come fast, about unsaved text, and never stop the
writing. Invariant: see `Analyser`: None is "unknown", faults are on record and never raised.
Cost: importing this starts nothing; an analyser starts its server in the background.
Spec: Language Server Protocol 3.17.
"""

from __future__ import annotations

from structgen.monitors.language_server.analysis import (
    Analyser,
    Completion,
    Completions,
    Diagnostic,
    Parameter,
    ParameterKind,
    Severity,
    Signature,
    Signatures,
)
from structgen.monitors.language_server.client import LanguageServer
from structgen.monitors.language_server.completions import Knowledge
from structgen.monitors.language_server.health import Fault, Health
from structgen.monitors.language_server.in_process import InProcess
from structgen.monitors.language_server.servers import PRESETS, Preset, analyser

__all__ = [
    "PRESETS",
    "Analyser",
    "Completion",
    "Completions",
    "Diagnostic",
    "Fault",
    "Health",
    "InProcess",
    "Knowledge",
    "LanguageServer",
    "Parameter",
    "ParameterKind",
    "Preset",
    "Severity",
    "Signature",
    "Signatures",
    "analyser",
]
