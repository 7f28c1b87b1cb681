"""Readers of the forms that schemas come in; each yields items as it reads.

- *lines*: JSON lines, plain or gzipped, MaskBench's form: ``schema``, mostly ``_file`` (a name) and ``tests``
  (``{"valid": ..., "data": ...}``).
- *suite*: the JSON Schema test suite, drafts 4 to 2020-12, from a check-out or a tar archive. An item is a group;
  without ``$schema`` it gets that of its draft. Left out, as they depend on more than the schema: groups with
  documents of ``localhost:1234``, and files that have ``format`` as a mere annotation.
- *schemas*: a file, or all ``*.json`` and ``*.jsonl`` of a folder. A file with both ``schema`` and ``tests`` is an
  item of MaskBench's form, any other is a schema.
- *hub*: rows with ``json_schema`` (as text) and ``unique_id``, without instances, through the library `datasets`.

Invariant: what cannot be read is an `OptionError` that names file and line; nothing is skipped in silence but the
above. Files and lines are bounded, nesting by Python's own limit. Cost: one item, or one file of the suite, at a time.
"""

from __future__ import annotations

import gzip
import importlib
import json
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from structgen.errors import OptionError

from .items import PARTS, Item, part_of

__all__ = ["hub", "lines", "schemas", "suite"]

_LONGEST = 64 << 20
"""Bytes of a line or file."""

_DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_ANNOTATIONS = ("format.json", "optional/format-annotation.json")
_ELSEWHERE = "http://localhost:1234"
_ITEM_HINT = (
    'A line is a schema, or an object with "schema", and perhaps "tests" of {"valid": ..., "data": ...}.'
)


def lines(path: Path) -> Iterator[Item]:
    """Yield the items of a file of JSON lines."""
    number = 0
    try:
        opened = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
        with opened as file:
            while line := file.readline(_LONGEST + 1):
                number += 1
                where = f"{path}, line {number}"
                if len(line) > _LONGEST:
                    raise OptionError(f"{where} is longer than {_LONGEST:,} bytes")
                if line.strip():
                    yield _item(_parsed(line, where), where, where)
    except (OSError, EOFError, zlib.error) as error:
        raise OptionError(f"cannot read the data {str(path)!r}: {error}") from None


def schemas(path: Path) -> Iterator[Item]:
    """Yield a file of one schema or of lines, or all such files in a folder and below it."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file))
        if not files:
            raise OptionError(f"the folder {str(path)!r} has no *.json or *.jsonl file")
        for file in files:
            yield from _of_file(file, file.relative_to(path).as_posix())
    else:
        yield from _of_file(path, path.name)


def suite(path: Path) -> Iterator[Item]:
    """Yield the groups of the JSON Schema test suite."""
    has_rows = False
    for name, text in _members(path):
        draft, _, file = name.partition("/")
        if draft not in _DRAFTS or file in _ANNOTATIONS:
            continue
        groups = _parsed(text, f"{path}, {name}")
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            where = f"{name.removesuffix('.json')}#{number}"
            item = _item(group, where, f"{path}, {name}, group {number}")
            if _ELSEWHERE in json.dumps(item.schema):
                continue
            has_rows = True
            yield Item(
                where, _section(draft, file), _with_draft(item.schema, draft), item.tests, settled=True
            )
    if not has_rows:
        raise OptionError(
            f"{str(path)!r} holds no JSON Schema test suite",
            hint="Give a check-out of the suite, or a tar archive of one: a folder `tests` with `draft7` and others.",
        )


def hub(spec: str) -> Iterator[Item]:
    """Yield the rows of OWNER/NAME[:PART] of the Hugging Face hub, or of a folder that `datasets` can load."""
    name, _, part = spec.partition(":")
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise OptionError(
            f"the data set 'hub:{spec}' needs the library `datasets` ({error})",
            hint="Install it with: pip install datasets. Or give a file: maskbench:PATH.",
        ) from None
    for config in (part,) if part else tuple(PARTS):
        try:
            splits = library.load_dataset(name, config, streaming=True)
            for split in splits.values():
                for row in split:
                    yield _row(row, config, f"hub:{name}:{config}")
        except OptionError:
            raise
        except Exception as error:  # noqa: BLE001 — the library raises errors of the network, of formats, its own
            raise OptionError(
                f"cannot load part {config!r} of {name!r} from the hub: {type(error).__name__}: {_short(error)}",
                hint=f"The parts are {', '.join(PARTS)}. Without a network, give a file: maskbench:PATH.",
            ) from None


def _row(row: Any, part: str, where: str) -> Item:
    try:
        schema, name = row["json_schema"], str(row["unique_id"])
    except (KeyError, TypeError) as error:
        raise OptionError(f"{where} has rows without 'json_schema' and 'unique_id': {error}") from None
    parsed = _parsed(schema.encode(), f"{where}, {name}") if isinstance(schema, str) else schema
    return Item(name, part, parsed, None)


def _of_file(file: Path, name: str) -> Iterator[Item]:
    if file.name.endswith((".jsonl", ".jsonl.gz")):
        yield from lines(file)
        return
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST + 1)
    except OSError as error:
        raise OptionError(f"cannot read the schema {str(file)!r}: {error.strerror or error}") from None
    if len(text) > _LONGEST:
        raise OptionError(f"{file} is longer than {_LONGEST:,} bytes")
    parsed = _parsed(text, str(file))
    part = part_of(file.name)
    if part == "other" and "/" in name:
        part = name.split("/")[0]
    if isinstance(parsed, dict) and "schema" in parsed and "tests" in parsed:
        item = _item(parsed, name, str(file))
        yield Item(name, part, item.schema, item.tests)
    elif isinstance(parsed, dict | bool):
        yield Item(name, part, parsed, None)
    else:
        raise OptionError(f"{file} is no schema but a {type(parsed).__name__}", hint="A schema is an object.")


def _is_data(file: Path) -> bool:
    return file.name.endswith((".json", ".jsonl", ".jsonl.gz"))


def _parsed(text: bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(
            f"{where} is no item: {type(error).__name__}: {_short(error)}", hint=_ITEM_HINT
        ) from None


def _item(record: Any, name: str, where: str) -> Item:
    if isinstance(record, dict) and not {"schema", "tests"} & record.keys():
        return Item(name, part_of(name), record, None)
    try:
        schema, tests = record["schema"], record.get("tests")
        pairs = tuple((_label(test["valid"]), test["data"]) for test in tests) if tests else None
        name = str(record.get("_file") or name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(
            f"{where} is no item: {type(error).__name__}: {_short(error)}", hint=_ITEM_HINT
        ) from None
    return Item(name, part_of(name), schema, pairs)


def _label(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f'"valid" is {value!r:.40}, not true or false')
    return value


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name below `tests/` and text of every file of the suite, in the order of names or of the archive."""
    try:
        if path.is_dir():
            root = path / "tests" if (path / "tests").is_dir() else path
            for draft in _DRAFTS:
                for file in sorted((root / draft).rglob("*.json")):
                    with file.open("rb") as opened:
                        yield file.relative_to(root).as_posix(), opened.read(_LONGEST)
            return
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name
                name = name.split("tests/", 1)[1] if "tests/" in name else ""
                if member.isfile() and name.endswith(".json"):
                    yield name, cast("BinaryIO", archive.extractfile(member)).read(_LONGEST)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
        raise OptionError(f"cannot read the suite {str(path)!r}: {error}") from None


def _section(draft: str, file: str) -> str:
    if file.startswith("optional/format/"):
        return f"{draft} format"
    return f"{draft} optional" if file.startswith("optional/") else draft


def _with_draft(schema: Any, draft: str) -> Any:
    return (
        {"$schema": _DRAFTS[draft], **schema}
        if isinstance(schema, dict) and "$schema" not in schema
        else schema
    )


def _short(error: BaseException) -> str:
    text = str(error)
    return text if len(text) <= 300 else text[:300] + "…"
