"""``structgen draft``: train, evaluate and trim learned drafters of a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from structgen.extras import needed

from .draft_evaluate import add_evaluate
from .draft_heads import add_train_acceptance, add_train_judge
from .draft_inputs import (
    add_model,
    add_texts,
    check_files,
    check_target,
    check_text_options,
    directory_of,
    features_of,
    model_of,
    outcome,
    with_options,
)
from .draft_presets import add_preset, check_corpora, kind_of, read_corpora, train_preset
from .inputs import InputError
from .parsing import Commands

__all__ = ["add_command"]

_DESCRIPTION = """\
Make a model faster with a learned drafter: a small network that reads the model's hidden states and guesses its next
tokens. The model checks every guess, so texts stay the same. docs/learned-drafts.md explains it.

  structgen draft train drafter.safetensors
  structgen draft evaluate drafter.safetensors
  structgen generate --drafter drafter.safetensors "Tell me about rivers."
"""


_LEARNING_RATES = {"prompt-tokens": 1e-2}
"""Of the first steps, for each kind that does not start with 0.001."""


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
    add_evaluate(actions)
    _add_trim(actions)
    add_train_acceptance(actions)
    add_train_judge(actions)


def _add_train(actions: Any) -> None:
    parser = actions.add_parser(
        "train",
        help="let the model write texts, and train a drafter on them",
        description="Let the model write texts, compute its hidden states, and train a drafter on them. Each part "
        "goes on where an interrupted run has ended, if the directory is the same.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the file that is written")
    add_model(parser)
    add_texts(parser, tokens=400_000, seed=0)
    add_preset(parser)
    add(
        "--kind",
        choices=("eagle", "medusa", "hydra", "kangaroo", "prompt-tokens", "layers"),
        help="the kind of drafter (eagle)",
    )
    add(
        "--exits",
        type=int,
        nargs="+",
        metavar="LAYERS",
        help="with --kind layers, after how many layers the draft model has exits; the last is its depth (1 2)",
    )
    add("--vocabulary", type=int, default=8192, help="how many tokens the drafter may propose (8192)")
    add("--epochs", type=float, default=6.0, help="times that each text is read (6)")
    add("--minutes", type=float, default=60.0, help="the training ends after so many (60)")
    add(
        "--loss",
        default="forward-kl",
        help="what is minimised; docs/learned-drafts.md lists the losses (forward-kl)",
    )
    add("--start", type=Path, help="weights that the training starts from, of an earlier one (random)")
    add(
        "--reference",
        type=Path,
        help="weights that were trained before: learn what can still be learned (AdaSPEC)",
    )
    add(
        "--selected",
        type=float,
        help="with --reference, the share of positions that are learned (0.4)",
    )
    add(
        "--on-policy",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="with --kind layers, the share of batches with texts that the draft model writes itself (0)",
    )
    add("--batch", type=int, default=8, help="texts of a step (8)")
    add("--learning-rate", type=float, help="of the first steps (0.001; prompt-tokens: 0.01)")
    add("--steps-ahead", type=int, default=3, help="tokens that it learns to guess in a row (3)")
    add("--blocks", type=int, default=1, help="medusa, hydra: residual blocks of each head (1)")
    add("--inner", type=int, default=0, help="medusa, hydra: width of the inner layer of a block (none)")
    add(
        "--context-layer",
        action="store_true",
        help="medusa, hydra: a decoder layer reads the states of the whole text, and the heads its output",
    )
    add("--draft-layer", action="store_true", help="hydra: a decoder layer reads the drafted tokens (Clover)")
    add(
        "--trigrams",
        action="store_true",
        help="hydra: heads read the last three tokens, encoded together (Chimera)",
    )
    add(
        "--features",
        default="eagle-3",
        choices=("eagle-3", "eagle-1"),
        help="eagle: the states of three layers, or the last one, fused with the embedding of the next token (eagle-3)",
    )
    add(
        "--feature-sampling",
        action="store_true",
        help="eagle: the token picks from the state before it is read",
    )
    add(
        "--alignment",
        default="none",
        choices=("none", "full", "partial"),
        help="eagle: states also learn to resemble the model's, all or an output of their own (none)",
    )
    add("--tokens-a-pass", type=int, default=1, help="eagle: tokens that one pass of the layer gives (1)")
    add(
        "--glancing",
        type=float,
        help="with --tokens-a-pass, how many tokens of a pass are shown to those after them, as a share of the wrong "
        "guesses (0.45)",
    )
    add("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=with_options(_train))


def _add_trim(actions: Any) -> None:
    parser = actions.add_parser(
        "trim",
        help="let a drafter propose fewer tokens",
        description="Keep the tokens that texts consist of most often, and write the weights to another file. A "
        "drafter of another project (Medusa, EAGLE) is read for its model, and written as a file of structgen.",
    )
    add = parser.add_argument
    add("weights", type=Path, help="the weights, or the folder of a drafter of another project")
    add("trimmed", type=Path, help="the file that is written")
    add("--texts", type=Path, required=True, help="texts that `train` has collected: DIRECTORY/texts.jsonl")
    add("--vocabulary", type=int, default=4096, help="how many tokens the drafter may propose (4096)")
    add("--any-base", action="store_true", help="read a folder that names another model than this one, too")
    add_model(parser)
    parser.set_defaults(run=with_options(_trim))


def _train(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.eagle import EagleOptions
        from structgen.draft_training.heads import HeadOptions
        from structgen.draft_training.recipes import Recipe, train_drafter
        from structgen.draft_training.training import TrainingOptions
        from structgen.speculative.learned import save_weights
        from structgen.speculative.learned.loading import checked_weights

    kind, rate = kind_of(arguments), arguments.learning_rate
    _check_effects(arguments, kind)
    if rate is None:
        rate = _LEARNING_RATES.get(kind, 1e-3)
    options = TrainingOptions(
        epochs=arguments.epochs,
        minutes=arguments.minutes,
        batch=arguments.batch,
        learning_rate=rate,
        steps_ahead=arguments.steps_ahead,
        loss=arguments.loss,
        selected=TrainingOptions.selected if arguments.selected is None else arguments.selected,
        seed=arguments.seed,
        on_policy=arguments.on_policy,
    )
    before = {
        name: checked_weights(path)
        for name in ("reference", "start")
        if (path := getattr(arguments, name)) is not None
    }
    eagle = EagleOptions(
        arguments.feature_sampling,
        arguments.alignment,
        tokens_a_pass=arguments.tokens_a_pass,
        glancing=EagleOptions.glancing if arguments.glancing is None else arguments.glancing,
        features=arguments.features,
    )
    heads = HeadOptions(
        arguments.blocks,
        arguments.inner,
        arguments.context_layer,
        arguments.draft_layer,
        arguments.trigrams,
    )
    exits = Recipe.exits if arguments.exits is None else tuple(arguments.exits)
    recipe = Recipe(
        kind, arguments.vocabulary, options=options, eagle=eagle, heads=heads, exits=exits, **before
    )
    check_corpora(arguments)
    read = (arguments.start, arguments.reference, arguments.prompts, *arguments.corpus)
    check_target(arguments.weights, *(path for path in read if path is not None))
    check_files(prompts=arguments.prompts)
    check_text_options(arguments)
    directory = directory_of(arguments, arguments.weights)
    model = model_of(arguments)
    corpora = read_corpora(model, arguments)
    features = features_of(model, arguments, arguments.weights)
    if kind == "prompt-tokens":  # gradients need the weights as they are
        model = None
        model = model_of(arguments, pack=False)
    save = directory / f"{arguments.weights.stem}.training.pt"
    if arguments.preset is not None:
        weights, training = train_preset(model, corpora, features, recipe, arguments, save)
    else:
        weights, training = train_drafter(
            model, features, recipe, save=save, resume=True, progress=not arguments.quiet
        )
    save_weights(weights, arguments.weights)
    print(f"{arguments.weights}: {_size(arguments.weights)}; {outcome(training)}")
    return 0


def _check_effects(arguments: argparse.Namespace, kind: str) -> None:
    """Raise `InputError` if an option is given that has no effect without another one."""
    for option, is_used, other in (
        ("exits", kind == "layers", "--kind layers"),
        ("selected", arguments.reference is not None, "--reference FILE"),
        ("glancing", arguments.tokens_a_pass > 1, "--tokens-a-pass of 2 or more"),
    ):
        if getattr(arguments, option) is not None and not is_used:
            raise InputError(
                f"--{option} has no effect without {other}", hint=f"Leave it out, or add {other}."
            )


def _size(path: Path) -> str:
    """Return the size of a file in words."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def _trim(arguments: argparse.Namespace) -> int:
    with needed("structgen draft", "transformers"):
        from structgen.draft_training.texts import check_vocabulary, read_texts
        from structgen.draft_training.trimming import check_trimming, trimmed
        from structgen.speculative.learned import load_drafter, save_weights
        from structgen.speculative.learned.checkpoints import is_checkpoint
        from structgen.speculative.learned.loading import check_drafter, checked_weights

    path: Path = arguments.weights
    if not arguments.texts.is_file():
        raise InputError(f"the texts cannot be read: there is no file {arguments.texts}")
    is_own = not is_checkpoint(path)
    if is_own:
        _check_no_model(arguments)
        weights = checked_weights(path)
    else:
        check_drafter(path)
    read = [path] if is_own else [each for each in _folder_of(path).iterdir() if each.is_file()]
    check_target(arguments.trimmed, arguments.texts, *read)
    if is_own:
        check_vocabulary(arguments.texts, weights.vocabulary)
    texts, most = read_texts(arguments.texts), arguments.vocabulary
    check_trimming(texts, most)
    if not is_own:
        weights = load_drafter(path, model_of(arguments), any_base=arguments.any_base).weights
        check_vocabulary(arguments.texts, weights.vocabulary)
    weights = trimmed(weights, texts, most)
    save_weights(weights, arguments.trimmed)
    print(f"{arguments.trimmed}: {len(weights.token_ids)} tokens")
    return 0


def _check_no_model(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if a model is named for a file that structgen wrote, which is trimmed without one."""
    for option in ("model", "device", "dtype", "any_base"):
        if getattr(arguments, option):
            raise InputError(
                f"--{option.replace('_', '-')} has no effect: {arguments.weights} is trimmed without a model",
                hint="Leave it out.",
            )


def _folder_of(checkpoint: Path) -> Path:
    """Return the folder of a checkpoint that is named by it, or by the file of its tensors."""
    return checkpoint if checkpoint.is_dir() else checkpoint.parent
