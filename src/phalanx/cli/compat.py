"""The commands `phalanx compat ...`, which install other systems' commands as scripts.

Each entry point of the group `phalanx.compat` adds a group of commands to `app`.
"""

from __future__ import annotations

import typer

from phalanx.cli.options import Group
from phalanx.cli.typer_form import app_of
from phalanx.runtime.engine import entry_points

app = typer.Typer(
    name="compat",
    help="Install Phalanx's versions of Slurm's and Ray's commands.",
    no_args_is_help=True,
)
for _entry in [*entry_points.own("phalanx.compat"), *entry_points.others("phalanx.compat")]:
    _found = _entry.load()
    app.add_typer(app_of(_found) if isinstance(_found, Group) else _found, name=_entry.name)
