"""The only module that makes and reads bytes on the wire: frames of messages. A frame's size is
checked before memory for it is allocated.

A frame is a 4-byte big-endian length and a msgpack list of messages.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from phalanx.errors import ProtocolError
from phalanx.model.raw_bytes import all_writable
from phalanx.model.raw_bytes import encoded as encoded_text
from phalanx.protocol.asking import Ask
from phalanx.protocol.framing import HEADER_BYTES, MAX_FRAME_BYTES

if TYPE_CHECKING:
    from phalanx.protocol.messages import Message

LIST_HEADER = struct.Struct(">BI")
_LIST32 = 0xDD
"""The byte with which msgpack begins a list whose length takes four bytes."""

_encoder = msgspec.msgpack.Encoder()


@functools.cache
def _decoder() -> msgspec.msgpack.Decoder[list[Message]]:
    """Return the decoder of all messages.

    The decoder is made at first use. Processes that get only other messages, such as fork servers,
    start faster without it, and commands wait for that start.
    """
    from phalanx.protocol.messages import Message

    return msgspec.msgpack.Decoder(list[Message])


def encode_frame(messages: list[msgspec.Struct]) -> bytes:
    """Return the bytes of one frame. Raises ProtocolError if the messages are too large for one
    frame; `split_frames` then makes several frames.
    """
    buffer = bytearray(HEADER_BYTES)
    try:
        try:
            _encoder.encode_into(messages, buffer, HEADER_BYTES)
        except UnicodeEncodeError:
            _encoder.encode_into(all_writable(messages), buffer, HEADER_BYTES)
    except (ValueError, OverflowError) as error:  # bytes whose number msgpack cannot represent
        raise ProtocolError(f"a frame that cannot be encoded: {error}") from None
    length = len(buffer) - HEADER_BYTES
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {length} bytes is above the limit of {MAX_FRAME_BYTES}")
    buffer[:HEADER_BYTES] = length.to_bytes(HEADER_BYTES, "big")
    return bytes(buffer)


class Unsendable(NamedTuple):
    """A message that is too large for any frame."""

    message: Any
    reason: str
    """The size of the message and the limit, as a clause that ends a sentence."""


def split_frames(messages: list[msgspec.Struct]) -> tuple[list[bytes], list[Unsendable]]:
    """Return several frames for messages that together are too large for one, and a list of the
    messages that are too large for any frame.
    """
    frames: list[bytes] = []
    unsendable: list[Unsendable] = []
    batch: list[bytes] = []
    batch_bytes = LIST_HEADER.size
    for message in messages:
        try:
            encoded = encoded_text(_encoder.encode, message)
        except (ValueError, OverflowError) as error:
            unsendable.append(Unsendable(message, f"it cannot be encoded: {error}"))
            continue
        if LIST_HEADER.size + len(encoded) > MAX_FRAME_BYTES:
            reason = f"it is {len(encoded)} bytes, and the limit of a message is {MAX_FRAME_BYTES}"
            unsendable.append(Unsendable(message, reason))
            continue
        if batch_bytes + len(encoded) > MAX_FRAME_BYTES:
            frames.append(_joined(batch, batch_bytes))
            batch, batch_bytes = [], LIST_HEADER.size
        batch.append(encoded)
        batch_bytes += len(encoded)
    if batch:
        frames.append(_joined(batch, batch_bytes))
    return frames, unsendable


def _joined(encoded: list[bytes], length: int) -> bytes:
    start = length.to_bytes(HEADER_BYTES, "big") + LIST_HEADER.pack(_LIST32, len(encoded))
    return b"".join((start, *encoded))


def encode_body(messages: list[msgspec.Struct]) -> bytes:
    """Return the bytes of a frame's body, for messages that travel inside another message."""
    return encoded_text(_encoder.encode, messages)


def decode_body(body: bytes | bytearray | memoryview) -> list[Message]:
    """Return the messages of one frame's body. Raises ProtocolError for any other bytes."""
    try:
        return _decoder().decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not of the protocol: {error}") from None


def decode_asks(body: bytes | bytearray | memoryview) -> list[Message]:
    """Return the requests of one frame's body, from a peer that may send only requests.

    Raises ProtocolError for any other bytes.
    """
    messages = decode_body(body)
    if not all(isinstance(message, Ask) for message in messages):
        raise ProtocolError("a visitor sends requests, and nothing else")
    return messages


class FrameReader:
    """Splits a stream of bytes into messages, and keeps the bytes of an unfinished frame."""

    __slots__ = ("_buffer", "_decode", "_limit", "_limit_now")

    def __init__(
        self,
        limit: int = MAX_FRAME_BYTES,
        first_limit: int | None = None,
        decode: Callable[[Any], list[Any]] = decode_body,
    ) -> None:
        """Set up a reader.

        `limit`: the largest size of a frame in bytes. `first_limit`: the limit of the first frame,
        if it differs. `decode`: the function that decodes a body, for sockets with other types of
        messages.
        """
        self._decode = decode
        self._buffer = bytearray()
        self._limit = limit
        self._limit_now = limit if first_limit is None else first_limit

    def feed(self, data: bytes) -> list[Message]:
        """Return all messages that are complete with `data`. Raises ProtocolError for bytes that
        are no frames.
        """
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
