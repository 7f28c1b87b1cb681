"""Options of lint rules: a seeded sample of the schemas of ESLint's rules and of its plugins' rules.

A rule's options are an array; its schema is one of the array, or a list of schemas of its items. node loads the
packages without network and prints the schemas.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from typing import Any

from bench.corpora import npm_tree
from bench.schemas import Source

NAME = "lint_rules"
_ESLINT = "eslint@10.15.0"
_PLUGINS = (
    "@stylistic/eslint-plugin@5.10.0",
    "eslint-plugin-import-x@4.18.1",
    "eslint-plugin-jest@29.17.0",
    "eslint-plugin-jsdoc@65.4.3",
    "eslint-plugin-jsx-a11y@6.10.2",
    "eslint-plugin-n@18.5.0",
    "eslint-plugin-perfectionist@5.13.0",
    "eslint-plugin-react@7.37.5",
    "eslint-plugin-unicorn@80.0.0",
)
_COUNT = 120
_PROGRAM = """
const {createRequire} = require("module"), {pathToFileURL} = require("url");
const load = createRequire(process.cwd() + "/here.js"), found = {};
const add = (name, rules) => { for (const [rule, value] of rules) if (value?.meta?.schema) found[name + "/" + rule] =
    value.meta.schema; };
add("eslint", load("eslint/use-at-your-own-risk").builtinRules);
(async () => {
  for (const name of process.argv.slice(1)) {
    const plugin = await import(pathToFileURL(load.resolve(name)).href);
    add(name, Object.entries((plugin.default ?? plugin).rules));
  }
  console.log(JSON.stringify(found));
})();
"""


def sources() -> Iterator[Source]:
    folder = npm_tree(_ESLINT, *_PLUGINS)
    names = [name.rpartition("@")[0] for name in _PLUGINS]
    command = ["node", "--eval", _PROGRAM, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120)
    rules: dict[str, Any] = {k: v for k, v in json.loads(done.stdout).items() if v}
    for name in sorted(random.Random(0).sample(sorted(rules), min(_COUNT, len(rules)))):
        yield Source(name, _schema(rules[name]))


def _schema(options: Any) -> dict[str, Any]:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    if isinstance(options, list):
        return {**draft, "type": "array", "items": options, "minItems": 1, "maxItems": len(options)}
    return {**draft, **options, "minItems": max(1, options.get("minItems", 0))}
