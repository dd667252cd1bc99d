"""What installed packages offer the core by entry points: engines, dialects, commands.

The core names no adapter. An adapter of this distribution, or of another one, is a line in a table
of its `pyproject.toml`. This distribution's own table is read first: to read those of all that is
installed takes ten times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def own(group: str) -> list[EntryPoint]:
    """The entry points of this distribution in a group; empty where it is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import

    try:
        return list(distribution("phalanx").entry_points.select(group=group))
    except PackageNotFoundError:  # run from a checkout by its path
        return []


def others(group: str) -> list[EntryPoint]:
    """The entry points of all other distributions in a group, by name."""
    from importlib.metadata import entry_points

    found = entry_points(group=group)
    return sorted(set(found) - set(own(group)), key=lambda entry: entry.name)


def find(group: str, name: str) -> EntryPoint | None:
    """The entry point of this name; this distribution's comes first. None if there is none."""
    for entries in (own, others):
        for entry in entries(group):
            if entry.name == name:
                return entry
    return None
