"""`ray.util.client`: programs ask whether they go through a client server. None does."""

from __future__ import annotations


class _Connection:
    """This process's way to a client server."""

    def is_connected(self) -> bool:
        """Whether there is one."""
        return False


ray = _Connection()
