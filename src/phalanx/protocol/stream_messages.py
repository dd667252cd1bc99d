"""What is said between a program that has its input and output over a connection, and whoever types
and reads there.

The frames are those of `protocol.frames`; the messages are a set of their own, of bytes and
numbers: nothing in them is ever unpickled.
"""

from __future__ import annotations

import msgspec

from phalanx.errors import ProtocolError

# ---- to the program ----------------------------------------------------------------------------


class Begin(msgspec.Struct, array_like=True, tag=0):
    """Start it. Of a terminal: how large it is, and of which kind (TERM)."""

    rows: int = 0
    columns: int = 0
    terminal: str = ""


class Typed(msgspec.Struct, array_like=True, tag=1):
    """Bytes of its input; none: its input has ended."""

    data: bytes


class Resized(msgspec.Struct, array_like=True, tag=2):
    """The terminal has another size."""

    rows: int
    columns: int


class Signalled(msgspec.Struct, array_like=True, tag=3):
    """Send it, and what it has started, this signal."""

    number: int


# ---- from the program --------------------------------------------------------------------------


class Printed(msgspec.Struct, array_like=True, tag=10):
    """Bytes that it has printed."""

    data: bytes
    is_error: bool = False


class Ended(msgspec.Struct, array_like=True, tag=11):
    """It has ended, with this exit code as shells give it."""

    code: int


StreamMessage = Begin | Typed | Resized | Signalled | Printed | Ended

_decoder = msgspec.msgpack.Decoder(list[StreamMessage])


def decode_body(body: bytes | bytearray | memoryview) -> list[StreamMessage]:
    """The messages of one frame's body. Raises ProtocolError on anything that is not one."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame that is none of a program's streams: {error}") from None
