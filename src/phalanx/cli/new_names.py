"""The option `--name` of commands that make a job."""

from __future__ import annotations

from typing import Annotated

from phalanx.cli.options import Option
from phalanx.cli.reach import USAGE, fail


def _checked(name: str | None) -> str | None:
    """Refuse a name that is a number: `sbatch` uses numbers as names, and a user who writes `-n 4`
    means a count.
    """
    if name is not None and name.isdecimal():
        fail(
            f"--name {name}: numbers are given by sbatch, so choose a name with a letter; "
            f"for {name} members give --gang {name}",
            USAGE,
        )
    return name


NewName = Annotated[
    str | None,
    Option("--name", "-n", callback=_checked, help="Name of the job. Default: a generated name."),
]
