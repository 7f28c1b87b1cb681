"""Fuzzing: unusual inputs for each front end and for the core, for a given time.

    python -m fuzz --target schema --minutes 60 --seed 1 --corpus FOLDER

Schemas, patterns, grammars and formulas are untrusted input. An input may be refused with one of structgen's errors.
Anything else is a finding: another exception, a crash, a hang, unbounded memory, a mask that contradicts what is
accepted. A finding is kept as the smallest input that still shows it.

`campaign` draws inputs (`mutation`, `writing`, `seeds`) and gives them to a worker process (`worker`, `process`), which
runs the checks of the target (`checking`, `walking`, `core`, `served`). `corpus` keeps inputs that led to something new
in a folder, from which a later run continues; `minimizing` reduces findings.
"""
