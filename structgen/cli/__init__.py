"""The command line: ``structgen generate | check | explain | mask | doctor``.

Why: a schema is written, checked and debugged in a terminal long before it is in a program.
Invariant: a user's mistake is one message on standard error, never a traceback; standard output holds only
what was asked for, so it can be piped.
Exit status: 0 yes or done; 1 the answer is no (a text is rejected, a keyword is not supported, nothing
satisfies the constraint, generation ended without a value, an installation has a fault); 2 the question
cannot be asked (bad arguments, a file that is not there, a schema that is not a schema); 130 interrupted.
Cost: a command imports what it needs; only ``generate`` and ``mask`` load a model or a tokenizer.
"""

import sys
from collections.abc import Sequence

from structgen.errors import CoreMissing

try:
    from .main import main
except CoreMissing as error:
    _MESSAGE = f"structgen: {error}"

    def main(arguments: Sequence[str] | None = None) -> int:
        """Print why no command works; the exit status."""
        print(_MESSAGE, file=sys.stderr)
        return 2


__all__ = ["main"]
