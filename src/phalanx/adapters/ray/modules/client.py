"""`ray.util.client`, which tells programs whether their driver is on another machine."""

from __future__ import annotations

from phalanx.runtime.engine.interface import current


class _Connection:
    """The stand-in for this process's connection to a client server."""

    def is_connected(self) -> bool:
        """Whether the program has connected with `ray://`, and the connection lives."""
        engine = current()
        return engine is not None and getattr(engine, "is_client", False) and engine.is_alive


ray = _Connection()
