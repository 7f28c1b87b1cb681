"""What lark says of a grammar that it cannot read, in our words and with a place.

Why: lark's errors are meant for authors of parsers; some name no place, some only symbols of its own grammar.
Invariant: every exception becomes a `StructgenError`; lark's own text is kept where ours would lose something.
Cost: only paid on errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError
from lark.lexer import Token
from lark.load_grammar import _get_parser, _literal_to_pattern

from structgen.errors import GrammarSyntaxError, LimitExceeded, StructgenError

from .rewritten import Rewritten
from .source import Source

__all__ = ["explain"]

_AT = re.compile(r"(.*?), at line \d+")

_WORDS = {
    "_NL": "the end of the line",
    "_NL_OR": "'|' in the next line",
    "_COLON": "':'",
    "_OR": "'|'",
    "_LPAR": "'('",
    "_RPAR": "')'",
    "_LBRA": "'['",
    "_RBRA": "']'",
    "_LBRACE": "'{'",
    "_RBRACE": "'}'",
    "_COMMA": "','",
    "_DOT": "'.'",
    "_DOTDOT": "'..'",
    "_TO": "'->'",
    "OP": "'*', '+' or '?'",
    "TILDE": "'~'",
    "RULE": "a rule's name",
    "TERMINAL": "a terminal's name",
    "STRING": "a text in quotes",
    "REGEXP": "a pattern in slashes",
    "NUMBER": "a number",
    "RULE_MODIFIERS": "'?' or '!'",
    "$END": "the end of the grammar",
}
"""What lark's own terminals are called here."""

_SHAPES = {
    "Incorrect type of value": "a rule is made of names, texts, patterns and groups",
    "Unclosed parenthesis": "a parenthesis is not closed",
    "Unmatched closing parenthesis": "this closes no parenthesis",
    "Expecting rule or terminal definition (missing colon)": "a ':' is missing after the name",
    "Illegal name for rules or terminals": "a name is all lower case (a rule) or all upper case (a terminal)",
    "Alias expects lowercase name": "the name after '->' must be in lower case",
    "Unexpected colon": "a ':' is out of place",
    "Misplaced operator": "this operator has nothing to work on",
    'Expecting option ("|") or a new rule or terminal definition': "a line starts with '|' or with a definition",
    "Terminal names cannot contain dots": "the name of a terminal has no dots, except before its priority",
    "Expecting rule or terminal definition": "a line starts with a definition or a directive",
    "%import expects a name": "%import needs a name",
    "%ignore expects a value": "%ignore needs a terminal, a text or a pattern",
    "Expecting a value": "something to match is missing",
}
"""Lark's verdicts on a wrong place, in our words."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Lark's text, ours, and what to do; `{0}` is the first group, whose name is looked for in the source."""

    pattern: re.Pattern[str]
    message: str
    hint: str
    defined: bool = False
    """Is the place that of the definition?"""


def _rule(pattern: str, message: str, hint: str, defined: bool = False) -> _Rule:
    return _Rule(re.compile(pattern, re.DOTALL), message, hint, defined)


_RULES = (
    _rule(
        r"(Rule|Terminal|Template) '(.+?)' used but not defined",
        "there is no {kind} {name}",
        "Define it ({name}: ...), or import it (%import).",
    ),
    _rule(
        r"(Terminal) used but not defined: (\S+)",
        "there is no {kind} {name}",
        "Define it ({name}: ...), or import it (%import common.{name}).",
    ),
    _rule(
        r"(Rule|Terminal) '(.+?)' defined more than once",
        "the {kind} {name} is defined more than once",
        "Join the definitions with '|', or write %extend or %override before the second one.",
        True,
    ),
    _rule(
        r"Cannot override a nonexisting (rule|terminal) (\S+)",
        "there is no {kind} {name} to override",
        "Import it first, or leave out %override.",
        True,
    ),
    _rule(
        r"Can't extend (rule|terminal) (\S+?)(?: as| -)",
        "there is no {kind} {name} to extend",
        "Define or import it first, or leave out %extend.",
        True,
    ),
    _rule(
        r"Cannot extend (rule|terminal) (\S+) - one is",
        "{name} is not a {kind} where it was defined",
        "A name in lower case is a rule, one in upper case a terminal.",
        True,
    ),
    _rule(
        r"Cannot extend (rule|terminal) with different parameters: (\S+)",
        "the template {name} is extended with other parameters",
        "Repeat the parameters as they are.",
        True,
    ),
    _rule(
        r"(Names) starting with double-underscore are reserved \(Error at (\S+)\)",
        "the name {name} starts with two underscores, which lark keeps for itself",
        "Use one underscore, or none.",
        True,
    ),
    _rule(
        r"Recursion in (terminal) '(.+?)'",
        "the {kind} {name} is defined by itself",
        "Terminals are regular: write it as a rule (lower-case name), or with '*' and '+'.",
        True,
    ),
    _rule(
        r"(Rules) aren't allowed inside terminals \(NonTerminal\(Token\('RULE', '(.+?)'\)\)",
        "the rule {name} stands in a terminal",
        "A terminal is made of texts, patterns and terminals; make {name} one (upper-case name).",
    ),
    _rule(
        r"(Rules) aren't allowed inside terminals \(NonTerminal\('(.+?)'\)",
        "the rule {name} stands in a terminal",
        "A terminal is made of texts, patterns and terminals; make {name} one (upper-case name).",
    ),
    _rule(
        r"(Wrong) number of template arguments used for (\S+) \((expected \d+, got \d+)",
        "the template {name} is used with the wrong number of arguments",
        "Give it as many as it has parameters.",
    ),
    _rule(
        r"(Template) Parameter conflicts with rule (\S+)",
        "a template's parameter is called {name}, as is a rule",
        "Rename the parameter.",
    ),
    _rule(
        r"(Duplicate) Template Parameter (\S+)",
        "the template has the parameter {name} twice",
        "Rename one of them.",
    ),
    _rule(
        r"(Terminals) \{'(.+?)'.*\} were marked to ignore but were not defined",
        "there is no terminal {name} to ignore",
        "Define it, or import it: %import common.{name}.",
    ),
    _rule(
        r"(Terminals) cannot be empty \((\S+)\)",
        "the terminal {name} is empty",
        "Give it a text; what may be left out is marked by '?' in the rule.",
        True,
    ),
    _rule(
        r"Cannot import '(.+?)' from '(.+?)': Symbol already defined",
        "the import of {kind} from {name} brings a name that is there already",
        "Import it under another name: %import module.NAME -> OTHER.",
    ),
    _rule(
        r"(Nothing) was imported from grammar `(.+?)`",
        "this imports nothing from {name}",
        "Name what is imported: %import {name}.NAME, or %import {name} (NAME, OTHER).",
    ),
)
"""Verdicts without a place; the first group is a kind, the second a name."""

_PLAIN = (
    (
        r"Empty terminals are not allowed",
        "a text or pattern is empty",
        "Leave it out, or mark what follows with '?'.",
    ),
    (
        r"Aliasing not allowed in terminals",
        "'->' stands in a terminal",
        "Only alternatives of rules have such names.",
    ),
    (
        r"Bad Range",
        "the counts of a repetition are out of order",
        "The smaller count comes first, as in x~2..5.",
    ),
    (
        r"Inlined rules \(_rule\) cannot use",
        "a rule whose name starts with '_' has a '?'",
        "Leave one of them out.",
    ),
    (
        r"You can only use newlines in regular",
        "a pattern goes over several lines",
        "Give it the flag x: /.../x.",
    ),
    (r"You cannot put newlines in string", "a text goes over several lines", "Write \\n for a line's end."),
    (r"Literal ended unexpectedly", "a text or pattern ends in a backslash", "Write two for the character."),
    (
        r"Conflicting flags for the same terminal",
        "a text is used with and without flags",
        "Use it one way only.",
    ),
)


def explain(
    error: Exception, rewritten: Rewritten, files: list[object], read: Callable[[object], str]
) -> StructgenError:
    """The error to raise; `files` are the imported files in order, `read` gives the text of one."""
    while isinstance(error, VisitError):
        error = error.orig_exc
    if isinstance(error, StructgenError):
        return error
    source = rewritten.source
    if isinstance(error, RecursionError):
        return LimitExceeded(
            "the grammar is nested too deeply", limit="grammar_depth", hint="Name parts of it as rules."
        )
    if isinstance(error, FileNotFoundError):
        module = str(error.filename or "").removesuffix(".lark").replace("/", ".")
        offset = next((p.offset for p in source.pieces if p.text == module.split(".")[-1]), None)
        hint = "Pass the folder that holds it: import_paths=[...]."
        return source.error(f"there is no grammar {module!r} to import", offset, len(module), hint)
    read_text = read(files[-1]) if files else rewritten.text  # all before the last file could be read
    failed = _parse_error(read_text)
    if failed is None:
        return _without_place(str(error), rewritten)
    verdict = _AT.match(str(error))
    shape = _SHAPES.get(verdict[1].strip()) if verdict else None
    what = shape or _unexpected(failed)
    if files:
        imported = Source(read_text)
        wrong = imported.error(what, imported.offset(failed.line, failed.column), hint=_SYNTAX_HINT)
        wrong.where = Path(str(getattr(files[-1], "path", files[-1]))).name
        return wrong
    offset = rewritten.origin(failed.line, failed.column) if failed.line > 0 else len(source.text)
    return source.error(what, offset, hint=_SYNTAX_HINT)


def _parse_error(text: str) -> UnexpectedInput | None:
    """Where lark cannot go on; its own loader does not always tell."""
    try:
        _get_parser().parse(text + "\n", "start")  # type: ignore[no-untyped-call]
    except UnexpectedInput as error:
        return error
    return None


_SYNTAX_HINT = (
    'The syntax is that of Lark: name: part part | part, with "texts", /patterns/, names, ( ), [ ], * + ?.'
)


def _unexpected(error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken):
        wanted = sorted(_WORDS[name] for name in error.accepts or error.expected if name in _WORDS)
        shown = "the end of the line" if error.token.type == "_NL" else repr(str(error.token))
        if error.token.type == "$END":
            shown = "the end of the grammar"
        return (
            f"{shown} is out of place here; expected: {', '.join(wanted)}"
            if wanted
            else f"{shown} is out of place"
        )
    if isinstance(error, UnexpectedCharacters):
        return "this character is out of place here"
    return "the grammar ends too early"


def _without_place(text: str, rewritten: Rewritten) -> GrammarSyntaxError:
    source = rewritten.source
    for rule in _RULES:
        found = rule.pattern.search(text)
        if found:
            kind, name = found[1].lower(), rewritten.written(found[2])
            if kind in ("rule", "terminal"):  # lark tells what it is used in
                kind = "terminal" if name.isupper() else "rule"
            places = source.definitions(name)
            offset = places[-1] if rule.defined and places else source.use(name)
            near = source.near(name) if "no {kind}" in rule.message else None
            hint = rule.hint.format(kind=kind, name=name)
            hint = f"Did you mean {near}? {hint}" if near else hint
            return source.error(rule.message.format(kind=kind, name=name), offset, len(name), hint)
    offset, length, why = _wrong_literal(source)
    for pattern, message, hint in _PLAIN:
        if re.search(pattern, text):
            return source.error(message, offset, length, hint)
    if offset is not None:
        hint = 'Escapes are those of Python; a range is between two single characters, as in "a".."z".'
        return source.error(f"lark cannot read this{why}", offset, length, hint)
    shown = text.strip().split("\n")[0][:200] or "it gives no reason"
    return source.error(f"lark cannot load this grammar: {shown}", None, hint=_SYNTAX_HINT)


def _wrong_literal(source: Source) -> tuple[int | None, int, str]:
    """The first text or pattern that lark or Python cannot read, its length, and why."""
    pieces = [piece for piece in source.pieces if piece.kind not in ("space", "comment")]
    for index, piece in enumerate(pieces):
        if piece.kind not in ("string", "regexp"):
            continue
        try:
            pattern = _literal_to_pattern(Token(piece.kind.upper(), piece.text))  # type: ignore[no-untyped-call]
            re.compile(pattern.to_regexp())
        except re.error as error:
            return piece.offset, len(piece.text), f": {error.msg}"
        except Exception:  # a syntax error, an assertion, a value error, ...
            return piece.offset, len(piece.text), ""
        ranged = any(one.text == ".." for one in pieces[max(index - 1, 0) : index + 2])
        if ranged and piece.kind == "string" and len(pattern.value) != 1:
            return piece.offset, len(piece.text), ""
    return None, 1, ""
