"""The installed distribution: one version, one name, a marker for type checkers."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import structgen

yaml = pytest.importorskip("yaml")
packaging = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_one_version() -> None:
    assert structgen.__version__ == PROJECT["version"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {PROJECT['version']}" in changes


def test_the_installed_distribution_is_ours() -> None:
    try:
        version = metadata.version(PROJECT["name"])
    except metadata.PackageNotFoundError:
        pytest.skip(f"{PROJECT['name']} is not installed: this runs from a source tree")
    assert version == structgen.__version__


def test_the_package_is_marked_as_typed() -> None:
    assert (ROOT / "structgen" / "py.typed").is_file()


def _named() -> list[str]:
    """Return each extra that a message or a page says to install, with its place."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "structgen").rglob("*.py")]
    return [
        f"{page.relative_to(ROOT)}: {name}[{extra}]"
        for page in pages
        for name, extras in re.findall(r"(?:\b(structgen(?:-lm)?)|'\.)\[([\w,-]+)\]", page.read_text("utf-8"))
        for extra in extras.split(",")
    ]


def test_extras_that_are_named_are_there() -> None:
    found = _named()
    assert found
    for line in found:
        assert re.search(r": (?:structgen-lm)?\[([\w-]+)\]$", line), line
        assert line.rpartition("[")[2][:-1] in PROJECT["optional-dependencies"], line


def _jobs(workflow: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return found


@pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
class TestWorkflows:
    """A release is what was tested, made by tools that no one can exchange, with no more rights than it needs."""

    def test_actions_are_pinned_by_commit(self, workflow: Path) -> None:
        """A comment gives the version, for people."""
        lines = [line for line in workflow.read_text("utf-8").splitlines() if "uses:" in line]
        assert lines
        for line in lines:
            assert re.fullmatch(r"\s*- uses: [\w-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line

    def test_tools_have_one_version(self, workflow: Path) -> None:
        installed = []
        for job in _jobs(workflow).values():
            for step in job["steps"]:
                for command in re.findall(r"(?:pip3?\"?|pipx) (?:install|run) (.*)", step.get("run", "")):
                    installed += command.split()
        assert installed
        for name in installed:
            assert re.fullmatch(r"[\w-]+==[\d.]+", name), name

    def test_rights_are_few(self, workflow: Path) -> None:
        assert yaml.safe_load(workflow.read_text("utf-8"))["permissions"] == {}
        for name, job in _jobs(workflow).items():
            writes = {right for right, level in job["permissions"].items() if level != "read"}
            assert writes == ({"id-token"} if name == "publish" else set()), name
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False

    def test_only_what_passed_all_tests_is_published(self, workflow: Path) -> None:
        jobs = _jobs(workflow)
        publish = jobs["publish"]
        assert publish["if"] == "github.event_name == 'push' && startsWith(github.ref, 'refs/tags/v')"
        assert publish["environment"]["name"] == "release"
        assert set(publish["needs"]) == set(jobs) - {"publish"}
        assert [step["run"] for step in jobs["test"]["steps"] if "run" in step] == [".ci/run"]
        assert not any("run" in step for step in publish["steps"])
        actions = [step["uses"].partition("@")[0] for step in publish["steps"]]
        assert actions == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]


def test_what_ci_runs() -> None:
    """Lint, types, the sanitizers and the whole suite."""
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert all(f"part {one}" in script for one in ("lint", "types", "sanitize"))
    assert "make test || failed+=(test)" in script


def test_build_tools_are_bounded() -> None:
    for one in PYPROJECT["build-system"]["requires"]:
        found = packaging.Requirement(one)
        assert {">=", "<"} <= {part.operator for part in found.specifier}, one
    lines = (ROOT / ".ci" / "build-tools.txt").read_text("utf-8").splitlines()
    tools = [packaging.Requirement(line) for line in lines if not line.startswith("#")]
    pins = {tool.name: tool.specifier for tool in tools}
    assert all([part.operator for part in specifier] == ["=="] for specifier in pins.values())
    for one in PYPROJECT["build-system"]["requires"]:
        found = packaging.Requirement(one)
        (pin,) = pins[found.name]
        assert found.specifier.contains(pin.version), "contributors build with what users build with"
    assert "BUILD_TOOLS := .ci/build-tools.txt" in (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")
def test_wheels_are_built_with_the_same_tools() -> None:
    """An isolated build would take the newest versions."""
    environment = PYPROJECT["tool"]["cibuildwheel"]["environment"]
    assert environment == {"PIP_CONSTRAINT": "$(pwd)/.ci/build-tools.txt"}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text("utf-8"))
    (build,) = [one for one in workflow["jobs"]["sdist"]["steps"] if "build --sdist" in one.get("run", "")]
    assert build["env"]["PIP_CONSTRAINT"].endswith("/.ci/build-tools.txt")


def _requirements() -> list[Any]:
    extras = PROJECT["optional-dependencies"].values()
    return [packaging.Requirement(one) for group in (PROJECT["dependencies"], *extras) for one in group]


@pytest.mark.parametrize(
    ("name", "vulnerable"), [("jinja2", ["3.1.0", "3.1.4", "3.1.5"]), ("h11", ["0.14.0", "0.15.0"])]
)
def test_floors_leave_out_vulnerable_versions(name: str, vulnerable: list[str]) -> None:
    found = [one for one in _requirements() if one.name == name]
    assert found
    for one in found:
        assert not any(one.specifier.contains(version) for version in vulnerable), str(one)


def test_extras_that_speak_http_name_their_parser() -> None:
    for extra, by in (("remote", "httpx2"), ("server", "uvicorn")):
        names = {packaging.Requirement(one).name for one in PROJECT["optional-dependencies"][extra]}
        assert {by, "h11"} <= names


def test_lark_has_a_ceiling_while_a_private_method_is_overridden() -> None:
    (lark,) = (one for one in _requirements() if one.name == "lark")
    assert lark.specifier.contains("1.3.1") and not lark.specifier.contains("1.4.0")
    from lark.load_grammar import GrammarBuilder

    assert list(inspect.signature(GrammarBuilder.do_import).parameters) == [
        "self", "dotted_path", "base_path", "aliases", "base_mangle",
    ]  # fmt: skip


def test_there_is_an_address() -> None:
    assert PROJECT["urls"] and all(one.startswith("https://") for one in PROJECT["urls"].values())
