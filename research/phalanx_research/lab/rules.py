"""The scheduler configuration of a lab that keeps promises: the default configuration with the
plugin `reservation`.
"""

from __future__ import annotations

from phalanx.head.gangs.cycles import CONFIGURATION


def rules(promised: int) -> str:
    """Return Volcano's scheduler configuration with promises to `promised` gangs per queue."""
    plugin = f"  - name: reservation\n    arguments: {{promised: {promised}, minimum: 1}}\n"
    return CONFIGURATION.replace("  - name: calendar\n", f"  - name: calendar\n{plugin}")
