"""Turn arguments into what they name: files, schemas, constraints, types, vocabularies.

Invariant: any fault of an argument is an `InputError` that names the argument.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structgen.constraints.json_schema.unique_keys import loads_unique
from structgen.extras import install_command, needed

from .files import InputError, for_the_shell, naming_options, read_text
from .grammars import add_grammar_arguments, grammar_argument, grammars_given

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel
    from structgen.vocabulary import Vocabulary

__all__ = [
    "InputError",
    "add_constraint_arguments",
    "add_schema_options",
    "check_any_base",
    "check_drafter",
    "constraint_argument",
    "for_the_shell",
    "import_name",
    "load_model",
    "naming_options",
    "read_text",
    "schema_options",
    "schema_text",
    "vocabulary_argument",
]

BYTES = "bytes"
_TOKENIZER_FILES = (".json", ".gguf", ".model", "/", os.sep)


def schema_text(name: str) -> str:
    """Return a schema given as a path, as ``-``, or as JSON itself."""
    if not name.strip():
        raise InputError("the schema is empty", hint="Give a file, - for standard input, or the JSON itself.")
    if name.lstrip()[:1] in ("{", "[") or name.strip() in ("true", "false"):
        return name
    return read_text(name, "schema")


# Constraints.


def add_constraint_arguments(parser: argparse.ArgumentParser, *, schema_flag: bool) -> None:
    """Add the options that name a constraint; exactly one of them is given."""
    group = parser.add_argument_group("constraint (one of these)")
    if schema_flag:
        group.add_argument("--schema", metavar="FILE", help="a JSON Schema: a file, - or the JSON itself")
    group.add_argument("--regex", metavar="PATTERN", help="a regular expression for the whole text")
    group.add_argument("--choice", metavar="TEXT", action="append", help="one of several texts (repeat it)")
    group.add_argument(
        "--type", metavar="MODULE:NAME", help="a Python type or constraint, such as app.models:Person"
    )
    add_grammar_arguments(parser)
    add_schema_options(parser)


def add_schema_options(parser: argparse.ArgumentParser) -> None:
    """Add the fields of `JsonSchemaOptions` as options."""
    group = parser.add_argument_group("JSON text")
    group.add_argument("--whitespace", choices=["flexible", "compact", "json.dumps", "indented"])
    group.add_argument("--indent", type=int, metavar="N", help="--whitespace indented, by N spaces")
    group.add_argument(
        "--ordered", action="store_true", default=None, help="object keys in the order of `properties`"
    )
    group.add_argument("--escapes", choices=["canonical", "all"], help="how strings may be escaped")
    group.add_argument(
        "--formats", choices=["assert", "annotate", "dialect"], help="whether `format` constrains"
    )
    group.add_argument("--integers", choices=["any", "digits"], help="how integers may be written")
    group.add_argument(
        "--closed",
        action="store_true",
        default=None,
        help="objects with declared keys have no others, unless the schema speaks of them",
    )
    group.add_argument(
        "--registry",
        metavar="PATH",
        action="append",
        help="documents that references may lead to: a JSON file, or a folder of them (repeat it)",
    )


_REGISTRY_HINT = "Give the path of a JSON file, or of a folder of them."
_OPTION_NAMES = ("whitespace", "ordered", "escapes", "formats", "integers", "closed")


def schema_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given."""
    named = {name: getattr(arguments, name) for name in _OPTION_NAMES}
    if arguments.indent is not None:
        if named["whitespace"] not in (None, "indented"):
            raise InputError(f"--indent does not go with --whitespace {named['whitespace']}")
        from structgen.constraints.json_schema import Whitespace

        named["whitespace"] = Whitespace.indented(arguments.indent)
    named["registry"] = None if arguments.registry is None else _documents(arguments.registry)
    return {name: value for name, value in named.items() if value is not None}


def _documents(paths: list[str]) -> dict[str, Any]:
    """Return the JSON documents at `paths`, by their own identifiers and by their places in the folder."""
    documents: dict[str, tuple[Path, Any]] = {}
    for name in paths:
        folder = Path(name)
        files = sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]
        if not files:
            raise InputError(f"--registry {name!r} is a folder without JSON files")
        for file in files:
            try:
                document = loads_unique(read_text(str(file), "--registry", _REGISTRY_HINT))
            except ValueError as error:
                raise InputError(f"--registry {str(file)!r} is not JSON: {error}") from None
            own = document.get("$id", document.get("id")) if isinstance(document, dict) else None
            relative_name = file.relative_to(folder).as_posix() if folder.is_dir() else file.name
            names = (
                {relative_name, own.removesuffix("#")} if isinstance(own, str) and own else {relative_name}
            )
            for uri in sorted(names):
                other, _ = documents.setdefault(uri, (file, document))
                if other.resolve() != file.resolve():
                    raise InputError(
                        f"--registry: {str(other)!r} and {str(file)!r} are both named {uri!r}",
                        hint="A document is named by its $id and by its path in the folder that is given.",
                    )
    return {uri: document for uri, (_, document) in documents.items()}


def constraint_argument(arguments: argparse.Namespace, schema: str | None) -> Any:
    """Return the output type or constraint that the arguments name; None if they name no constraint."""
    given = {
        "a schema": schema,
        "--regex": arguments.regex,
        "--choice": arguments.choice,
        "--type": arguments.type,
        **grammars_given(arguments),
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"{' and '.join(named)} cannot be given together", hint="Give one constraint.")
    options = schema_options(arguments)
    if options and schema is None:
        if arguments.indent is not None:
            options.pop("whitespace")
            options["indent"] = arguments.indent
        flags = " and ".join(f"--{name}" for name in options)
        raise InputError(f"{flags} can only be given with a JSON Schema")
    if (grammar := grammar_argument(arguments)) is not None:
        return grammar
    if schema is not None:
        from structgen.constraints.json_schema import json_schema

        return json_schema(schema_text(schema), **options)
    if arguments.regex is not None:
        from structgen.constraints.regex import regex

        return regex(arguments.regex)
    if arguments.choice is not None:
        from structgen.constraints.choice import choice

        return choice(arguments.choice)
    return None if arguments.type is None else import_name(arguments.type)


def import_name(name: str) -> Any:
    """Import ``module:Name``, with the current folder on the path as ``python -m`` has it."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise InputError(
            f"--type {name!r} does not name a type", hint="Write MODULE:NAME, such as app.models:Person."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        target: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"--type {name!r}: module {module_name!r} cannot be imported: {error}",
            hint="Run structgen in the folder that holds the module, or install it.",
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 — the user's own module runs here
        raise InputError(
            f"--type {name!r}: importing {module_name!r} raised {type(error).__name__}: {error}"
        ) from None
    for part in attribute.split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            raise InputError(f"--type {name!r}: {module_name!r} has no {attribute!r}") from None
    return target


# Vocabularies.


def vocabulary_argument(name: str | None) -> Vocabulary:
    """Return a vocabulary: of bytes for ``bytes``, of a tokenizer by path or name, of the embedded model for None."""
    from structgen.vocabulary import Vocabulary

    if name is None:
        if _has("torch") and _has("transformers"):
            return load_model(None).vocabulary
        from structgen.models import load_vocabulary

        return load_vocabulary()
    if name == BYTES:
        return Vocabulary.of_bytes()
    if Path(name).exists():
        return Vocabulary.from_tokenizer(name)
    from structgen.models.loading import looks_local

    if looks_local(name) or name.endswith(_TOKENIZER_FILES):
        raise InputError(
            f"--tokenizer {name!r}: there is no such path",
            hint="Give the path of a tokenizer or of a model's folder, the name of a model, or bytes.",
        )
    return Vocabulary.from_tokenizer(_tokenizer(name))


def _has(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # a package that was put in its place by hand
        return False


def load_model(name: str | None, **options: Any) -> HuggingFaceModel:
    """Return the model of this name, without the progress bars and notes of the libraries that load it.

    Args:
        name: The name; None for the embedded model.
        options: Options of `structgen.load`.
    """
    _be_quiet()
    from structgen.models import load

    return load(name, **options)


def check_drafter(path: str, *, in_batches: bool = False, any_base: bool = False) -> None:
    """Check the value of ``--drafter`` before a model is loaded; see `check_drafter` of the library.

    Args:
        path: The value.
        in_batches: See there.
        any_base: Whether ``--any-base`` is given.
    """
    _be_quiet()
    with needed("--drafter", "transformers"):
        from structgen.speculative.learned.loading import check_drafter as check

    check(path, in_batches=in_batches)
    check_any_base([path], any_base=any_base)


def check_any_base(drafters: Sequence[str | Path], *, any_base: bool) -> None:
    """Raise `InputError` if ``--any-base`` is given, and no drafter is a checkpoint, which may name another model."""
    if not any_base:
        return
    from structgen.speculative.learned.checkpoints import is_checkpoint

    if not any(is_checkpoint(path) for path in drafters):
        raise InputError(
            f"--any-base has no effect: {', '.join(map(str, drafters))}: not of another project",
            hint="Leave it out.",
        )


def _tokenizer(name: str) -> Any:
    _be_quiet()
    try:
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(name, local_files_only=True)
        except (OSError, ValueError):
            # Without a network the libraries retry for a long time, and they are set to be quiet about it.
            print(
                f"structgen: {name!r} is not on this machine; looking on the Hugging Face Hub",
                file=sys.stderr,
            )
        return AutoTokenizer.from_pretrained(name)
    except ImportError:
        raise InputError(
            f"--tokenizer {name!r} is no path, and a name needs transformers",
            hint=f"Install it with: {install_command('transformers')}, or use --tokenizer bytes.",
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"--tokenizer {name!r} cannot be loaded: {str(error).splitlines()[0]}",
            hint="Give the path of a tokenizer, the name of one that can be reached, or bytes.",
        ) from None


def _be_quiet() -> None:
    """Set variables that the libraries read when they are imported; keep those that the user has set."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
