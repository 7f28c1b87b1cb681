"""``structgen draft``: train, evaluate and trim learned drafters of a model."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.extras import needed

from .inputs import InputError, load_model
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.draft_training.evaluation import Evaluation
    from structgen.draft_training.texts import Request

__all__ = ["add_command"]

_DESCRIPTION = """\
Make a model faster with a learned drafter: a small network that reads the model's hidden states and guesses its next
tokens. The model checks every guess, so texts stay the same. docs/learned-drafts.md explains it.

  structgen draft train drafter.safetensors
  structgen draft evaluate drafter.safetensors
  structgen generate --drafter drafter.safetensors "Tell me about rivers."
"""


def add_command(commands: Commands) -> None:
    """Add ``draft`` to the commands."""
    parser = commands.add_parser(
        "draft",
        help="train a drafter that makes a model faster",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="COMMAND", required=True)
    _add_train(actions)
    _add_evaluate(actions)
    _add_trim(actions)


def _add_train(actions: Any) -> None:
    parser = actions.add_parser(
        "train",
        help="let the model write texts, and train a drafter on them",
        description="Let the model write texts, compute its hidden states, and train a drafter on them. Each part "
        "goes on where an interrupted run has ended, if the directory is the same.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the file that is written")
    _add_model(parser)
    add("--prompts", type=Path, help="JSON lines with prompts; without, the model writes its own")
    add("--directory", type=Path, help="where texts and states are kept (WEIGHTS.training)")
    add(
        "--kind",
        default="eagle",
        choices=("eagle", "medusa", "hydra", "kangaroo"),
        help="the kind of drafter (eagle)",
    )
    add("--tokens", type=int, default=400_000, help="tokens of answers that the model writes (400000)")
    add("--states-bytes", type=int, default=4_000_000_000, help="the most bytes of states on disk (4e9)")
    add("--vocabulary", type=int, default=8192, help="how many tokens the drafter may propose (8192)")
    add("--epochs", type=float, default=6.0, help="times that each text is read (6)")
    add("--minutes", type=float, default=60.0, help="the training ends after so many (60)")
    add(
        "--loss",
        default="forward-kl",
        help="what is minimised; docs/learned-drafts.md lists the losses (forward-kl)",
    )
    add(
        "--reference",
        type=Path,
        help="weights that were trained before: learn what can still be learned (AdaSPEC)",
    )
    add(
        "--selected",
        type=float,
        default=0.4,
        help="with --reference, the share of positions that are learned (0.4)",
    )
    add("--batch", type=int, default=8, help="texts of a step (8)")
    add("--learning-rate", type=float, default=1e-3, help="of the first steps (0.001)")
    add("--steps-ahead", type=int, default=3, help="tokens that it learns to guess in a row (3)")
    add("--seed", type=int, default=0, help="of texts and training (0)")
    add("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=_train)


def _add_evaluate(actions: Any) -> None:
    parser = actions.add_parser(
        "evaluate",
        help="measure tokens per pass, acceptance and speed",
        description="Answer requests with and without the drafter, and report tokens per pass, acceptance by "
        "position, and how many times faster the answers come.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the weights")
    _add_model(parser)
    add("--prompts", type=Path, help="JSON lines with prompts; without, the model writes its own")
    add("--requests", type=int, default=24, help="how many requests (24)")
    add("--alone", action="store_true", help="without the default drafters")
    add("--temperature", type=float, default=0.0, help="of the answers (0: greedy)")
    add("--seed", type=int, default=1_000_003, help="of the requests; another one than that of the training")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=_evaluate)


def _add_trim(actions: Any) -> None:
    parser = actions.add_parser(
        "trim",
        help="let a drafter propose fewer tokens",
        description="Keep the tokens that texts consist of most often, and write the weights to another file.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the weights")
    add("trimmed", type=Path, help="the file that is written")
    add("--texts", type=Path, required=True, help="texts that `train` has collected: DIRECTORY/texts.jsonl")
    add("--vocabulary", type=int, default=4096, help="how many tokens the drafter may propose (4096)")
    parser.set_defaults(run=_trim)


def _add_model(parser: Any) -> None:
    parser.add_argument("--model", help="name or path of a transformers model (the embedded one)")
    parser.add_argument("--device", help="where it runs, as torch spells it")
    parser.add_argument("--dtype", help="of its weights")


def _train(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.features import compute_features
        from structgen.draft_training.recipes import Recipe, layers_read, train_drafter
        from structgen.draft_training.texts import collect_texts
        from structgen.draft_training.training import TrainingOptions
        from structgen.speculative.learned import load_weights, save_weights

    options = TrainingOptions(
        epochs=arguments.epochs,
        minutes=arguments.minutes,
        batch=arguments.batch,
        learning_rate=arguments.learning_rate,
        steps_ahead=arguments.steps_ahead,
        loss=arguments.loss,
        selected=arguments.selected,
        seed=arguments.seed,
    )
    reference = None if arguments.reference is None else load_weights(arguments.reference)
    recipe = Recipe(arguments.kind, arguments.vocabulary, reference, options)
    directory = arguments.directory or arguments.weights.with_name(arguments.weights.name + ".training")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory} cannot be made: {error}") from error
    model = _model(arguments)
    shown = not arguments.quiet
    texts = collect_texts(
        model,
        lambda first: _requests(model, arguments.prompts, arguments.seed, first),
        directory / "texts.jsonl",
        tokens=arguments.tokens,
        origin={"model": arguments.model, "prompts": _content(arguments.prompts)},
        seed=arguments.seed,
        progress=shown,
    )
    features = compute_features(
        model,
        texts,
        directory / "states",
        layers_read(model),
        most_bytes=arguments.states_bytes,
        progress=shown,
    )
    save = directory / f"{arguments.weights.stem}.training.pt"
    weights, training = train_drafter(model, features, recipe, save=save, resume=True, progress=shown)
    save_weights(weights, arguments.weights)
    last = training.best
    print(
        f"{arguments.weights}: {arguments.weights.stat().st_size / 1e6:.1f} MB; on {training.held_out} texts that were "
        f"set apart, the first token is right in {last.right[0]:.0%}, and a draft of {len(last.right)} gives "
        f"{last.tokens_per_pass:.2f} tokens a pass"
    )
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.evaluation import evaluate_drafters
        from structgen.speculative import Speculation
        from structgen.speculative.learned import load_drafter

    model = _model(arguments)
    if arguments.requests < 1:
        raise InputError("--requests is a number above 0")
    drafter = load_drafter(arguments.weights, model)
    drafters = [drafter] if arguments.alone else [*Speculation().drafters, drafter]
    asked = itertools.islice(_requests(model, arguments.prompts, arguments.seed), arguments.requests)
    found = evaluate_drafters(
        model,
        asked,
        drafters,
        temperature=arguments.temperature,
        seed=arguments.seed,
        progress=not arguments.quiet,
    )
    if not found:
        raise InputError("there is no request to answer")
    print(json.dumps([_figures(each) for each in found], indent=2) if arguments.json else _table(found))
    return 0


def _trim(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.texts import read_texts
        from structgen.draft_training.trimming import trimmed
        from structgen.speculative.learned import load_weights, save_weights

    weights = trimmed(load_weights(arguments.weights), read_texts(arguments.texts), arguments.vocabulary)
    save_weights(weights, arguments.trimmed)
    print(f"{arguments.trimmed}: {len(weights.token_ids)} tokens")
    return 0


def _content(prompts: Path | None) -> str | None:
    """Return a hash of the file of prompts."""
    try:
        return None if prompts is None else hashlib.sha256(prompts.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"the prompts cannot be read: {prompts}: {error}") from error


def _model(arguments: argparse.Namespace) -> Any:
    given = {name: getattr(arguments, name) for name in ("device", "dtype") if getattr(arguments, name)}
    return load_model(arguments.model, **given)


def _requests(model: Any, prompts: Path | None, seed: int, first: int = 0) -> Iterator[Request]:
    """Return the requests after the first ones: those of a file, or those that the model writes."""
    from structgen.draft_training.requests import requests_of_file, written_requests

    if prompts is None:
        return written_requests(model, seed=seed, first=first)
    return iter(requests_of_file(model, prompts)[first:])


def _figures(found: Evaluation) -> dict[str, Any]:
    low, high = found.speed_interval()
    return {
        "kind": found.kind,
        "requests": len(found.ratios),
        "tokens_per_pass": round(found.tokens_per_pass, 3),
        "speed": round(found.speed, 3),
        "speed_interval": [round(low, 3), round(high, 3)],
        "drafted": found.drafted,
        "accepted": found.accepted,
        "acceptance_by_position": [round(share, 3) for share in found.acceptance()],
        "same_texts": found.same,
    }


def _table(found: list[Evaluation]) -> str:
    lines = [
        "kind           requests  tokens/pass  times as fast (95 %)   accepted, by position  same texts",
    ]
    for each in found:
        low, high = each.speed_interval()
        shares = " ".join(f"{share:.0%}" for share in each.acceptance()[:4]) or "no draft"
        lines.append(
            f"{each.kind:<14.14} {len(each.ratios):>8}  {each.tokens_per_pass:>11.2f}  "
            f"{each.speed:>5.2f} ({low:.2f} to {high:.2f})    {shares:<21}  {each.same} of {len(each.ratios)}"
        )
    return "\n".join(lines)
