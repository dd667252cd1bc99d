"""A node's records of the processes that its fork server has started. The node needs them if the
fork server is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from phalanx.protocol.fork_messages import Began, Exited, Fork, Forked, RunCommand


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has begun."""

    process: bytes
    pid: int
    shield: int
    is_command: bool
    memory_bytes: int = 0
    """The limit of the process's memory in bytes; 0 if it has none."""
    socket: str = ""
    """The socket of the process's streams, as in Child."""
    exit_file: str = ""
    """The exit file of the process, as in Child."""
    output: tuple[int, ...] = ()
    """The descriptors under which a worker's shield keeps the ends of the pipes for the worker's
    output and errors.
    """


class ForkRecords:
    """The processes that were ordered or have begun and that have not ended."""

    def __init__(self, socket_of: Callable[[bytes], str]) -> None:
        """`socket_of`: returns the path of the socket of a process's streams."""
        self._socket_of = socket_of
        self._ordered: dict[bytes, Fork | RunCommand] = {}
        self._begun: dict[bytes, Begun] = {}

    def ordered(self, order: object) -> None:
        """Note an order to the fork server."""
        match order:
            case Fork():
                self._ordered[order.worker] = order
            case RunCommand():
                self._ordered[order.process] = order

    def heard(self, message: object) -> None:
        """Note a message of the fork server."""
        match message:
            case Forked():
                self._ordered.pop(message.worker, None)
                self._begun[message.worker] = Begun(
                    process=message.worker,
                    pid=message.pid,
                    shield=message.shield,
                    is_command=False,
                    output=(message.output, message.errors),
                )
            case Began():
                order = self._ordered.pop(message.process, None)
                if isinstance(order, RunCommand):
                    streams = order.streams
                    self._begun[message.process] = Begun(
                        process=message.process,
                        pid=message.pid,
                        shield=message.shield,
                        is_command=True,
                        memory_bytes=order.memory_bytes,
                        exit_file=order.exit_file,
                        socket="" if streams is None else self._socket_of(streams.process),
                    )
            case Exited():
                self._ordered.pop(message.process, None)
                self._begun.pop(message.process, None)

    def take_unbegun(self) -> list[Fork | RunCommand]:
        """Remove and return the orders to which the fork server has sent no message."""
        found, self._ordered = list(self._ordered.values()), {}
        return found

    def begun(self) -> Iterator[Begun]:
        """Yield the processes that have begun, and not ended."""
        yield from self._begun.values()
