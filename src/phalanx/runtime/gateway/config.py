"""The configuration of a gateway."""

from __future__ import annotations

import msgspec


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All settings that differ between gateways. They include the name of the token's file, and
    never the token.
    """

    prefixes: tuple[bytes, ...]
    """The nodes for which the gateway works, by the first 6 bytes of their processes' ids; zeros
    represent the head's process.
    """
    token_file: str
    host: str = "127.0.0.1"
    port: int = 0
    """The port of the gateway; 0 for any free port."""
    insecure: bool = False
    """Whether no connection uses TLS. Traffic can then be read and changed on its way."""
    identity: str = ""
    """The file with the gateway's key and certificate; "" for one that is deleted with the
    session.
    """
