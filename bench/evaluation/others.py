"""Schemas in the manner of Snowplow, Glaive and the JSON Schema Store; all invented here."""

from __future__ import annotations

from typing import Any

from .kubernetes import KUBERNETES
from .press import WASHINGTON_POST
from .short import D4, D7, D2020, B, I, N, S, arr, enum, obj, ref, text

__all__ = ["SCHEMAS"]


def _event(about: str, required: str = "", **fields: Any) -> dict[str, Any]:
    told = obj(required, closed=True, **fields)
    return {"description": about, **told}


_SHORT = {"type": ["string", "null"], "maxLength": 64}
_LONG = {"type": ["string", "null"], "maxLength": 1024}
_COUNT = {"type": ["integer", "null"], "minimum": 0, "maximum": 2147483647}

_SNOWPLOW: list[tuple[str, Any, list[Any]]] = [
    (
        "page-scroll",
        _event(
            "How far a page was read.",
            "page depth",
            page={"type": "string", "maxLength": 4096},
            depth={"type": "number", "minimum": 0, "maximum": 100},
            seconds=_COUNT,
            referrer=_LONG,
        ),
        [{"page": "/news", "depth": 62.5, "seconds": 40, "referrer": None}],
    ),
    (
        "cart-change",
        _event(
            "Something was put into a cart or taken out.",
            "sku change",
            sku={"type": "string", "minLength": 1, "maxLength": 64},
            change={"type": "integer", "minimum": -32768, "maximum": 32767},
            unitPrice={"type": ["number", "null"], "minimum": 0},
            currency={"type": ["string", "null"], "pattern": "^[A-Z]{3}$"},
        ),
        [{"sku": "T-12", "change": -1, "unitPrice": 9.99, "currency": "DKK"}],
    ),
    (
        "video-heartbeat",
        _event(
            "Sent as a film plays.",
            "player position",
            player={"enum": ["web", "tv", "phone"]},
            position={"type": "number", "minimum": 0},
            quality={"enum": ["low", "medium", "high", None]},
            muted={"type": ["boolean", "null"]},
            session={"type": "string", "format": "uuid"},
        ),
        [
            {
                "player": "tv",
                "position": 12.25,
                "quality": None,
                "muted": False,
                "session": "8c7ad0a0-3a3e-4b4c-9d3a-1c1f44c21b0e",
            }
        ],
    ),
    (
        "geolocation",
        _event(
            "Where a device was.",
            "latitude longitude",
            latitude={"type": "number", "minimum": -90, "maximum": 90},
            longitude={"type": "number", "minimum": -180, "maximum": 180},
            altitude={"type": ["number", "null"], "minimum": -20000, "maximum": 20000},
            timestamp={"type": ["integer", "null"]},
        ),
        [{"latitude": 59.91, "longitude": 10.75, "altitude": None, "timestamp": 1700000000}],
    ),
    (
        "mail-sent",
        {
            "description": "A message left the house.",
            "type": "object",
            "properties": {
                "id": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
                "to": {"type": "string", "format": "email", "maxLength": 254},
                "subject": _SHORT,
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 16}, "maxItems": 8},
                "sentAt": {"type": "string", "format": "date-time"},
            },
            "required": ["id", "to"],
            "minProperties": 2,
            "additionalProperties": True,
        },
        [
            {
                "id": "00c0ffee1234",
                "to": "post@example.com",
                "subject": "Hi",
                "tags": ["a", "b"],
                "sentAt": "2024-02-03T04:05:06+01:00",
            }
        ],
    ),
    (
        "click-context",
        _event(
            "What was clicked.",
            "element",
            element=_SHORT,
            classes=arr({"type": "string", "maxLength": 255}, uniqueItems=True),
            target={"type": ["string", "null"], "format": "uri", "maxLength": 4096},
            position=_event("In pixels.", "x y", x=_COUNT, y=_COUNT),
        ),
        [{"element": "buy", "classes": ["big", "red"], "target": None, "position": {"x": 3, "y": 0}}],
    ),
]

_GLAIVE: list[tuple[str, Any, list[Any]]] = [
    (
        "convert_temperature",
        obj(
            "value from_unit to_unit",
            value={**N, "description": "The temperature."},
            from_unit=text("Its unit.", enum=["celsius", "fahrenheit", "kelvin"]),
            to_unit=text("The unit that is wanted.", enum=["celsius", "fahrenheit", "kelvin"]),
        ),
        [{"value": -3.5, "from_unit": "celsius", "to_unit": "kelvin"}],
    ),
    (
        "book_table",
        obj(
            "restaurant guests time",
            restaurant=text("Its name."),
            guests={**I, "minimum": 1, "description": "How many."},
            time=text("When.", format="date-time"),
            wishes=arr(S),
        ),
        [{"restaurant": "Luna", "guests": 4, "time": "2024-06-01T19:30:00Z", "wishes": ["by the window"]}],
    ),
    (
        "find_flights",
        obj(
            "origin destination date",
            origin=text("An airport.", pattern="^[A-Z]{3}$"),
            destination=text("An airport.", pattern="^[A-Z]{3}$"),
            date=text(format="date"),
            cabin=enum("economy", "business"),
            flexible=B,
        ),
        [{"origin": "OSL", "destination": "FRA", "date": "2024-12-24", "cabin": "economy", "flexible": True}],
    ),
    (
        "analyze_expenses",
        obj(
            "expenses",
            expenses=arr(
                obj("amount category", amount={**N, "minimum": 0}, category=S, date=text(format="date")),
                minItems=1,
            ),
            budget=N,
        ),
        [
            {
                "expenses": [
                    {"amount": 12.4, "category": "food", "date": "2024-01-05"},
                    {"amount": 80, "category": "rent"},
                ],
                "budget": 500,
            }
        ],
    ),
    (
        "create_reminder",
        obj(
            "text when",
            text=text("What of."),
            when=text(format="date-time"),
            repeat=text(enum=["never", "daily", "weekly"]),
        ),
        [{"text": "Water the plants", "when": "2024-07-07T08:00:00+02:00", "repeat": "weekly"}],
    ),
    (
        "send_message",
        obj(
            "recipients body",
            recipients=arr(text(format="email"), minItems=1),
            body=text(minLength=1),
            priority={**I, "enum": [1, 2, 3]},
        ),
        [{"recipients": ["kim@example.com"], "body": "On my way.", "priority": 2}],
    ),
    (
        "solve_equation",
        obj(
            "coefficients", coefficients={**arr(N), "minItems": 2, "maxItems": 4}, variable=text(maxLength=1)
        ),
        [{"coefficients": [1, -3, 2], "variable": "x"}],
    ),
]

_STORE: list[tuple[str, Any, list[Any]]] = [
    (
        "linter-config",
        {
            **D7,
            "title": "Settings of a linter",
            "definitions": {"level": {"oneOf": [enum("off", "warn", "error"), enum(0, 1, 2)]}},
            **obj(
                closed=True,
                extends={"oneOf": [S, arr(S)]},
                root=B,
                rules={
                    "type": "object",
                    "additionalProperties": {
                        "anyOf": [
                            ref("level"),
                            {"type": "array", "items": [ref("level")], "additionalItems": True},
                        ]
                    },
                },
                ignore=arr(S, uniqueItems=True),
            ),
        },
        [{"extends": ["base", "strict"], "root": True, "rules": {"quotes": ["warn", "double"], "semi": 2}}],
    ),
    (
        "feed",
        {
            **D7,
            **obj(
                "version title items",
                version={"const": "https://example.org/feed/1"},
                title=S,
                home_page_url=text(format="uri"),
                items=arr(
                    {
                        **obj(
                            "id",
                            id=S,
                            url=text(format="uri"),
                            content_text=S,
                            content_html=S,
                            date_published=text(format="date-time"),
                            tags=arr(S),
                        ),
                        "anyOf": [{"required": ["content_text"]}, {"required": ["content_html"]}],
                    }
                ),
            ),
        },
        [
            {
                "version": "https://example.org/feed/1",
                "title": "Notes",
                "items": [{"id": "1", "content_text": "Hello", "date_published": "2024-01-01T10:00:00Z"}],
            }
        ],
    ),
    (
        "service-compose",
        {
            **D7,
            "definitions": {
                "list_or_map": {
                    "oneOf": [
                        {"type": "object", "additionalProperties": {"type": ["string", "number", "null"]}},
                        arr(S, uniqueItems=True),
                    ]
                },
                "service": obj(
                    closed=True,
                    image=S,
                    command={"oneOf": [S, arr(S)]},
                    environment=ref("list_or_map"),
                    ports=arr({"oneOf": [{**I}, text(pattern="^[0-9]+:[0-9]+$")]}, uniqueItems=True),
                    depends_on=arr(S),
                    restart=enum("no", "always", "on-failure"),
                ),
            },
            "type": "object",
            "properties": {
                "services": {
                    "type": "object",
                    "patternProperties": {"^[a-zA-Z0-9._-]+$": ref("service")},
                    "additionalProperties": False,
                },
                "volumes": {
                    "type": "object",
                    "patternProperties": {"^[a-z]+$": {"type": ["object", "null"]}},
                },
            },
            "required": ["services"],
            "patternProperties": {"^x-": {}},
            "additionalProperties": False,
        },
        [
            {
                "services": {
                    "db": {"image": "db:3", "environment": {"MODE": "fast", "SIZE": 3}, "restart": "always"},
                    "web": {
                        "command": ["run", "-v"],
                        "environment": ["A=1"],
                        "ports": [80, "81:82"],
                        "depends_on": ["db"],
                    },
                },
                "volumes": {"data": None},
                "x-note": 1,
            }
        ],
    ),
    (
        "package-lockfile",
        {
            **D2020,
            "$defs": {
                "hash": text(pattern="^sha256:[0-9a-f]{64}$"),
                "package": obj(
                    "version hash",
                    closed=True,
                    version=text(pattern=r"^[0-9]+(\.[0-9]+)*$"),
                    hash=ref("hash", "$defs"),
                    requires={"type": "object", "additionalProperties": S},
                    optional=B,
                ),
            },
            **obj(
                "lock packages",
                closed=True,
                lock={"type": "integer", "enum": [3]},
                packages={
                    "type": "object",
                    "propertyNames": {"pattern": "^[a-z0-9-]+$"},
                    "additionalProperties": ref("package", "$defs"),
                },
            ),
        },
        [
            {
                "lock": 3,
                "packages": {
                    "left-pad": {
                        "version": "1.2.3",
                        "hash": "sha256:" + "0f" * 32,
                        "requires": {"pad": ">=1"},
                    },
                },
            }
        ],
    ),
    (
        "editor-snippets",
        {
            **D4,
            "type": "object",
            "additionalProperties": {
                **obj(
                    "prefix body",
                    prefix={"anyOf": [S, arr(S, minItems=1)]},
                    body={"anyOf": [S, arr(S)]},
                    description=S,
                    scope=text(pattern="^[a-z]+(,[a-z]+)*$"),
                ),
                "additionalProperties": False,
            },
        },
        [{"Loop": {"prefix": ["for", "loop"], "body": ["for i:", "  pass"], "scope": "python,ruby"}}],
    ),
    (
        "release-notes",
        {
            **D7,
            **obj(
                "releases",
                releases=arr(
                    {
                        **obj(
                            "version",
                            version=text(pattern=r"^v?\d+\.\d+(\.\d+)?(-(alpha|beta|rc)\.\d+)?$"),
                            date={"anyOf": [text(format="date"), {"const": "unreleased"}]},
                            added=arr(S),
                            fixed=arr(S),
                            yanked=B,
                        ),
                        "dependencies": {"yanked": ["date"]},
                    },
                    minItems=1,
                ),
            ),
        },
        [
            {
                "releases": [
                    {"version": "v2.0.0-rc.1", "date": "unreleased", "added": ["all"]},
                    {"version": "1.9", "date": "2023-11-30", "yanked": True},
                ]
            }
        ],
    ),
    (
        "hosting-rules",
        {
            **D7,
            **obj(
                closed=True,
                headers=arr(obj("source headers", source=S, headers=arr(obj("key value", key=S, value=S)))),
                redirects=arr(
                    obj(
                        "source destination",
                        source=text(pattern="^/"),
                        destination=S,
                        statusCode=enum(301, 302, 307, 308),
                        permanent=B,
                    )
                    | {"not": {"required": ["statusCode", "permanent"]}}
                ),
                cleanUrls={**B, "default": False},
            ),
        },
        [
            {
                "headers": [{"source": "/a", "headers": [{"key": "x", "value": "1"}]}],
                "redirects": [{"source": "/old", "destination": "/new", "statusCode": 308}],
                "cleanUrls": True,
            }
        ],
    ),
]

SCHEMAS = {
    "Kubernetes": KUBERNETES,
    "Snowplow": _SNOWPLOW,
    "WashingtonPost": WASHINGTON_POST,
    "Glaiveai2K": _GLAIVE,
    "JsonSchemaStore": _STORE,
}
"""Part to name, schema and valid instances."""
