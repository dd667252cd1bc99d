"""The commands `phalanx compat ...`, which install other systems' commands as scripts.

Each adapter adds its own group to `app` when it registers its commands.
"""

from __future__ import annotations

import typer

from phalanx.runtime.engine import entry_points

app = typer.Typer(
    name="compat", help="Install the commands of other systems.", no_args_is_help=True
)
for _entry in [*entry_points.own("phalanx.compat"), *entry_points.others("phalanx.compat")]:
    app.add_typer(_entry.load(), name=_entry.name)
