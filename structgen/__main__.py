"""``python -m structgen``: the command line."""

import sys

from structgen.cli import main

sys.exit(main())
