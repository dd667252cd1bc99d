"""The table of Slurm's commands, and `phalanx compat slurm install`, which installs them."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

import phalanx
from phalanx.cli.reach import USAGE, fail
from phalanx.cli.registry import RUN
from phalanx.cli.table import open_input, say
from phalanx.errors import CurrentDirectoryError

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
"""The place of each command: a function that takes its arguments."""
_ALL_WORDS = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
OURS = "from phalanx.adapters.slurm.commands.main import main"
"""The line by which an installed file is recognised as Phalanx's."""
BEFORE = "from phalanx.cli.slurm.main import main"
"""The same line in files of version 0.1."""


def _function(name: str) -> Callable[[Sequence[str]], None]:
    module, _, function = COMMANDS[name].partition(":")
    found: Callable[[Sequence[str]], None] = getattr(importlib.import_module(module), function)
    return found


def sbatch(context: typer.Context) -> None:
    """Submit a batch script with #SBATCH lines, like Slurm's sbatch (docs/howto/slurm.md)."""
    _function("sbatch")(context.args)


def install(
    directory: Annotated[
        Path, typer.Argument(help="Directory to install into; it must be on your PATH.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite commands that are not Phalanx's.")
    ] = False,
) -> None:
    """Install Phalanx's versions of sbatch, srun, squeue, scancel and others into a directory."""
    files = {name: directory / name for name in COMMANDS}
    for file in files.values():
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            text = file.read_text()
            if OURS not in text and BEFORE not in text and not force:
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


compat = typer.Typer(name="slurm", help="Install Slurm's commands.", no_args_is_help=True)
compat.command()(install)
compat.callback()(lambda: None)


def register(app: typer.Typer) -> None:
    """Add `phalanx sbatch`."""
    app.command("sbatch", context_settings=_ALL_WORDS, rich_help_panel=RUN)(sbatch)


def main(name: str) -> None:
    """Run one of Slurm's commands with this process's arguments."""
    open_input()
    try:
        _function(name)(sys.argv[1:])
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    except CurrentDirectoryError as error:
        say(f"{name}: error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        from phalanx.cli.table import drop_output

        drop_output()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
