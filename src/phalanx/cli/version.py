"""The command `phalanx version`, which `phalanx --version` also runs."""

from __future__ import annotations

from phalanx import __version__
from phalanx.cli.table import echo


def version() -> None:
    """Print the version."""
    echo(__version__)
