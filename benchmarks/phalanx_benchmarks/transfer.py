"""The speed of objects between two nodes on one machine, next to plain TCP streams of the same
size.

There are two plain streams. The receiver of the first stream drops the bytes; this shows the cost
of the network. The receiver of the second stream writes the bytes into new shared memory, like an
object. On a machine with slow new pages, the second stream is several times slower. Therefore an
object is sent in two ways: into new memory, and into the file of an unused copy. The second way is
usual in a program that drops copies again and again.
"""

from __future__ import annotations

import mmap
import os
import secrets
import select
import socket
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.names import spare_file
from phalanx.protocol.gateway_messages import (
    AddressBook,
    Listening,
    Pull,
    Pulled,
    ReleaseFile,
    decode_body,
)
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.process import run as run_gateway
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.connection import Connection

SIZES = (1 << 20, 16 << 20, 256 << 20)
REPETITIONS = 7
_PIECE = 1 << 20
_LIMIT_S = 60.0
Clock = Callable[[], float]


def run(clock: Clock) -> list[dict[str, Any]]:
    """Return the rows of the group `transfer`: medians in GB/s."""
    return [transfer_rate(size, clock) for size in SIZES]


def transfer_rate(size: int, clock: Clock) -> dict[str, Any]:
    """Send an object of `size` bytes from one gateway to another, alternately with plain
    streams.
    """
    transfers, over, thrown, kept = [], [], [], []
    with _two_nodes() as (here, there), _plain_sender(size) as plain:
        for _ in range(REPETITIONS + 1):  # the first round also makes the connections
            transfers.append(here.pull_from(there, size, clock, is_kept=True))
            over.append(here.pull_from(there, size, clock))
            thrown.append(_throw_away(plain, size, clock))
            kept.append(_keep(plain, size, here.session.shared, clock))
    rate, over_rate, plain_rate, kept_rate = (
        size / statistics.median(seconds[1:]) / 1e9 for seconds in (transfers, over, thrown, kept)
    )
    return {
        "MiB": size >> 20,
        "transfer_GB_s": over_rate,
        "transfer_into_new_memory_GB_s": rate,
        "plain_TCP_thrown_away_GB_s": plain_rate,
        "plain_TCP_into_shared_memory_GB_s": kept_rate,
        "share_of_thrown_away": over_rate / plain_rate,
        "share_of_into_shared_memory": rate / kept_rate,
    }


class _Node:
    """A session with a gateway, but without other processes."""

    def __init__(self, directory: str, token_file: str) -> None:
        self.session = sessions.create(directory)
        self.prefix = secrets.token_bytes(PREFIX_BYTES)
        self._count = 0
        self._spare = ""
        ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            config = GatewayConfig(prefixes=(self.prefix,), token_file=token_file)
            run_gateway(theirs, self.session, config)
        theirs.close()
        self.channel = Connection(ours, decode=decode_body)
        first = self._wait_for(Listening)
        self.address = (first.host, first.port)

    def _wait_for(self, kind: type[Any]) -> Any:
        poll = select.poll()
        poll.register(self.channel.fileno, select.POLLIN)
        while poll.poll(_LIMIT_S * 1000):
            for message in self.channel.receive() or ():
                if isinstance(message, kind):
                    return message
        raise TimeoutError(f"the gateway sent no {kind.__name__} in {_LIMIT_S:g} s")

    def pull_from(self, other: _Node, size: int, clock: Clock, is_kept: bool = False) -> float:
        """Return the seconds from the start of a transfer to its report, and drop the copy. With
        `is_kept`, the copy's file is kept for the next transfer, as on a real node.
        """
        self._count += 1
        name = f"{other.prefix.hex():0<32}-{self._count}"
        source = os.path.join(other.session.shared, name)
        with open(source, "wb") as file:
            for _ in range(size // _PIECE):
                file.write(bytes(_PIECE))
        command: Any = Pull(name, size, [other.prefix.hex()], spare=self._spare)
        began = clock()
        self.channel.send(command)
        result = self._wait_for(Pulled)
        seconds = clock() - began
        if not result.ok:
            raise RuntimeError(result.reason)
        os.unlink(source)
        copy = os.path.join(self.session.shared, name)
        self._spare = name if is_kept else ""
        if is_kept:
            os.rename(copy, os.path.join(self.session.shared, spare_file(name)))
        else:
            os.unlink(copy)
            message: Any = ReleaseFile(name)
            self.channel.send(message)
        return seconds

    def close(self) -> None:
        self.channel.close()
        os.waitpid(self._pid, 0)
        sessions.remove(self.session)


@contextmanager
def _two_nodes() -> Iterator[tuple[_Node, _Node]]:
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="phalanx-"))
        token_file = os.path.join(directory, "token")
        cluster_token.ensure(token_file)
        nodes = []
        for _ in range(2):
            nodes.append(_Node(directory, token_file))
            stack.callback(nodes[-1].close)
        here, there = nodes
        book: Any = AddressBook({there.prefix.hex(): there.address})
        here.channel.send(book)
        yield here, there


@contextmanager
def _plain_sender(size: int) -> Iterator[socket.socket]:
    """Yield a connection to a process that answers each byte with `size` bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        pid = os.fork()
        if not pid:
            sock, _ = listening.accept()
            piece = bytes(_PIECE)
            while sock.recv(1):
                for _ in range(size // _PIECE):
                    sock.sendall(piece)
            os._exit(0)
        with socket.create_connection(listening.getsockname()) as sock:
            yield sock
    os.waitpid(pid, 0)


def _throw_away(sock: socket.socket, size: int, clock: Clock) -> float:
    buffer = memoryview(bytearray(_PIECE))
    began = clock()
    sock.sendall(b"!")
    left = size
    while left:
        left -= sock.recv_into(buffer, min(left, _PIECE))
    return clock() - began


def _keep(sock: socket.socket, size: int, directory: str, clock: Clock) -> float:
    path = os.path.join(directory, "plain")
    began = clock()
    sock.sendall(b"!")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.posix_fallocate(fd, 0, size)
    with mmap.mmap(fd, size) as mapping, memoryview(mapping) as view:
        done = 0
        while done < size:
            done += sock.recv_into(view[done:])
        seconds = clock() - began
    os.close(fd)
    os.unlink(path)
    return seconds
