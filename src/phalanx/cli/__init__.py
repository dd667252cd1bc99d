"""The command line `phalanx`. `README.md` in this folder is a guide to its modules."""

from __future__ import annotations

from phalanx.cli.commands import main

__all__ = ["main"]
