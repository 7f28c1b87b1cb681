"""Measure the memory of a server's compiler when no schema is ever compiled twice.

    python -m bench.serving_memory [--minutes 2]

Each schema is new, is compiled as in a server, and computes a few masks of one answer. At intervals a line shows the
resident memory of this process and of its compile probes, which must reach a steady state.
"""

from __future__ import annotations

import random
import time

from bench.command import argument_parser
from bench.memory import status_kib
from bench.tokenizers import embedded_vocabulary
from structgen.generation.distributions import allowed_ids
from structgen.serving.compiler import ConstraintCompiler

from .isolation import harmless

_STEPS = 20


def main() -> None:
    parser = argument_parser("bench.serving_memory", __doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    minutes: float = parser.parse_args().minutes
    vocabulary = embedded_vocabulary()
    draw = random.Random(0)
    with ConstraintCompiler(vocabulary, workers=1) as compiler:
        begin = reported = time.monotonic()
        schemas = 0
        while time.monotonic() - begin < 60 * minutes:
            matcher = compiler.compile("json", harmless(schemas)).open()
            schemas += 1
            for _ in range(_STEPS):
                allowed = allowed_ids(matcher.mask(), vocabulary.size)
                if not matcher.advance(int(draw.choice(allowed))) or matcher.is_finished:
                    break
            if time.monotonic() - reported > 5 * minutes:
                reported = time.monotonic()
                stats = compiler.stats
                tried = [_resident(worker.worker_pid) for worker in compiler.processes]
                print(
                    f"{reported - begin:6.0f} s {schemas:8} schemas: {_resident('self'):7.1f} MiB here, "
                    f"{tried} MiB in compile probes; {stats.entries} kept, masks {stats.mask_bytes >> 20} MiB"
                )


def _resident(process: int | str) -> float:
    return round(status_kib(process, "VmRSS") / 1024, 1)


if __name__ == "__main__":
    main()
