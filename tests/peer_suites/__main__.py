"""All verdicts of the peers' suites: the table of docs/peer-suites.md, and what differs.

    python -m tests.peer_suites [PEER ...] [--real N] [--list CLASS] [--write FILE] [--record]

With `--record` the differences become those that the tests expect (`expected.json`): do so after a look at them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from .cases import PEERS
from .expected import record
from .reasons import Class, reason_of
from .running import Difference, Report, run

_COLUMNS = ("cases", "verdicts", "equal", *(kind.value for kind in Class), "unexplained")


def counts(report: Report) -> dict[str, int]:
    """The verdicts of a suite by class; artifacts are no verdicts."""
    by_class: Counter[str] = Counter()
    for one in report.differences:
        reason = reason_of(one)
        by_class[reason.kind.value if reason else "unexplained"] += one.verdicts
    row = {"cases": report.cases, "verdicts": report.verdicts, "equal": report.equal}
    return row | {name: by_class[name] for name in _COLUMNS[3:]}


def _shown(difference: Difference) -> dict[str, object]:
    reason = reason_of(difference)
    return {
        "peer": difference.case.peer,
        "line": difference.case.line,
        "source": difference.case.source,
        "kind": difference.case.kind,
        "class": reason.kind.value if reason else "unexplained",
        "reason": reason.text if reason else "",
        "field": difference.field,
        "text": difference.text,
        "want": difference.want,
        "got": difference.got,
        "error": difference.error,
        "option": difference.option,
        "vocabulary": difference.vocabulary,
        "verdicts": difference.verdicts,
    }


def main(arguments: list[str]) -> None:
    """Run the suites that are named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.peer_suites", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(PEERS))
    parser.add_argument(
        "--real", type=int, metavar="N", help="read every N-th case in SmolLM2's vocabulary too"
    )
    parser.add_argument(
        "--list", metavar="CLASS", help="print the differences of a class, or of 'unexplained'"
    )
    parser.add_argument("--write", metavar="FILE", help="write all differences, one JSON object per line")
    parser.add_argument("--record", action="store_true", help="make these differences the expected ones")
    given = parser.parse_args(arguments)
    print("| suite |", " | ".join(_COLUMNS), "|\n|---|" + "--:|" * len(_COLUMNS))
    total: Counter[str] = Counter()
    found: list[Difference] = []
    for peer in given.peers or PEERS:
        report = run(peer, real=given.real)
        row = counts(report)
        total.update(row)
        found += report.differences
        if given.record:
            record(peer, report.differences)
        print(f"| {peer} |", " | ".join(f"{row[name]:,}" for name in _COLUMNS), "|", flush=True)
    print("| all |", " | ".join(f"{total[name]:,}" for name in _COLUMNS), "|")
    by_reason: Counter[tuple[str, str, str]] = Counter()
    for one in found:
        reason = reason_of(one)
        by_reason[
            one.case.peer, reason.kind.value if reason else "unexplained", reason.text if reason else ""
        ] += one.verdicts
    for (peer, kind, text), number in sorted(by_reason.items()):
        print(f"{peer:20} {kind:12} {number:6,}  {text}")
    shown = [_shown(one) for one in found]
    for line in shown:
        if given.list == line["class"]:
            print(json.dumps(line, ensure_ascii=False, default=repr))
    if given.write:
        with open(given.write, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.writelines(json.dumps(line, default=repr) + "\n" for line in shown)


if __name__ == "__main__":
    main(sys.argv[1:])
