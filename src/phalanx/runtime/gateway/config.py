"""What a gateway is started with."""

from __future__ import annotations

import msgspec


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs between gateways. The token's file is named, never the token."""

    prefixes: tuple[bytes, ...]
    """The nodes that it stands for: the first 6 bytes of their processes' ids, zeros for the
    head's control process."""
    token_file: str
    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    insecure: bool = False
    """No TLS anywhere: what travels can then be read and changed on its way."""
