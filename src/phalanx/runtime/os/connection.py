"""A socket between two processes of the cluster. It sends and receives messages in frames.

Every connection begins as a Unix socket of the session. A connection to a process of another node
begins as a socket to the gate, over which the gate passes the socket that leads to that process
(SCM_RIGHTS). A connection from another node is passed on in the same way. The new socket gets the
descriptor number of the old one: `is_switched` tells the loop that watches this descriptor to
register it again.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.errors import ProtocolError
from phalanx.model.principals import JOB, Principal
from phalanx.protocol.frames import (
    FrameReader,
    Unsendable,
    decode_asks,
    decode_body,
    encode_frame,
    split_frames,
)
from phalanx.protocol.framing import MAX_FRAME_BYTES, STRANGERS_FRAME_BYTES
from phalanx.runtime.os.peer_identity import principal_of
from phalanx.runtime.os.peer_user import peer_of
from phalanx.runtime.os.polling import wait_for

if TYPE_CHECKING:
    from phalanx.protocol.messages import Handed, Message

_RECV_BYTES = 1 << 18


class _Room(threading.local):
    """The buffer into which a thread receives.

    Without it, `recv` would allocate a buffer of this size for each message and free most of it.
    That takes three kernel calls and page faults, and costs more than all other work on a message.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_RECV_BYTES))


_room = _Room()


class Connection:
    """A connection whose messages wait in an outbox and are sent together at `flush`. It never
    blocks.

    Any thread may `post` and `flush`. Only the thread that leads the reactor calls `receive`.
    """

    __slots__ = (
        "_backlog",
        "_decode",
        "_lock",
        "_outbox",
        "_principal",
        "_reader",
        "_takes_socket",
        "address",
        "closed",
        "fileno",
        "is_dialling",
        "is_of_daemon",
        "is_switched",
        "node_key",
        "on_unsendable",
        "on_writable",
        "peer",
        "refusal",
        "refusal_status",
        "sock",
        "tag",
        "token",
        "uid",
    )

    def __init__(
        self,
        sock: socket.socket,
        is_stranger: bool = False,
        is_dialling: bool = False,
        decode: Callable[[Any], list[Any]] = decode_body,
        limit: int = MAX_FRAME_BYTES,
    ) -> None:
        """`sock` must be open. `decode` decodes the body of a frame, and must be given if the
        messages are not those of `protocol.messages`. `limit`: the largest number of bytes of a
        frame from the other end.
        """
        sock.setblocking(False)
        self.sock = sock
        self.fileno = sock.fileno()
        self.peer = b""
        """The id of the other process; b"" until its Hello has arrived."""
        self.tag: Any = None
        """A mark that the user of the connection sets."""
        self._principal: Principal | None = None
        self.is_of_daemon = False
        """Whether the other end is a daemon, which takes sockets from its gateway and not from
        jobs.
        """
        self.address = ""
        """HOST:PORT of the other end, if a gateway has passed the connection."""
        self.token = ""
        """The id of the token that the other end has proved to hold to the gateway, if any."""
        self.node_key = ""
        """The id of the key, if the other end is a node with a key of its own."""
        self.uid = -1
        """The account at the other end, if other users are admitted; -1 for this user's own
        account.
        """
        self.closed = False
        self._decode = decode
        first_limit = STRANGERS_FRAME_BYTES if is_stranger else None
        self._reader = FrameReader(limit, first_limit, decode)
        # This is never replaced by another deque, because threads append to it without a lock.
        self._outbox: deque[msgspec.Struct] = deque()
        self._backlog: deque[memoryview] = deque()
        self._lock = threading.RLock()
        self.on_writable: Any = None
        self.on_unsendable: Callable[[Connection, Unsendable], None] | None = None
        """A function that is called with each message that is too large for any frame. It may only
        note the message, because the thread that flushes calls it and may hold any lock.
        """
        self.is_dialling = is_dialling
        """Whether the gate has not yet passed on the socket of the other process. Posted messages
        wait until then.
        """
        self._takes_socket = is_stranger
        self.is_switched = False
        """Whether the descriptor has got a new socket since it was last registered."""
        self.refusal = ""
        """Why the gate could not reach the other process."""
        self.refusal_status = 0
        """The kind of the refusal, a `Status`."""

    @property
    def principal(self) -> Principal:
        """The account, or the job, of the process at the other end of this Unix socket."""
        if self._principal is None:
            self._principal = principal_of(self.sock)
        return self._principal

    def act_as(self, principal: Principal) -> None:
        """Treat the other end as this principal, because the gateway has authenticated it."""
        self._principal = principal

    @property
    def origin(self) -> str:
        """The address or process at the other end, for display."""
        if self.address:
            return self.address
        return f"process {peer_of(self.sock).pid}"

    def post(self, message: msgspec.Struct) -> None:
        """Put a message into the outbox. It leaves with the next flush."""
        self._outbox.append(message)

    def send(self, message: msgspec.Struct) -> None:
        """Post a message and flush."""
        self._outbox.append(message)
        self.flush()

    def unsent(self) -> list[Any]:
        """Return the messages that were posted and not handed to the kernel."""
        return list(self._outbox)

    @property
    def has_backlog(self) -> bool:
        """Whether the kernel has not taken everything that was flushed."""
        return bool(self._backlog)

    @property
    def waiting(self) -> int:
        """The number of messages that are posted and not yet flushed."""
        return len(self._outbox)

    def flush(self) -> None:
        """Pass all posted messages to the kernel, as far as it accepts them."""
        if not self._outbox or self.is_dialling:
            return
        with self._lock:
            outbox = self._outbox
            messages = []
            for _ in range(len(outbox)):
                messages.append(outbox.popleft())
            if messages and not self.closed:
                try:
                    frame = encode_frame(messages)
                except ProtocolError:
                    self._write_apart(messages)
                else:
                    self._write(frame)

    def _write_apart(self, messages: list[msgspec.Struct]) -> None:
        """Send messages in several frames, because together they are too large for one.

        Messages that are too large for any frame are left out. The user of the connection answers
        in their place.
        """
        frames, unsendable = split_frames(messages)
        for frame in frames:
            self._write(frame)
        for message in unsendable:
            if self.on_unsendable is None:
                print(f"phalanx: a message was not sent: {message.reason}", file=sys.stderr)
                with contextlib.suppress(OSError):
                    # The reader sees the end of the connection, and reports it.
                    self.sock.shutdown(socket.SHUT_RDWR)
            else:
                self.on_unsendable(self, message)

    def _write(self, frame: bytes) -> None:
        if self._backlog:
            self._backlog.append(memoryview(frame))
            return
        try:
            sent = self.sock.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the reader sees the end, and reports it
        if sent < len(frame):
            self._backlog.append(memoryview(frame)[sent:])
            if self.on_writable is not None:
                self.on_writable(self, True)

    def drain(self) -> None:
        """Send the bytes that the kernel did not accept before. Call this when the socket is
        writable.
        """
        with self._lock:
            while self._backlog:
                chunk = self._backlog[0]
                try:
                    sent = self.sock.send(chunk)
                except BlockingIOError:
                    return
                except OSError:
                    self._backlog.clear()
                    break
                if sent < len(chunk):
                    self._backlog[0] = chunk[sent:]
                    return
                self._backlog.popleft()
            if self.on_writable is not None:
                self.on_writable(self, False)

    def drain_all(self, timeout_s: float) -> None:
        """Send everything before the connection is ended on purpose. Gives up if the reader takes
        nothing for `timeout_s` seconds.
        """
        self.flush()
        while self._backlog and not self.closed:
            if not wait_for(self.fileno, select.POLLOUT, timeout_s):
                return
            self.drain()

    def receive(self) -> list[Any] | None:
        """Return the messages that have arrived; None at the end of the stream. Raises
        ProtocolError.
        """
        try:
            if self.is_dialling:
                return self._dialled()
            if self._takes_socket:
                return self._introduced()
            room = _room.view
            size = self.sock.recv_into(room)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not size:
            return None
        return self._reader.feed(bytes(room[:size]))

    def _introduced(self) -> list[Message] | None:
        """Read the first bytes of a connection whose other end is not known yet. They come from
        that end itself, or from the gate together with the socket.
        """
        self._takes_socket = False
        data, sockets = _receive_with_sockets(self.sock, _RECV_BYTES)
        if sockets:
            # Otherwise the stranger would count as the gateway.
            if self.is_of_daemon and self.principal.kind == JOB:
                os.close(sockets[0])
                return None
            self._switch(sockets[0])
            handed = handed_in(data)
            self.token, self.address = handed.token, handed.address
            if handed.is_node:
                self.token, self.node_key = "", handed.token
            self._reader = (
                FrameReader(STRANGERS_FRAME_BYTES, decode=decode_asks)
                if self.token
                else FrameReader(first_limit=STRANGERS_FRAME_BYTES, decode=self._decode)
            )
            return []
        return self._reader.feed(data) if data else None

    def _dialled(self) -> list[Message] | None:
        """Read the gate's answer: a socket that leads to the other process, or the reason why there
        is none.
        """
        data, sockets = _receive_with_sockets(self.sock, _RECV_BYTES)
        if not sockets:
            self.refusal = data[1:].decode("utf-8", "replace") or "the gate is gone"
            self.refusal_status = data[0] if data else 0
            return None
        self._switch(sockets[0])
        with self._lock:
            self.is_dialling = False
            if self._outbox:  # only the Hello, because strangers may send only a short frame
                self._write(encode_frame([self._outbox.popleft()]))
        self.flush()
        return []

    def _switch(self, fd: int) -> None:
        os.dup2(fd, self.fileno, inheritable=False)
        os.close(fd)
        with contextlib.suppress(OSError):  # the relay of an encrypted connection is a Unix socket
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.is_switched = True

    def close(self) -> None:
        """Close the socket. Unsent messages are lost."""
        self.closed = True
        with contextlib.suppress(OSError):
            self.sock.close()


def _receive_with_sockets(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive as socket.recv_fds does, but keep only the first descriptor and close the others."""
    fds = array.array("i")
    space = socket.CMSG_SPACE(4 * fds.itemsize)
    data, ancillary, _, _ = sock.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    for fd in fds[1:]:
        os.close(fd)
    return data, list(fds[:1])


def handed_in(frame: bytes) -> Handed:
    """Return what the gateway says about a socket that it passes on. Raises ProtocolError."""
    from phalanx.protocol.messages import Handed

    for message in FrameReader(STRANGERS_FRAME_BYTES).feed(frame):
        if isinstance(message, Handed):
            return message
    raise ProtocolError("a socket was passed without its description")


def connect(path: str) -> Connection:
    """Return a connection to the socket at `path`. Raises OSError if nothing listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return Connection(sock)


def listen_again(listener: socket.socket) -> socket.socket | None:
    """Return a new listening socket in place of a socket whose file was removed.

    Returns None if the file exists, or if its directory does not.
    """
    path = listener.getsockname()
    if not path or os.path.lexists(path):
        return None
    with contextlib.suppress(OSError):
        return listen(path)
    return None


def listen(path: str) -> socket.socket:
    """Return a listening Unix socket that only this user's processes can reach."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
    except OSError:
        sock.close()
        raise
    os.chmod(path, 0o600)
    sock.listen(512)
    sock.setblocking(False)
    return sock
