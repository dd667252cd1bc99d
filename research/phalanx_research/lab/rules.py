"""The rules of a lab that keeps promises: those that come with a cluster, and `reservation`."""

from __future__ import annotations

from phalanx.head.gangs.cycles import CONFIGURATION


def rules(promised: int) -> str:
    """Volcano's scheduler configuration, with places promised to so many of each queue."""
    plugin = f"  - name: reservation\n    arguments: {{promised: {promised}, minimum: 1}}\n"
    return CONFIGURATION.replace("  - name: calendar\n", f"  - name: calendar\n{plugin}")
