"""Hard schemas of repositories: recursion, unions and conditions together; all invented here."""

from __future__ import annotations

from typing import Any

from .short import D4, D7, D2020, B, I, S, arr, enum, obj, ref, text

__all__ = ["HARD"]

_SLUG = text(pattern="^[a-z][a-z0-9-]{1,30}$")
HARD: list[tuple[str, Any, list[Any]]] = [
    (
        "query",
        {
            **D7,
            "definitions": {
                "field": text(pattern=r"^[a-z_]+(\.[a-z_]+)*$"),
                "value": {"type": ["string", "number", "boolean", "null"]},
                "comparison": obj(
                    "field op value",
                    closed=True,
                    field=ref("field"),
                    op=enum("=", "<", ">", "in"),
                    value={"anyOf": [ref("value"), arr(ref("value"), minItems=1)]},
                ),
                "all": obj("all", closed=True, all=arr(ref("filter"), minItems=1)),
                "any": obj("any", closed=True, any=arr(ref("filter"), minItems=1)),
                "none": obj("none", closed=True, none=ref("filter")),
                "filter": {"oneOf": [ref("comparison"), ref("all"), ref("any"), ref("none")]},
                "order": obj("by", closed=True, by=ref("field"), down=B),
            },
            **obj(
                "from",
                closed=True,
                from_=_SLUG,
                select=arr(ref("field"), minItems=1, uniqueItems=True),
                where=ref("filter"),
                order=arr(ref("order"), maxItems=3),
                limit={**I, "minimum": 1, "maximum": 1000},
            ),
        },
        [
            {
                "from": "visits",
                "select": ["guest.name", "day"],
                "where": {
                    "all": [
                        {"field": "day", "op": ">", "value": "2024-01-01"},
                        {
                            "none": {
                                "any": [
                                    {"field": "guest.age", "op": "<", "value": 18},
                                    {"field": "room", "op": "in", "value": [1, 2]},
                                ]
                            }
                        },
                    ]
                },
                "order": [{"by": "day", "down": True}],
                "limit": 20,
            }
        ],
    ),
    (
        "widget-page",
        {
            **D4,
            "definitions": {
                "spacing": {"oneOf": [{**I, "minimum": 0, "maximum": 64}, enum("none", "thin", "wide")]},
                "base": obj("id", id=text(pattern="^[a-zA-Z]\\w*$"), hidden=B, margin=ref("spacing")),
                "label": {
                    "allOf": [
                        ref("base"),
                        obj("type text", type={"enum": ["label"]}, text=S, size={**I, "minimum": 8}),
                    ]
                },
                "button": {
                    "allOf": [
                        ref("base"),
                        obj(
                            "type caption action",
                            type={"enum": ["button"]},
                            caption=text(maxLength=30),
                            action={"oneOf": [obj("open", open=text(format="uri")), obj("send", send=S)]},
                        ),
                    ]
                },
                "column": {
                    "allOf": [
                        ref("base"),
                        obj("type children", type={"enum": ["column"]}, children=arr(ref("widget"))),
                    ]
                },
                "widget": {"anyOf": [ref("label"), ref("button"), ref("column")]},
            },
            **obj("version root", version={"enum": [2]}, root=ref("widget")),
        },
        [
            {
                "version": 2,
                "root": {
                    "id": "page",
                    "margin": "thin",
                    "type": "column",
                    "children": [
                        {"id": "head", "type": "label", "text": "Hello", "size": 20},
                        {
                            "id": "go",
                            "hidden": False,
                            "margin": 8,
                            "type": "button",
                            "caption": "Go",
                            "action": {"send": "start"},
                        },
                    ],
                },
            }
        ],
    ),
    (
        "network-rules",
        {
            **D2020,
            "$defs": {
                "port": {**I, "minimum": 1, "maximum": 65535},
                "ports": {"anyOf": [ref("port", "$defs"), text(pattern="^[0-9]{1,5}-[0-9]{1,5}$")]},
                "peer": {
                    **obj(
                        closed=True, address=text(format="ipv4"), group=_SLUG, name=text(format="hostname")
                    ),
                    "minProperties": 1,
                    "maxProperties": 1,
                },
                "rule": {
                    **obj(
                        "id verdict",
                        id={**I, "minimum": 0},
                        verdict=enum("allow", "deny", "log"),
                        protocol=enum("tcp", "udp", "icmp"),
                        from_=arr(ref("peer", "$defs")),
                        to=arr(ref("peer", "$defs")),
                        ports=arr(ref("ports", "$defs"), minItems=1),
                        note=text(maxLength=120),
                    ),
                    "dependentRequired": {"ports": ["protocol"]},
                    "unevaluatedProperties": False,
                },
            },
            **obj("rules", default=enum("allow", "deny"), rules=arr(ref("rule", "$defs"), minItems=1)),
            "propertyNames": {"maxLength": 12},
        },
        [
            {
                "default": "deny",
                "rules": [
                    {
                        "id": 1,
                        "verdict": "allow",
                        "protocol": "tcp",
                        "from": [{"address": "10.1.2.3"}],
                        "to": [{"group": "web-front"}, {"name": "api.example.org"}],
                        "ports": [443, "8000-8010"],
                    },
                    {"id": 2, "verdict": "log"},
                ],
            }
        ],
    ),
    (
        "score-sheet",
        {
            **D7,
            "definitions": {
                "pitch": text(pattern="^[A-G][#b]?[0-8]$"),
                "length": enum(1, 2, 4, 8, 16),
                "note": obj("pitch length", closed=True, pitch=ref("pitch"), length=ref("length"), tied=B),
                "rest": obj("rest", closed=True, rest=ref("length")),
                "chord": obj(
                    "chord length",
                    closed=True,
                    chord=arr(ref("pitch"), minItems=2, maxItems=6, uniqueItems=True),
                    length=ref("length"),
                ),
                "bar": arr({"oneOf": [ref("note"), ref("rest"), ref("chord")]}, maxItems=32),
            },
            **obj(
                "title tempo voices",
                title=S,
                composer={"type": ["string", "null"]},
                tempo={**I, "minimum": 20, "maximum": 300},
                metre={
                    "type": "array",
                    "items": [{**I, "minimum": 1}, enum(2, 4, 8)],
                    "additionalItems": False,
                    "minItems": 2,
                },
                voices={
                    "type": "object",
                    "patternProperties": {"^(soprano|alto|tenor|bass)$": arr(ref("bar"))},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ),
        },
        [
            {
                "title": "Round",
                "composer": None,
                "tempo": 96,
                "metre": [3, 4],
                "voices": {
                    "alto": [
                        [{"pitch": "F#4", "length": 4}, {"rest": 4}, {"chord": ["C4", "E4"], "length": 4}]
                    ]
                },
            }
        ],
    ),
    (
        "claims",
        {
            **D7,
            "definitions": {
                "money": obj(
                    "units currency",
                    closed=True,
                    units={**I, "minimum": 0},
                    currency=enum("EUR", "SEK", "CHF"),
                ),
                "person": obj(
                    "name born",
                    name=text(minLength=2),
                    born=text(format="date"),
                    contact={
                        "anyOf": [{"required": ["phone"]}, {"required": ["mail"]}],
                        **obj(phone=text(pattern=r"^\+[0-9]{6,14}$"), mail=text(format="email")),
                    },
                ),
                "damage": {
                    **obj(
                        "kind cost",
                        kind=enum("water", "fire", "theft"),
                        cost=ref("money"),
                        police=text(pattern="^P-[0-9]{4}-[0-9]{3}$"),
                        photos=arr(text(format="uri"), maxItems=10),
                    ),
                    "if": {"properties": {"kind": {"const": "theft"}}, "required": ["kind"]},
                    "then": {"required": ["police"]},
                },
            },
            **obj(
                "number insured damages",
                number=text(pattern="^[A-Z]{2}[0-9]{7}$"),
                insured=ref("person"),
                witnesses=arr(ref("person"), maxItems=4),
                damages={**arr(ref("damage"), minItems=1), "contains": obj("kind", kind={"type": "string"})},
                settled={"anyOf": [{"type": "null"}, ref("money")]},
            ),
        },
        [
            {
                "number": "NO0012345",
                "insured": {"name": "Eli Vang", "born": "1980-02-29", "contact": {"mail": "eli@example.net"}},
                "damages": [
                    {"kind": "theft", "cost": {"units": 1200, "currency": "CHF"}, "police": "P-2024-017"}
                ],
                "settled": None,
            }
        ],
    ),
]
"""Name, schema and valid instances."""
