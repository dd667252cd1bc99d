"""Messages between a program whose input and output go over a connection, and the client at the
other end.

The frames are those of `protocol.frames`. Other sockets have other types of messages. The messages
here contain only bytes and numbers, so nothing in them is ever unpickled.
"""

from __future__ import annotations

import msgspec

from phalanx.errors import ProtocolError

# ---- to the program ----------------------------------------------------------------------------


class Begin(msgspec.Struct, array_like=True, tag=0):
    """Client to program: start. For a program with a terminal, the message has the terminal's size
    and kind (TERM).
    """

    rows: int = 0
    columns: int = 0
    terminal: str = ""


class Typed(msgspec.Struct, array_like=True, tag=1):
    """A part of the program's input. A message without bytes is the end of the input."""

    data: bytes


class Resized(msgspec.Struct, array_like=True, tag=2):
    """The terminal has a new size."""

    rows: int
    columns: int


class Signalled(msgspec.Struct, array_like=True, tag=3):
    """Send this signal to the program and to the processes that it has started."""

    number: int


# ---- from the program --------------------------------------------------------------------------


class Printed(msgspec.Struct, array_like=True, tag=10):
    """A part of the program's output, in bytes."""

    data: bytes
    is_error: bool = False


class Ended(msgspec.Struct, array_like=True, tag=11):
    """The program has ended with this exit code, in the convention of shells: 128 + N for signal
    N.
    """

    code: int


StreamMessage = Begin | Typed | Resized | Signalled | Printed | Ended

_decoder = msgspec.msgpack.Decoder(list[StreamMessage])


def decode_body(body: bytes | bytearray | memoryview) -> list[StreamMessage]:
    """Return the messages of one frame's body. Raises ProtocolError for any other bytes."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not of a program's streams: {error}") from None
