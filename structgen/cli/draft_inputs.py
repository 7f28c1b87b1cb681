"""What the actions of ``structgen draft`` share: the model that they are for, and the requests that it answers."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .inputs import InputError, load_model

if TYPE_CHECKING:
    from structgen.draft_training.features import Features
    from structgen.draft_training.texts import Request

__all__ = ["add_model", "add_texts", "content_of", "features_of", "model_of", "requests_of"]


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the model."""
    parser.add_argument("--model", help="name or path of a transformers model (the embedded one)")
    parser.add_argument("--device", help="where it runs, as torch spells it")
    parser.add_argument("--dtype", help="of its weights")


def add_texts(parser: argparse.ArgumentParser, *, tokens: int, seed: int) -> None:
    """Add the options that say which texts are collected, and where they are kept."""
    add = parser.add_argument
    add("--prompts", type=Path, help="JSON lines with prompts; without, the model writes its own")
    add("--directory", type=Path, help="where texts and states are kept (next to the file that is written)")
    add("--tokens", type=int, default=tokens, help=f"tokens of answers that the model writes ({tokens})")
    add("--states-bytes", type=int, default=4_000_000_000, help="the most bytes of states on disk (4e9)")
    add("--seed", type=int, default=seed, help=f"of texts and training ({seed})")


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

    directory = arguments.directory or written.with_name(written.name + ".training")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory} cannot be made: {error}") from error
    shown = not arguments.quiet
    texts = collect_texts(
        model,
        lambda first: requests_of(model, arguments.prompts, arguments.seed, first),
        directory / "texts.jsonl",
        tokens=arguments.tokens,
        origin={"model": arguments.model, "prompts": content_of(arguments.prompts)},
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


def requests_of(model: Any, prompts: Path | None, seed: int, first: int = 0) -> Iterator[Request]:
    """Return the requests after the first ones: those of a file, or those that the model writes."""
    from structgen.draft_training.requests import requests_of_file, written_requests

    if prompts is None:
        return written_requests(model, seed=seed, first=first)
    return iter(requests_of_file(model, prompts)[first:])


def content_of(prompts: Path | None) -> str | None:
    """Return a hash of the file of prompts."""
    try:
        return None if prompts is None else hashlib.sha256(prompts.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"the prompts cannot be read: {prompts}: {error}") from error
