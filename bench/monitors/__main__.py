"""Measure language-server monitors on real projects: correct code that they refuse, and what models write under them.

    python -m bench.monitors [--projects NAME ...] [--sites 40] [--servers ty tsgo] [--modes MODE ...] [--replay]

Sites are positions after a dot in the code of published packages. The identifier there and the rest of its line are
held out, as in monitor-guided decoding (Agrawal et al., 2023). First the benchmark requests the server's list of
members there: its recall is the upper bound of what a monitor can do.

Then a model writes the line in each mode: free; with the members monitor; with all monitors (members, arguments,
imports); with all and the server's verdict on the finished line; and with monitors only after a verdict ("fallback").
The modes take turns, in an order that rotates from site to site. Times per token exclude the prompt and are compared
site by site.

With ``--replay`` there is no model: each type of monitor reads the real rest of each line, and every refusal is an
error. The list of refusals shows the position with a mark, and the members that were allowed there.

Packages are installed into the cache folder, which takes a minute and needs their registries (PyPI, npm).

Results: docs/monitors.md, "Measured".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structgen as sg
from bench.command import argument_parser
from structgen.monitors.language_server import Analyser, analyser
from structgen.progress import ProgressBar

from . import tables
from .modes import CODE_ITSELF, MODES, Record, code_itself, written
from .projects import PROJECTS, cache_folder, install, typescript_server
from .replay import IMPORTS, KINDS, SPLITS, Known, Replay, Replayed, known_of
from .sites import IMPORT, MEMBER, Site, picked

__all__ = ["main"]

_SECONDS = 30.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argument_parser("bench.monitors", __doc__)
    add = parser.add_argument
    add("--projects", nargs="+", default=list(PROJECTS), choices=list(PROJECTS), help="default: all")
    add("--sites", type=int, default=40, help="of each project (40)")
    add("--seed", type=int, default=0, help="of the sites (0)")
    add("--servers", nargs="+", default=["ty", "tsgo"], help="of either language one or several (ty tsgo)")
    add("--replay", action="store_true", help="read real lines; no model")
    add(
        "--tokens",
        choices=SPLITS,
        default="bytes",
        help="with --replay: how lines are cut into tokens (bytes)",
    )
    add("--modes", nargs="+", default=list(MODES), choices=list(MODES), help="default: all")
    add("--model", help="a folder or a name of a model (the embedded one)")
    add("--max-tokens", type=int, default=48, help="of a line (48)")
    add("--device", help="where the model runs, as torch spells it (a GPU if there is one)")
    add("--dtype", default="float32", choices=["float32", "bfloat16"], help="of the model (float32)")
    add("--threads", type=int, default=None, help="of torch (OMP_NUM_THREADS, or 2)")
    add("--cache", type=Path, default=cache_folder(), help="where projects are kept")
    add("--json", type=Path, help="a file for everything that was recorded")
    chosen = parser.parse_args(arguments)
    install([PROJECTS[name] for name in chosen.projects], chosen.cache)
    known: list[tuple[str, str, Known]] = []
    if chosen.replay:
        replayed = _replayed(chosen, known)
        lines = [*tables.replay_table((server, kind, line) for _, server, kind, line in replayed)]
        results: dict[str, Any] = {
            "replayed": [
                {**asdict(site), "server": server, "kind": kind, **asdict(line)}
                for site, server, kind, line in replayed
            ]
        }
    else:
        records = _measured(chosen, known)
        lines = tables.mode_table(records)
        results = {"records": [asdict(record) for record in records]}
    print("\n".join([*lines, "", *tables.recall_table(known)]))
    if chosen.json:
        results["known"] = [
            {"server": server, "project": project, **asdict(entry)} for server, project, entry in known
        ]
        chosen.json.write_text(json.dumps(results, indent=1))


def _replayed(chosen: Any, known: list[tuple[str, str, Known]]) -> list[tuple[Site, str, str, Replayed]]:
    lines: list[tuple[Site, str, str, Replayed]] = []
    replay = Replay(chosen.tokens, chosen.seed)
    for site, folder, text, server in _sites(chosen, with_imports=True):
        if site.kind == MEMBER:
            known.append((server.name, site.project, known_of(site, folder, text, server)))
        for kind in KINDS if site.kind == MEMBER else [IMPORTS]:
            line = replay.line(site, folder, text, server, kind)
            lines.append((site, server.name, kind, line))
            if line.refused:
                print(_shown(site, text, server.name, kind, line), flush=True)
    print()
    return lines


def _shown(site: Site, text: str, server: str, kind: str, replayed: Replayed) -> str:
    line = text.count("\n", 0, site.offset) + 1
    offered = [name for name in replayed.offered if not name.startswith("__")]
    more = f" and {len(offered) - 8} more" if len(offered) > 8 else ""
    return (
        f"{site.project} {site.file}:{line}, {kind} of {server}:\n    {replayed.refused}\n"
        f"    instead: {', '.join(offered[:8])}{more}"
    )


def _measured(chosen: Any, known: list[tuple[str, str, Known]]) -> list[Record]:
    threads = chosen.threads or int(os.environ.get("OMP_NUM_THREADS") or 2)
    model = sg.load(chosen.model, chat=False, threads=threads, dtype=chosen.dtype, device=chosen.device)
    records: list[Record] = []
    warm: set[str] = set()
    for number, (site, folder, text, server) in enumerate(_sites(chosen)):
        # The server has read the file when it gets this request, before any mode runs.
        known.append((server.name, site.project, known_of(site, folder, text, server)))
        records.append(code_itself(site, folder, text, server))
        if f"{server.name} {site.project}" not in warm:
            warm.add(f"{server.name} {site.project}")
            written(model, site, folder, text, server, chosen.modes[-1], chosen.max_tokens)
        turn = number % len(chosen.modes)
        order = [*chosen.modes[turn:], *chosen.modes[:turn]]
        records += [written(model, site, folder, text, server, mode, chosen.max_tokens) for mode in order]
    order = [CODE_ITSELF, *chosen.modes]
    return sorted(records, key=lambda record: order.index(record.mode))


def _sites(chosen: Any, *, with_imports: bool = False) -> Iterator[tuple[Site, Path, str, Analyser]]:
    """Yield each site with its project's folder, its file's text and each server.

    After a site, the server gets the whole text of the file.
    """
    work = []
    for name in chosen.projects:
        project = PROJECTS[name]
        folder = project.folder(chosen.cache)
        files = project.files(chosen.cache)
        sites = picked(name, project.language, folder, files, chosen.sites, chosen.seed)
        if with_imports and project.language == "python":
            sites += picked(name, project.language, folder, files, chosen.sites, chosen.seed, kind=IMPORT)
        language_family = "python" if project.language == "python" else "script"
        servers = [
            server
            for server in chosen.servers
            if ("script" if server == "tsgo" else "python") == language_family
        ]
        work += [(server, project.language, folder, sites) for server in servers]
    with ProgressBar(sum(len(sites) for *_, sites in work), "sites", True) as bar:
        for name, language, folder, sites in work:
            server = analyser(language, folder, typescript_server(chosen.cache) if name == "tsgo" else name)
            try:
                for site in sites:
                    path = folder / site.file
                    text = path.read_bytes().decode("utf-8", "replace")
                    yield site, folder, text, server
                    # subtle: servers keep the last text that they were sent, and other files are read with it
                    server.diagnostics(path, text).result(_SECONDS)
                    bar.advance()
            finally:
                server.close()


if __name__ == "__main__":
    main()
