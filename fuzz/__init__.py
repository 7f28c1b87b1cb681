"""Fuzzing: inputs that nobody would write, given to each front end and to the core, for as long as one likes.

    python -m fuzz --target schema --minutes 60 --seed 1 --corpus FOLDER

Why: schemas, patterns, grammars and formulas come from strangers. What they may do is be refused with an error of ours;
anything else (another exception, a crash, a hang, memory without end, a mask that contradicts what is accepted) is a
finding, which is kept as the smallest input that still shows it.
How: `campaign` draws inputs (`mutation`, `writing`, `seeds`) and gives them to a worker process (`worker`, `process`),
which runs the checks of the target (`checking`, `walking`, `core`, `served`). Inputs that led to something new are kept
in `corpus`, a folder that a later run goes on with; findings are made small by `minimizing`.
"""
