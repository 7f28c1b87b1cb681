"""The documentation tells the truth: Python blocks run, console blocks print what they show, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import structgen as sg
from structgen.cli import main
from structgen.cli.commands import _parser as parser
from structgen.constraints.regex.table import feature_table, with_table
from structgen.tools import FORMATS
from tests.embedded import embedded_model, require_embedded_package
from tests.memory import names_of_a_program

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Return line number and text of each fenced block in a language."""
    text = page.read_text("utf-8")
    return [
        (text.count("\n", 0, match.start(2)) + 1, match.group(2))
        for match in _FENCE.finditer(text)
        if match.group(1) == language
    ]


def named(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
WITH_CONSOLE = [page for page in PAGES if blocks(page, "console")]


_load = sg.load


@pytest.fixture
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share one embedded model between all pages, as it takes seconds to load."""

    def load(*given: Any, **options: Any) -> Any:
        return _load(*given, **options) if given or options else embedded_model()

    monkeypatch.setattr(sg, "load", load)


@pytest.fixture
def registered_formats() -> Iterator[None]:
    """Drop the tool formats that a page registers: other tests of the process list all formats."""
    known = dict(FORMATS)
    yield
    FORMATS.clear()
    FORMATS.update(known)


@pytest.mark.usefixtures("loaded_once", "registered_formats")
@pytest.mark.parametrize("page", WITH_PYTHON, ids=named(WITH_PYTHON))
def test_python_blocks_run(page: Path) -> None:
    found = blocks(page, "python")
    if any("sg.load()" in block for _, block in found):
        pytest.importorskip("torch")
        require_embedded_package()
    with names_of_a_program() as names:
        for line, block in found:
            # Empty lines in front, so that a traceback shows the line of the page.
            exec(compile("\n" * (line - 1) + block, str(page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", WITH_CONSOLE, ids=named(WITH_CONSOLE))
def test_console_blocks_print_what_they_show(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line, block in blocks(page, "console"):
        for command, shown in re.findall(r"^\$ structgen (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            main(shlex.split(command))
            captured = capsys.readouterr()
            printed = captured.out + captured.err
            assert printed.strip() == shown.strip(), f"{page.name}, block at line {line}: structgen {command}"


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
    for target in re.findall(r"`((?:docs|structgen|bench|tests|grammars)/[\w./-]+)`", text):
        assert (ROOT / target).exists(), target


def test_the_table_of_regex_features_is_up_to_date() -> None:
    page = (ROOT / "docs" / "regex.md").read_text("utf-8")
    assert page == with_table(page), "run python -m structgen.constraints.regex.table docs/regex.md"
    assert feature_table() in page


def documented() -> list[Any]:
    """Return the names that the reference pages list; a module counts with all its names."""
    found: list[Any] = []
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE):
            try:
                thing: Any = import_module(name)
            except ModuleNotFoundError:
                module, _, last = name.rpartition(".")
                thing = getattr(import_module(module), last)
            if isinstance(thing, ModuleType):  # its page shows what is written in it
                found += [one for one in vars(thing).values() if getattr(one, "__module__", "") == name]
            found.append(thing)
    return found


@pytest.mark.parametrize("package", ["", ".tools", ".ltl", ".monitors", ".diffusion"])
def test_the_reference_lists_every_public_name(package: str) -> None:
    module = import_module("structgen" + package)
    public = [name for name in module.__all__ if not name.startswith("__")]
    listed = {id(thing) for thing in documented()}
    missing = [
        name
        for name in public
        if id(value := getattr(module, name)) not in listed
        and (callable(value) or isinstance(value, ModuleType))
        and f"structgen.{name}" not in ("structgen.diffusion", "structgen.monitors")
    ]
    assert not missing


def indented_commands(page: str, start: str) -> list[list[str]]:
    """Return the words of commands in indented blocks, which may go on after a backslash at the end of a line."""
    text = (ROOT / "docs" / page).read_text("utf-8").replace("\\\n", "")
    return [shlex.split(line) for line in re.findall(rf"^ {{4}}({start}.*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("page", ["speculation.md", "learned-drafts.md"])
def test_commands_about_drafts_have_the_options_that_they_name(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take minutes or hours, so they only get as far as the model."""
    pytest.importorskip("torch")

    class Parsed(Exception):
        """The options are right."""

    def load(*given: Any, **options: Any) -> Any:
        raise Parsed

    monkeypatch.setattr(sg, "load", load)
    modes = import_module("bench.speculation.__main__")
    monkeypatch.setattr(modes, "MODES", dict(modes.MODES))  # --drafter adds to them
    commands = indented_commands(page, r"python -m bench\.speculation")
    for command in commands:
        module = import_module(command[2] if command[2].count(".") > 1 else f"{command[2]}.__main__")
        with pytest.raises(Parsed):
            module.main(command[3:])
    structgen = indented_commands(page, "structgen ")
    for command in structgen:
        parser().parse_args(command[1:])
    assert commands and (structgen or page == "speculation.md")
