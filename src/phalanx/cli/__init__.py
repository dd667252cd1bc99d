"""The command line `phalanx`. `README.md` in this folder is a guide to its modules."""

from __future__ import annotations


def main() -> None:
    """Run the command line; see `commands.main`."""
    # Imported here: Slurm's and Ray's commands import this package for its other modules.
    from phalanx.cli.commands import main as run

    run()
