"""Slurm's commands by name, and the entry point of the files that are installed for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

from phalanx.cli.ending import Ended
from phalanx.cli.table import drop_output, open_input, say

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
"""The function of each command, as MODULE:NAME. It takes the command's arguments."""
OURS = "from phalanx.adapters.slurm.commands.running import main"
"""The line by which an installed file is recognized as Phalanx's."""


def function_of(name: str) -> Callable[[Sequence[str]], None]:
    """Import and return a command's function."""
    module, _, function = COMMANDS[name].partition(":")
    found: Callable[[Sequence[str]], None] = getattr(importlib.import_module(module), function)
    return found


def main(name: str) -> None:
    """Run one of Slurm's commands with this process's arguments."""
    open_input()
    try:
        function_of(name)(sys.argv[1:])
    except Ended as ended:
        sys.exit(ended.code)
    except BrokenPipeError:
        drop_output()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from phalanx.errors import CurrentDirectoryError

        if not isinstance(error, CurrentDirectoryError):
            raise
        say(f"{name}: error: {error}", err=True)
        sys.exit(1)
