"""The texts of a JSON Schema as those of a grammar: what canvases and templates read instead of its automaton.

Invariant: with no `notes` the texts are those of the schema's automaton; a note says where they are fewer, or looser.
Cost: of a pass over the schema, once.
"""

from __future__ import annotations

from structgen.constraints.grammar.lowered import Lowered
from structgen.constraints.json_schema.constraint import JsonSchemaConstraint

from .json_grammar import Note, grammar_of_schema

__all__ = ["SchemaTexts"]


class SchemaTexts(Lowered):
    """See the module's text. Raises `CombinationError` for a schema that is no grammar, with the pointer."""

    __slots__ = ("notes", "schema")

    schema: JsonSchemaConstraint
    notes: tuple[Note, ...]

    def __init__(self, schema: JsonSchemaConstraint) -> None:
        ir, notes = grammar_of_schema(schema.lower()[1])
        for name, value in (("schema", schema), ("notes", tuple(notes)), ("_ir", ir)):
            object.__setattr__(self, name, value)

    def describe(self) -> str:
        return self.schema.describe()

    def __repr__(self) -> str:
        return f"<the texts of {self.schema!r}>"
