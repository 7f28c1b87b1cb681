"""Schemas in the manner of Kubernetes: described fields that may be null, shared definitions, few bounds."""

from __future__ import annotations

from typing import Any

from .short import B, I, N, S, arr, null_or, obj, ref, text

__all__ = ["KUBERNETES"]

_META = {
    "description": "What every object carries.",
    **obj(
        name=text("Unique within a namespace."),
        namespace=null_or(text("Where it lives.")),
        labels={"type": ["object", "null"], "additionalProperties": null_or(S)},
        generation=null_or(I),
    ),
}
_SELECTOR = obj(
    matchLabels={"type": ["object", "null"], "additionalProperties": null_or(S)},
    matchExpressions=arr(
        obj(
            "key operator",
            key=S,
            operator=text("In, NotIn, Exists."),
            values={"type": ["array", "null"], "items": null_or(S)},
        )
    ),
)
_QUANTITY = {"oneOf": [S, N, {"type": "null"}]}
_RESOURCES = obj(
    limits={"type": ["object", "null"], "additionalProperties": ref("quantity")},
    requests={"type": ["object", "null"], "additionalProperties": ref("quantity")},
)
_CONTAINER = obj(
    "name",
    args={"type": ["array", "null"], "items": null_or(S)},
    env={"type": ["array", "null"], "items": obj("name", name=S, value=null_or(S))},
    image=null_or(S),
    name=S,
    ports={"type": ["array", "null"], "items": obj("containerPort", containerPort=I, protocol=null_or(S))},
    resources=_RESOURCES,
)


def _object(kind: str, **parts: Any) -> dict[str, Any]:
    return obj(
        apiVersion={"type": ["string", "null"], "enum": ["v1", "apps/v1"]},
        kind={"type": ["string", "null"], "enum": [kind]},
        metadata=ref("meta"),
        **parts,
    ) | {
        "definitions": {"meta": _META, "quantity": _QUANTITY, "selector": _SELECTOR, "container": _CONTAINER}
    }


KUBERNETES: list[tuple[str, Any, list[Any]]] = [
    (
        "secret",
        _object(
            "Secret", data={"type": ["object", "null"], "additionalProperties": null_or(S)}, type=null_or(S)
        ),
        [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "door", "namespace": "home", "labels": {"tier": None}},
                "data": {"key": "c2VhbGVk"},
                "type": "Opaque",
            }
        ],
    ),
    (
        "deployment",
        _object(
            "Deployment",
            spec=obj(
                "selector template",
                paused=null_or(B),
                replicas=null_or(I),
                selector=ref("selector"),
                template=obj(metadata=ref("meta"), spec=obj("containers", containers=arr(ref("container")))),
            ),
        ),
        [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {
                            "containers": [
                                {
                                    "args": ["--port", "80"],
                                    "image": "web:1",
                                    "name": "web",
                                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                                    "resources": {"limits": {"cpu": "500m", "memory": 1024}},
                                }
                            ]
                        },
                    },
                },
            }
        ],
    ),
    (
        "condition",
        obj(
            "type status",
            lastTransitionTime=text("When it changed.", format="date-time"),
            message=null_or(S),
            reason=null_or(text("One word.")),
            status=text("True, False or Unknown."),
            type=S,
        ),
        [{"lastTransitionTime": "2024-01-02T03:04:05Z", "message": None, "status": "True", "type": "Ready"}],
    ),
    (
        "volume",
        obj(
            "name",
            name=S,
            emptyDir={
                "type": ["object", "null"],
                "properties": {"medium": null_or(S), "sizeLimit": _QUANTITY},
            },
            hostPath={**obj("path", path=S, type=null_or(S)), "type": ["object", "null"]},
            configMap={
                **obj(
                    defaultMode=null_or(I),
                    items=arr(obj("key path", key=S, mode=null_or(I), path=S)),
                    name=null_or(S),
                ),
                "type": ["object", "null"],
            },
        ),
        [
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
            {
                "name": "conf",
                "configMap": {"defaultMode": 420, "items": [{"key": "a", "path": "a.conf"}], "name": "c"},
            },
        ],
    ),
    (
        "node-affinity",
        {
            **obj(
                required=obj("terms", terms=arr(ref("term"))),
                preferred=arr(obj("weight preference", weight=I, preference=ref("term"))),
            ),
            "definitions": {
                "rule": obj(
                    "key operator", key=S, operator=S, values={"type": ["array", "null"], "items": null_or(S)}
                ),
                "term": obj(matchExpressions=arr(ref("rule")), matchFields=arr(ref("rule"))),
            },
        },
        [
            {
                "required": {
                    "terms": [
                        {
                            "matchExpressions": [
                                {"key": "zone", "operator": "In", "values": ["north", "south"]}
                            ]
                        }
                    ]
                },
                "preferred": [{"weight": 5, "preference": {"matchFields": []}}],
            }
        ],
    ),
    (
        "service-list",
        {
            **obj(
                "items",
                apiVersion=null_or(S),
                items=arr(
                    obj(
                        "spec",
                        metadata=ref("meta"),
                        spec=obj(
                            "ports",
                            clusterIP=null_or(S),
                            ports=arr(obj("port", name=null_or(S), port=I, targetPort={"oneOf": [S, I]})),
                            selector={"type": ["object", "null"], "additionalProperties": null_or(S)},
                        ),
                    )
                ),
                kind={"enum": ["ServiceList"]},
            ),
            "definitions": {"meta": _META},
        },
        [
            {
                "apiVersion": "v1",
                "items": [
                    {
                        "metadata": {"name": "api", "generation": 2},
                        "spec": {
                            "ports": [{"name": None, "port": 80, "targetPort": "http"}],
                            "selector": {"app": "api"},
                        },
                    }
                ],
                "kind": "ServiceList",
            }
        ],
    ),
]
"""Name, schema and valid instances."""
