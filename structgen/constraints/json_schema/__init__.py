"""JSON Schema as a constraint: drafts 4 to 2020-12, compiled in one pass into the IR of the core.

`reader`       walks the schema and calls a function for each keyword `keywords`     the table of all keywords:
drafts, support, and the function that compiles each `assertions`, `applicators`  these functions `references`
resolves ``$ref`` `unevaluated`, `closing`, `approximate_formats`, `reference_cycles`  passes over the finished IR
`shapes`, `strings`, `extracting`, `excluding`  what other notations need to know of a schema `instances`
examples and shortest instances `explain`      messages about schemas and rejected texts, and `check`
"""

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
