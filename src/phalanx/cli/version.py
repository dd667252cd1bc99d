"""The command `phalanx version`, also behind `phalanx --version`."""

from __future__ import annotations

from phalanx import __version__
from phalanx.cli.table import echo


def version() -> None:
    """Print the version."""
    echo(__version__)
