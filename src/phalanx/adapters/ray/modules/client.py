"""`ray.util.client`, which tells programs whether they use a client server. No program does
here.
"""

from __future__ import annotations


class _Connection:
    """This process's connection to a client server."""

    def is_connected(self) -> bool:
        """Whether a connection exists: never."""
        return False


ray = _Connection()
