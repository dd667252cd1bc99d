"""The one module that knows wire bytes: frames of messages, bounded before they are allocated.

A frame is a 4-byte big-endian length and a msgpack list of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from phalanx.errors import ProtocolError
from phalanx.protocol.messages import Message

HEADER_BYTES = 4
MAX_FRAME_BYTES = 1 << 30
STRANGERS_FRAME_BYTES = 4 << 20
"""How long the frame may be in which a peer introduces itself."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Message])


def encode_frame(messages: list[msgspec.Struct]) -> bytes:
    """The bytes of one frame."""
    buffer = bytearray(HEADER_BYTES)
    _encoder.encode_into(messages, buffer, HEADER_BYTES)
    length = len(buffer) - HEADER_BYTES
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {length} bytes is above the limit of {MAX_FRAME_BYTES}")
    buffer[:HEADER_BYTES] = length.to_bytes(HEADER_BYTES, "big")
    return bytes(buffer)


def encode_body(messages: list[msgspec.Struct]) -> bytes:
    """The bytes of a frame's body, for a message that travels inside another."""
    return _encoder.encode(messages)


def decode_body(body: bytes | bytearray | memoryview) -> list[Message]:
    """The messages of one frame's body. Raises ProtocolError on anything that is not one."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not of the protocol: {error}") from None


class FrameReader:
    """Cuts a stream of bytes into messages; keeps what is left of an unfinished frame."""

    __slots__ = ("_buffer", "_decode", "_limit", "_limit_now")

    def __init__(
        self,
        limit: int = MAX_FRAME_BYTES,
        first_limit: int | None = None,
        decode: Callable[[Any], list[Any]] = decode_body,
    ) -> None:
        """`limit`: of each frame's bytes; `first_limit`: of the first one's, where it differs;
        `decode`: of a body, for sockets that carry another set of messages."""
        self._decode = decode
        self._buffer = bytearray()
        self._limit = limit
        self._limit_now = limit if first_limit is None else first_limit

    def feed(self, data: bytes) -> list[Message]:
        """All messages that are complete with `data`. Raises ProtocolError on garbage."""
        if not self._buffer:
            # The common case: the data is one whole frame.
            size = len(data)
            if size >= HEADER_BYTES:
                length = int.from_bytes(data[:HEADER_BYTES], "big")
                if length + HEADER_BYTES == size and length <= self._limit_now:
                    self._limit_now = self._limit
                    return self._decode(memoryview(data)[HEADER_BYTES:])
        buffer = self._buffer
        buffer += data
        messages: list[Message] = []
        start = 0
        while len(buffer) - start >= HEADER_BYTES:
            length = int.from_bytes(buffer[start : start + HEADER_BYTES], "big")
            if length > self._limit_now:
                raise ProtocolError(
                    f"a frame of {length} bytes is above the limit of {self._limit_now}"
                )
            end = start + HEADER_BYTES + length
            if len(buffer) < end:
                break
            messages += self._decode(bytes(buffer[start + HEADER_BYTES : end]))
            self._limit_now = self._limit
            start = end
        if start:
            del buffer[:start]
        return messages
