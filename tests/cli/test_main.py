"""The command line as a whole: help, versions, exit status, no tracebacks; and ``doctor``."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import structgen
from structgen.cli import doctor, main


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "structgen", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def test_as_a_program() -> None:
    done = run("explain", "--regex", "[0-9]+", "-", given="12")
    assert (done.returncode, done.stderr) == (0, "")
    done = run("check", "-", given="{")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert run("--version").stdout.strip() == f"structgen {structgen.__version__}"


def test_characters_that_a_terminal_lacks_are_escaped() -> None:
    command = [sys.executable, "-m", "structgen", "check", '{"properties": {"é": {"type": "null"}}}']
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0 and b"#/properties/\\xe9/type" in done.stdout


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("generate", "check", "explain", "mask", "doctor"):
        assert command in out
        assert main([command, "--help"]) == 0
        assert "exit status" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["explain"], ["generate", "x", "--seed", "y"]])
def test_bad_arguments_are_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage: structgen" in capsys.readouterr().err


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    program = f"{sys.executable} -m structgen mask --tokenizer bytes --regex '.*' --count 300 | head -1"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert "tokens may come next" in done.stdout
    assert "Traceback" not in done.stderr


def test_doctor_finds_the_core(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "native core     works" in out
    assert structgen.__version__ in out
    assert not [line for line in out.splitlines() if line.startswith("!")]


def test_doctor_tells_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_CORE_PACKAGES", ("numpy", "no-such-package-here"))
    assert main(["doctor"]) == 1
    assert "pip install no-such-package-here" in capsys.readouterr().out
