"""Writes tests/oracles/idna_data.py: the tables of IDNA 2008.

Why: which characters an internationalised label may have is a property of the Unicode Character Database that the
standard library knows only in part. Classes, scripts and joining types are read off the `idna` package, the rest
off `unicodedata`; characters that one of the two does not know are left out, so the tables are narrower, never wider.
Run: python tools/make_idna_data.py, then python -m tools.make_host_name_data
"""

import textwrap
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from idna import idnadata
from idna.intranges import _decode_range

TARGET = Path(__file__).parent.parent / "tests/oracles/idna_data.py"
BIDI = ("L", "R", "AL", "AN", "EN", "NSM")


def code_points(ranges: Iterable[int]) -> set[int]:
    points: set[int] = set()
    for encoded in ranges:
        points.update(range(*_decode_range(encoded)))
    return {c for c in points if unicodedata.category(chr(c)) != "Cn"}


def packed(points: Iterable[int]) -> str:
    """Gaps and lengths in turn, base 36."""
    words: list[str] = []
    end = 0
    ordered = sorted(points)
    start = 0
    for i, point in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != point + 1:
            words += [base36(ordered[start] - end), base36(point - ordered[start])]
            end, start = point, i + 1
    return " ".join(words)


def base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
        if not number:
            return digits


def compositions(allowed: set[int]) -> dict[int, set[int]]:
    """For each character, those after which it is not in composed form (NFC)."""
    seconds, firsts = set(), set()
    for point in range(0x110000):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            # subtle: a composed letter may come apart again, if a mark of a lower class follows.
            firsts |= {point, int(parts[0], 16)}
            seconds.add(int(parts[1], 16))
    return {
        second: {
            first
            for first in firsts & allowed
            if not unicodedata.is_normalized("NFC", chr(first) + chr(second))
            and not unicodedata.combining(chr(first))
        }
        for second in seconds & allowed
    }


def tables() -> dict[str, str]:
    valid = code_points(idnadata.codepoint_classes["PVALID"])
    contextual = code_points(
        (*idnadata.codepoint_classes["CONTEXTO"], *idnadata.codepoint_classes["CONTEXTJ"])
    )
    allowed = valid | contextual
    tables = {"PVALID": packed(valid)}
    tables["MARK"] = packed(c for c in valid if unicodedata.category(chr(c)).startswith("M"))
    for name in BIDI:
        tables[f"BIDI_{name}"] = packed(c for c in allowed if unicodedata.bidirectional(chr(c)) == name)
    tables["VIRAMA"] = packed(c for c in valid if unicodedata.combining(chr(c)) == 9)
    for kind in "LRDT":
        tables[f"JOINING_{kind}"] = packed(valid & code_points(idnadata.joining_types[kind]))
    for script in ("Greek", "Hebrew", "Hiragana", "Katakana", "Han"):
        tables[script] = packed(allowed & code_points(idnadata.scripts[script]))
    classes = defaultdict(list)
    for point in allowed:
        classes[unicodedata.combining(chr(point))].append(point)
    for order in sorted(classes):
        if order:
            tables[f"CCC_{order}"] = packed(classes[order])
    for point, bases in sorted(compositions(allowed).items()):
        if bases:
            tables[f"BEFORE_{point:X}"] = packed(bases)
    return tables


def main() -> None:
    lines = [
        '"""Tables of IDNA 2008, RFC 5892; written by tools/make_idna_data.py.',
        "",
        f"Classes of idna for Unicode {idnadata.__version__}, other properties of Unicode "
        f"{unicodedata.unidata_version}.",
        "Each table lists ranges of characters: the gap since the last one and the length less one, base 36.",
        '"""',
        "",
        "TABLES = {",
    ]
    for name, text in tables().items():
        pieces = textwrap.wrap(text, 96) or [""]
        if len(pieces) == 1 and len(name) + len(pieces[0]) < 96:
            lines.append(f'    "{name}": "{pieces[0]}",')
        else:
            lines.append(f'    "{name}": (')
            lines += [f'        "{piece} "' for piece in pieces[:-1]] + [f'        "{pieces[-1]}"']
            lines.append("    ),")
    lines.append("}")
    TARGET.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
