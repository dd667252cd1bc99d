"""The messages for a request and its answer: between a process and its node, and between a visitor
and any daemon. A visitor is a process that is neither driver nor node, such as the command line.
This is a separate module so that a command can import these messages without all others.
"""

from __future__ import annotations

import msgspec

from phalanx.protocol.wire_errors import WireError


class Ask(msgspec.Struct, array_like=True, tag=30):
    """Process to node: a request of `protocol.requests`, with the number of its kind.

    The answer is a Reply with the same token; with token 0 there is no answer.
    """

    token: int
    kind: int
    body: msgspec.Raw


class Reply(msgspec.Struct, array_like=True, tag=31):
    """Node to process: the answer to a request. `result` is msgpack; the result counts only if
    there is no `error`.
    """

    token: int
    result: msgspec.Raw
    error: WireError | None = None
