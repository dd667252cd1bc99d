"""One end of the stream between a client and its driver, over one socket at a time.

Any thread may send. One thread serves a socket until it breaks, and then the next one. The stream
(`protocol.resumable`) ensures that no message is lost or arrives twice when the socket changes.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from phalanx.errors import ProtocolError
from phalanx.protocol.client_messages import PACKET_FRAME_BYTES, decode_packets, encode
from phalanx.protocol.frames import FrameReader, encode_frame
from phalanx.protocol.resumable import ResumableStream
from phalanx.runtime.os.own_time import own_time

BEAT_S = 3.0
"""Seconds without sending after which a side sends a report, as a sign of life."""
SILENT_S = 15.0
"""Seconds after which a socket counts as broken if no byte comes from the other side."""
KEPT_BYTES = 64 << 20
"""The number of unconfirmed bytes above which `send` waits, if its caller allows a wait."""
_READ_BYTES = 1 << 18
_READS = 16
"""The largest number of reads in a row. The limit lets sending go on while much data arrives."""
_FRAME_BYTES = 1 << 20
_IDLE_MS, _FULL_MS = 1000, 20
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Channel:
    """One end of the stream."""

    def __init__(
        self, on_message: Callable[[bytes], None], is_full: Callable[[], bool] = lambda: False
    ) -> None:
        """`on_message` handles each message, on the thread that serves. An error in it ends the
        socket. While `is_full` returns True, nothing is read, so that the other side stops sending.
        """
        self._on_message = on_message
        self._is_full = is_full
        self._stream = ResumableStream()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_closed = False
        self._is_dropped = False

    @property
    def received(self) -> int:
        """The number of the last part that has arrived from the other side."""
        return self._stream.received

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended."""
        return self._is_closed

    @property
    def kept_bytes(self) -> int:
        """The bytes of the parts whose arrival the other side has not confirmed."""
        return self._stream.kept_bytes

    def send(self, *messages: Any, may_wait: bool = False) -> None:
        """Send messages, in this order. With `may_wait`, wait while many bytes are unconfirmed.
        Raises ProtocolError for a message that is too large, and ConnectionError once the channel
        is closed.
        """
        bodies = [encode(message) for message in messages]
        with self._lock:
            while may_wait and self._stream.kept_bytes > KEPT_BYTES and not self._is_closed:
                self._room.wait()
            if self._is_closed:
                raise ConnectionError("the connection to the driver is closed")
            for body in bodies:
                self._stream.put(body)
        self._wake()

    def resume(self, have: int) -> None:
        """Prepare the stream for a new socket. `have`: the number of the last part from this side
        that the other side has received. Raises ProtocolError for an impossible number.
        """
        with self._lock:
            self._stream.resume(have)
            self._is_dropped = False

    def wait_over(self, timeout_s: float) -> bool:
        """Wait until the other side has received all messages. Returns False after `timeout_s`
        seconds.
        """
        with self._lock:
            return self._room.wait_for(lambda: self._stream.is_over or self._is_closed, timeout_s)

    def drop(self) -> None:
        """End the socket that is in use now. The channel may continue with another one."""
        self._is_dropped = True
        self._wake()

    def close(self) -> None:
        """End the stream. The socket that is in use ends, and nothing can be sent any more."""
        with self._lock:
            self._is_closed = True
            self._room.notify_all()
        self._wake()

    def forget(self) -> None:
        """Close the descriptors of a closed channel that no thread uses any more."""
        with self._lock:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # the pipe is full: the thread wakes up anyway
            os.write(self._wake_write, b"\0")

    # ---- serving -----------------------------------------------------------------------------

    def serve(self, sock: socket.socket) -> None:
        """Send and receive over a socket until it breaks or is dropped, or the channel is closed.
        Closes the socket. Raises ProtocolError for bytes that are no packets.
        """
        try:
            sock.setblocking(False)
            self._serve(sock)
        except OSError:
            return  # it is broken
        finally:
            sock.close()

    def _serve(self, sock: socket.socket) -> None:
        reader = FrameReader(PACKET_FRAME_BYTES, decode=decode_packets)
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        poll.register(sock.fileno(), select.POLLIN)
        out = memoryview(b"")
        heard = sent = own_time()
        watched = select.POLLIN
        while not (self._is_closed or self._is_dropped):
            if not out:
                out = memoryview(self._next_frame(own_time() - sent >= BEAT_S))
            if out:
                count = self._write(sock, out)
                out = out[count:]
                sent = own_time() if count else sent
            is_full = self._is_full()
            wanted = (0 if is_full else select.POLLIN) | (select.POLLOUT if out else 0)
            if wanted != watched:
                watched = wanted
                poll.modify(sock.fileno(), wanted)
            more = (self._pending(sock) and not is_full) or (not out and self._has_more())
            for fd, _ in poll.poll(0 if more else _FULL_MS if is_full else _IDLE_MS):
                if fd == self._wake_read:
                    with contextlib.suppress(BlockingIOError):
                        while os.read(self._wake_read, 4096):
                            pass
            if is_full or self._read(sock, reader):
                heard = own_time()
            elif own_time() - heard > SILENT_S:
                return

    def _has_more(self) -> bool:
        with self._lock:
            return self._stream.has_unsent

    def _next_frame(self, is_beat_due: bool) -> bytes:
        """Return the packets that are due, as one frame. If none is due, return b"" or, with
        `is_beat_due`, a report as a sign of life.
        """
        packets = []
        size = 0
        with self._lock:
            while size < _FRAME_BYTES and (packet := self._stream.due()) is not None:
                packets.append(packet)
                size += len(packet.part)
            if not packets and is_beat_due:
                packets.append(self._stream.report())
        return encode_frame(list(packets)) if packets else b""

    def _write(self, sock: socket.socket, data: memoryview) -> int:
        try:
            return sock.send(data)
        except _AGAIN:
            return 0

    def _pending(self, sock: socket.socket) -> bool:
        return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0

    def _read(self, sock: socket.socket, reader: FrameReader) -> bool:
        """Handle the bytes that have arrived. Returns whether any have arrived. Raises OSError at
        the end of the socket.
        """
        is_anything = False
        for _ in range(_READS):
            try:
                data = sock.recv(_READ_BYTES)
            except _AGAIN:
                break
            if not data:
                raise ConnectionResetError
            is_anything = True
            for packet in reader.feed(data):
                with self._lock:
                    message = self._stream.take(packet)  # type: ignore[arg-type]
                    if self._stream.kept_bytes <= KEPT_BYTES or self._stream.is_over:
                        self._room.notify_all()
                if message is not None:
                    self._on_message(message)
        return is_anything


def read_frame(sock: socket.socket, limit: int, decode: Callable[[Any], list[Any]]) -> Any:
    """Return the one message in the next frame of a blocking socket. Raises OSError, EOFError and
    ProtocolError. Reads no byte after the frame.
    """
    length = int.from_bytes(exactly(sock, 4), "big")
    if length > limit:
        raise ProtocolError(f"a frame of {length} bytes is above the limit of {limit}")
    messages = decode(exactly(sock, length))
    if len(messages) != 1:
        raise ProtocolError(f"a frame with {len(messages)} messages, where one is expected")
    return messages[0]


def exactly(sock: socket.socket, size: int) -> bytes:
    """Return the next `size` bytes of a blocking socket. Raises OSError, and EOFError at the end
    of the stream.
    """
    data = bytearray()
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
