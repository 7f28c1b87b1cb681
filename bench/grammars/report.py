"""Tables of the grammar benchmark."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["FIGURES", "equal_masks", "pooled", "slowest", "table"]

Measured = dict[str, Any]
"""What `worker` answered to ``read``, with the answer's ``times`` to ``compile``."""


def _flat(values: list[list[float]]) -> list[float]:
    return list(itertools.chain.from_iterable(values))


def _percentile(figure: str, percent: float) -> Callable[[Measured], float]:
    return lambda measured: float(np.percentile(_flat(measured[figure]), percent))


FIGURES: dict[str, Callable[[Measured], float]] = {
    "compile": lambda m: statistics.median(compiled for compiled, _ in m["times"]),
    "compile + first mask": lambda m: statistics.median(map(sum, m["times"])),
    "mask, mean": lambda m: statistics.fmean(_flat(m["mask"])),
    "mask, p50": _percentile("mask", 50),
    "mask, p99": _percentile("mask", 99),
    "mask, p99.9": _percentile("mask", 99.9),
    "mask + advance, mean": lambda m: (
        statistics.fmean(_flat(m["mask"])) + statistics.fmean(_flat(m["advance"]))
    ),
    "second pass, mean": lambda m: statistics.fmean(_flat(m["second"])),
    "peak memory, MB": lambda m: float(m["peak"]),
}


_WITHOUT_READING = ("compile", "compile + first mask")
_PARTIAL = "†"


def table(by_language: dict[str, dict[str, Measured]], engines: list[str]) -> Iterator[str]:
    """Lines of one tokenizer's table: `found` is by language and engine."""
    ours = [name for name in engines if name.startswith("structgen")]
    peers = [name for name in engines if name not in ours]
    columns = ["language", "figure (µs)", *engines, *(f"{name} / better peer" for name in ours if peers)]
    yield "| " + " | ".join(columns) + " |"
    yield "|---|---|" + "--:|" * (len(columns) - 2)
    for language, measured in by_language.items():
        for label, figure in FIGURES.items():
            values = {name: _value(figure, measured.get(name)) for name in engines}
            marks = dict.fromkeys(engines, "")
            if label not in _WITHOUT_READING:
                marks.update(dict.fromkeys(_partial(measured), _PARTIAL))
            cells = [_cell(values[name]) + marks[name] for name in engines]
            if peers:
                better = min(peers, key=lambda name: (marks[name], _or_infinite(values[name])))
                cells += [
                    _ratio(values[name] / values[better]) + (marks[name] or marks[better]) for name in ours
                ]
            yield f"| {language} | {label} | " + " | ".join(cells) + " |"
        read = [_cell(_value(_tokens, measured.get(name))) for name in engines]
        yield f"| {language} | tokens read | " + " | ".join(read + [""] * len(ours if peers else ())) + " |"


def pooled(by_language: dict[str, dict[str, Measured]]) -> dict[str, Measured]:
    """The masks and compilations of all languages together, of engines that measured all of them."""
    first, *others = by_language.values()
    names = [name for name in first if all(name in measured for measured in others)]
    result: dict[str, Measured] = {}
    for name in names:
        answers = [measured[name] for measured in by_language.values()]
        result[name] = {
            key: list(itertools.chain.from_iterable(answer[key] for answer in answers))
            for key in ("times", "mask", "advance", "second")
            if all(key in answer for answer in answers)
        }
        if all("peak" in answer for answer in answers):
            result[name]["peak"] = max(answer["peak"] for answer in answers)
    return result


def _tokens(measured: Measured) -> float:
    return float(len(_flat(measured["mask"])))


def _partial(measured: dict[str, Measured]) -> list[str]:
    """Engines that read less than another one."""
    read = {name: _or_zero(_value(_tokens, answer)) for name, answer in measured.items()}
    return [name for name, tokens in read.items() if tokens < max(read.values())]


def _or_infinite(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def equal_masks(measured: dict[str, Measured], first: str, second: str) -> float:
    """The share of masks that two engines have in common; not a number where one has none."""
    sums = [measured.get(name, {}).get("checksums") for name in (first, second)]
    if None in sums:
        return math.nan
    pairs = list(zip(_flat(sums[0]), _flat(sums[1]), strict=False))  # type: ignore[arg-type]
    return sum(a == b for a, b in pairs) / len(pairs)


def slowest(measured: dict[str, Measured], engine: str, peers: list[str], count: int) -> Iterator[str]:
    """Yield the masks in which the engine loses most time to the better peer, with the text before them.

    Peers that did not read everything are left out.
    """
    partial = _partial(measured)
    others = [measured[name] for name in peers if name in measured and name not in partial]
    mine = measured.get(engine, {})
    if not others or "mask" not in mine:
        return
    rows = []
    for text, mask in enumerate(mine["mask"]):
        for index, (micros, *theirs) in enumerate(
            zip(mask, *(m["mask"][text] for m in others), strict=False)
        ):
            rows.append((micros - min(theirs), micros, min(theirs), text, index))
    rows.sort(reverse=True)
    for _, micros, best, text, index in rows[:count]:
        pieces = mine["pieces"][text]
        before = "".join(pieces[:index])[-60:]
        yield f"{micros:9.1f} {best:9.1f}  text {text}, token {index}: {before!r} then {pieces[index]!r}"


def _value(figure: Callable[[Measured], float], measured: Measured | None) -> float:
    try:
        return math.nan if measured is None else figure(measured)
    except KeyError:
        return math.nan


def _cell(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
