"""JSON Schemas as context-free grammars, for algorithms that need a grammar and not an automaton.

Canvases (`structgen.diffusion`) and templates (`structgen.infilling`) complete texts in any order, which takes a
context-free grammar. `as_grammar` translates a constraint where that is necessary, so that these algorithms name no
kind of constraint. The package lies above `constraints.grammar` and `constraints.json_schema`, since it needs both.
"""

from .schema_grammar import Note, grammar_of_schema
from .schema_texts import SchemaTexts, as_grammar, notes_of

__all__ = ["Note", "SchemaTexts", "as_grammar", "grammar_of_schema", "notes_of"]
