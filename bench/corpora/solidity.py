"""Solidity: contracts in npm packages; the tool is `solc`'s parser, compiled to JavaScript.

A file whose `pragma solidity` excludes this compiler's version is left out: the parser rejects it unread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from bench.corpora import npm, sample, texts
from bench.node import NodeProgram

__all__ = ["NAME", "beyond_form", "files", "is_valid"]

NAME = "solidity"

_PACKAGES = (
    "@openzeppelin/contracts@5.7.0",
    "@openzeppelin/contracts-upgradeable@5.7.0",
    "@uniswap/v4-core@1.0.2",
    "@aave/core-v3@1.19.3",
    "@chainlink/contracts@1.4.0",
    "@prb/math@4.2.0",
    "@gnosis.pm/safe-contracts@1.3.0",
    "solady@0.1.26",
    "solmate@6.8.0",
)

_PARSER = """
const compiler = require(%s);
const compile = compiler.cwrap('solidity_compile', 'string', ['string', 'number', 'number']);
return text => {
  const sources = {file: {content: text}};
  const input = {language: 'Solidity', sources, settings: {stopAfter: 'parsing'}};
  const messages = JSON.parse(compile(JSON.stringify(input), 0, 0)).errors || [];
  return messages.filter(message => message.severity === 'error').map(message => message.message);
};
"""

_BEYOND_FORM = (
    "different compiler version",  # a pragma that excludes this one
    "SPDX license identifier",  # what a comment says
    'Builtin function "',  # which Yul names are built in
    'Keyword "',  # where `break`, `continue` and `leave` may stand
)

_parser: NodeProgram | None = None


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """Contracts that the compiler's parser accepts."""
    files = sample(texts(map(npm, _PACKAGES), ".sol"), None if limit is None else 2 * limit)
    yield from islice(((name, text) for name, text in files if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """Return the messages of `solc` about a file when it stops after parsing."""
    return not _messages(text)


def beyond_form(text: str) -> bool:
    """Return whether `solc` rejects the text for semantic reasons only."""
    return all(any(part in message for part in _BEYOND_FORM) for message in _messages(text))


def _messages(text: str) -> list[str]:
    global _parser
    if _parser is None:
        compiler = npm("solc@0.8.37") / "package" / "soljson.js"
        _parser = NodeProgram(_PARSER % json.dumps(str(compiler)))
    messages: list[str] = _parser.ask(text)
    return messages
