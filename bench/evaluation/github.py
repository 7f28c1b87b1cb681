"""Schemas as repositories hold them, by size: trivial, easy, medium, hard and ultra; all invented here."""

from __future__ import annotations

from typing import Any

from .hard import HARD
from .short import D4, D7, D2020, B, I, N, S, arr, enum, obj, ref, text
from .ultra import ULTRA

__all__ = ["SCHEMAS"]

_SLUG = text(pattern="^[a-z][a-z0-9-]{1,30}$")
_VERSION = text(pattern=r"^\d+\.\d+\.\d+$")
_COLOUR = text(pattern="^#[0-9a-fA-F]{6}$")

_TRIVIAL: list[tuple[str, Any, list[Any]]] = [
    (
        "lamp",
        obj("on", on=B, level={"type": "integer", "minimum": 0, "maximum": 100}),
        [{"on": True, "level": 40}],
    ),
    ("tag-list", arr(S, minItems=1, uniqueItems=True), [["fish", "chips"], ["one"]]),
    ("point", {**D4, **obj("x y", closed=True, x=N, y=N)}, [{"x": 1.5, "y": -2}]),
    ("mood", {"type": "string", "enum": ["calm", "busy", "away"]}, ["calm", "away"]),
    (
        "login",
        obj("user secret", user=text(minLength=3, maxLength=16), secret=text(minLength=8)),
        [{"user": "marit", "secret": "a long word"}],
    ),
    (
        "either-key",
        {
            "oneOf": [
                obj("id", closed=True, id={**I, "minimum": 1}),
                obj("slug", closed=True, slug=_SLUG),
            ]
        },
        [{"id": 7}, {"slug": "blue-door"}],
    ),
    ("word-counts", {"type": "object", "additionalProperties": {**I, "minimum": 0}}, [{"sea": 3, "sky": 0}]),
]

_EASY: list[tuple[str, Any, list[Any]]] = [
    (
        "plugin-manifest",
        {
            **D7,
            **obj(
                "name version main",
                name=_SLUG,
                version=_VERSION,
                main=text(pattern=r"\.js$"),
                keywords=arr(S, maxItems=5),
                author=obj("name", name=S, email=text(format="email")),
                private=B,
            ),
        },
        [
            {
                "name": "tide-table",
                "version": "1.4.0",
                "main": "dist/index.js",
                "keywords": ["tide", "sea"],
                "author": {"name": "Ines Roth", "email": "ines@example.org"},
                "private": False,
            }
        ],
    ),
    (
        "game-level",
        {
            **D4,
            **obj(
                "title size tiles",
                title=S,
                size=obj("width height", width={**I, "minimum": 1}, height={**I, "minimum": 1}),
                tiles=arr(arr(enum(".", "#", "~"))),
                start={**arr(I), "minItems": 2, "maxItems": 2},
            ),
        },
        [
            {
                "title": "Cellar",
                "size": {"width": 3, "height": 2},
                "tiles": [[".", "#", "."], ["~", ".", "."]],
                "start": [0, 1],
            }
        ],
    ),
    (
        "theme",
        obj(
            "name colours",
            closed=True,
            name=S,
            dark=B,
            colours={"type": "object", "additionalProperties": _COLOUR, "minProperties": 1},
        ),
        [{"name": "Fjord", "dark": True, "colours": {"text": "#e0e0e0", "back": "#102030"}}],
    ),
    (
        "backup-job",
        obj(
            "source target schedule",
            source=text("A folder."),
            target=text("An address.", format="uri"),
            schedule=obj(
                "every", every=enum("hour", "day", "week"), at=text(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")
            ),
            keep={**I, "minimum": 1, "maximum": 365},
        ),
        [
            {
                "source": "/home/ada",
                "target": "https://store.example.com/ada",
                "schedule": {"every": "day", "at": "03:30"},
                "keep": 30,
            }
        ],
    ),
    (
        "sensor-reading",
        {
            **D7,
            **obj(
                "sensor time value",
                sensor=text(format="uuid"),
                time=text(format="date-time"),
                value=N,
                unit={"const": "kelvin"},
            ),
        },
        [
            {
                "sensor": "2f9d4a51-7c86-4b0e-9a4d-0e5b5a0c7b11",
                "time": "2024-05-06T07:08:09Z",
                "value": 281.25,
                "unit": "kelvin",
            }
        ],
    ),
    (
        "recipe",
        obj(
            "title ingredients steps",
            title=text(minLength=1),
            serves={**I, "exclusiveMinimum": 0},
            ingredients=arr(obj("what", what=S, grams={**N, "minimum": 0}), minItems=1),
            steps=arr(S, minItems=1),
        ),
        [
            {
                "title": "Leek soup",
                "serves": 4,
                "ingredients": [{"what": "leek", "grams": 400}, {"what": "salt"}],
                "steps": ["Cut.", "Boil."],
            }
        ],
    ),
    (
        "link-preview",
        obj(
            "url",
            closed=True,
            url=text(format="uri"),
            title={"type": ["string", "null"]},
            image={"anyOf": [text(format="uri"), {"type": "null"}]},
        ),
        [{"url": "https://example.org/a", "title": None, "image": "https://example.org/a.png"}],
    ),
]

_EXPRESSION = {
    "anyOf": [
        N,
        obj("variable", closed=True, variable=text(pattern="^[a-z]$")),
        obj(
            "operator left right",
            closed=True,
            operator=enum("+", "-", "*", "/"),
            left=ref("expression"),
            right=ref("expression"),
        ),
    ]
}
_MEDIUM: list[tuple[str, Any, list[Any]]] = [
    (
        "formula",
        {**D7, **ref("expression"), "definitions": {"expression": _EXPRESSION}},
        [
            {"operator": "+", "left": 1, "right": {"operator": "*", "left": {"variable": "x"}, "right": 2.5}},
            {"variable": "y"},
        ],
    ),
    (
        "pipeline",
        {
            **D7,
            "definitions": {
                "step": {
                    "type": "object",
                    "properties": {"name": S, "run": S, "uses": S, "with": {"type": "object"}},
                    "oneOf": [{"required": ["run"]}, {"required": ["uses"]}],
                },
                "job": obj(
                    "steps",
                    needs=arr(_SLUG, uniqueItems=True),
                    machine=enum("small", "large"),
                    steps=arr(ref("step"), minItems=1),
                    timeout={**I, "minimum": 1, "maximum": 360},
                ),
            },
            **obj(
                "name jobs",
                name=S,
                triggers=arr(enum("push", "tag", "manual")),
                jobs={
                    "type": "object",
                    "patternProperties": {"^[a-z][a-z0-9_]*$": ref("job")},
                    "additionalProperties": False,
                },
            ),
        },
        [
            {
                "name": "build",
                "triggers": ["push"],
                "jobs": {
                    "test": {"machine": "small", "steps": [{"name": "Test", "run": "make test"}]},
                    "ship": {
                        "needs": ["test"],
                        "steps": [{"uses": "upload", "with": {"to": "store"}}],
                        "timeout": 20,
                    },
                },
            }
        ],
    ),
    (
        "payment",
        {
            **D7,
            **obj(
                "amount currency method",
                amount={**N, "exclusiveMinimum": 0, "multipleOf": 0.5},
                currency=text(pattern="^[A-Z]{3}$"),
                method=enum("card", "transfer"),
                card=obj(
                    "last4 expires",
                    last4=text(pattern="^[0-9]{4}$"),
                    expires=text(pattern="^(0[1-9]|1[0-2])/[0-9]{2}$"),
                ),
                account=text(minLength=10, maxLength=34),
            ),
            "if": {"properties": {"method": {"const": "card"}}},
            "then": {"required": ["card"]},
            "else": {"required": ["account"]},
        },
        [
            {
                "amount": 12.5,
                "currency": "EUR",
                "method": "card",
                "card": {"last4": "0042", "expires": "11/29"},
            },
            {"amount": 3, "currency": "NOK", "method": "transfer", "account": "NO9386011117947"},
        ],
    ),
    (
        "file-tree",
        {
            **D2020,
            "$ref": "#/$defs/node",
            "$defs": {
                "node": {
                    **obj(
                        "name",
                        closed=True,
                        name=text(minLength=1, pattern="^[^/]*$"),
                        bytes={**I, "minimum": 0},
                        children=arr(ref("node", "$defs")),
                    ),
                    "not": {"required": ["bytes", "children"]},
                }
            },
        },
        [
            {
                "name": "src",
                "children": [{"name": "main.c", "bytes": 812}, {"name": "lib", "children": []}],
            }
        ],
    ),
    (
        "survey",
        {
            **D7,
            "definitions": {
                "question": {
                    "oneOf": [
                        obj(
                            "kind label",
                            closed=True,
                            kind={"const": "text"},
                            label=S,
                            lines={**I, "minimum": 1},
                        ),
                        obj(
                            "kind label options",
                            closed=True,
                            kind={"const": "choice"},
                            label=S,
                            options=arr(S, minItems=2, uniqueItems=True),
                            several=B,
                        ),
                        obj(
                            "kind label low high",
                            closed=True,
                            kind={"const": "scale"},
                            label=S,
                            low=I,
                            high=I,
                        ),
                    ]
                }
            },
            **obj("title questions", title=S, questions=arr(ref("question"), minItems=1, maxItems=50)),
        },
        [
            {
                "title": "Lunch",
                "questions": [
                    {"kind": "choice", "label": "When?", "options": ["12", "13"], "several": False},
                    {"kind": "scale", "label": "How hungry?", "low": 1, "high": 5},
                    {"kind": "text", "label": "Else?", "lines": 3},
                ],
            }
        ],
    ),
    (
        "route-map",
        {
            **D4,
            "definitions": {
                "place": obj(
                    "lat lon",
                    lat={**N, "minimum": -90, "maximum": 90},
                    lon={**N, "minimum": -180, "maximum": 180},
                    label=S,
                )
            },
            **obj(
                "id legs",
                id=text(pattern="^R[0-9]{3,6}$"),
                legs=arr(
                    obj(
                        "from to by",
                        from_=ref("place"),
                        to=ref("place"),
                        by=enum("foot", "bus", "ferry"),
                        minutes={**N, "minimum": 0},
                    ),
                    minItems=1,
                ),
            ),
        },
        [
            {
                "id": "R0417",
                "legs": [
                    {
                        "from": {"lat": 60.39, "lon": 5.32, "label": "Quay"},
                        "to": {"lat": 60.4, "lon": 5.3},
                        "by": "ferry",
                        "minutes": 12.5,
                    }
                ],
            }
        ],
    ),
]

SCHEMAS = {
    "Github_trivial": _TRIVIAL,
    "Github_easy": _EASY,
    "Github_medium": _MEDIUM,
    "Github_hard": HARD,
    "Github_ultra": ULTRA,
}
"""Part to name, schema and valid instances."""
