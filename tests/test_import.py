"""``import structgen`` is quick and loads nothing heavy: programs import it before they know they need it."""

from __future__ import annotations

import subprocess
import sys

import structgen

HEAVY = ("torch", "transformers", "pydantic", "jsonschema", "jinja2", "numpy", "structgen._core")
CPU_SECONDS = 0.5
"""50 times the CPU time of an import."""
MODULES = 60
"""Twice the number of modules that it imports."""


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    program = f"import sys, structgen; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(program) == "[]"


def test_import_is_quick() -> None:
    program = (
        "import sys, time\n"
        "before, start = len(sys.modules), time.process_time()\n"
        "import structgen\n"
        "print(len(sys.modules) - before, time.process_time() - start)"
    )
    python(program)  # the byte code is there now
    modules, seconds = python(program).split()
    assert int(modules) < MODULES and float(seconds) < CPU_SECONDS


def test_masks_need_no_torch() -> None:
    program = (
        "import sys, structgen as sg\n"
        "vocabulary = sg.Vocabulary.from_tokens([bytes([i]) for i in range(256)], eos_ids=[256], size=257)\n"
        "matcher = sg.Matcher(sg.json_schema({'type': 'integer'}), vocabulary)\n"
        "matcher.mask()\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert python(program) == "False False"


def test_every_public_name_is_there() -> None:
    for name in structgen.__all__:
        assert getattr(structgen, name) is not None
        assert name in dir(structgen)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(structgen, "no_such_name")
