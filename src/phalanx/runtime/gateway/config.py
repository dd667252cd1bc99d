"""The configuration of a gateway."""

from __future__ import annotations

import msgspec


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs between gateways. It names the token's file, and never holds the token."""

    prefixes: tuple[bytes, ...]
    """The nodes that the gateway stands for: the first 6 bytes of their processes' ids, zeros for
    the head's process."""
    token_file: str
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port."""
    insecure: bool = False
    """Whether to use no TLS anywhere: traffic can then be read and changed on its way."""
