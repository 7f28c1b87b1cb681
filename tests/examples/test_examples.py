"""The examples run: each script and each code cell of each notebook, with one embedded model for all of them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import structgen as sg
from tests.embedded import embedded_model, require_embedded_package
from tests.memory import names_of_a_program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
MOST_LINES = 60

# Packages that not every installation has, beside torch and the embedded model.
OPTIONAL = {
    "code_completion.py": ("ty",),
    "measure_schemas.py": ("jsonschema_rs",),
    "own_model_beams.py": ("transformers",),
    "serve_and_ask.py": ("openai", "fastapi", "uvicorn"),
    "exact_dates.ipynb": ("matplotlib",),
}
WITHOUT_MODEL = {"measure_schemas.py"}

_load = sg.load


@cache
def _embedded(chat: bool | None) -> Any:
    model = embedded_model()
    if chat is None:
        return model
    return sg.wrap(model.model, model.tokenizer, chat=chat)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Share one embedded model between all examples, and draw pictures without a window."""

    def load(name: Any = None, *, chat: bool | None = None, **options: Any) -> Any:
        if name is not None or options:
            return _load(name, chat=chat, **options)
        return _embedded(chat)

    monkeypatch.setattr(sg, "load", load)
    monkeypatch.setenv("MPLBACKEND", "agg")
    with one_thread():
        yield
    sg.monitors.close_servers()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch in one thread: where other programs use the processors, threads wait for one another."""
    try:
        import torch
    except ImportError:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def named(files: list[Path]) -> list[str]:
    return [file.name for file in files]


def need_packages(file: Path) -> None:
    """Skip the test where an optional package of the example is missing."""
    if file.name not in WITHOUT_MODEL:
        pytest.importorskip("torch")
        require_embedded_package()
    for package in OPTIONAL.get(file.name, ()):
        pytest.importorskip(package, reason=f"{file.name} needs the package {package}")


def cells_of(notebook: Path, cell_type: str) -> list[dict[str, Any]]:
    return [
        cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == cell_type
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=named(SCRIPTS))
def test_script_runs_and_prints(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_packages(script)
    with names_of_a_program() as names:
        exec(compile(script.read_text("utf-8"), str(script), "exec", dont_inherit=True), names)
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=named(NOTEBOOKS))
def test_each_code_cell_of_a_notebook_runs(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_packages(notebook)
    with names_of_a_program() as names:
        for cell in cells_of(notebook, "code"):
            exec(
                compile("".join(cell["source"]), f"{notebook}#{cell['id']}", "exec", dont_inherit=True), names
            )
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("script", SCRIPTS, ids=named(SCRIPTS))
def test_script_is_short_and_says_how_to_run_it(script: Path) -> None:
    text = script.read_text("utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert f"python examples/{script.name}" in (ast.get_docstring(ast.parse(text)) or "")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=named(NOTEBOOKS))
def test_notebook_is_valid_and_says_how_to_run_it(notebook: Path) -> None:
    content = json.loads(notebook.read_text("utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    identifiers = [cell["id"] for cell in content["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", identifier) for identifier in identifiers)
    first = content["cells"][0]
    assert first["cell_type"] == "markdown" and "Run:" in "".join(first["source"])
    for cell in cells_of(notebook, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None
    if find_spec("nbformat") is not None:  # the checks above need no package
        nbformat = import_module("nbformat")
        nbformat.validate(nbformat.from_dict(content))


def test_readme_lists_exactly_the_examples_that_exist() -> None:
    rows = re.findall(
        r"^\| \[([^]]+)\]\(([^)]+)\) \|", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert all(name == target for name, target in rows)
    assert sorted(name for name, _ in rows) == sorted(named(SCRIPTS) + named(NOTEBOOKS))
