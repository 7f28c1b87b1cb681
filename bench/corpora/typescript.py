"""TypeScript: sources and declaration files in npm packages; the tool is the TypeScript compiler's parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from bench.corpora import npm, sample, texts
from bench.node import NodeProgram

__all__ = ["NAME", "files", "is_valid"]

NAME = "typescript"

_PACKAGES = (
    "effect@4.1.0",
    "rxjs@7.8.2",
    "zod@3.25.76",
    "@reduxjs/toolkit@2.14.0",
    "@trpc/server@11.25.2",
    "mobx@7.1.3",
    "immer@11.2.10",
    "redux@5.0.1",
    "typescript@5.9.3",
    "@types/node@22.20.5",
    "@types/react@18.3.31",
    "type-fest@5.10.0",
    "kysely@0.28.18",
    "typeorm@1.1.1",
)

_PARSER = """
const ts = require(%s);
return text => ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest).parseDiagnostics.length === 0;
"""

_parser: NodeProgram | None = None


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield files that the compiler's parser accepts without a message."""
    files = sample(texts(map(npm, _PACKAGES), ".ts"), None if limit is None else 2 * limit)
    yield from islice(((name, text) for name, text in files if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """Return the messages of the compiler's parser, without JSX."""
    global _parser
    if _parser is None:
        compiler = npm("typescript@5.9.3") / "package" / "lib" / "typescript.js"
        _parser = NodeProgram(_PARSER % json.dumps(str(compiler)))
    return bool(_parser.ask(text))
