"""`python -m tileprof` is the command line, as under a launcher: `torchrun … -m tileprof run`."""

import sys

from tileprof.cli import main

sys.exit(main())
