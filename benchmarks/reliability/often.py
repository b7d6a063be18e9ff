"""The command line with a checkpoint after every epoch, so that short runs have something to go on from.

``python benchmarks/reliability/often.py train …`` is ``tokenstn train …``. With READ_ANEW in the environment images are
read in every epoch by processes, as those of a large set are.
"""

import os
import sys

from tokenstn.training import held, keeping

# here and not below: processes that are spawned import this file, too
keeping.SECONDS = 0.0
if os.environ.get("READ_ANEW"):
    held.MOST_BYTES = 0

if __name__ == "__main__":
    from tokenstn.cli import main

    sys.exit(main())
