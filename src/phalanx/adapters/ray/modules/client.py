"""`ray.util.client`, which tells programs whether they use a client server. On Phalanx no program
uses one.
"""

from __future__ import annotations


class _Connection:
    """The stand-in for this process's connection to a client server."""

    def is_connected(self) -> bool:
        """Return False: there is never a connection."""
        return False


ray = _Connection()
