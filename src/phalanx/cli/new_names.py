"""The option by which people name the job that a command makes."""

from __future__ import annotations

from typing import Annotated

import typer

from phalanx.cli.reach import USAGE, fail


def _checked(name: str | None) -> str | None:
    """Digits alone are refused: they are numbers of `sbatch`, and who types `-n 4` means four."""
    if name is not None and name.isdecimal():
        fail(
            f"--name {name}: a job's number is given by sbatch, so take a name with a letter; "
            f"for {name} members say --gang {name}",
            USAGE,
        )
    return name


NewName = Annotated[
    str | None, typer.Option("--name", "-n", callback=_checked, help="What to call it.")
]
