"""Count the groups of the official JSON Schema test suite that structgen, llguidance and XGrammar get right.

    python -m bench.suite docs/json-schema-suite.json

This writes how many groups of each file are right, over all drafts, with the engines' versions;
`structgen.constraints.json_schema.support_tables` makes the columns of docs/json-schema.md from it. The suite is the
one of the tests (see tests/shared.py).

Invariant: a group is right if its schema compiles and every instance, as compact text, is accepted if and only if the
suite says that it is valid. One token is one byte, so that texts decide and no tokenizer does. Schemas without
`$schema` get that of their draft. structgen gets the suite's remote documents; the other engines take none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.engines import SuiteEngine
from tests.shared import schema_suite

__all__ = ["main", "measure"]

DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_BYTES = [bytes([byte]) for byte in range(256)]
_END = 256


class LLGuidance:
    """llguidance with its defaults."""

    name = "llguidance"

    def setup(self) -> None:
        import llguidance

        class Tokens:
            eos_token_id = _END
            bos_token_id = None
            tokens = (*_BYTES, b"<end>")
            special_token_ids = (_END,)

            def __call__(self, text: str | bytes) -> list[int]:
                return list(text if isinstance(text, bytes) else text.encode())

        self.module: Any = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()))

    def compile(self, schema_text: str, draft: str) -> Any:
        grammar = self.module.LLMatcher.grammar_from_json_schema(schema_text)
        matcher = self.module.LLMatcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def accepts(self, compiled: Any, data: bytes) -> bool:
        matcher = compiled.deep_copy()
        read = matcher.try_consume_tokens(list(data))
        return bool(read == len(data) and matcher.is_accepting() and not matcher.is_error())


class XGrammar:
    """XGrammar with its defaults, which is its strict mode."""

    name = "xgrammar"

    def setup(self) -> None:
        import xgrammar

        self.module: Any = xgrammar
        tokens = xgrammar.TokenizerInfo([*_BYTES, b"<end>"], stop_token_ids=[_END])
        self.compiler = xgrammar.GrammarCompiler(tokens, max_threads=1, cache_enabled=False)

    def compile(self, schema_text: str, draft: str) -> Any:
        return self.compiler.compile_json_schema(schema_text)

    def accepts(self, compiled: Any, data: bytes) -> bool:
        matcher = self.module.GrammarMatcher(compiled)
        return all(matcher.accept_token(byte) for byte in data) and bool(matcher.accept_token(_END))


ENGINES: dict[str, Any] = {engine.name: engine for engine in (SuiteEngine, LLGuidance, XGrammar)}


def measure(engine: Any) -> dict[str, list[int]]:
    """By file: groups that are right, and all."""
    engine.remotes = {uri: json.loads(text) for uri, text in schema_suite().remotes.items()}
    engine.setup()
    counts: dict[str, list[int]] = {}
    for draft, uri in DRAFTS.items():
        for path, text in schema_suite().groups(draft):
            file = path.removesuffix(".json")
            engine.section = (
                "format" if "/format/" in file else "optional" if file.startswith("optional/") else "required"
            )
            for group in json.loads(text):
                count = counts.setdefault(file, [0, 0])
                count[0] += _is_right(engine, group, draft, uri)
                count[1] += 1
    return dict(sorted(counts.items()))


def _is_right(engine: Any, group: dict[str, Any], draft: str, uri: str) -> bool:
    schema = group["schema"]
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": uri, **schema}
    try:
        compiled = engine.compile(json.dumps(schema, ensure_ascii=False), draft)
        return all(engine.accepts(compiled, text) == valid for text, valid in _instances(group["tests"]))
    except Exception:
        return False  # refused, or failed while reading: not right either way


def _instances(tests: list[dict[str, Any]]) -> Iterator[tuple[bytes, bool]]:
    for test in tests:
        text = json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False)
        yield text.encode("utf-8", "surrogatepass"), test["valid"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--engine", choices=list(ENGINES), help="print the counts of this one")
    chosen = parser.parse_args()
    if chosen.engine:
        json.dump(measure(ENGINES[chosen.engine]()), sys.stdout)
        return
    if chosen.out is None:
        parser.error("give the file to write, or --engine")
    # A process each: what one engine breaks is not charged to another.
    command = [sys.executable, "-m", "bench.suite", "--engine"]
    counted = {
        name: json.loads(subprocess.run([*command, name], check=True, capture_output=True).stdout)
        for name in ENGINES
    }
    measured: dict[str, Any] = {
        "command": f"python -m bench.suite {chosen.out}",
        "versions": {name: version(name) for name in ENGINES if name != SuiteEngine.name},
        "files": {
            file: {name: counts[file][0] for name, counts in counted.items()} | {"groups": total}
            for file, (_, total) in counted[SuiteEngine.name].items()
        },
    }
    lines = [f"  {json.dumps(file)}: {json.dumps(counts)}" for file, counts in measured["files"].items()]
    head = json.dumps({key: measured[key] for key in ("command", "versions")}, indent=1).removesuffix("\n}")
    chosen.out.write_text(f'{head},\n "files": {{\n' + ",\n".join(lines) + "\n }\n}\n", "utf-8")


if __name__ == "__main__":
    main()
