"""Generators of very large schemas: a protocol, a wide form, a tagged union of devices."""

from __future__ import annotations

from typing import Any

from .schema_builders import D4, D7, B, I, N, S, arr, enum, obj, ref, text

__all__ = ["LARGE"]


def _debugger(commands: int) -> tuple[Any, list[Any]]:
    """A protocol of requests and responses with many definitions, each with its own fields."""
    nouns = ["frame", "thread", "module", "source", "scope", "variable"]
    nouns += ["breakpoint", "register", "label", "goal", "memory", "region"]
    verbs = ["list", "read", "write", "watch", "drop", "step", "trace", "open"]
    kinds: list[Any] = [S, I, B, arr(S), N, arr(I), {"type": ["string", "null"]}, text(maxLength=64)]
    definitions: dict[str, Any] = {
        "message": obj("seq type", seq={**I, "minimum": 1}, type=enum("request", "response", "event")),
        "failure": obj("code text", code={**I, "minimum": 100, "maximum": 599}, text=S, inner=ref("failure")),
    }
    names = []
    for at in range(commands):
        noun, verb = nouns[at % len(nouns)], verbs[at // len(nouns)]
        name = f"{verb}_{noun}"
        names.append(name)
        fields = {
            f"{noun}_{suffix}": kinds[(at + k) % len(kinds)]
            for k, suffix in enumerate(("id", "of", "as", "at"))
        }
        definitions[f"{name}_request"] = {
            "allOf": [
                ref("message"),
                obj(
                    "command arguments",
                    type=enum("request"),
                    command=enum(name),
                    arguments=obj(f"{noun}_id", closed=True, **fields),
                ),
            ]
        }
        definitions[f"{name}_response"] = {
            "allOf": [
                ref("message"),
                obj(
                    "answers success",
                    type=enum("response"),
                    answers=enum(name),
                    success=B,
                    failure=ref("failure"),
                    body={"type": "object", "additionalProperties": kinds[at % len(kinds)]},
                ),
            ]
        }
    schema = {
        **D4,
        "title": "Debugger",
        "definitions": definitions,
        "anyOf": [ref(f"{name}_{side}") for name in names for side in ("request", "response")],
    }
    return schema, [
        {"seq": 1, "type": "request", "command": "list_frame", "arguments": {"frame_id": "a", "frame_of": 3}},
        {
            "seq": 9,
            "type": "response",
            "answers": "list_thread",
            "success": False,
            "failure": {"code": 404, "text": "none", "inner": {"code": 500, "text": "down"}},
        },
    ]


def _catalogue(rows: int) -> tuple[Any, list[Any]]:
    """One wide object: a form with sections of twelve fields each."""
    sections = {}
    filled = {}
    for at in range(rows):
        fields = {
            f"q{at}_{k}": [
                text(f"Answer {k} of section {at}.", maxLength=40 + k),
                {**I, "minimum": k, "maximum": 1000 * (k + 1)},
                enum(*(f"option {at}-{n}" for n in range(k + 2))),
                {"type": ["number", "null"]},
            ][(at + k) % 4]
            for k in range(12)
        }
        sections[f"section_{at}"] = obj(f"q{at}_0 q{at}_1", closed=True, **fields)
        if at < 4:
            answers: list[list[Any]] = [["short", 5], [3, "option 1-0"], ["option 2-1", None], [None, "text"]]
            filled[f"section_{at}"] = dict(zip((f"q{at}_0", f"q{at}_1"), answers[at], strict=True))
    schema = {**D7, **obj("section_0 section_1", closed=True, **sections)}
    return schema, [filled, {"section_0": filled["section_0"], "section_1": filled["section_1"]}]


def _devices(kinds: int) -> tuple[Any, list[Any]]:
    """A tagged union with a chain of references and patterns of names."""
    definitions: dict[str, Any] = {
        "unit": enum(*["K", "Pa", "lx", "dB", "ppm", "V", "A", "W", "Hz", "m", "s", "kg"]),
        "span": obj("low high unit", closed=True, low=N, high=N, unit=ref("unit")),
        "device": {"oneOf": [ref(f"device_{at}") for at in range(kinds)]},
        "room": obj(
            "name devices",
            name=S,
            devices={
                "type": "object",
                "patternProperties": {"^d[0-9]+$": ref("device")},
                "additionalProperties": False,
            },
            rooms=arr(ref("room")),
        ),
    }
    for at in range(kinds):
        definitions[f"device_{at}"] = obj(
            "model serial",
            closed=True,
            model={"enum": [f"M{at:03}"]},
            serial=text(pattern=f"^{chr(65 + at % 26)}[0-9]{{{4 + at % 5}}}$"),
            channels=arr(ref("span"), maxItems=1 + at % 8),
            calibrated=text(format="date"),
            settings={"type": "object", "additionalProperties": [S, I, B, N][at % 4]},
        )
    schema = {
        **D7,
        **obj("site rooms", site=S, rooms=arr(ref("room"), minItems=1)),
        "definitions": definitions,
    }
    return schema, [
        {
            "site": "North",
            "rooms": [
                {
                    "name": "Hall",
                    "devices": {
                        "d1": {
                            "model": "M000",
                            "serial": "A0001",
                            "channels": [{"low": 0, "high": 9.5, "unit": "K"}],
                        },
                        "d22": {
                            "model": "M017",
                            "serial": "R123456",
                            "calibrated": "2023-10-01",
                            "settings": {"gain": 2},
                        },
                    },
                    "rooms": [{"name": "Shelf", "devices": {}}],
                }
            ],
        }
    ]


LARGE: list[tuple[str, Any, list[Any]]] = [
    ("debugger-small", *_debugger(30)),
    ("debugger-large", *_debugger(90)),
    ("form-wide", *_catalogue(20)),
    ("form-wider", *_catalogue(60)),
    ("devices", *_devices(40)),
    ("devices-many", *_devices(120)),
]
"""Name, schema and valid instances."""
