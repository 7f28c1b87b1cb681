"""Serve the embedded model by vLLM with the plugin, and check every answer.

    PYTHON -m bench.vllm_serving [--requests 300] [--concurrency 64] [--poison 0.15]
        [--speculation N | --grammar-drafts N]

PYTHON is an environment that has vLLM and structgen; `make test-vllm` makes one. The exit status is 1 if an answer was
wrong or missing, or if a process of the server remains.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import urllib.request

from bench.command import argument_parser

from .asking import Report, ask_all
from .cases import draw_cases
from .server import serve


def main() -> int:
    parser = argument_parser("bench.vllm_serving", __doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--poison", type=float, default=0.15, help="share of requests that must be refused")
    parser.add_argument("--speculation", type=int, default=0, help="n-gram drafts of so many tokens")
    parser.add_argument(
        "--grammar-drafts", type=int, default=0, help="drafts of the plugin of so many tokens"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="structgen")
    parser.add_argument("--url", help="of a server that runs already")
    parser.add_argument("--model", default="smollm2")
    options = parser.parse_args()
    # vLLM 0.32 on CPU ends where a request with a seed meets drafts ("CPU Generator does not use offset").
    cases = draw_cases(
        options.requests,
        options.seed,
        options.poison,
        seeded=not (options.speculation or options.grammar_drafts),
    )
    if options.url:
        report = asyncio.run(ask_all(options.url, options.model, cases, options.concurrency))
        return _print_report(report)
    with serve(
        speculation=options.speculation, grammar_drafts=options.grammar_drafts, backend=options.backend
    ) as server:
        report = asyncio.run(ask_all(server.url, options.model, cases, options.concurrency))
        report.explain_failures(server.log.read_text(errors="replace"))
        metrics = [] if report.outcomes.total() == 0 or not report.is_clean else _metrics(server.root)
        group = server.process.pid  # it began a session of its own
    left = _left(group)
    status = _print_report(report)
    print(*metrics, sep="\n")
    if left:
        print(f"{len(left)} processes of the server remain: {left}")
    return status or bool(left)


def _print_report(report: Report) -> int:
    print(*report.lines(), sep="\n")
    for fault in report.faults[:20]:
        print("FAULT", fault)
    return 0 if report.is_clean else 1


def _metrics(root: str) -> list[str]:
    with urllib.request.urlopen(f"{root}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    counted = ("drafts", "draft_tokens", "accepted_tokens")
    wanted = ("structgen:", *(f"vllm:spec_decode_num_{name}_total" for name in counted))
    return [
        line for line in lines if line.startswith(wanted) and "_bucket" not in line and "_created" not in line
    ]


def _left(group: int) -> list[int]:
    """Processes of the group that still live, after they had time to end."""
    for _ in range(20):
        ids = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.getpgid(int(name)) == group:
                    ids.append(int(name))
            except ProcessLookupError:
                pass
        if not ids:
            return []
        time.sleep(0.5)
    return ids


if __name__ == "__main__":
    sys.exit(main())
