"""The entry points by which installed packages extend the core: engines, dialects, commands.

The core names no adapter. An adapter is a line in a table of a distribution's `pyproject.toml`. The
table of this distribution is read first, because reading the tables of all installed distributions
takes ten times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def own(group: str) -> list[EntryPoint]:
    """Return this distribution's entry points in a group; empty if the distribution is not
    installed.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # this import is slow

    try:
        return list(distribution("phalanx").entry_points.select(group=group))
    except PackageNotFoundError:  # Phalanx runs from a source directory that was not installed
        return []


def others(group: str) -> list[EntryPoint]:
    """Return the entry points of all other distributions in a group, sorted by name."""
    from importlib.metadata import entry_points

    found = entry_points(group=group)
    return sorted(set(found) - set(own(group)), key=lambda entry: entry.name)


def find(group: str, name: str) -> EntryPoint | None:
    """Return the entry point with this name, from this distribution if it has one; None if no
    distribution has one.
    """
    for entries in (own, others):
        for entry in entries(group):
            if entry.name == name:
                return entry
    return None
