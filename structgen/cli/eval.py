"""``structgen eval run | report | compare``: engines against schemas, texts and tasks.

``run`` is here; what reads a run is in `eval_reports`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import eval_reports
from .eval_progress import Progress
from .inputs import InputError
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.evaluation.running import Plan

__all__ = ["add_command"]

_GROUP = """Measure engines and models on schemas, texts and tasks, as JSONSchemaBench does.

  structgen eval run                    query the engines; the answers go to a new folder
  structgen eval report FOLDER          write the figures of a run as a page
  structgen eval compare FOLDER OTHER   show what changed from one run to another

structgen eval COMMAND --help shows the options of each.

exit status: 0 done; 1 compare --strict found items that newly failed; 2 bad arguments, or no run in the folder;
130 interrupted"""

_DESCRIPTION = """Ask engines what JSONSchemaBench asks: which schemas they take, whether they tell valid instances from
invalid ones (coverage), what that costs, and what a model writes under them (--generate, --tasks).

Each engine runs in processes of its own; a schema that crashes one, hangs it or eats its memory is written down and the
run goes on. Answers are kept as they come: a run that was stopped goes on with --resume.

engines: structgen, llguidance, xgrammar, outlines-core, lm-format-enforcer, unconstrained (the model alone),
openai:URL or openai:URL#MODEL for a server, such as openai:http://localhost:8000/v1, and MODULE:CLASS for one of
your own (structgen.evaluation.engines.Engine says what it needs)

data sets: bundled (63 schemas of our own), maskbench:PATH, suite:PATH (the JSON Schema test suite),
hub:OWNER/NAME[:PART], or the path of a folder or file of schemas

exit status: 0 the run is complete, with any answers of the engines; 2 it cannot start; 130 interrupted"""

_EPILOG = """examples:
  structgen eval run
  structgen eval run --engine structgen --engine llguidance --dataset maskbench:data.jsonl.gz --sample 500
  structgen eval run --engine structgen --engine unconstrained --generate 20 --tasks extraction --output mine
  structgen eval run --output mine --resume"""

# Name, type, metavar, help. There is no default here, so that options that were given are known.
_OPTIONS: dict[str, tuple[Any, str, str]] = {
    "sample": (int, "N", "so many schemas of each data set, each part by its size (default all)"),
    "seed": (int, "N", "of the sample and of what is drawn (default 0)"),
    "model": (
        str,
        "NAME",
        "a path or name, or bytes: no model, each byte a token (default the embedded one)",
    ),
    "generate": (int, "N", "write texts on so many schemas of each data set (default 0)"),
    "task_items": (int, "N", "the first so many of each task (default all)"),
    "max_tokens": (int, "N", "of a text (default 256)"),
    "temperature": (float, "X", "of what is drawn (default 0: the most probable token)"),
    "seconds": (float, "X", "that an engine may take for one schema or text (default 60)"),
    "memory": (int, "MIB", "that one schema may take (default 2048)"),
    "api_key_env": (str, "NAME", "the variable that holds the key of openai: engines"),
}
_LISTS: dict[str, tuple[str, str, str]] = {
    "engines": ("--engine", "NAME", "repeat it for several (default structgen)"),
    "datasets": ("--dataset", "SPEC", "repeat it for several (default bundled)"),
    "parts": ("--part", "NAME", "only these parts of the data sets, such as Kubernetes"),
    "tasks": ("--tasks", "NAME", "extraction, calling, arithmetic or all"),
}


def add_command(commands: Commands) -> None:
    """Add ``eval`` and what it does to the commands."""
    group = commands.add_parser(
        "eval",
        help="measure engines as JSONSchemaBench does",
        description=_GROUP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(inner)
    eval_reports.add_commands(inner)


def _add_run(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="ask engines, and keep their answers in a folder",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, (flag, metavar, help_text) in _LISTS.items():
        parser.add_argument(flag, dest=name, action="append", metavar=metavar, help=help_text)
    for name, (kind, metavar, help_text) in _OPTIONS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=kind, metavar=metavar, help=help_text)
    parser.add_argument(
        "--no-coverage", dest="coverage", action="store_false", default=None, help="texts and tasks only"
    )
    parser.add_argument("--workers", type=int, metavar="N", default=1, help="processes at a time (default 1)")
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="of a model in each process (default OMP_NUM_THREADS, or the processors divided by the workers)",
    )
    parser.add_argument(
        "--output", metavar="FOLDER", help="where the answers go (default eval- and the time)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the run in --output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, and tell where the answers are."""
    from structgen.evaluation import running

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python -m has it: engines of the user's own
    plan = _plan(arguments)
    path = plan.folder.path
    if importlib.util.find_spec("jsonschema_rs") is None:
        _say(
            "jsonschema-rs is not installed: the data's labels are taken as they are, and texts are not judged; "
            "pip install jsonschema-rs"
        )
    _say(f"the answers go to {path}")
    phases = plan.phases()
    try:
        with Progress(phases) as progress:
            running.run(plan, progress.advance)
    except KeyboardInterrupt:
        message = f"stopped; go on with: structgen eval run --output {path} --resume"
        raise KeyboardInterrupt(message) from None
    for line in progress.lines():
        print(line)
    print(f"\nstructgen eval report {path}")
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    from structgen.evaluation.running import begin, resume
    from structgen.evaluation.settings import RunOptions
    from structgen.evaluation.tasks import TASKS

    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name in (*_LISTS, *_OPTIONS, "coverage")
        if (value := getattr(arguments, name)) is not None
    }
    if given.get("tasks") == ("all",):
        given["tasks"] = tuple(TASKS)
    shared = {"workers": arguments.workers, "threads": arguments.threads}
    if not arguments.resume:
        folder = arguments.output or f"eval-{datetime.datetime.now():%Y%m%d-%H%M%S}"
        return begin(RunOptions(**given), Path(folder), **shared)
    if arguments.output is None:
        raise InputError("--resume needs the folder of the run", hint="Give it by --output FOLDER.")
    plan = resume(Path(arguments.output), **shared)
    for name, value in given.items():
        if (before := getattr(plan.options, name)) != value:
            plan.folder.close()
            flag = (
                "--no-coverage"
                if name == "coverage"
                else _LISTS.get(name, ("--" + name.replace("_", "-"),))[0]
            )
            raise InputError(
                f"{flag} is not what the run was started with, which is {before!r}",
                hint="Leave it out to go on, or start another run.",
            )
    return plan


def _say(text: str) -> None:
    print(f"structgen: {text}", file=sys.stderr, flush=True)
