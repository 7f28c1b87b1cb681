"""JSON Schema as a constraint: drafts 4 to 2020-12, read in one pass into the IR of the native automaton."""

from .constraint import JsonSchemaConstraint, json_schema
from .explain.report import Finding, Report, check
from .keywords import KEYWORDS, Keyword
from .options import JsonSchemaOptions
from .support import Support
from .whitespace import Whitespace

__all__ = [
    "KEYWORDS",
    "Finding",
    "JsonSchemaConstraint",
    "JsonSchemaOptions",
    "Keyword",
    "Report",
    "Support",
    "Whitespace",
    "check",
    "json_schema",
]
