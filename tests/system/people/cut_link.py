"""A connection between a laptop and a head that a test can cut: a proxy on loopback."""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class Wire:
    """Passes TCP connections on to an address, unless it is cut."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._to = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._carries = threading.Event()
        self._carries.set()
        self._is_cut = False
        self.refused = 0
        """The connections that came while the wire was cut."""
        self._start(self._accept)

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        with self._lock:
            self._is_cut = True
            self.refused = 0
            for one in self._open:
                _end(one)

    def stall(self) -> None:
        """Keep the connections, but pass no more bytes on."""
        self._carries.clear()

    def mend(self) -> None:
        """Pass bytes and connections on again."""
        with self._lock:
            self._is_cut = False
        self._carries.set()

    def close(self) -> None:
        self.cut()
        self._carries.set()
        _end(self._listening)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                with self._lock:
                    self.refused += self._is_cut
                    if not self._is_cut:
                        self._open.add(near)
                        self._start(self._carry, near)
                        continue
                near.close()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError), socket.create_connection(self._to) as far:
            ways = {near: far, far: near}
            is_whole = True
            while is_whole:
                ready, _, _ = select.select(list(ways), [], [])
                self._carries.wait()
                for one in ready:
                    data = one.recv(1 << 16)
                    is_whole = is_whole and bool(data)
                    ways[one].sendall(data)
        with self._lock:
            self._open.discard(near)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
