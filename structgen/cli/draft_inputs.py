"""What the actions of ``structgen draft`` share: the model that they are for, and the requests that it answers."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .inputs import InputError, load_model

if TYPE_CHECKING:
    from structgen.draft_training.texts import Request

__all__ = ["add_model", "content_of", "model_of", "requests_of"]


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the model."""
    parser.add_argument("--model", help="name or path of a transformers model (the embedded one)")
    parser.add_argument("--device", help="where it runs, as torch spells it")
    parser.add_argument("--dtype", help="of its weights")


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
