"""The settings that a client gives its driver, in a variable of the driver's job."""

from __future__ import annotations

import msgspec

VARIABLE = "PHALANX_CLIENT"


class DriverSettings(msgspec.Struct, kw_only=True):
    """The settings of a driver. Times are in seconds."""

    secret_hash: bytes
    """The SHA-256 of the secret by which the client proves that the session is its own."""
    namespace: str
    queue: str = ""
    priority: int = 0
    log_to_driver: bool = True
    hook: bytes = b""
    reconnect_s: float
    """How long the driver waits for a client whose connection is lost."""
    has_own_cluster: bool = False
    """Whether the driver's job makes a cluster of its own, as it must in the mode *system*."""
