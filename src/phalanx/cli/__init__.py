"""The command line: `phalanx --help` lists the commands."""

from __future__ import annotations

from phalanx.cli.commands import main

__all__ = ["main"]
