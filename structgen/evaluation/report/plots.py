"""The plots of a report, as SVG that takes its colours from the page.

Invariants: an engine has one colour and one dash, ``e0`` to ``e7`` by its position, everywhere; nothing is shown by
colour alone; a table next to each plot has its figures. No scripts. Cost: at most some hundred points a curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..durations import added, duration, edges
from ..metrics import Share
from .markup import Markup, element

__all__ = ["Curve", "Ridge", "bars", "curves", "ridges"]

_KINDS = 8
_WIDTH = 720
_NAME = 34
_POINTS = 240


def colour(index: int) -> str:
    """Return the class of the engine at this place."""
    return f"e{index % _KINDS}"


def bars(title: str, shares: Sequence[tuple[str, int, Share]]) -> Markup:
    """Draw proportions with their 95 % intervals: name, index of the colour, share."""
    width, row, top = 240, 38, 4
    high = top + row * len(shares) + 18
    parts: list[str] = []
    for at in (0, 25, 50, 75, 100):
        x = _along(at / 100, width)
        parts.append(element("line", x1=x, x2=x, y1=top, y2=high - 16, class_="grid"))
        anchor = "start" if at == 0 else "end" if at == 100 else "middle"
        parts.append(
            element(
                "text",
                str(at) + (" %" if at == 100 else ""),
                x=x,
                y=high - 3,
                class_="tick",
                text_anchor=anchor,
            )
        )
    for index, (name, place, share) in enumerate(shares):
        y = top + index * row
        value, (low, above) = share.value, share.interval
        percent = "–" if value is None else f"{100 * value:.1f} %"
        inside = [
            element("title", _sentence(name, share)),
            element("text", _cut(name, 26), x=0, y=y + 13, class_="name"),
            element("text", percent, x=width, y=y + 13, class_="value", text_anchor="end"),
            element("rect", x=0, y=y + 19, width=width, height=10, rx=2, class_="track"),
        ]
        if value is not None:
            start, end = _along(low, width), _along(above, width)
            middle = y + 24
            inside += [
                element(
                    "rect",
                    x=0,
                    y=y + 19,
                    width=max(_along(value, width), 1.5),
                    height=10,
                    rx=2,
                    class_="fill",
                ),
                element("line", x1=start, x2=end, y1=middle, y2=middle, class_="whisker"),
                element("line", x1=start, x2=start, y1=middle - 4, y2=middle + 4, class_="whisker"),
                element("line", x1=end, x2=end, y1=middle - 4, y2=middle + 4, class_="whisker"),
            ]
        parts.append(element("g", *inside, class_=colour(place)))
    sentences = "; ".join(_sentence(name, share) for name, _, share in shares)
    drawn = _svg(width, high, f"{title}: {sentences}", *parts)
    return element("figure", element("figcaption", title), drawn, class_="panel")


@dataclass(frozen=True)
class Curve:
    """How many of `total` took at most how long."""

    name: str
    place: int
    microseconds: Sequence[float]
    total: int


def curves(title: str, drawn_curves: Sequence[Curve]) -> Markup:
    """Draw shares of items done within a time, on a logarithmic axis; a curve ends below 100 % by those not done."""
    times = [time for curve in drawn_curves for time in curve.microseconds if time > 0]
    if not times:
        return Markup("")
    axis = _LogAxis(min(times), max(times), 44, _WIDTH - 14)
    high, top, bottom = 300, 10, 262
    parts: list[str] = list(axis.drawn(top, bottom, bottom + 18))
    for at in (0, 25, 50, 75, 100):
        y = bottom - (bottom - top) * at / 100
        parts.append(element("line", x1=axis.left, x2=axis.right, y1=y, y2=y, class_="grid"))
        parts.append(
            element(
                "text", f"{at}" + (" %" if at == 100 else ""), x=38, y=y + 4, class_="tick", text_anchor="end"
            )
        )
    sentences = []
    for curve in drawn_curves:
        ordered = sorted(max(time, 1e-3) for time in curve.microseconds)
        if not ordered or not curve.total:
            continue
        reached = len(ordered) / curve.total
        sentences.append(
            f"{curve.name}: half of what it did within {duration(ordered[(len(ordered) - 1) // 2])}, "
        )
        sentences[-1] += f"{100 * reached:.1f} % in all"
        step = max(1, len(ordered) // _POINTS)
        kept = sorted({*range(0, len(ordered), step), len(ordered) - 1})
        points = [(axis.place(ordered[at]), bottom - (bottom - top) * (at + 1) / curve.total) for at in kept]
        path = f"M{points[0][0]:.1f} {bottom}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points)
        path += f"H{axis.right:.1f}"
        parts.append(
            element(
                "g",
                element("title", sentences[-1]),
                element("path", d=path, class_="curve"),
                class_=colour(curve.place),
            )
        )
    legend = [
        element("li", _swatch(curve.place), _cut(curve.name, 60))
        for curve in drawn_curves
        if curve.microseconds
    ]
    return element(
        "figure",
        element("figcaption", title),
        element("ul", *legend, class_="legend"),
        _svg(_WIDTH, high, f"{title}: {'; '.join(sentences)}", *parts),
        class_="wide",
    )


@dataclass(frozen=True)
class Ridge:
    """Times of many masks, in bins (`durations`)."""

    name: str
    place: int
    bins: Mapping[int, int]
    p50: float
    p99: float


def ridges(title: str, drawn_ridges: Sequence[Ridge]) -> Markup:
    """Return a histogram for each, one below the other on one logarithmic axis, each as tall as its tallest bar."""
    drawn_ridges = [ridge for ridge in drawn_ridges if ridge.bins]
    if not drawn_ridges:
        return Markup("")
    coarse = [added([[(at // 2, many) for at, many in ridge.bins.items()]]) for ridge in drawn_ridges]
    lowest, most = min(map(min, coarse)), max(map(max, coarse))
    axis = _LogAxis(edges(2 * lowest)[0], edges(2 * most + 1)[1], 4, _WIDTH - 4)
    row, tall, top = 76, 46, 4
    bottom = top + row * len(drawn_ridges)
    parts: list[str] = list(axis.drawn(top, bottom, bottom + 16))
    sentences = []
    for index, (ridge, bins) in enumerate(zip(drawn_ridges, coarse, strict=True)):
        floor, tallest = top + row * (index + 1) - 6, max(bins.values())
        numbers = f"p50 {duration(ridge.p50)} · p99 {duration(ridge.p99)}"
        sentences.append(f"{ridge.name}: {numbers}")
        inside: list[str] = [
            element("title", sentences[-1]),
            element("text", _cut(ridge.name), x=4, y=floor - tall - 8, class_="name"),
            element("text", numbers, x=_WIDTH - 4, y=floor - tall - 8, class_="value", text_anchor="end"),
            element("line", x1=axis.left, x2=axis.right, y1=floor, y2=floor, class_="axis"),
        ]
        for at, many in bins.items():
            left, right = axis.place(edges(2 * at)[0]), axis.place(edges(2 * at + 1)[1])
            height = max(tall * many / tallest, 1.0)
            inside.append(
                element(
                    "rect",
                    x=left,
                    y=floor - height,
                    width=max(right - left - 1, 1.0),
                    height=height,
                    class_="fill",
                )
            )
        for mark, kind in ((ridge.p50, "median"), (ridge.p99, "tail")):
            x = axis.place(mark)
            inside.append(element("line", x1=x, x2=x, y1=floor - tall, y2=floor + 3, class_=kind))
        parts.append(element("g", *inside, class_=colour(ridge.place)))
    drawn = _svg(_WIDTH, bottom + 22, f"{title}: {'; '.join(sentences)}", *parts)
    return element("figure", element("figcaption", title), drawn, class_="wide")


class _LogAxis:
    """Microseconds to places from left to right."""

    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self.left, self.right = left, right
        self._low = math.log10(low)
        self._width = max(math.log10(high) - self._low, 0.3)

    def place(self, value: float) -> float:
        """Within the axis."""
        share = (math.log10(max(value, 1e-3)) - self._low) / self._width
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def drawn(self, top: float, bottom: float, labels: float) -> list[Markup]:
        """Return the lines and names of decades."""
        found = []
        first, last = math.ceil(self._low - 1e-9), math.floor(self._low + self._width + 1e-9)
        for power in range(first, last + 1):
            x = self.place(10.0**power)
            found.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
            anchor = "start" if x < self.left + 14 else "end" if x > self.right - 20 else "middle"
            found.append(element("text", _decade(power), x=x, y=labels, class_="tick", text_anchor=anchor))
        return found


def _decade(power: int) -> str:
    unit, below = next(
        (unit, size) for unit, size in (("s", 6), ("ms", 3), ("µs", 0), ("ns", -3)) if power >= size
    )
    return f"{10 ** (power - below):,} {unit}"


def _svg(width: int, height: int, label: str, *inner: str) -> Markup:
    return element("svg", *inner, viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def _swatch(index: int) -> Markup:
    line = element("line", x1=0, x2=26, y1=5, y2=5, class_="curve")
    return element("svg", line, viewBox="0 0 26 10", class_=f"swatch {colour(index)}", aria_hidden="true")


def _sentence(name: str, share: Share) -> str:
    if share.value is None:
        return f"{name}: nothing was measured"
    low, high = share.interval
    return (
        f"{name}: {100 * share.value:.1f} % ({share.hits:,} of {share.total:,}; "
        f"95 % interval {100 * low:.1f} to {100 * high:.1f})"
    )


def _cut(name: str, most: int = _NAME) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _along(share: float, width: float) -> float:
    return width * min(max(share, 0.0), 1.0)
