"""`phalanx compat slurm install`, which installs Slurm's commands, and `phalanx sbatch`."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Annotated

from phalanx.adapters.slurm.commands.running import COMMANDS, OURS, main, run
from phalanx.cli.command_scripts import install_scripts
from phalanx.cli.options import AllWords, Argument, Group, Option, Registrar
from phalanx.cli.registry import RUN
from phalanx.cli.table import say

__all__ = ["compat", "install", "main", "register", "sbatch"]
_ALL_WORDS = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
BEFORE = (
    "from phalanx.adapters.slurm.commands.main import main",
    "from phalanx.cli.slurm.main import main",
)
"""The lines by which files of earlier versions are recognized, in place of `OURS`. These lines call
`main` of this module.
"""


def sbatch(words: Annotated[list[str], AllWords()]) -> None:
    """Submit a batch script with #SBATCH lines, as with Slurm's sbatch (docs/howto/slurm.md)."""
    run("sbatch", words)


def install(
    directory: Annotated[
        Path, Argument(help="Directory to install into; it must be on your PATH.")
    ],
    force: Annotated[
        bool, Option("--force", help="Overwrite existing commands that are not Phalanx's.")
    ] = False,
) -> None:
    """Install Phalanx's versions of sbatch, srun, squeue, scancel and others into a directory."""
    calls = {name: f"{OURS}\nmain({name!r})" for name in COMMANDS}
    install_scripts(directory, calls, (OURS, *BEFORE), force)
    say(f"{', '.join(COMMANDS)} in {directory} are now Phalanx's; `sbatch --version` shows it.")
    found = shutil.which("sbatch")
    if found is None or not Path(found).samefile(directory / "sbatch"):
        before = f"before {os.path.dirname(found)} " if found else ""
        path = shlex.quote(str(directory.resolve()))
        say(f"It must stand {before}in your PATH: export PATH={path}:$PATH")


compat = Group("slurm", help="Install Phalanx's versions of Slurm's commands.", installs=COMMANDS)
compat.command()(install)


def register(app: Registrar) -> None:
    """Add `phalanx sbatch`."""
    app.command("sbatch", context_settings=_ALL_WORDS, rich_help_panel=RUN)(sbatch)
