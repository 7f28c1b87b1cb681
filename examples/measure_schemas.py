"""Measure the engine on 20 JSON Schemas, and write a report as a web page.

The schemas come with the library. Add engines (`--engine llguidance`) or schemas of your own (`--dataset folder`). The
vocabulary is `bytes`, so that no model is needed.

Run: python examples/measure_schemas.py    (needs: in the folder of the repository, pip install '.[eval]')
"""

import tempfile
from pathlib import Path

from structgen.cli import main

with tempfile.TemporaryDirectory() as folder:
    run = str(Path(folder) / "run")
    status = main(
        ["eval", "run", "--model", "bytes", "--dataset", "bundled", "--sample", "20", "--output", run]
    )
    if status == 0:
        main(["eval", "report", run])
        print((Path(run) / "report.html").stat().st_size // 1000, "kB of report.html")
