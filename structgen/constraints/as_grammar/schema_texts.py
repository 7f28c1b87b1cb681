"""A constraint whose texts are those of a JSON Schema, and which lowers to a grammar."""

from __future__ import annotations

from structgen.constraints.base import Constraint
from structgen.constraints.grammar.lowered import Lowered
from structgen.constraints.json_schema.constraint import JsonSchemaConstraint

from .schema_grammar import Note, grammar_of_schema

__all__ = ["SchemaTexts", "as_grammar", "notes_of"]


class SchemaTexts(Lowered):
    """The texts of a JSON Schema, as those of a grammar.

    Invariant: without `notes` the texts are exactly those of the schema's automaton. A note says where they are
    fewer, or where a rule is not enforced. The translation takes one pass over the schema.

    Args:
        schema: The schema to translate.

    Raises:
        CombinationError: The schema is not a context-free grammar; the message has the pointer.
        LimitExceeded: The grammar would have too many rules.
    """

    __slots__ = ("notes", "schema")

    schema: JsonSchemaConstraint
    notes: tuple[Note, ...]

    def __init__(self, schema: JsonSchemaConstraint) -> None:
        ir, notes = grammar_of_schema(schema.lower()[1])
        for name, value in (("schema", schema), ("notes", tuple(notes)), ("_ir", ir)):
            object.__setattr__(self, name, value)

    def describe(self) -> str:
        """Return the phrase of the schema: the texts are the same."""
        return self.schema.describe()

    def __repr__(self) -> str:
        return f"<the texts of {self.schema!r}>"


def as_grammar(constraint: Constraint) -> Constraint:
    """Return the grammar of a JSON Schema (`SchemaTexts`); return any other constraint as it is.

    Raises:
        CombinationError: A JSON Schema that is not a context-free grammar.
        LimitExceeded: The grammar would have too many rules.
    """
    return SchemaTexts(constraint) if isinstance(constraint, JsonSchemaConstraint) else constraint


def notes_of(constraint: Constraint) -> tuple[Note, ...]:
    """Return where a grammar that `as_grammar` made differs from its schema; no notes mean that it is exact."""
    return constraint.notes if isinstance(constraint, SchemaTexts) else ()
