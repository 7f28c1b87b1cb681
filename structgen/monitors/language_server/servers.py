"""Language servers that are known: how to find and start them, and how to read what they answer.

Why: servers differ in what an answer means, which no protocol says; here is what was measured (ty 0.0.105, zuban 0.10,
tsgo 7.0-dev, pyright 1.1, jedi 0.20), on unsaved text that ends in the middle of an expression.

                     ty                 zuban              tsgo               pyright            jedi
completions, ms      0.7                0.4                2.9                13                 11
signatures, ms       0.5                0.3                2.3                5                  2
diagnostics, ms      0.5                0.3                2.4                260                1 (syntax only)
first answer, ms     35                 40                 150                1100               150-650
receiver unknown     object's members   null               null               empty              empty
``A | None``         what both have     what any has       all, as ``?.``     what any has       what any has
``_private``         yes                yes                where allowed      yes                yes
typed prefix         filters, loosely   ignores            ignores            filters, loosely   filters
"incomplete"         always, cut at     never              never              always             -
                     1000
auto-imports         switched off       none               switched off       switched off       none
in a string          null               null               null               empty              empty
comment, or ``1.``   null               all global names   null               empty              keywords
new files on disk    when notified      seen               seen               when notified      seen

All see the project's types, inherited members and enum members in unsaved text. Milliseconds are medians of 50, warm,
in a small project, with a new text each time; this client adds 0.1 to 0.3. What ty cut is requested again: ``torch.``,
1474 names, takes 0.6 s. All of the answers to an unknown receiver are read as None, ty's too, which is also its answer
for ``object()``, ``None`` and a class without members: nothing distinguishes them. tsgo's null is also for ``{}`` and a
class without members. **A class whose base is not known** (its package is not installed) gets its own members alone
from ty, zuban and tsgo, and no server says that there may be more: see `environments`.
ty lists mangled names (``__x``) outside of their class too.
Signatures: for a call of what is not known ty has ``(...)`` and zuban ``()`` without a list of parameters: None. zuban
has none after a comma and a space, and its labels lose ``/`` and ``*``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from structgen.errors import LanguageServerMissing, OptionError
from structgen.monitors.language_server.analysis import Analyser
from structgen.monitors.language_server.client import LanguageServer
from structgen.monitors.language_server.completions import Knowledge
from structgen.monitors.language_server.environments import variables, with_interpreter
from structgen.monitors.language_server.finding import find_program, hides_programs, safe_path
from structgen.monitors.language_server.in_process import InProcess, is_jedi_installed

__all__ = ["PRESETS", "Preset", "analyser"]

_OBJECT_MEMBERS = frozenset(dir(object)) | {"__annotations__", "__dict__", "__getstate__", "__module__"}
"""What every Python object has; typeshed declares the last ones too."""

_NEVER_CUT = 1_000_000


@dataclass(frozen=True, slots=True)
class Preset:
    """A server that is known."""

    name: str
    languages: tuple[str, ...]
    programs: tuple[tuple[str, ...], ...]
    """Commands that start it, the first of which is there."""
    install: str
    """The command that installs it."""
    knowledge: Knowledge = field(default_factory=Knowledge)
    options: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)


_SCRIPT = {"suggest": {"autoImports": False}}
_PYRIGHT = {"autoImportCompletions": False, "diagnosticMode": "openFilesOnly", "autoSearchPaths": True}

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            Preset(
                "ty",
                ("python",),
                (("ty", "server"),),
                "pip install ty",
                # 1000 is where it cuts a list
                Knowledge(full_below=1000, asks_without_prefix=True, nothing_known=_OBJECT_MEMBERS),
                options={"completions": {"autoImport": False}},
                settings={"ty": {"completions": {"autoImport": False}}},
            ),
            Preset("zuban", ("python",), (("zuban", "server"),), "pip install zuban"),
            Preset(
                "pyright",
                ("python",),
                (("pyright-langserver", "--stdio"), ("basedpyright-langserver", "--stdio")),
                "npm install -g pyright",
                Knowledge(full_below=_NEVER_CUT, asks_without_prefix=True),
                settings={"python": {"analysis": _PYRIGHT}, "pyright": {}},
            ),
            Preset(
                "tsgo",
                ("typescript", "javascript"),
                (("tsgo", "--lsp", "--stdio"),),
                "npm install -g @typescript/native-preview",
                Knowledge(text_is_noise=True),
                settings={"js/ts": _SCRIPT, "typescript": _SCRIPT, "javascript": _SCRIPT},
            ),
        )
    }
)
"""The servers, by name; for a language the first that is installed is taken."""

_IN_PROCESS = "jedi"
_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"python": ("ty", "zuban", _IN_PROCESS), "typescript": ("tsgo",), "javascript": ("tsgo",)}
)


@dataclass(frozen=True, slots=True)
class _Project:
    """A folder, and whether its own programs may run."""

    folder: Path
    project_programs: bool

    def find(self, program: str) -> str | None:
        return find_program(program, self.folder, project_programs=self.project_programs)


def analyser(
    language: str,
    project: str | Path = ".",
    server: str | Sequence[str] | None = None,
    *,
    project_programs: bool = False,
    **options: Any,
) -> Analyser:
    """Return an analyser for a language in a project; close it when it is not needed any more.

    Args:
        language: "python", "typescript" or "javascript"; with a command of your own, any name of a language.
        project: the folder that holds the project's configuration.
        server: the name of a preset ("ty", "zuban", "pyright", "tsgo", "jedi"), or a command that starts a server.
            Without it, for Python: ty, then zuban, then jedi in this process; for the others: tsgo.
        project_programs: also run programs that lie in the project (``node_modules/.bin``, ``.venv``, entries of PATH),
            and give its ``.venv`` to the server. Only for projects that you trust.
        **options: of `LanguageServer` (`timeout`, `warm_up`, `settings`, ...), for jedi of `InProcess`; for Python also
            `python`, the interpreter whose packages are seen (see `environments`).

    Raises:
        LanguageServerMissing: No server is installed; the hint says how to install it.
        OptionError: there is no such language, server or project.
    """
    folder = Path(project)
    if not folder.is_dir():
        raise OptionError(
            f"the project {str(project)!r} is no folder", hint="Pass the folder of the project."
        )
    project_folder = _Project(folder, project_programs)
    if server is not None and not isinstance(server, str):
        return _own(language, project_folder, list(server), options)
    if language not in _CHOICES:
        raise OptionError(
            f"no language server is known for {language!r}",
            hint=f"Known are {', '.join(_CHOICES)}; for others pass server=[command, arguments...].",
        )
    if server is not None:
        return _named(server, language, project_folder, options)
    for name in _CHOICES[language]:
        started = _try(name, language, project_folder, options)
        if started is not None:
            return started
    commands = [
        "pip install jedi" if name == _IN_PROCESS else PRESETS[name].install for name in _CHOICES[language]
    ]
    raise LanguageServerMissing(
        f"no language server for {language} is installed",
        hint=f"Install one: {' or '.join(commands)}. Or pass server=[command, arguments...]."
        f"{_in_project(project_folder)}",
    )


def _in_project(project: _Project) -> str:
    """Return the rest of a hint where the project's own programs were not looked for."""
    if project.project_programs:
        return ""
    why = " Programs in the project run only with project_programs=True."
    if hides_programs(project.folder):
        why += f" All folders of PATH lie in the project {str(project.folder.resolve())!r}: name a smaller folder."
    return why


def _own(language: str, project: _Project, command: list[str], options: Mapping[str, Any]) -> Analyser:
    program = project.find(command[0]) if command else None
    if program is None:
        raise LanguageServerMissing(
            f"the command {' '.join(command)!r} cannot be found",
            hint=f"Pass server=[program, arguments...] with a program that can be run.{_in_project(project)}",
        )
    stem = Path(program).stem
    known = (preset for preset in PRESETS.values() if any(stem == one[0] for one in preset.programs))
    return _server(
        next(known, Preset(stem, (language,), (), "")), [program, *command[1:]], project, language, options
    )


def _server(
    preset: Preset, command: Sequence[str], project: _Project, language: str, options: Mapping[str, Any]
) -> LanguageServer:
    given = {"knowledge": preset.knowledge, "options": preset.options, "settings": preset.settings, **options}
    python = given.pop("python", None)
    environment = {"PATH": safe_path(project.folder, project_programs=project.project_programs)}
    if language == "python":
        own = project.folder / ".venv" if project.project_programs else None
        given["settings"] = with_interpreter(given["settings"], own, python)
        environment |= variables(own, python)
    given["environment"] = {**environment, **(given.get("environment") or {})}
    return LanguageServer(preset.name, command, project.folder, language, **given)


def _named(name: str, language: str, project: _Project, options: Mapping[str, Any]) -> Analyser:
    known = [known_name for known_name, preset in PRESETS.items() if language in preset.languages]
    known += [_IN_PROCESS] if language == "python" else []
    if name not in known:
        raise OptionError(
            f"there is no server {name!r} for {language}",
            hint=f"Choose one of {', '.join(known)}, or pass server=[command, arguments...].",
        )
    started = _try(name, language, project, options)
    if started is None:
        install = "pip install jedi" if name == _IN_PROCESS else PRESETS[name].install
        raise LanguageServerMissing(
            f"{name} is not installed", hint=f"Install it: {install}.{_in_project(project)}"
        )
    return started


def _try(name: str, language: str, project: _Project, options: Mapping[str, Any]) -> Analyser | None:
    """Return the analyser, or None if it is not installed."""
    if name == _IN_PROCESS:
        return InProcess(project.folder, **_for_jedi(options)) if is_jedi_installed() else None
    preset = PRESETS[name]
    for program, *arguments in preset.programs:
        path = project.find(program)
        if path is not None:
            return _server(preset, [path, *arguments], project, language, options)
    return None


def _for_jedi(options: Mapping[str, Any]) -> dict[str, Any]:
    """Without what only servers have (time-outs are the caller's there)."""
    return {name: value for name, value in options.items() if name in ("python", "timeout")}
