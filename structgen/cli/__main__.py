"""``python -m structgen.cli``."""

from structgen.cli import program

program()
