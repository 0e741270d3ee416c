"""`python -m guepard` is `guepard`."""

import sys

from guepard.cli.main import main

sys.exit(main())
