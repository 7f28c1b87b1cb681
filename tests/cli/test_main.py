"""The command line as a whole: help, versions, exit status, no tracebacks; and ``doctor``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
    command = [sys.executable, "-m", "structgen", "check", "--all", '{"properties": {"é": {"type": "null"}}}']
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
def test_bad_arguments_exit_with_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage: structgen" in capsys.readouterr().err


def test_a_closed_pipe_is_not_an_error() -> None:
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


def test_doctor_reports_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_CORE_PACKAGES", ("numpy", "no-such-package-here"))
    assert main(["doctor"]) == 1
    assert "pip install no-such-package-here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["genrate", "x"], "there is no command 'genrate'; did you mean generate?"),
        (["chek"], "did you mean check?"),
        (["eval", "rnu"], "there is no command 'rnu'; did you mean run?"),
        (["check", "{}", "--probelms"], "there is no option --probelms; did you mean --problems?"),
        (["generate", "--chioce", "a"], "there is no option --chioce; did you mean --choice?"),
        (
            ["generate", "x", "--max-token=5", "--sede", "1"],
            "there is no option --sede; did you mean --seed?",
        ),
        (["serve", "--max-row", "3", "--modle", "x"], "there is no option --modle; did you mean --model?"),
        (["example", "--minmal", "{}"], "did you mean --minimal?"),
        (["explain", "--regxe", "a", "b"], "did you mean --regex?"),
        (["mask", "--tokenzier", "bytes", "{}"], "did you mean --tokenizer?"),
        (["eval", "run", "--engien", "x"], "did you mean --engine?"),
        (["eval", "report", "x", "--ouptut", "y"], "did you mean --output?"),
        (["eval", "compare", "x", "y", "--stric"], "cannot"),  # an abbreviation
        (["doctor", "--all"], "there is no option --all"),
        (["check", "{}", "--whitespace", "compct"], "there is no choice 'compct'; did you mean compact?"),
        (["check", "{}", "{}"], "unexpected arguments: {}"),
    ],
)
def test_misspelt_names_get_similar_suggestions(
    arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert output in error or output == "cannot"
    assert "Traceback" not in error


def test_help_lists_commands_options_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--help"]) == 0
    output = capsys.readouterr().out
    assert "eval_reports" not in output and "structgen eval run" in output and "exit status" in output
    assert main(["serve", "--help"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for option in ("--max-rows N", "--drain-seconds X", "--sampler-bytes N", "--compile-seconds X"):
        assert "(default " in output[output.rindex(option) : output.rindex(option) + 160], option
    limits = output[output.index("limits:") :]
    assert limits.count("--") == limits.count("(default ")


WAITS = """
import sys, time
from pathlib import Path
from structgen.cli import generate, program, serve

def wait(*_, **__):
    Path("started").touch()
    time.sleep(600)

generate.load_model = serve.load_model = wait
program()
"""


@pytest.mark.parametrize(
    "command",
    [
        ["-c", WAITS, "generate", "hello"],
        ["-c", WAITS, "serve", "--port", "0"],  # loads on a thread of its own
        ["-m", "structgen", "explain", "--type", "waits:T", "x"],
    ],
)
def test_ctrl_c_prints_one_line(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text('import time\nopen("started", "w").close()\ntime.sleep(600)')
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=300)
    output = [line for line in error.splitlines() if "loading" not in line]
    assert (process.returncode, output, out) == (130, ["structgen: interrupted"], "")


def test_without_a_command_the_commands_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "give a command: generate, serve, check" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "--type", "cli_ends:X", "1"], "importing 'cli_ends' raised SystemExit: 3"),
        (["explain", "--regex", "a", "@"], "@ names no file"),
        (["check", "cli_bytes"], "Is it the right file?"),
        (["check", "--lark", "cli_empty"], "Pass the name of a rule: --start RULE"),
        (["check", "\udcc3"], "No such file"),
        (["explain", "--regex", "a", "\udcc3"], "Character"),
        (["example", "true", "--count", "many"], "'many' is not a whole number"),
        (["mask", "true", "x"], "unexpected arguments: x"),
    ],
)
def test_odd_arguments_give_one_message(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cli_ends.py").write_text("raise SystemExit(3)")
    (tmp_path / "cli_bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "cli_empty").write_text("")
    assert main(arguments) in (1, 2)
    captured = capsys.readouterr()
    assert said in captured.out + captured.err and "Traceback" not in captured.err
