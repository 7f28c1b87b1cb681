"""Regular expressions as data: the builders of the RE part of the intermediate representation.

Why: the regex parsers, `choice` and the algebra of constraints build the same nested tuples. The rules that keep
them small (adjacent literals are joined, alternatives of single characters become one class) are here, once.

Invariant: builders never change the language. A literal contains Unicode scalar values only, no surrogates. The
ranges of a class are sorted, disjoint and without surrogates, and no class is a single character, empty or
everything: those are a literal, NOTHING and ANY.

Cost: each builder is linear in its own parts, not in what is below them.

    RE = ("class", ((lo, hi), ...)) | ("literal", str) | ("literals", (str, ...))
       | ("concat", (RE, ...)) | ("alternate", (RE, ...)) | ("intersect", (RE, ...)) | ("complement", RE)
       | ("repeat", RE, lo, hi or None) | ("look", ahead, negative, RE)
       | ("scope", RE)           whose looks see only its own text, like those in an intersection or complement
       | ("substring", str or (str, ...), empty)   adjacent characters of a text, or pieces; also none if `empty`
       | ("host_names", composed)     host names, and IDNA 2008 ones, with labels in NFC if `composed`
       | ("unfold", source)      what an object expands to while it is read (`structgen/_core/regex/regex.h`, `Source`)
       | ("any",) one character | ("text",) every text | ("empty",) no text
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from structgen.errors import LimitExceeded
from structgen.ir.regex import RE, Ranges

__all__ = [
    "ALL_RANGES",
    "ANY",
    "EPSILON",
    "MAX_CHARACTERS",
    "MAX_PARTS",
    "MAX_SUBSTRING_CHARACTERS",
    "NOTHING",
    "RE",
    "TEXT",
    "Ranges",
    "add_nodes",
    "alternate",
    "character_class",
    "complement",
    "concat",
    "has_look",
    "intersect",
    "literal",
    "literals",
    "negate_ranges",
    "normalise_ranges",
    "nullable",
    "repeat",
    "scope",
    "substring",
    "tree_size",
]

EPSILON: RE = ("literal", "")
NOTHING: RE = ("empty",)
ANY: RE = ("any",)
TEXT: RE = ("text",)
MAX_PARTS = 2_000_000
"""Limit on the parts of one sequence or choice."""
MAX_CHARACTERS = 20_000_000
"""Limit on the characters of one text, or of one choice of texts."""
MAX_SUBSTRING_CHARACTERS = 5_000_000
"""Limit on the characters of a substring's text; they take a second and 100 MB."""
ALL_RANGES: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))


def normalise_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ranges sorted, merged and without surrogates."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    if any(low <= 0xDFFF and high >= 0xD800 for low, high in merged):
        merged = [piece for low, high in merged for piece in _without_surrogates(low, high)]
    return tuple(merged)


def _without_surrogates(low: int, high: int) -> list[tuple[int, int]]:
    pieces = [(low, min(high, 0xD7FF)), (max(low, 0xE000), high)]
    return [piece for piece in pieces if piece[0] <= piece[1]]


def negate_ranges(ranges: Ranges) -> Ranges:
    """Return all scalar values that are not in normalised `ranges`."""
    result: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if start < low:
            result.append((start, low - 1))
        start = high + 1
    if start <= 0x10FFFF:
        result.append((start, 0x10FFFF))
    return normalise_ranges(result)


def character_class(ranges: Ranges) -> RE:
    """Return one character of normalised `ranges`."""
    if not ranges:
        return NOTHING
    if ranges == ALL_RANGES:
        return ANY
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return ("literal", chr(ranges[0][0]))
    return ("class", ranges)


def literal(text: str) -> RE:
    """Return exactly this text; a text with lone surrogates has no UTF-8 form and matches nothing."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return NOTHING
    return ("literal", text)


def literals(texts: Iterable[str]) -> RE:
    """Return exactly one of these texts."""
    return alternate([literal(text) for text in texts])


def substring(pieces: str | Iterable[str], *, empty: bool = True) -> RE:
    """Return any run of adjacent pieces, joined; the pieces of a text are its characters.

    Args:
        pieces: The text, or its pieces from left to right. A run never divides a piece.
        empty: Whether the run of no pieces counts.

    Raises:
        LimitExceeded: The pieces have too many characters (limit `substring_characters`).
    """
    whole = pieces if isinstance(pieces, str) else tuple(piece for piece in pieces if piece)
    if sum(map(len, whole)) > MAX_SUBSTRING_CHARACTERS:
        raise LimitExceeded(
            f"the text of a substring has more than {MAX_SUBSTRING_CHARACTERS:,} characters",
            limit="substring_characters",
            hint="Use a part of the text.",
        )
    # subtle: a lone surrogate has no UTF-8 form, so no run crosses it.
    runs: list[list[str]] = [[]]
    for piece in whole if any(map(_has_surrogate, [whole] if isinstance(whole, str) else whole)) else ():
        if _has_surrogate(piece):
            runs.append([])
        else:
            runs[-1].append(piece)
    if len(runs) > 1:
        return alternate([EPSILON] * empty + [substring(run, empty=False) for run in runs if run])
    if not whole:
        return EPSILON if empty else NOTHING
    if len(whole) == 1:
        return repeat(("literal", whole[0]), 0, 1) if empty else ("literal", whole[0])
    if not isinstance(whole, str) and all(len(piece) == 1 for piece in whole):
        whole = "".join(whole)
    return ("substring", whole, empty)


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def concat(parts: Iterable[RE]) -> RE:
    """Return one part after the other; adjacent literals are joined."""
    result: list[RE] = []
    run: list[str] = []
    for outer in parts:
        for part in outer[1] if outer[0] == "concat" else (outer,):
            kind = part[0]
            if kind == "literal":
                run.append(part[1])
                continue
            if kind == "empty":
                return NOTHING
            if run:
                _check_characters(run)
                text = "".join(run)
                run = []
                if text:
                    result.append(("literal", text))
            if kind == "text" and result and result[-1] == TEXT:
                continue
            result.append(part)
    _check_parts(result)
    if run or not result:
        _check_characters(run)
        text = "".join(run)
        if text or not result:
            result.append(("literal", text))
    return result[0] if len(result) == 1 else ("concat", tuple(result))


def _check_parts(parts: Collection[object]) -> None:
    """Check the size: builders copy their parts, so repeated self-concatenation would double an expression."""
    if len(parts) > MAX_PARTS:
        raise LimitExceeded(
            f"an expression has more than {MAX_PARTS:,} parts",
            limit="expression_parts",
            hint="Split the constraint.",
        )


def _check_characters(texts: Iterable[str]) -> None:
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise LimitExceeded(
            f"the texts of an expression have more than {MAX_CHARACTERS:,} characters",
            limit="expression_characters",
            hint="Split the constraint.",
        )


def alternate(parts: Iterable[RE]) -> RE:
    """Return any of the parts: single characters become one class, texts one set of literals."""
    ranges: list[tuple[int, int]] = []
    texts: dict[str, None] = {}
    others: list[RE] = []
    pending = list(parts)
    if len(pending) == 1:
        return pending[0]
    pending.reverse()
    optional = False
    while pending:
        part = pending.pop()
        kind = part[0]
        if kind == "literal":
            texts[part[1]] = None
        elif kind == "literals":
            texts.update(dict.fromkeys(part[1]))
        elif kind == "class":
            ranges.extend(part[1])
        elif kind == "any":
            ranges.extend(ALL_RANGES)
        elif kind == "alternate":
            pending.extend(reversed(part[1]))
        elif kind == "repeat" and part[2] == 0 and part[3] == 1:
            optional = True
            pending.append(part[1])
        elif kind == "text":
            return TEXT
        elif kind != "empty":
            others.append(part)
    if "" in texts:
        optional = True
        del texts[""]
    if texts and (ranges or all(len(text) == 1 for text in texts)):
        single = [text for text in texts if len(text) == 1]
        ranges.extend((ord(text), ord(text)) for text in single)
        for text in single:
            del texts[text]
    result = others
    _check_parts(others)
    _check_parts(texts)
    _check_characters(texts)
    if texts:
        words = tuple(texts)
        result.insert(0, ("literal", words[0]) if len(words) == 1 else ("literals", words))
    if ranges:
        result.insert(0, character_class(normalise_ranges(ranges)))
    if not result:
        return EPSILON if optional else NOTHING
    joined = result[0] if len(result) == 1 else ("alternate", tuple(result))
    return repeat(joined, 0, 1) if optional else joined


def repeat(part: RE, low: int, high: int | None) -> RE:
    """Return `part` between `low` and `high` times; None for `high` is unbounded."""
    if high == 0 or part == EPSILON:
        return EPSILON
    if low == 1 and high == 1:
        return part
    if part == NOTHING:
        return EPSILON if low == 0 else NOTHING
    if part[0] in ("look", "boundary"):  # a condition on a position holds there any number of times
        return part if low else EPSILON
    if high is None:
        if part == TEXT or (part == ANY and low == 0):
            return TEXT
        if part[0] == "repeat" and part[3] is None and part[2] <= 1:
            return ("repeat", part[1], part[2] * low, None)
    elif high == 1 and low == 0 and part[0] == "repeat" and part[2] <= 1:
        return ("repeat", part[1], 0, part[3])
    return ("repeat", part, low, high)


def intersect(parts: Iterable[RE]) -> RE:
    """Return what all of the parts accept."""
    result: list[RE] = []
    for outer in parts:
        for part in outer[1] if outer[0] == "intersect" else (outer,):
            if part == NOTHING:
                return NOTHING
            if part != TEXT and part not in result:
                result.append(part)
    if EPSILON in result:
        results = [nullable(part) for part in result]
        if False in results:
            return NOTHING
        if None not in results:
            return EPSILON
    if not result:
        return TEXT
    return result[0] if len(result) == 1 else ("intersect", tuple(result))


def complement(part: RE) -> RE:
    """Return every text that `part` does not accept."""
    if part[0] == "complement":
        return part[1]  # type: ignore[no-any-return]
    if part == TEXT:
        return NOTHING
    if part == NOTHING:
        return TEXT
    if part == ("concat", (TEXT, ANY)) or part == ("concat", (ANY, TEXT)):
        return EPSILON
    return ("complement", part)


def scope(part: RE) -> RE:
    """Return the same language in every context: its looks do not see the text around it."""
    return ("scope", part) if has_look(part) else part


def nullable(part: RE) -> bool | None:
    """Return whether the empty text is accepted; None if that depends on the context (look-around)."""
    known: dict[int, bool | None] = {}  # by id, since expressions share their parts
    pending = [part]
    while pending:
        node = pending[-1]
        open_parts = [inner for inner in _deciding(node) if id(inner) not in known]
        if open_parts:
            pending.extend(open_parts)
            continue
        known[id(node)] = _nullable(node, known)
        pending.pop()
    return known[id(part)]


def _deciding(node: RE) -> Sequence[RE]:
    """Return the parts that decide whether it accepts the empty text."""
    kind = node[0]
    if kind in ("concat", "alternate", "intersect"):
        return node[1]  # type: ignore[no-any-return]
    if kind in ("scope", "complement") or (kind == "repeat" and node[2] > 0):
        return (node[1],)
    return ()


def _nullable(node: RE, known: dict[int, bool | None]) -> bool | None:
    kind = node[0]
    results = [known[id(inner)] for inner in _deciding(node)]
    match kind:
        case "literal":
            return not node[1]
        case "literals":
            return "" in node[1]
        case "text":
            return True
        case "class" | "any" | "empty":
            return False
        case "repeat" | "scope":
            return results[0] if results else True
        case "substring":
            return bool(node[2])
        case "host_names":
            return False
        case "unfold":
            return bool(node[1].accepts(node[1].start))
        case "complement":
            return None if results[0] is None else not results[0]
        case "alternate":
            return _any(results)
        case "concat" | "intersect":
            return False if False in results else None if None in results else True
    return None


def _any(results: Sequence[bool | None]) -> bool | None:
    return True if True in results else None if None in results else False


def has_look(part: RE) -> bool:
    """Return whether the meaning of `part` depends on the text around it."""
    while part[0] in ("repeat", "complement"):
        part = part[1]
    if part[0] not in ("concat", "alternate", "intersect"):
        return part[0] in ("look", "boundary")  # most parts are characters, and need no search
    return any(node[0] in ("look", "boundary") for node in _outside_scopes(part))


def _outside_scopes(part: RE) -> Iterator[RE]:
    """Yield the expression and its parts, each once, without the bodies of look-arounds and of scopes."""
    pending = [part]
    met: set[int] = set()  # expressions share their parts
    while pending:
        node = pending.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        yield node
        if node[0] in ("concat", "alternate", "intersect"):
            pending.extend(node[1])
        elif node[0] in ("repeat", "complement"):
            pending.append(node[1])


def add_nodes(expression: RE, seen: set[int]) -> None:
    """Add the ids of all nodes of an expression to `seen`, each once.

    Args:
        expression: The expression.
        seen: The ids of nodes of this and other expressions, which must be kept alive as long as it.
    """
    pending = [expression]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            pending.extend(_inside(node))


def tree_size(expression: RE, known: dict[int, int] | None = None) -> int:
    """Return the number of nodes; a shared part counts as often as it occurs.

    Args:
        expression: The expression.
        known: Cache of sizes by the ids of expressions, which must be kept alive as long as it.
    """
    sizes = {} if known is None else known
    pending = [expression]
    while pending:
        node = pending[-1]
        parts = _inside(node)
        open_parts = [inner for inner in parts if id(inner) not in sizes]
        if open_parts:
            pending.extend(open_parts)
            continue
        sizes[id(node)] = 1 + sum(sizes[id(inner)] for inner in parts)
        pending.pop()
    return sizes[id(expression)]


def _inside(node: RE) -> Sequence[RE]:
    kind = node[0]
    if kind in ("concat", "alternate", "intersect"):
        return node[1]  # type: ignore[no-any-return]
    if kind in ("repeat", "complement", "scope"):
        return (node[1],)
    return (node[3],) if kind == "look" else ()
