"""``python -m structgen.cli``."""

import sys

from .main import main

sys.exit(main())
