"""A process that has no free descriptor waits before it tries to accept a connection again."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.runtime.driver.reactor import Reactor
from phalanx.runtime.os.connection_loop import ConnectionLoop


class FullListener:
    """A listener with a waiting connection. There is no free descriptor for it in the first
    tries.
    """

    def __init__(self, path, tries, log):
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        self._listening.listen()
        self._listening.setblocking(False)
        self._dialled = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._dialled.connect(str(path))
        self._tries = tries
        self._log = log
        self.fileno = self._listening.fileno
        self.getsockname = self._listening.getsockname

    def accept(self):
        self._tries -= 1
        if self._tries >= 0:
            self._log.append("full")
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        found = self._listening.accept()
        self._log.append("accepted")
        return found

    def close(self):
        self._listening.close()
        self._dialled.close()


@pytest.fixture
def full(tmp_path):
    log: list[Any] = []
    listener = FullListener(tmp_path / "sock", 2, log)
    yield listener, log
    listener.close()


def test_a_daemon_tries_once_a_tick(full, capfd):
    listener, log = full

    def tick(now):
        log.append("tick")
        if "accepted" in log:
            loop.stop()

    handler = SimpleNamespace(on_tick=tick, on_round=lambda: None)
    loop = ConnectionLoop(handler, listener)
    thread = threading.Thread(target=loop.serve)
    thread.start()
    thread.join()
    for connection in list(loop._connections.values()):
        loop.forget(connection)
    tries = [entry for entry in log if entry != "tick"]
    assert tries == ["full", "full", "accepted"]
    assert all("tick" in (a, b) for a, b in itertools.pairwise(log)), log
    assert loop.failed_accepts == 2
    assert "Too many open files" in capfd.readouterr().err


def test_a_program_tries_once_a_tick(full):
    listener, log = full
    accepted: list[Any] = []
    reactor = Reactor(lambda *_: None, lambda *_: None, accepted.append)
    reactor.listen(listener)
    for _ in range(9):
        reactor.poll(0)
    assert log == ["full"]
    for _ in range(2):
        reactor.request_tick()
        reactor._tick_if_due(0.0)
        reactor.poll(0)
    assert log == ["full", "full", "accepted"]
    assert reactor.failed_accepts == 2
    accepted[0].close()
