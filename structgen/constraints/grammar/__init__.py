"""Context-free grammars: front ends (Lark, GBNF, EBNF), what they have in common, and how it reaches the core."""
