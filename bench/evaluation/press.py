"""Schemas of a newsroom: few top-level kinds, many shared traits that refer to one another."""

from __future__ import annotations

from typing import Any

from .short import D4, B, I, S, arr, enum, null_or, obj, ref, text

__all__ = ["WASHINGTON_POST"]

_LOCALE = text("Two letters and a region.", pattern="^[a-z]{2}(-[A-Z]{2})?$")
_TRAITS: dict[str, Any] = {
    "id": text("An identifier.", pattern="^[A-Z0-9]{10}$"),
    "version": {"type": "string", "enum": ["0.1.0"]},
    "dates": obj(created=text(format="date-time"), updated=text(format="date-time")),
    "image": obj(
        "type version url",
        closed=True,
        type={"type": "string", "enum": ["image"]},
        version=ref("version"),
        url=text(format="uri"),
        caption=S,
        width={**I, "minimum": 1},
        credits=arr(ref("person")),
    ),
    "person": obj("name", closed=True, name=S, role=S, slug=text(pattern="^[a-z-]+$"), image=ref("image")),
    "text": obj(
        "type content",
        closed=True,
        type={"enum": ["text"]},
        content=S,
        alignment=enum("left", "right", "center"),
    ),
    "quote": obj(
        "type content_elements",
        closed=True,
        type={"enum": ["quote"]},
        content_elements=arr(ref("text"), minItems=1),
        citation=ref("text"),
    ),
    "list": obj(
        "type list_type items",
        closed=True,
        type={"enum": ["list"]},
        list_type=enum("ordered", "unordered"),
        items=arr({"oneOf": [ref("text"), ref("list")]}),
    ),
    "element": {"anyOf": [ref("text"), ref("quote"), ref("list"), ref("image")]},
}


def _press(about: str, required: str, *traits: str, **fields: Any) -> dict[str, Any]:
    told = {**D4, "title": about, **obj(required, closed=True, **fields)}
    return {**told, "definitions": {name: _TRAITS[name] for name in traits}}


_ALL = tuple(_TRAITS)
WASHINGTON_POST: list[tuple[str, Any, list[Any]]] = [
    (
        "story",
        _press(
            "A story.",
            "_id type version content_elements",
            *_ALL,
            _id=ref("id"),
            type={"enum": ["story"]},
            version=ref("version"),
            locale=_LOCALE,
            headlines=obj("basic", basic=S, mobile=null_or(S)),
            credits={"type": "object", "additionalProperties": arr(ref("person"))},
            dates=ref("dates"),
            content_elements=arr(ref("element")),
        ),
        [
            {
                "_id": "ABCDE12345",
                "type": "story",
                "version": "0.1.0",
                "locale": "en-GB",
                "headlines": {"basic": "Rain", "mobile": None},
                "credits": {"by": [{"name": "A. Writer", "slug": "a-writer"}]},
                "content_elements": [
                    {"type": "text", "content": "It rained.", "alignment": "left"},
                    {"type": "quote", "content_elements": [{"type": "text", "content": "Wet."}]},
                    {"type": "list", "list_type": "ordered", "items": [{"type": "text", "content": "one"}]},
                ],
            }
        ],
    ),
    (
        "gallery",
        _press(
            "Pictures.",
            "_id type images",
            *_ALL,
            _id=ref("id"),
            type={"enum": ["gallery"]},
            images=arr(ref("image"), minItems=1),
            dates=ref("dates"),
        ),
        [
            {
                "_id": "0123456789",
                "type": "gallery",
                "images": [
                    {
                        "type": "image",
                        "version": "0.1.0",
                        "url": "https://example.org/1.jpg",
                        "width": 640,
                        "credits": [{"name": "P."}],
                    }
                ],
                "dates": {"created": "2024-03-01T00:00:00Z"},
            }
        ],
    ),
    (
        "author",
        _press("Someone who writes.", "person", *_ALL, person=ref("person"), locale=_LOCALE, active=B),
        [{"person": {"name": "Q", "role": "editor"}, "locale": "nb", "active": True}],
    ),
    (
        "redirect",
        _press(
            "An address that moved.",
            "type version redirect_url",
            "version",
            type={"enum": ["redirect"]},
            version=ref("version"),
            redirect_url=text(pattern="^/[a-z0-9/-]*$"),
            permanent=B,
        ),
        [{"type": "redirect", "version": "0.1.0", "redirect_url": "/new/place", "permanent": True}],
    ),
    (
        "video",
        _press(
            "A film.",
            "_id type streams",
            *_ALL,
            _id=ref("id"),
            type={"enum": ["video"]},
            duration={**I, "minimum": 0},
            streams=arr(
                obj(
                    "url bitrate",
                    closed=True,
                    url=text(format="uri"),
                    bitrate={**I, "minimum": 1},
                    stream_type=enum("mp4", "ts"),
                    height=I,
                )
            ),
            promo_image=ref("image"),
            subtitles={"type": "object", "properties": {"urls": arr(obj("format url", format=S, url=S))}},
        ),
        [
            {
                "_id": "ZZZZZ00000",
                "type": "video",
                "duration": 90000,
                "streams": [{"url": "https://example.org/v.mp4", "bitrate": 800, "stream_type": "mp4"}],
                "subtitles": {"urls": [{"format": "srt", "url": "v.srt"}]},
            }
        ],
    ),
    (
        "correction",
        _press(
            "What was wrong.",
            "type text correction_type",
            "text",
            type={"enum": ["correction"]},
            correction_type=enum("clarification", "correction"),
            text=ref("text"),
            additional_properties={"type": "object"},
        ),
        [
            {
                "type": "correction",
                "correction_type": "clarification",
                "text": {"type": "text", "content": "The bridge is 40 m long."},
                "additional_properties": {"seen": True, "by": ["x"]},
            }
        ],
    ),
]
"""Name, schema and valid instances."""
