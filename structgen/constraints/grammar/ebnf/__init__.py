"""Grammars in XGrammar's EBNF: `reader` reads rules, the other modules its macros, rule options and assertions."""
