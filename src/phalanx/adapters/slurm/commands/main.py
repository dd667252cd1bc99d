"""`phalanx compat slurm install`, which installs Slurm's commands, and `phalanx sbatch`."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import phalanx
from phalanx.adapters.slurm.commands.running import COMMANDS, OURS, main, run
from phalanx.cli.options import AllWords, Argument, Group, Option, Registrar
from phalanx.cli.reach import USAGE, fail
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
    files = {name: directory / name for name in COMMANDS}
    for file in files.values():
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            text = file.read_text()
            if not any(line in text for line in (OURS, *BEFORE)) and not force:
                fail(f"{file} exists and is not Phalanx's: --force overwrites it.", USAGE)
    root = Path(phalanx.__file__).resolve().parent.parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            lines = ("import sys", f"sys.path.append({str(root)!r})", OURS, f"main({name!r})")
            file.write_text("\n".join((f"#!{sys.executable}", *lines, "")))
            file.chmod(0o755)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    say(f"{', '.join(files)} in {directory} are now Phalanx's; `sbatch --version` shows it.")
    found = shutil.which("sbatch")
    if found is None or not Path(found).samefile(files["sbatch"]):
        before = f"before {os.path.dirname(found)} " if found else ""
        path = shlex.quote(str(directory.resolve()))
        say(f"It must stand {before}in your PATH: export PATH={path}:$PATH")


compat = Group("slurm", help="Install Phalanx's versions of Slurm's commands.", installs=COMMANDS)
compat.command()(install)


def register(app: Registrar) -> None:
    """Add `phalanx sbatch`."""
    app.command("sbatch", context_settings=_ALL_WORDS, rich_help_panel=RUN)(sbatch)
