"""Which server is chosen, where its program and its packages are found, and what the errors say."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from structgen.errors import LanguageServerMissing, OptionError
from structgen.monitors.language_server import PRESETS, LanguageServer, analyser, environments, servers
from structgen.monitors.language_server.servers import find_program


def test_the_first_that_is_there_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present: set[str] = {"zuban"}
    monkeypatch.setattr(servers, "find_program", lambda name, _: sys.executable if name in present else None)
    with_zuban = analyser("python", tmp_path, restarts=0)
    assert isinstance(with_zuban, LanguageServer) and with_zuban.name == "zuban"
    with_zuban.close()
    present.clear()
    monkeypatch.setattr(servers, "is_jedi_installed", lambda: False)
    with pytest.raises(
        LanguageServerMissing, match=r"pip install ty or pip install zuban or pip install jedi"
    ):
        analyser("python", tmp_path)
    with pytest.raises(LanguageServerMissing, match=r"npm install -D @typescript/native-preview"):
        analyser("typescript", tmp_path)
    for name, preset in PRESETS.items():
        with pytest.raises(LanguageServerMissing) as caught:
            analyser(preset.languages[0], tmp_path, name)
        assert preset.install in str(caught.value)
    with pytest.raises(LanguageServerMissing, match="pip install jedi"):
        analyser("python", tmp_path, "jedi")


def test_what_cannot_be_chosen(tmp_path: Path) -> None:
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
    assert environments.variables(tmp_path, None) == {}
    for name in ("this", ".venv", "active", "named"):
        folder = environment(name)
        if name == "this":
            monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
        if name == "active":
            monkeypatch.setenv("VIRTUAL_ENV", str(folder))
        python = folder / "bin" / "python" if name == "named" else None
        assert environments.variables(tmp_path, python) == {"VIRTUAL_ENV": str(folder)}
        settings = environments.with_interpreter({"python": {"a": 1}}, tmp_path, python)
        assert settings == {"python": {"a": 1, "pythonPath": str(folder / "bin" / "python")}}
    assert environments.with_interpreter({"other": 1}, tmp_path, None) == {"other": 1}


@pytest.mark.skipif(os.name == "nt", reason="programs are found by their suffix there")
def test_where_programs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
        return str(folder / "tool")

    project = tmp_path / "a" / "b"
    project.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_program("tool", project) is None
    for folder in ("path", "bin", "node_modules/.bin", "a/b/node_modules/.bin"):
        expected = program(tmp_path / folder)
        assert find_program("tool", project) == expected
    assert find_program(expected, project) == expected
    assert find_program("node_modules/.bin/tool", project) == expected
    assert shutil.which("tool") == str(tmp_path / "path" / "tool")
