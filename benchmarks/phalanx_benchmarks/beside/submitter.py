"""Runs `sbatch` of Phalanx for each line that it reads, in one process.

Starting Python takes longer than submitting; real `sbatch` is a small program.
"""

from __future__ import annotations

import json
import sys

import typer

from phalanx.adapters.slurm.commands.sbatch import sbatch


def main() -> None:
    """Read lists of arguments as JSON; print a line after each submission."""
    for line in sys.stdin:
        try:
            sbatch(json.loads(line))
        except typer.Exit as error:
            print(f"exit {error.exit_code}", flush=True)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
