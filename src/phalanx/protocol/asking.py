"""The two messages by which a process sends a request to its node, and a visitor to any daemon.
They have a module of their own, so that a command need not import all other messages.
"""

from __future__ import annotations

import msgspec

from phalanx.protocol.wire_errors import WireError


class Ask(msgspec.Struct, array_like=True, tag=30):
    """Process to node: a request of `protocol.requests`, by its kind.

    Answered by a Reply with the same token, unless the token is 0.
    """

    token: int
    kind: int
    body: msgspec.Raw


class Reply(msgspec.Struct, array_like=True, tag=31):
    """Node to process: the msgpack of the request's result, or an error."""

    token: int
    result: msgspec.Raw
    error: WireError | None = None
