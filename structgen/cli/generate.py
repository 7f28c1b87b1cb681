"""``structgen generate PROMPT``: text from a model under a constraint."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from structgen.extras import needed

from .inputs import (
    InputError,
    add_constraint_arguments,
    check_drafter,
    constraint_argument,
    load_model,
    read_text,
)
from .parsing import Commands

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel
    from structgen.protocols import Prompt
    from structgen.results import Result
    from structgen.speculative import Speculation
    from structgen.types import OutputType

__all__ = ["add_command"]

_DESCRIPTION = """Generate text from a language model under a constraint; without one the text is free.

exit status: 0 the text is complete and valid; 1 it is not (the token budget ended first, ...), and the
message shows what there is; 2 the request cannot be made"""

_SAMPLING = {
    "seed": (int, "draw at random, repeatably"),
    "max_tokens": (int, "at most this many tokens"),
    "temperature": (float, "0 is greedy"),
    "top_k": (int, "draw from the k most probable tokens"),
    "top_p": (float, "draw from the most probable tokens of this mass"),
    "min_p": (float, "drop tokens less probable than this share of the best one's"),
    "frequency_penalty": (float, "subtracted from a token's logit for each time the text contains it"),
    "presence_penalty": (float, "subtracted from the logits of all tokens that the text contains"),
    "repetition_penalty": (float, "above 1, tokens of the prompt and the text are less probable"),
    "attempts": (
        int,
        "answers the model may give until one is valid; it is shown what is wrong with the last one",
    ),
}


def add_command(commands: Commands) -> None:
    """Add ``generate`` to the commands."""
    parser = commands.add_parser(
        "generate",
        help="text from a model under a constraint",
        usage="structgen generate [options] PROMPT\n"
        "       structgen generate [options] PROMPT (--schema FILE | --regex PATTERN | --choice TEXT ...)\n"
        "       structgen generate [options] PROMPT --type MODULE:NAME\n"
        "       structgen generate [options] PROMPT (--lark FILE | --gbnf FILE | --ebnf FILE | --grammar NAME)",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt, or - for standard input")
    parser.add_argument("--model", metavar="NAME", help="a path or name; the embedded model by default")
    parser.add_argument("--system", metavar="TEXT", help="a system message")
    parser.add_argument(
        "--describe",
        action=argparse.BooleanOptionalAction,
        help="write the fields of the type before the prompt (by default for types of one object)",
    )
    parser.add_argument("--stream", action="store_true", help="print the text as it grows")
    parser.add_argument(
        "--details", action="store_true", help="a JSON object with text, tokens, weights and timing instead"
    )
    add_constraint_arguments(parser, schema_flag=True)
    group = parser.add_argument_group("sampling")
    for name, (kind, help_text) in _SAMPLING.items():
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, type=kind, metavar="N" if kind is int else "X", help=help_text)
    group.add_argument(
        "--close-within-budget",
        action="store_true",
        default=None,
        help="steer to a complete text before the budget ends",
    )
    group.add_argument(
        "--no-speculate",
        dest="speculate",
        action="store_false",
        default=None,
        help="read one token at a time: the same text, later",
    )
    group.add_argument(
        "--drafter",
        metavar="FILE",
        help="a learned drafter, which makes the same text faster: structgen draft, or a folder of Medusa or EAGLE",
    )
    group.add_argument(
        "--any-base", action="store_true", help="use the folder although it names another model than this one"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Return the text on standard output."""
    from structgen.generation.options import make_options
    from structgen.types import output_type

    # Everything that can be wrong with the arguments is found before a model is loaded.
    if arguments.stream and arguments.details:
        raise InputError(
            "--stream and --details cannot be given together",
            hint="--details prints one JSON object, when the text has ended.",
        )
    from_input = [arguments.schema, arguments.lark, arguments.gbnf, arguments.ebnf]
    if arguments.prompt == "-" and "-" in from_input:
        raise InputError("the prompt and the constraint cannot both come from standard input")
    constraint = constraint_argument(arguments, arguments.schema)
    kind = output_type(str if constraint is None else constraint)
    names = (*_SAMPLING, "close_within_budget", "speculate")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    options = {"exact_weight": arguments.details, **given}
    make_options(options)
    prompt: Any = read_text("-", "prompt") if arguments.prompt == "-" else arguments.prompt
    if arguments.system is not None:
        messages = (("system", arguments.system), ("user", prompt))
        prompt = [{"role": role, "content": text} for role, text in messages]
    if arguments.drafter is not None and arguments.speculate is False:
        raise InputError("--drafter and --no-speculate cannot be given together")
    if arguments.any_base and arguments.drafter is None:
        raise InputError("--any-base has no effect without a drafter", hint="Add --drafter FOLDER.")
    if arguments.drafter is not None:
        check_drafter(arguments.drafter, any_base=arguments.any_base)
    model = load_model(arguments.model)
    if arguments.drafter is not None:
        options["speculate"] = _with_drafter(model, arguments.drafter, any_base=arguments.any_base)
    result = _draw(model, prompt, kind, arguments.describe, options, show=arguments.stream)
    if arguments.details:
        json.dump(_details(result), sys.stdout, indent=2, ensure_ascii=False)
        print()
    elif not arguments.stream and result.error is None:
        print(result.text)
    if result.error is not None:
        raise result.error
    if result.finish == "length":
        count = len(result.tokens)
        print(f"structgen: cut off after {count} token{'s' * (count != 1)} (--max-tokens)", file=sys.stderr)
    return 0


def _with_drafter(model: HuggingFaceModel, path: str, *, any_base: bool) -> Speculation:
    """Return the default drafters and the one of a file or folder."""
    with needed("--drafter", "transformers"):
        from structgen.speculative.learned import speculation_with

    return speculation_with(path, model, any_base=any_base)


def _draw(
    model: HuggingFaceModel,
    prompt: Prompt,
    kind: OutputType,
    describe: bool | None,
    options: dict[str, Any],
    *,
    show: bool,
) -> Result[Any]:
    """Return one result; with `show` the text is printed as it grows."""
    from structgen.api import run, text_steps
    from structgen.results import Result

    if not show:
        result: Result[Any] = run(model, prompt, kind, describe=describe, **options)
        return result
    shown = ""
    generation = None
    for step in text_steps(model, prompt, kind, describe, None, options):
        generation = step.generation
        # Bytes that are no whole character yet read as a replacement character; they are shown when whole.
        text = step.text if generation is not None else step.text.rstrip("�")
        if not text.startswith(shown):  # a step back from a dead end, or another attempt
            print(" [went back]")
            shown = ""
        print(text[len(shown) :], end="", flush=True)
        shown = text
    print()
    assert generation is not None
    return Result(kind, generation)


def _details(result: Result[Any]) -> dict[str, Any]:
    generation = asdict(result.generation)
    generation["error"] = None if result.error is None else str(result.error)
    return generation
