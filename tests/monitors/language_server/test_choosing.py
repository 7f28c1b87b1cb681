"""Which server is chosen, where its program and its packages are found, and what the errors say."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from structgen.errors import LanguageServerMissing, OptionError
from structgen.monitors.language_server import PRESETS, LanguageServer, analyser, environments, servers
from structgen.monitors.language_server.finding import find_program, hides_programs, safe_path


def test_the_first_installed_server_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present: set[str] = {"zuban"}
    monkeypatch.setattr(
        servers, "find_program", lambda name, *_, **__: sys.executable if name in present else None
    )
    with_zuban = analyser("python", tmp_path, restarts=0)
    assert isinstance(with_zuban, LanguageServer) and with_zuban.name == "zuban"
    with_zuban.close()
    present.clear()
    monkeypatch.setattr(servers, "is_jedi_installed", lambda: False)
    with pytest.raises(
        LanguageServerMissing, match=r"pip install ty or pip install zuban or pip install jedi"
    ):
        analyser("python", tmp_path)
    with pytest.raises(LanguageServerMissing, match=r"npm install -g @typescript/native-preview"):
        analyser("typescript", tmp_path)
    for name, preset in PRESETS.items():
        with pytest.raises(LanguageServerMissing) as caught:
            analyser(preset.languages[0], tmp_path, name)
        assert preset.install in str(caught.value)
    with pytest.raises(LanguageServerMissing, match="pip install jedi"):
        analyser("python", tmp_path, "jedi")


def test_invalid_choices(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no language server is known for 'cobol'.*\n.*typescript"):
        analyser("cobol", tmp_path)
    with pytest.raises(OptionError, match=r"no server 'tsgo' for python\n.*ty, zuban, pyright, jedi"):
        analyser("python", tmp_path, "tsgo")
    with pytest.raises(OptionError, match="is no folder"):
        analyser("python", tmp_path / "missing")
    with pytest.raises(LanguageServerMissing, match="'no-such-program --stdio' cannot be found"):
        analyser("cobol", tmp_path, ["no-such-program", "--stdio"])
    with pytest.raises(LanguageServerMissing):
        analyser("cobol", tmp_path, [])


def test_an_own_command_of_a_known_server_is_read_as_that(tmp_path: Path) -> None:
    program = tmp_path / "ty"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    own = analyser("python", tmp_path, [str(program), "server"], restarts=0)
    assert isinstance(own, LanguageServer) and own._knowledge is PRESETS["ty"].knowledge
    own.close()


def test_which_packages_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def environment(name: str) -> Path:
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").touch()
        (tmp_path / name / "pyvenv.cfg").touch()
        return tmp_path / name

    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "system" / "bin" / "python"))
    own = tmp_path / ".venv"
    assert environments.variables(own, None) == {}
    for name in ("this", ".venv", "active", "named"):
        folder = environment(name)
        if name == "this":
            monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
        if name == "active":
            monkeypatch.setenv("VIRTUAL_ENV", str(folder))
        python = folder / "bin" / "python" if name == "named" else None
        assert environments.variables(own, python) == {"VIRTUAL_ENV": str(folder)}
        settings = environments.with_interpreter({"python": {"a": 1}}, own, python)
        assert settings == {"python": {"a": 1, "pythonPath": str(folder / "bin" / "python")}}
        if name == ".venv":  # of a project that is not trusted
            assert environments.variables(None, python) == {"VIRTUAL_ENV": str(tmp_path / "this")}
    assert environments.with_interpreter({"other": 1}, own, None) == {"other": 1}


def _program(folder: Path, name: str = "tool", script: str = "#!/bin/sh\n") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)
    return str(folder / name)


posix = pytest.mark.skipif(os.name == "nt", reason="programs are found by their suffix there")


@posix
def test_where_programs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "a" / "b"
    project.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_program("tool", project) is None
    for folder in ("path", "bin"):
        expected = _program(tmp_path / folder)
        assert find_program("tool", project) == expected
        assert find_program("tool", project, project_programs=True) == expected
    assert find_program(expected, project) == expected
    assert shutil.which("tool") == str(tmp_path / "path" / "tool")


@posix
def test_programs_of_the_project_run_only_with_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "a" / "b"
    for place in ("node_modules/.bin", "a/node_modules/.bin", "a/.venv/bin", "a/b", "a/b/inside"):
        _program(tmp_path / place)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.chdir(project)
    (tmp_path / "link").symlink_to(project / "inside")
    hostile = [
        "",
        ".",
        "inside",
        "../b/inside",
        str(project),
        str(project / "inside"),
        str(tmp_path / "link"),
    ]
    monkeypatch.setenv("PATH", os.pathsep.join([*hostile, str(tmp_path / "path")]))
    for place in (None, "node_modules/.bin", ".venv/bin"):
        if place is not None:
            _program(project / place)
        assert find_program("tool", project) is None
        assert safe_path(project) == str(tmp_path / "path")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_program("tool", project, project_programs=True) == str(project / "node_modules/.bin/tool")
    (project / "node_modules/.bin/tool").unlink()
    assert find_program("tool", project, project_programs=True) == str(project / ".venv/bin/tool")
    (project / ".venv/bin/tool").unlink()
    assert find_program("tool", project, project_programs=True) is None, "never above the project"
    monkeypatch.setenv("PATH", str(project / "inside"))
    assert find_program("tool", project, project_programs=True) == str(project / "inside/tool")


@posix
@pytest.mark.parametrize("place", [".venv/bin", "bin", "", "deep/er/venv/bin"])
def test_the_folder_of_a_python_in_the_project_is_not_searched(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    inside = _program(project / place)
    (tmp_path / "link").symlink_to(project / place)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for folder in (project / place, tmp_path / "link"):
        monkeypatch.setattr(sys, "executable", str(folder / "python"))
        assert find_program("tool", project) is None
        found = find_program("tool", project, project_programs=True)
        assert found is not None and os.path.samefile(found, inside)
    assert find_program("tool", tmp_path / "project" / "other") is not None, "it is not in that project"


@posix
def test_the_hint_says_that_the_project_holds_all_of_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    _program(home / "bin")
    monkeypatch.setattr(sys, "executable", str(home / "venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(home / "bin"))
    (home / "project").mkdir()
    for project, hidden in ((Path("/"), True), (home, True), (home / "project", False)):
        assert hides_programs(project) is hidden
        assert (find_program("tool", project) is None) is hidden
        with pytest.raises(LanguageServerMissing) as caught:
            servers.analyser("typescript", project)
        assert ("All folders of PATH lie in the project" in str(caught.value)) is hidden
        with pytest.raises(LanguageServerMissing) as caught:
            servers.analyser("python", project, ["no-such-tool"])
        assert ("All folders of PATH lie in the project" in str(caught.value)) is hidden


@posix
def test_a_relative_command_is_one_file_wherever_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = _program(tmp_path / "bin")
    project = tmp_path / "project"
    there = _program(project / "bin")
    monkeypatch.chdir(tmp_path)
    assert find_program("bin/tool", project) == here
    monkeypatch.chdir(project / "bin")
    assert find_program("bin/tool", project) == there


@posix
@pytest.mark.parametrize("name", ["ty", "zuban", "pyright", "jedi"])
def test_a_hostile_project_runs_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, mark = tmp_path / "outer" / "project", tmp_path / "ran"
    script = f"#!/bin/sh\ntouch {mark}\n"
    for place in (
        "outer/node_modules/.bin",
        *(f"outer/project{place}" for place in ("", "/node_modules/.bin", "/.venv/bin", "/bin")),
    ):
        for program in (
            "ty",
            "zuban",
            "pyright-langserver",
            "basedpyright-langserver",
            "node",
            "python",
            "python3",
        ):
            _program(tmp_path / place, program, script)
    (project / ".venv" / "pyvenv.cfg").write_text("home = .\n")
    (project / "main.py").write_text("import os\n")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "bin", str(project / "bin"), os.environ["PATH"]]))
    try:
        found = analyser("python", project, name, timeout=300.0)
    except LanguageServerMissing:
        assert not mark.exists()
        pytest.skip(f"{name} is not installed")
    text = "import os\nos.pa"
    found.completions(project / "main.py", text, len(text)).result(600)
    found.diagnostics(project / "main.py", text).result(600)
    found.close()
    time.sleep(0.1)
    assert not mark.exists()


@posix
def test_pyright_gets_the_interpreter_of_a_project_only_with_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pyright runs the interpreter."""
    server = _program(tmp_path / "bin", "pyright-langserver")
    project = tmp_path / "project"
    python = _program(project / ".venv" / "bin", "python")
    (project / ".venv" / "pyvenv.cfg").touch()
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    started: list[tuple[Any, ...]] = []

    def start(name: str, command: Any, *_: Any, **given: Any) -> str:
        started.append((command, given))
        return name

    monkeypatch.setattr(servers, "LanguageServer", start)
    for trusts in (False, True):
        analyser("python", project, "pyright", project_programs=trusts)
        command, given = started.pop()
        assert command[0] == server
        assert (given["settings"]["python"]["pythonPath"] == python) == trusts
        assert (given["environment"].get("VIRTUAL_ENV") == str(project / ".venv")) == trusts
        assert given["environment"]["PATH"] == str(tmp_path / "bin")
