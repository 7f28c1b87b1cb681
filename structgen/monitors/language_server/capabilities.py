"""The capabilities that we report to a server, and our replies to its requests.

Why: a server shapes its answers by the client's capabilities: without snippets it sends plain names, and it waits for
progress and configuration only if they were promised. Invariant: nothing is promised that is not kept.
Cost: tables. Spec: Language Server Protocol 3.17, "Initialize Request", "Configuration Request".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from structgen.monitors.language_server.positions import ENCODINGS

__all__ = ["CAPABILITIES", "initialize_parameters", "replies"]

CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": list(ENCODINGS)},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeWatchedFiles": {
            "dynamicRegistration": True
        },  # accepted, and `files_changed` reports every file
    },
    "window": {"workDoneProgress": True},
    "textDocument": {
        "synchronization": {"dynamicRegistration": False},
        "completion": {
            "contextSupport": True,
            "completionItem": {
                "snippetSupport": False,
                "deprecatedSupport": True,
                "tagSupport": {"valueSet": [1]},
                "labelDetailsSupport": True,
            },
            "completionItemKind": {"valueSet": list(range(1, 26))},
        },
        "signatureHelp": {
            "contextSupport": True,
            "signatureInformation": {
                "parameterInformation": {"labelOffsetSupport": True},
                "activeParameterSupport": True,
            },
        },
        "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
        "publishDiagnostics": {"versionSupport": True, "tagSupport": {"valueSet": [1, 2]}},
    },
}


def initialize_parameters(project: Path, options: object, process_number: int) -> dict[str, Any]:
    """Return the parameters of ``initialize``; a server ends when the process of this number does."""
    uri = project.as_uri()
    return {
        "processId": process_number,
        "clientInfo": {"name": "structgen"},
        "rootUri": uri,
        "rootPath": str(project),
        "workspaceFolders": [{"uri": uri, "name": project.name}],
        "capabilities": CAPABILITIES,
        "initializationOptions": options,
    }


def replies(project: Path, settings: Mapping[str, Any]) -> dict[str, Callable[[Any], Any]]:
    """Return our reply to each request of a server; requests that are not in the table are unknown."""
    folder = {"uri": project.as_uri(), "name": project.name}

    def configuration(parameters: Any) -> list[Any]:
        return [_section(settings, item.get("section")) for item in parameters["items"]]

    return {
        "workspace/configuration": lambda parameters: _or_nothing(configuration, parameters),
        "workspace/workspaceFolders": lambda _: [folder],
        "workspace/applyEdit": lambda _: {"applied": False, "failureReason": "structgen only reads"},
        "workspace/diagnostic/refresh": _accept,
        "workspace/inlayHint/refresh": _accept,
        "workspace/semanticTokens/refresh": _accept,
        "workspace/codeLens/refresh": _accept,
        "client/registerCapability": _accept,
        "client/unregisterCapability": _accept,
        "window/workDoneProgress/create": _accept,
        "window/showMessageRequest": _accept,
        "window/showDocument": lambda _: {"success": False},
    }


def _accept(_: object) -> None:
    return None


def _or_nothing(reply: Callable[[Any], list[Any]], parameters: object) -> list[Any]:
    try:
        return reply(parameters)
    except (TypeError, KeyError, AttributeError):
        return []


def _section(settings: Mapping[str, Any], section: Any) -> Any:
    """Return the settings of a section, by its whole name or part by part at its dots; None if it has no settings."""
    if not section:
        return dict(settings)
    if section in settings:
        return settings[section]
    found: Any = settings
    for part in section.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
