"""Transfers of objects: the request `GET name offset length`, and the answer, a header and the
bytes.

Requests and headers have fixed sizes. A connection carries one request after another.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import ssl
import struct
from collections.abc import Iterator

from phalanx.errors import ProtocolError
from phalanx.runtime.gateway.object_files import (
    NAME_BYTES,
    ObjectFiles,
    is_object_name,
)
from phalanx.runtime.os.file_leases import mark_sent

CHUNK_BYTES = 8 << 20
STALL_S = 30
"""Seconds for which a side waits for the next byte, or for room to send it."""
_GET = struct.Struct(f"!{NAME_BYTES}sQQ")
_HEADER = struct.Struct("!?Q")
GET_BYTES = _GET.size
_TIMEVAL = struct.Struct("@ll")


class GoneError(Exception):
    """Raised when the other node does not have the object."""


def encode_get(name: str, offset: int, length: int) -> bytes:
    """Return the request for a part of an object."""
    return _GET.pack(name.encode(), offset, length)


def decode_get(raw: bytes) -> tuple[str, int, int]:
    """Return (name, offset, length) of a request. Raises ProtocolError for any other bytes."""
    padded, offset, length = _GET.unpack(raw)
    name = padded.rstrip(b"\x00").decode("ascii", "replace")
    if not is_object_name(name):
        raise ProtocolError("a request for something that is no object's name")
    if length > CHUNK_BYTES:
        raise ProtocolError(f"a request for {length} bytes, above the limit of {CHUNK_BYTES}")
    return name, offset, length


@contextlib.contextmanager
def blocking(sock: socket.socket) -> Iterator[None]:
    """Make the socket blocking for a thread until the block ends. Each operation waits for at most
    STALL_S.
    """
    if isinstance(sock, ssl.SSLSocket):
        sock.settimeout(STALL_S)
    else:  # the kernel's own limit, so that each chunk is one system call
        limit = _TIMEVAL.pack(STALL_S, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        sock.setblocking(True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            sock.setblocking(False)


def answer_get(
    files: ObjectFiles, sock: socket.socket, name: str, offset: int, length: int
) -> None:
    """Send `length` bytes of an object. Before them goes a header with the size of the whole
    object, or with the news that the object is not on this node.

    Raises ProtocolError if the object is shorter than requested.
    """
    try:
        fd = files.open(name)
    except FileNotFoundError:
        sock.sendall(_HEADER.pack(False, 0))
        return
    try:
        size = os.fstat(fd).st_size
        if offset + length > size:
            raise ProtocolError(f"bytes up to {offset + length} of an object of {size}")
        if isinstance(sock, ssl.SSLSocket):
            sock.sendall(_HEADER.pack(True, size))
            if length:
                _send_mapped(sock, fd, size, offset, length)
            return
        mark_sent(fd)
        more = socket.MSG_MORE if length else 0
        sock.sendall(_HEADER.pack(True, size), more)
        end = offset + length
        while offset < end:
            sent = os.sendfile(sock.fileno(), fd, offset, end - offset)
            if not sent:
                raise EOFError
            offset += sent
    finally:
        os.close(fd)


def _send_mapped(sock: ssl.SSLSocket, fd: int, size: int, offset: int, length: int) -> None:
    # The mapping is not closed here: after a failed send, the error still holds views of it.
    mapping = mmap.mmap(fd, size, prot=mmap.PROT_READ)
    sock.sendall(memoryview(mapping)[offset : offset + length])


def fetch(sock: socket.socket, name: str, size: int, offset: int, into: memoryview | None) -> None:
    """Get a part of an object of `size` bytes into memory.

    Raises GoneError, ProtocolError if the object has another size, and OSError or EOFError if the
    connection fails.
    """
    length = len(into) if into is not None else 0
    sock.sendall(encode_get(name, offset, length))
    header = bytearray(_HEADER.size)
    _receive_into(sock, memoryview(header))
    found, theirs = _HEADER.unpack(header)
    if not found:
        raise GoneError
    if theirs != size:
        raise ProtocolError(f"the object has {theirs} bytes there, where {size} were expected")
    if into is not None:
        _receive_into(sock, into)


def _receive_into(sock: socket.socket, view: memoryview) -> None:
    flags = 0 if isinstance(sock, ssl.SSLSocket) else socket.MSG_WAITALL
    while view:
        count = sock.recv_into(view, len(view), flags)
        if not count:
            raise EOFError
        view = view[count:]
