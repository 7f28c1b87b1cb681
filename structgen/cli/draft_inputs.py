"""What the actions of ``structgen draft`` share: their model, the requests that it answers, and reports."""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.errors import OptionError

from .inputs import InputError, load_model, naming_options

if TYPE_CHECKING:
    from structgen.draft_training.features import Features
    from structgen.draft_training.texts import Request
    from structgen.draft_training.training import Training

__all__ = [
    "add_model",
    "add_requests",
    "add_texts",
    "check_files",
    "check_request_options",
    "check_target",
    "check_text_options",
    "directory_of",
    "features_of",
    "model_of",
    "outcome",
    "requests_of",
    "with_options",
]

_FIELDS = {
    "drafted_tokens": "--vocabulary",
    "most_bytes": "--states-bytes",
    "most_tokens": "--corpus-tokens",
}
"""Fields of the Python interface that options of another name set."""
_POSITIONAL = ("run", "weights", "written", "trimmed")
"""What is no option among the arguments of an action."""


def with_options(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Return an action whose errors name options, where the library names the fields that they set."""

    @functools.wraps(run)
    def named(arguments: argparse.Namespace) -> int:
        names = [name for name in vars(arguments) if name not in _POSITIONAL]
        with naming_options({**{name: "--" + name.replace("_", "-") for name in names}, **_FIELDS}):
            return run(arguments)

    return named


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the model."""
    parser.add_argument("--model", help="name or path of a transformers model (the embedded one)")
    parser.add_argument("--device", help="where it runs, as torch spells it")
    parser.add_argument("--dtype", help="of its weights")


def add_texts(parser: argparse.ArgumentParser, *, tokens: int, seed: int) -> None:
    """Add the options that say which texts are collected, and where they are kept."""
    add_requests(parser)
    add = parser.add_argument
    add("--directory", type=Path, help="where texts and states are kept (next to the file that is written)")
    add("--tokens", type=int, default=tokens, help=f"tokens of answers that the model writes ({tokens})")
    add("--states-bytes", type=int, default=4_000_000_000, help="the most bytes of states on disk (4e9)")
    add("--seed", type=int, default=seed, help=f"of texts and training ({seed})")


def add_requests(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which requests the model answers."""
    add = parser.add_mutually_exclusive_group().add_argument
    add("--prompts", type=Path, help="JSON lines with prompts; without, the model writes its own")
    add("--records", type=float, help="the share of its own prompts that request JSON (0.2)")


def check_request_options(arguments: argparse.Namespace) -> None:
    """Check the numbers of `add_requests` and the seed. Raises `OptionError`."""
    from structgen.speculative.checks import check_number

    if arguments.records is not None:
        check_number("records", arguments.records)
    if arguments.seed < 0:
        raise OptionError(f"seed is {arguments.seed}; it must be at least 0")


def check_text_options(arguments: argparse.Namespace) -> None:
    """Check the numbers of `add_texts`. Raises `OptionError`."""
    for name in ("tokens", "states_bytes"):
        if (number := getattr(arguments, name)) < 1:
            raise OptionError(f"{name} is {number}; it must be at least 1")
    if arguments.prompts is not None and _is_pipe(arguments.prompts):
        raise InputError(
            f"--prompts {arguments.prompts} is a pipe, and the prompts are read more than once",
            hint="Write them to a file.",
        )
    check_request_options(arguments)


def check_files(
    *, drafters: Iterable[Path] = (), judge: Path | None = None, prompts: Path | None = None
) -> None:
    """Check files that an action reads as far as that needs no model, which takes long to load.

    Args:
        drafters: Files and folders of drafters.
        judge: The file of a judge.
        prompts: The file of prompts.

    Raises:
        StructgenError: One of them cannot be read, or is not such a file.
    """
    from structgen.draft_training.requests import check_requests
    from structgen.speculative.learned.judges import check_judge
    from structgen.speculative.learned.loading import check_drafter

    for path in drafters:
        check_drafter(path)
    if judge is not None:
        check_judge(judge)
    if prompts is not None and not _is_pipe(prompts):  # which can be read once only
        check_requests(prompts)


def check_target(written: Path, *read: Path) -> None:
    """Check, before anything that takes long, that a file can be written where nothing is lost.

    Args:
        written: The file that an action writes at its end.
        read: Files that it reads, which must not be replaced.

    Raises:
        InputError: It is a folder, its folder is missing or cannot be written to, or it is one of the files read.
    """
    if os.path.isdir(written):
        raise InputError(f"{written} is a folder; name a file")
    folder = written.parent
    if not os.path.isdir(folder):
        raise InputError(f"{written} cannot be written: there is no folder {folder}")
    try:
        is_new = _is_missing(written)
    except (OSError, ValueError) as error:  # no file can have this name
        raise InputError(f"{written} cannot be written: {error}") from error
    if not os.access(folder, os.W_OK | os.X_OK) or (not is_new and not os.access(written, os.W_OK)):
        raise InputError(f"{written} cannot be written: permission denied")
    for path in read:
        if not is_new and os.path.exists(path) and path.samefile(written):
            raise InputError(f"{written} is the file that is read", hint="Name another file to write.")


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo()
    except OSError:  # what is wrong with the name is found when the file is read
        return False


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return True
    return False


def directory_of(arguments: argparse.Namespace, written: Path) -> Path:
    """Return the directory for texts and states, by default next to the file that is written.

    It is not made: a command that fails before it has texts leaves no directory.

    Raises:
        InputError: It cannot be made, or nothing can be written in it.
    """
    directory: Path = arguments.directory or written.with_name(written.name + ".training")
    try:
        there = next(each for each in (directory, *directory.parents) if not _is_missing(each))
    except (OSError, ValueError) as error:  # no directory can have this name
        raise InputError(f"{directory} cannot be made: {error}") from error
    if not there.is_dir():
        raise InputError(f"{directory} cannot be made: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{directory} cannot be made or written to: permission denied")
    return directory


@contextlib.contextmanager
def _made(directory: Path) -> Iterator[None]:
    """Make a directory for the block. What is empty after it is removed again, unless it was there before."""
    new = [each for each in (directory, *directory.parents) if _is_missing(each)]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory} cannot be made: {error}") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one of them is not empty
            for each in new:
                each.rmdir()


def features_of(model: Any, arguments: argparse.Namespace, written: Path) -> Features:
    """Collect texts, and compute their states; go on where an interrupted run has ended.

    Args:
        model: The model.
        arguments: Those of `add_texts`.
        written: The file that the action writes. By default the directory is next to it.
    """
    from structgen.draft_training.features import compute_features
    from structgen.draft_training.recipes import layers_read
    from structgen.draft_training.texts import collect_texts

    directory = directory_of(arguments, written)
    shown = not arguments.quiet
    with _made(directory):
        texts = collect_texts(
            model,
            lambda first: requests_of(model, arguments, first),
            directory / "texts.jsonl",
            tokens=arguments.tokens,
            origin=_origin(arguments),
            seed=arguments.seed,
            progress=shown,
        )
        return compute_features(
            model,
            texts,
            directory / "states",
            layers_read(model),
            most_bytes=arguments.states_bytes,
            progress=shown,
        )


def model_of(arguments: argparse.Namespace, **options: Any) -> Any:
    """Load the model that the options name."""
    given = {name: getattr(arguments, name) for name in ("device", "dtype") if getattr(arguments, name)}
    return load_model(arguments.model, **given, **options)


def requests_of(model: Any, arguments: argparse.Namespace, first: int = 0) -> Iterator[Request]:
    """Return the requests of `add_requests` after the first ones: those of a file, or those that the model writes."""
    from structgen.draft_training.requests import requests_of_file, written_requests

    if arguments.prompts is None:
        return written_requests(model, seed=arguments.seed, first=first, records=_records(arguments))
    return iter(requests_of_file(model, arguments.prompts)[first:])


def outcome(training: Training) -> str:
    """Return in words how well a drafter guesses the texts that were set apart."""
    last, texts = training.best, f"{training.held_out} texts that were set apart"
    if not last.right:
        return f"nothing could be measured: the constraints of the {texts} leave no token open"
    return (
        f"on {texts}, the first token is right at {last.right[0]:.0%} of the positions with a choice, and a draft of "
        f"{len(last.right)} gives {last.tokens_per_pass:.2f} tokens a pass"
    )


def _origin(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what texts must have in common so that a collection goes on."""
    from structgen.draft_training.requests import WRITTEN_ORDER

    origin = {"model": arguments.model, "prompts": _content(arguments.prompts)}
    if arguments.prompts is not None:
        return origin
    return {**origin, "records": _records(arguments), "order": WRITTEN_ORDER}


def _records(arguments: argparse.Namespace) -> float:
    from structgen.draft_training.requests import RECORDS

    given: float | None = arguments.records
    return RECORDS if given is None else given


def _content(prompts: Path | None) -> str | None:
    """Return a hash of the file of prompts."""
    try:
        return None if prompts is None else hashlib.sha256(prompts.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"the prompts cannot be read: {prompts}: {error}") from error
