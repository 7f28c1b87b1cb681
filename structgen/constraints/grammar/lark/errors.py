"""Translate lark's errors about a grammar into `StructgenError`s with a position and a hint.

Why: lark's errors are written for authors of parsers. Some have no position, others mention symbols of lark's grammar.
Invariant: every exception becomes a `StructgenError`. Lark's own text is kept where a translation would lose something.
Cost: none without an error.
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
"""Names of the terminals of lark's own grammar."""

_SHAPES = {
    "Incorrect type of value": "a rule may contain only names, texts, patterns and groups",
    "Unclosed parenthesis": "a parenthesis is not closed",
    "Unmatched closing parenthesis": "this parenthesis was never opened",
    "Expecting rule or terminal definition (missing colon)": "a ':' is missing after the name",
    "Illegal name for rules or terminals": "a name must be all lower case (a rule) or all upper case (a terminal)",
    "Alias expects lowercase name": "the name after '->' must be in lower case",
    "Unexpected colon": "unexpected ':'",
    "Misplaced operator": "this operator needs an operand",
    'Expecting option ("|") or a new rule or terminal definition': "a line must start with '|' or a definition",
    "Terminal names cannot contain dots": "the name of a terminal must not contain dots, except before its priority",
    "Expecting rule or terminal definition": "a line must start with a definition or a directive",
    "%import expects a name": "%import needs a name",
    "%ignore expects a value": "%ignore needs a terminal, a text or a pattern",
    "Expecting a value": "something to match is missing",
}
"""Translations of lark's messages about syntax errors."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern of lark's message, the translation and the hint; the second group is a name in the source."""

    pattern: re.Pattern[str]
    message: str
    hint: str
    defined: bool = False
    """Whether the error is at the definition of the name rather than at its use."""


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
        "Import it first, or remove %override.",
        True,
    ),
    _rule(
        r"Can't extend (rule|terminal) (\S+?)(?: as| -)",
        "there is no {kind} {name} to extend",
        "Define or import it first, or remove %extend.",
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
        "Repeat the parameters of the first definition.",
        True,
    ),
    _rule(
        r"(Names) starting with double-underscore are reserved \(Error at (\S+)\)",
        "the name {name} starts with two underscores, which lark reserves",
        "Use one underscore, or none.",
        True,
    ),
    _rule(
        r"Recursion in (terminal) '(.+?)'",
        "the {kind} {name} is defined by itself",
        "Terminals must be regular: make it a rule (lower-case name), or use '*' and '+'.",
        True,
    ),
    _rule(
        r"(Rules) aren't allowed inside terminals \(NonTerminal\(Token\('RULE', '(.+?)'\)\)",
        "a terminal cannot contain the rule {name}",
        "A terminal may contain texts, patterns and terminals. Make {name} a terminal (upper-case name).",
    ),
    _rule(
        r"(Rules) aren't allowed inside terminals \(NonTerminal\('(.+?)'\)",
        "a terminal cannot contain the rule {name}",
        "A terminal may contain texts, patterns and terminals. Make {name} a terminal (upper-case name).",
    ),
    _rule(
        r"(Wrong) number of template arguments used for (\S+) \((expected \d+, got \d+)",
        "the template {name} is used with the wrong number of arguments",
        "Pass one argument for each parameter.",
    ),
    _rule(
        r"(Template) Parameter conflicts with rule (\S+)",
        "a template's parameter and a rule are both named {name}",
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
        "Give it a text. Write '?' after it in the rule if it is optional.",
        True,
    ),
    _rule(
        r"Cannot import '(.+?)' from '(.+?)': Symbol already defined",
        "the import of {kind} from {name} redefines a name",
        "Import it under another name: %import module.NAME -> OTHER.",
    ),
    _rule(
        r"(Nothing) was imported from grammar `(.+?)`",
        "this imports nothing from {name}",
        "List the names to import: %import {name}.NAME, or %import {name} (NAME, OTHER).",
    ),
)
"""Translations of messages without a position. The first group is "rule" or "terminal", the second a name."""

_PLAIN = (
    (
        r"Empty terminals are not allowed",
        "a text or pattern is empty",
        "Remove it, or write '?' after an optional item.",
    ),
    (
        r"Aliasing not allowed in terminals",
        "a terminal cannot contain '->'",
        "Only alternatives of rules can have aliases.",
    ),
    (
        r"Bad Range",
        "repetition bounds are reversed",
        "Write the smaller number first: x~2..5.",
    ),
    (
        r"Inlined rules \(_rule\) cannot use",
        "a rule whose name starts with '_' cannot have a '?'",
        "Remove one of them.",
    ),
    (
        r"You can only use newlines in regular",
        "a pattern contains a newline",
        "Add the flag x: /.../x.",
    ),
    (r"You cannot put newlines in string", "a text contains a newline", "Write \\n for a newline."),
    (r"Literal ended unexpectedly", "a text or pattern ends with a backslash", "Write \\\\ for a backslash."),
    (
        r"Conflicting flags for the same terminal",
        "a text is used with and without flags",
        "Use the same flags everywhere.",
    ),
)


def explain(
    error: Exception, rewritten: Rewritten, files: list[object], read: Callable[[object], str]
) -> StructgenError:
    """Return the error to raise for an exception of lark.

    Args:
        error: The exception.
        rewritten: The grammar.
        files: The imported files, in order.
        read: Returns the text of an imported file.
    """
    while isinstance(error, VisitError):
        error = error.orig_exc
    if isinstance(error, StructgenError):
        return error
    source = rewritten.source
    if isinstance(error, RecursionError):
        return LimitExceeded(
            "the grammar is nested too deeply", limit="grammar_depth", hint="Move parts of it into rules."
        )
    if isinstance(error, FileNotFoundError):
        module = str(error.filename or "").removesuffix(".lark").replace("/", ".")
        offset = next((p.offset for p in source.pieces if p.text == module.split(".")[-1]), None)
        hint = "Pass the folder that contains it: import_paths=[...]."
        return source.error(f"there is no grammar {module!r} to import", offset, len(module), hint)
    read_text = read(files[-1]) if files else rewritten.text  # only the last file can have failed
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
    """Return the syntax error of a text, which lark's loader does not always report."""
    try:
        _get_parser().parse(text + "\n", "start")  # type: ignore[no-untyped-call]
    except UnexpectedInput as error:
        return error
    return None


_SYNTAX_HINT = (
    'In Lark a rule is written name: item item | item, with "texts", /patterns/, names, ( ), [ ], * + ?.'
)


def _unexpected(error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken):
        expected = sorted(_WORDS[name] for name in error.accepts or error.expected if name in _WORDS)
        shown = "the end of the line" if error.token.type == "_NL" else repr(str(error.token))
        if error.token.type == "$END":
            shown = "the end of the grammar"
        return f"unexpected {shown}; expected: {', '.join(expected)}" if expected else f"unexpected {shown}"
    if isinstance(error, UnexpectedCharacters):
        return "unexpected character"
    return "the grammar ends too early"


def _without_place(text: str, rewritten: Rewritten) -> GrammarSyntaxError:
    source = rewritten.source
    for rule in _RULES:
        match = rule.pattern.search(text)
        if match:
            kind, name = match[1].lower(), rewritten.written(match[2])
            if kind in ("rule", "terminal"):  # lark states what it is used in instead
                kind = "terminal" if name.isupper() else "rule"
            places = source.definitions(name)
            offset = places[-1] if rule.defined and places else source.use(name)
            suggestion = source.near(name) if "no {kind}" in rule.message else None
            hint = rule.hint.format(kind=kind, name=name)
            hint = f"Did you mean {suggestion}? {hint}" if suggestion else hint
            return source.error(rule.message.format(kind=kind, name=name), offset, len(name), hint)
    offset, length, why = _wrong_literal(source)
    for pattern, message, hint in _PLAIN:
        if re.search(pattern, text):
            return source.error(message, offset, length, hint)
    if offset is not None:
        hint = 'Use the escapes of Python. The ends of a range must be single characters: "a".."z".'
        return source.error(f"lark cannot read this{why}", offset, length, hint)
    shown = text.strip().split("\n")[0][:200] or "no reason given"
    return source.error(f"lark cannot load this grammar: {shown}", None, hint=_SYNTAX_HINT)


def _wrong_literal(source: Source) -> tuple[int | None, int, str]:
    """Return the offset of the first text or pattern that lark or Python cannot read, its length, and the reason."""
    pieces = [piece for piece in source.pieces if piece.kind not in ("space", "comment")]
    for index, piece in enumerate(pieces):
        if piece.kind not in ("string", "regexp"):
            continue
        try:
            pattern = _literal_to_pattern(Token(piece.kind.upper(), piece.text))  # type: ignore[no-untyped-call]
            re.compile(pattern.to_regexp())
        except re.error as error:
            return piece.offset, len(piece.text), f": {error.msg}"
        except Exception:  # noqa: BLE001 — lark raises anything for a malformed pattern
            return piece.offset, len(piece.text), ""
        ranged = any(neighbour.text == ".." for neighbour in pieces[max(index - 1, 0) : index + 2])
        if ranged and piece.kind == "string" and len(pattern.value) != 1:
            return piece.offset, len(piece.text), ""
    return None, 1, ""
