"""Grammars in Lark's language, with the extensions of llguidance and XGrammar.

There are several readers because lark's own loader takes about a millisecond a rule, most of the time to a first mask.
Each faster reader handles a part of the language and returns None for the rest. Property tests hold their results equal
to those of lark. They are tried in this order:

    core_reader    plain grammars with lexer rule "longest", straight from the text to the core's IR, in C++
    plain_reader   plain grammars: rules, terminals, priorities, aliases, `%ignore`, imports from `common`
    templates      grammars with several modules (`modules`) and templates
    lark_loader    lark itself: it reads the few grammars that are left, and words the mistakes (`errors`)

`reader` tries the last three and turns the result into an `ir.grammar.Grammar`. Before `templates` and `lark_loader`,
extensions are rewritten into lark's own language: `source` splits the text into tokens, `dialect` rewrites them
(`parametric_rules`, `json_blocks`, `rule_options`, `grammar_options`), and `rewritten` is the result.

What the terminals match is decided in `terminals`: by lark's order (`keywords`), by the matches that Python's `re`
prefers (`pattern_program`, `threads`, `preferred_match`), and by look-ahead (`lookahead`, `terminal_languages`).
"""
