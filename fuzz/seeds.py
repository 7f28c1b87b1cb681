"""The inputs from which a campaign starts: bundled ones, the grammars of the shelf, and the shared data if present.

Mutation needs inputs that reach deep into a front end.

Invariant: the inputs are the same every time, so that a campaign's seed determines its inputs.
"""

# ruff: noqa: E501  (tables of words and small texts)
from __future__ import annotations

import gzip
import json
import os
import tarfile
from pathlib import Path

from .tags import SEEDS

__all__ = ["seeds"]

_ROOT = Path(__file__).resolve().parents[1]
_MOST_SHARED = 1_500
_LONGEST = 5_000

_SCHEMAS = (
    '{"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"type": "string", "pattern": "^x"}}, '
    '"required": ["a"], "additionalProperties": false}',
    '{"type": "array", "items": {"$ref": "#"}, "minItems": 1, "uniqueItems": true}',
    '{"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}',
    '{"oneOf": [{"type": "number", "multipleOf": 0.1}, {"type": "number", "multipleOf": 3}], "not": {"const": 6}}',
    '{"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}, "else": {"maxProperties": 2}}',
    '{"prefixItems": [true, {"type": "string"}], "contains": {"const": 1}, "minContains": 2, "unevaluatedItems": false}',
    '{"patternProperties": {"^a": {"format": "date-time"}}, "propertyNames": {"maxLength": 3}, "unevaluatedProperties": false}',
    '{"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "minimum": 1, "exclusiveMinimum": true}',
    '{"$id": "http://x/a", "$defs": {"t": {"$dynamicAnchor": "t", "items": {"$dynamicRef": "#t"}}}, "$ref": "#/$defs/t"}',
    '{"enum": [1, 1.0, "1", [1], {"a": null}], "dependentRequired": {"a": ["b"]}, "dependencies": {"b": ["a"]}}',
)
_PATTERNS = (
    r"[A-Z]{2}-[0-9]{4}", r"(?i:ab|cd)+x?", r"(?=a)\w+(?<!b)", r"^\d{1,3}(\.\d{1,3}){3}$", r"(a+)+b", r"\b[^\W\d_]+\b", r"[^\n]*",
    r"(?P<y>\d{4})-(?P<m>0[1-9]|1[0-2])", r"(?!foo)[a-z]{3,5}", r"(?x) a b # c", r"é|ß|[à-ü]", r"\u00e9\x41[\]\-^]", r"(?:a{2,3}){0,40}",
    r"(?>a|ab)c|[^\"]*+x", r"<(b|i)>[^<]*+</\1>", r"(?:ab?|a)++(?P<q>['\"])x(?P=q)", r"(?>(?:a|b)+?c)(x|y){1,2}?",
)  # fmt: skip
_LARK = (
    'start: item ("," item)*\nitem: NAME | "(" start ")"\nNAME: /[a-z]+/\n%ignore " "\n',
    '?start: sum\n?sum: term (("+"|"-") term)*\nterm: INT\n%import common.INT\n%ignore /\\s+/\n',
    '_sep{x, s}: x (s x)*\nstart: _sep{A, ","}\nA.2: "a".."f"\nB: "b"i\n',
    "start: NAME <[97-99]> tail\ntail: <[^97]>* <[*]>\nNAME: /[a-c]+/\n",
    'start: (head body)* TEXT\nTEXT: /(.|\\n)*/\nhead[capture, suffix="<f", stop_capture="s"]: TEXT\n'
    'body[temperature=0.5]: arg ">"\narg[capture, max_chars=4]: /[a-z]+/\n',
    'start: item ("," item)* TEXT\nitem[max_tokens=2]: "(" (item | name)* ")"\nname[max_tokens=1, suffix="."]: /[a-c]+/\nTEXT: /(.|\\n)*/\n',
    'start: A~2..4 [B] -> pair\n     | "if"i start "then" start\nA: /a(?=b)|c/\nB: "b" | /x{2,3}/s\n',
    'start: p::0\np::_ : "a" p::set_bit(0) %if bit_clear(0)\n  | B p::incr([1:3]) %if lt([1:3], 3)\n  | ""\nB: "b"\n',
    '%llguidance {"ignore_once": true}\nstart: "x" %lark {\n  start: A | %json {"type": "integer"}\n  A: "a"\n} "" B\nB: "b"\n%ignore " "\n',
)
_GBNF = (
    'root ::= item ("," item)*\nitem ::= [a-z]+ | "(" root ")"\n',
    'root ::= "{" ws (pair ("," ws pair)*)? "}"\npair ::= "\\"" [^"\\\\]* "\\":" ws [0-9]{1,3}\nws ::= [ \\t\\n]{0,3}\n',
    "root ::= root-1 | root root-1\nroot-1 ::= [\\x41-\\u005A] | [^a-z]\n",
    "root ::= <[97]> (!<[98]>)* <[98]> [a-z]+ <[40-60,97]>?\n",
)
_EBNF = (
    'root ::= "a" root? [0-9]{2,} (= "b")\n',
    'root ::= TokenTagDispatch((97, body), ("b", body), excludes=(99, "d"))\nbody ::= Token(100, 101) "x" ExcludeToken(97)*\n',
    'root ::= TagDispatch(("<a>", body), ("<b>", body), loop_after_dispatch=true)\nbody ::= [a-z]* "</a>"\n',
    'root ::= "<" name ">" Regex("[a-z]{2,4}", flags="i") text\nname[lazy] ::= [a-z]+ "!"\ntext[max_chars=5] ::= [^<]*\n',
    'root ::= Substring("the ", "cat ", "", "sat") ("," Substring("ab", "a", "b"))* (= "x")\n',
)
_FORMULAS = (
    "G (open -> F close) & !use W open", "a U (b U c)", "F a & F b & G !(a & b)", "G (a -> X (b R c)) | last", "!(a M N b) <-> 'c d'",
    "G F a -> G F b", "X X X X last", "(a xor b) W (c & !a)", "[] (a => <> b) && ~c",
)  # fmt: skip


def seeds(target: str) -> list[str]:
    """Return the first inputs of a target."""
    shelf = _ROOT / "grammars"
    texts: list[str] = []
    if target == "schema":
        texts = [*_SCHEMAS, *_shared_schemas()]
    elif target == "regex":
        texts = [*_PATTERNS, *_shared_patterns()]
    elif target == "lark":
        texts = [*_LARK, *(path.read_text("utf-8") for path in sorted(shelf.glob("*.lark")))]
    elif target in ("gbnf", "ebnf"):
        texts = [*_GBNF, *(path.read_text("utf-8") for path in sorted(shelf.glob("*.gbnf")))]
        texts += _EBNF if target == "ebnf" else ()
    elif target == "ltl":
        texts = list(_FORMULAS)
    elif target == "tags":
        texts = list(SEEDS)
    else:
        for kind in ("schema", "regex", "lark", "gbnf", "ebnf"):
            sources = [text for text in seeds(kind) if len(text) < 1_500][:60]
            texts += [
                json.dumps(
                    {
                        "kind": kind,
                        "source": text,
                        "alter": at % 3,
                        "vocabulary": at,
                        "limits": {},
                        "walk": at,
                    }
                )
                for at, text in enumerate(sources)
            ]
    return [text for text in dict.fromkeys(texts) if len(text) <= _LONGEST or target in ("core", "served")]


def _shared() -> Path:
    return Path(os.environ.get("STRUCTGEN_SHARED") or _ROOT.parent / "shared") / "data"


def _shared_schemas() -> list[str]:
    """Return schemas of the JSON Schema test suite and of MaskBench, if the shared data is there."""
    schemas: list[str] = []
    suite, bench = _shared() / "json-schema-test-suite.tar.gz", _shared() / "maskbench-dev.jsonl.gz"
    if suite.exists():
        with tarfile.open(suite) as archive:
            for member in archive:
                stream = (
                    archive.extractfile(member)
                    if "/tests/draft" in f"/{member.name}" and member.isfile()
                    else None
                )
                if stream is not None and member.name.endswith(".json"):
                    schemas += [json.dumps(group["schema"]) for group in json.load(stream)]
    schemas = schemas[:: max(1, len(schemas) // _MOST_SHARED)]
    if bench.exists():
        with gzip.open(bench, "rt", encoding="utf-8") as lines:
            schemas += [
                json.dumps(json.loads(line)["schema"]) for at, line in enumerate(lines) if at % 2 == 0
            ]
    return schemas


def _shared_patterns() -> list[str]:
    """Return the patterns inside those schemas."""
    patterns: list[str] = []
    todo: list[object] = [json.loads(text) for text in _shared_schemas()]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            pattern = part.get("pattern")
            patterns += [pattern] if isinstance(pattern, str) else []
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return list(dict.fromkeys(patterns))[:_MOST_SHARED]
