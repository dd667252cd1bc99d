"""A stream of messages that survives its connections: no message is lost, doubled or reordered.

A message is cut into numbered parts. Each side keeps the parts that it has sent until the other
side has reported their arrival. After a cut, both sides report which parts they have, and then send
the missing parts again:

    client                                   driver
    part 1, part 2, part 3     →  (cut: only part 1 arrives)
               "I have nothing of yours, resume" →
                               ← "I have part 1 of yours"
    part 2, part 3             →

Nothing here reads a clock or a socket. A stream consists of the parts of one direction, and the
reports of the other direction.
"""

from __future__ import annotations

from collections import deque

import msgspec

from phalanx.errors import ProtocolError

PART_BYTES = 1 << 20
"""The largest number of bytes of a part. Parts of a large message let reports and beats through."""
MESSAGE_BYTES = 1 << 30
"""The largest number of bytes of a message."""
REPORT_EVERY = 8
"""The number of received parts after which their arrival is reported, even if this side sends
nothing else.
"""


class Packet(msgspec.Struct, array_like=True):
    """A part of a message, with a report about the parts that have arrived from the other side."""

    number: int
    """The number of the part, from 1; 0 if the packet has no part."""
    have: int
    """The number of the last part of the other side that the sender has."""
    part: bytes = b""
    is_last: bool = True
    """Whether the message ends with this part."""


class ResumableStream:
    """One end of the stream. Its callers make sure that only one thread uses it at a time."""

    def __init__(self) -> None:
        self._unsent: deque[Packet] = deque()
        """The parts that were not sent over the present connection, in order."""
        self._sent: deque[Packet] = deque()
        """The parts that were sent and whose arrival was not reported, in order. They come before
        the unsent parts.
        """
        self._next = 1
        self._theirs = 0
        """The number of the last part of this side that the other side has reported."""
        self.received = 0
        """The number of the last part of the other side that has arrived here."""
        self._reported = 0
        self._message: list[bytes] = []
        self._message_bytes = 0
        self.kept_bytes = 0
        """The number of bytes in parts that the other side may not have."""

    # ---- out ---------------------------------------------------------------------------------

    def put(self, message: bytes) -> None:
        """Add a message. Raises ProtocolError if the message is too large."""
        if len(message) > MESSAGE_BYTES:
            raise ProtocolError(
                f"a message of {len(message)} bytes is above the limit of {MESSAGE_BYTES}"
            )
        view = memoryview(message)
        for start in range(0, max(len(message), 1), PART_BYTES):
            part = bytes(view[start : start + PART_BYTES])
            is_last = start + PART_BYTES >= len(message)
            self._unsent.append(Packet(self._next, 0, part, is_last))
            self._next += 1
            self.kept_bytes += len(part)

    def due(self) -> Packet | None:
        """Return the next packet to send over the present connection; None if none is due."""
        if self._unsent:
            packet = self._unsent.popleft()
            self._sent.append(packet)
            packet.have = self._reported = self.received
            return packet
        return self.report() if self.received - self._reported >= REPORT_EVERY else None

    def report(self) -> Packet:
        """Return a packet that has only a report. Such a packet also shows that this side lives."""
        self._reported = self.received
        return Packet(0, self.received)

    @property
    def has_unsent(self) -> bool:
        """Whether parts wait to be sent over the present connection."""
        return bool(self._unsent)

    @property
    def is_over(self) -> bool:
        """Whether the other side has received all messages."""
        return self._theirs == self._next - 1

    # ---- in ----------------------------------------------------------------------------------

    def take(self, packet: Packet) -> bytes | None:
        """Handle a packet of the other side. Returns the message that it completes, if any.

        A repeated part is ignored. Raises ProtocolError if an earlier part is missing, and for a
        report that cannot be true.
        """
        self._forget(packet.have)
        if packet.number <= self.received:
            return None
        if packet.number != self.received + 1:
            raise ProtocolError(f"part {packet.number} came after part {self.received}")
        self.received = packet.number
        self._message.append(packet.part)
        self._message_bytes += len(packet.part)
        if self._message_bytes > MESSAGE_BYTES:
            raise ProtocolError(f"a message of more than {MESSAGE_BYTES} bytes")
        if not packet.is_last:
            return None
        message = self._message[0] if len(self._message) == 1 else b"".join(self._message)
        self._message, self._message_bytes = [], 0
        return message

    def resume(self, have: int) -> None:
        """Begin a new connection. `have`: the number of the last part of this side that the other
        side has. Raises ProtocolError for an impossible number.
        """
        self._sent.extend(self._unsent)
        self._unsent, self._sent = self._sent, deque()
        self._forget(have)
        while self._unsent and self._unsent[0].number <= have:
            self.kept_bytes -= len(self._unsent.popleft().part)
        self._reported = self.received

    def _forget(self, have: int) -> None:
        if not self._theirs <= have < self._next:
            raise ProtocolError(
                f"the other side says that it has part {have}, of {self._next - 1} parts of which "
                f"it had {self._theirs}"
            )
        self._theirs = have
        while self._sent and self._sent[0].number <= have:
            self.kept_bytes -= len(self._sent.popleft().part)
