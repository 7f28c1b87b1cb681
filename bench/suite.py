"""Count the groups of the official JSON Schema test suite that structgen, llguidance and XGrammar get right.

    python -m bench.suite docs/json-schema-suite.json

The file contains how many groups of each suite file are right, over all drafts, and the engines' versions.
`structgen.constraints.json_schema.support_tables` makes the tables of docs/json-schema.md from it. The tests read the
same suite (tests/shared.py says where it is).

Invariant: a group is right if its schema compiles and every instance, as compact text, is accepted if and only if the
suite says that it is valid. Each token is one byte, so that no tokenizer affects the result. A schema without `$schema`
gets that of its draft. structgen gets the suite's remote documents; the other engines have no option for them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.command import argument_parser
from bench.engines import SuiteEngine
from structgen.evaluation.engines import Engine, accepts, open_engine
from structgen.vocabulary import Vocabulary
from tests.shared import schema_suite

__all__ = ["main", "measure"]

DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_VOCABULARY = Vocabulary.of_bytes()


NAMES = (SuiteEngine.name, "llguidance", "xgrammar")


def measure(engine: Engine) -> dict[str, list[int]]:
    """Return how many groups of each file are right, and how many there are."""
    if isinstance(engine, SuiteEngine):
        engine.remotes = {uri: json.loads(text) for uri, text in schema_suite().remotes.items()}
    counts: dict[str, list[int]] = {}
    for draft, uri in DRAFTS.items():
        for path, text in schema_suite().groups(draft):
            file = path.removesuffix(".json")
            if isinstance(engine, SuiteEngine):
                engine.section = _section(file)
            for group in json.loads(text):
                count = counts.setdefault(file, [0, 0])
                count[0] += _is_right(engine, group, uri)
                count[1] += 1
    return dict(sorted(counts.items()))


def _section(file: str) -> str:
    if "/format/" in file:
        return "format"
    return "optional" if file.startswith("optional/") else "required"


def _is_right(engine: Engine, group: dict[str, Any], uri: str) -> bool:
    schema = group["schema"]
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": uri, **schema}
    try:
        program = engine.compile(json.dumps(schema, ensure_ascii=False))
        return all(
            accepts(engine.start(program), text, _VOCABULARY.eos_ids[0]) == valid
            for text, valid in _instances(group["tests"])
        )
    except Exception:
        return False  # an engine that raises, while compiling or reading, does not get the group right


def _instances(tests: list[dict[str, Any]]) -> Iterator[tuple[bytes, bool]]:
    for test in tests:
        text = json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False)
        yield text.encode("utf-8", "surrogatepass"), test["valid"]


def main() -> None:
    parser = argument_parser("bench.suite", __doc__)
    parser.add_argument("out", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--engine", choices=NAMES, help="print the counts of this engine as JSON")
    chosen = parser.parse_args()
    if chosen.engine:
        is_own = chosen.engine == SuiteEngine.name
        json.dump(measure(SuiteEngine() if is_own else open_engine(chosen.engine, _VOCABULARY)), sys.stdout)
        return
    if chosen.out is None:
        parser.error("give the file to write, or --engine")
    # Each engine runs in its own process: if one breaks its process, the others are not affected.
    command = [sys.executable, "-m", "bench.suite", "--engine"]
    counted = {
        name: json.loads(subprocess.run([*command, name], check=True, capture_output=True).stdout)
        for name in NAMES
    }
    measured: dict[str, Any] = {
        "command": f"python -m bench.suite {chosen.out}",
        "versions": {name: version(name) for name in NAMES if name != SuiteEngine.name},
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
