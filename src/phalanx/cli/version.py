"""The command `phalanx version`, also behind `phalanx --version`."""

from __future__ import annotations

import typer

from phalanx import __version__


def version() -> None:
    """Print the version."""
    typer.echo(__version__)
