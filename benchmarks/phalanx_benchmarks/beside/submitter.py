"""A process that runs Phalanx's `sbatch` for each line that it reads. Starting Python takes longer
than a submission, whereas real `sbatch` is a small program. So one process handles all lines.
"""

from __future__ import annotations

import json
import sys

from phalanx.adapters.slurm.commands.sbatch import sbatch
from phalanx.cli.ending import Ended


def main() -> None:
    """Read lists of arguments as JSON, one in each line. Submit a job for each, and print a line
    after each submission.
    """
    for line in sys.stdin:
        try:
            sbatch(json.loads(line))
        except Ended as error:
            print(f"exit {error.code}", flush=True)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
