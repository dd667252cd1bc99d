"""Slurm's commands by name, and the entry point of the files that are installed for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

from phalanx.cli.ending import exiting, prefixed

COMMANDS = {
    "sbatch": "phalanx.adapters.slurm.commands.sbatch:sbatch",
    "srun": "phalanx.adapters.slurm.commands.srun:srun",
    "salloc": "phalanx.adapters.slurm.commands.srun:salloc",
    "squeue": "phalanx.adapters.slurm.commands.squeue:squeue",
    "sacct": "phalanx.adapters.slurm.commands.sacct:sacct",
    "sacctmgr": "phalanx.adapters.slurm.commands.accounts:sacctmgr",
    "sinfo": "phalanx.adapters.slurm.commands.sinfo:sinfo",
    "scancel": "phalanx.adapters.slurm.commands.scancel:scancel",
    "scontrol": "phalanx.adapters.slurm.commands.control:scontrol",
    "sprio": "phalanx.adapters.slurm.commands.priorities:sprio",
    "sshare": "phalanx.adapters.slurm.commands.shares:sshare",
    "seff": "phalanx.adapters.slurm.commands.control:seff",
}
"""The function of each command, as MODULE:NAME. The function takes the command's arguments."""
OURS = "from phalanx.adapters.slurm.commands.running import main"
"""The line by which an installed file is recognized as Phalanx's."""


def function_of(name: str) -> Callable[[Sequence[str]], None]:
    """Import and return a command's function."""
    module, _, function = COMMANDS[name].partition(":")
    found: Callable[[Sequence[str]], None] = getattr(importlib.import_module(module), function)
    return found


def run(name: str, words: Sequence[str]) -> None:
    """Run one of Slurm's commands. Its errors are in Slurm's form."""
    with prefixed(f"{name}: error: "):
        function_of(name)(words)


def main(name: str) -> None:
    """Run one of Slurm's commands with this process's arguments."""
    with exiting(f"{name}: error: "):
        run(name, sys.argv[1:])
