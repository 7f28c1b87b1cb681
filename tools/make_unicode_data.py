"""Writes structgen/constraints/regex/unicode_data.py: scripts and binary properties as compact tables.

Why: `unicodedata` knows general categories but neither scripts nor most binary properties. The ranges are
read off the `regex` package (a development dependency), which carries the Unicode Character Database.
Run: python tools/make_unicode_data.py UNICODE_VERSION   (the version that the installed `regex` states)
"""

import base64
import sys
import textwrap
import zlib
from pathlib import Path

import regex
from regex import _regex_core

BINARY = """
Alphabetic/Alpha ASCII_Hex_Digit/AHex Bidi_Control/Bidi_C Bidi_Mirrored/Bidi_M Case_Ignorable/CI
Cased Dash Default_Ignorable_Code_Point/DI Deprecated/Dep Diacritic/Dia Emoji Emoji_Component/EComp
Emoji_Modifier/EMod Emoji_Modifier_Base/EBase Emoji_Presentation/EPres Extended_Pictographic/ExtPict
Extender/Ext Grapheme_Extend/Gr_Ext Hex_Digit/Hex IDS_Binary_Operator/IDSB IDS_Trinary_Operator/IDST
ID_Continue/IDC ID_Start/IDS Ideographic/Ideo Join_Control/Join_C Logical_Order_Exception/LOE
Lowercase/Lower Math Noncharacter_Code_Point/NChar Pattern_Syntax/Pat_Syn Pattern_White_Space/Pat_WS
Quotation_Mark/QMark Radical Regional_Indicator/RI Sentence_Terminal/STerm Soft_Dotted/SD
Terminal_Punctuation/Term Unified_Ideograph/UIdeo Uppercase/Upper Variation_Selector/VS
White_Space/space XID_Continue/XIDC XID_Start/XIDS
"""

TARGET = Path(__file__).parent.parent / "structgen/constraints/regex/unicode_data.py"
EVERYTHING = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))


def ranges(expression: str) -> list[tuple[int, int]]:
    matches = regex.finditer(expression + "+", EVERYTHING)
    return [(ord(match[0][0]), ord(match[0][-1])) for match in matches]


def packed(pairs: list[tuple[int, int]]) -> bytes:
    """Gap and length in turn, seven bits a byte, the high bit set on all but the last byte of a number."""
    result = bytearray()
    position = 0
    for low, high in pairs:
        for number in (low - position, high - low):
            while number > 127:
                result.append(128 | number & 127)
                number >>= 7
            result.append(number)
        position = high + 1
    return bytes(result)


def key(name: str) -> str:
    return name.replace("_", "").upper()


def script_names() -> list[list[str]]:
    names: dict[int, list[str]] = {}
    for name, number in _regex_core.PROPERTIES["SCRIPT"][1].items():
        names.setdefault(number, []).append(name)
    return list(names.values())


def main(version: str) -> None:
    entries: list[tuple[str, bytes]] = []
    for item in BINARY.split():
        names = item.split("/")
        entries.append(("/".join(map(key, names)), packed(ranges(rf"\p{{{names[0]}}}"))))
    for names in script_names():
        plain, extended = (ranges(rf"\p{{{kind}={names[0]}}}") for kind in ("sc", "scx"))
        if not plain:
            continue
        entries.append(("/".join("SC=" + name for name in names), packed(plain)))
        if extended != plain:
            entries.append(("/".join("SCX=" + name for name in names), packed(extended)))
    index = " ".join(f"{names}:{len(data)}" for names, data in entries)
    blob = zlib.compress(b"".join(data for _, data in entries), 9)
    lines = "\n".join(textwrap.wrap(base64.b85encode(blob).decode(), 106))
    TARGET.write_text(
        f'"""Scripts and binary properties of Unicode {version}; written by tools/make_unicode_data.py."""\n\n'
        f'UNICODE_VERSION = "{version}"\n\n'
        "# Names of each property and the length of its part of the data.\n"
        'INDEX = """\\\n' + "\n".join(textwrap.wrap(index, 106)) + '\n"""\n\n'
        "# Gaps and lengths of the ranges as variable-length numbers, deflated, in base 85.\n"
        f'DATA = """\\\n{lines}\n"""\n'
    )
    print(f"{len(entries)} properties, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
